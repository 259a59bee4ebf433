/*
 * The views of a tensor: every range of them, in pieces of every size, is what
 * the whole is.
 */
#include "format_unit.h"
#include <format/content.h>
#include <tensor/widen.h>

#define TENSORS                                                                \
	"\"bf\":[\"BF16\",[3,5],[0,30]],"                                      \
	"\"f4\":[\"F4\",[2,8],[30,38]],"                                       \
	"\"f6\":[\"F6_E2M3\",[12],[38,47]],"                                   \
	"\"f8\":[\"F8_E4M3\",[5],[47,52]],"                                    \
	"\"i\":[\"I32\",[2],[52,60]],"                                         \
	"\"e\":[\"F16\",[0,7],[60,60]],"                                       \
	"\"s\":[\"F32\",[],[60,64]],"                                          \
	"\"d\":[\"F64\",[1],[64,72]],"                                         \
	"\"big\":[\"F16\",[20000],[72,40072]]"
#define BYTES 40072

static unsigned char bytes[BYTES];

static struct tasd_container *make(void)
{
	setup();
	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (unsigned char)(i * 37 + i / 251);
	put_st("m", "{" TENSORS "}", bytes, BYTES);
	return opened("m");
}

/* The whole view in one call; its size in *ret_len. */
static unsigned char *whole(struct tasd_container *ctr, const char *path,
	enum tasd_view view, size_t *ret_len)
{
	const struct tasd_node *node = node_at(ctr, path);
	struct tasd_content content;
	unsigned char *out;
	size_t len = 0;

	ck_assert_int_eq(tasd_content_open(ctr, node, view, &content), 0);
	ck_assert_uint_eq(content.size, tasd_content_size(node, view));
	out = malloc(content.size + 1);
	ck_assert_int_eq(
		tasd_content_pread(&content, out, content.size + 1, 0, &len),
		0);
	ck_assert_uint_eq(len, content.size);
	tasd_content_close(&content);
	*ret_len = len;
	return out;
}

static void in_pieces(
	struct tasd_container *ctr, const char *path, enum tasd_view view)
{
	size_t size = 0, got;
	unsigned char *want = whole(ctr, path, view, &size);
	unsigned char *out = malloc(size + 16);
	struct tasd_content content;

	ck_assert_int_eq(
		tasd_content_open(ctr, node_at(ctr, path), view, &content), 0);
	for (size_t from = 0; from <= size + 1; from += size > 999 ? 997 : 1) {
		for (size_t len = 0; len <= size + 1;
			len = len < 9 ? len + 1 : 2 * len - 1) {
			size_t left = from < size ? size - from : 0;

			memset(out, 0xaa, size + 16);
			require_eq(tasd_content_pread(
					   &content, out, len, from, &got),
				0);
			require_eq(got, len < left ? len : left);
			require(memcmp(out, want + (from < size ? from : 0),
					got) == 0);
			require_eq(out[got], 0xaa);
		}
	}
	tasd_content_close(&content);
	free(out);
	free(want);
}

START_TEST(test_pieces)
{
	static const char *const all[] = {
		"bf", "f4", "f6", "f8", "i", "e", "s", "d", "big"};
	struct tasd_container *ctr = make();

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		for (int view = TASD_VIEW_RAW; view <= TASD_VIEW_F32; view++) {
			if (tasd_content_exists(node_at(ctr, all[i]), view))
				in_pieces(ctr, all[i], view);
		}
	}
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(test_raw)
{
	struct tasd_container *ctr = make();
	size_t len = 0;
	unsigned char *got = whole(ctr, "big", TASD_VIEW_RAW, &len);

	ck_assert_uint_eq(len, 40000);
	ck_assert_mem_eq(got, bytes + 72, len);
	free(got);
	got = whole(ctr, "f6", TASD_VIEW_RAW, &len);
	ck_assert_uint_eq(len, 9);
	ck_assert_mem_eq(got, bytes + 38, len);
	free(got);
	got = whole(ctr, "e", TASD_VIEW_RAW, &len);
	ck_assert_uint_eq(len, 0);
	free(got);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

/* The header ends at a multiple of 64; behind it stands `want`. */
static void npy_is(struct tasd_container *ctr, const char *path,
	enum tasd_view view, const char *dict, const void *want,
	size_t want_len)
{
	size_t len = 0, head;
	unsigned char *got = whole(ctr, path, view, &len);

	ck_assert_uint_gt(len, 10);
	ck_assert_mem_eq(got, "\x93NUMPY\1\0", 8);
	head = 10u + got[8] + 256u * got[9];
	ck_assert_uint_eq(head % 64, 0);
	ck_assert_uint_eq(len, head + want_len);
	ck_assert_mem_eq(got + 10, dict, strlen(dict));
	ck_assert_mem_eq(got + head, want, want_len);
	free(got);
}

START_TEST(test_npy)
{
	struct tasd_container *ctr = make();

	npy_is(ctr, "bf", TASD_VIEW_NPY,
		"{'descr': '<V2', 'fortran_order': False, 'shape': (3, 5), }",
		bytes, 30);
	npy_is(ctr, "i", TASD_VIEW_NPY,
		"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }",
		bytes + 52, 8);
	npy_is(ctr, "s", TASD_VIEW_NPY,
		"{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
		bytes + 60, 4);
	ck_assert(!tasd_content_exists(node_at(ctr, "f4"), TASD_VIEW_NPY));
	ck_assert_uint_eq(
		tasd_content_size(node_at(ctr, "f4"), TASD_VIEW_NPY), 0);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(test_f32)
{
	struct tasd_container *ctr = make();
	static float want[20000];

	tasd_widen(TASD_DTYPE_BF16, bytes, 15, want);
	npy_is(ctr, "bf", TASD_VIEW_F32,
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }",
		want, 60);
	tasd_widen(TASD_DTYPE_F4_E2M1FN, bytes + 30, 8, want);
	npy_is(ctr, "f4", TASD_VIEW_F32,
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 8), }",
		want, 64);
	tasd_widen(TASD_DTYPE_F6_E2M3FN, bytes + 38, 3, want);
	npy_is(ctr, "f6", TASD_VIEW_F32,
		"{'descr': '<f4', 'fortran_order': False, 'shape': (12,), }",
		want, 48);
	tasd_widen(TASD_DTYPE_F16, bytes + 72, 20000, want);
	npy_is(ctr, "big", TASD_VIEW_F32,
		"{'descr': '<f4', 'fortran_order': False, 'shape': (20000,), }",
		want, 80000);
	npy_is(ctr, "s", TASD_VIEW_F32,
		"{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
		bytes + 60, 4);
	ck_assert(!tasd_content_exists(node_at(ctr, "i"), TASD_VIEW_F32));
	ck_assert(!tasd_content_exists(node_at(ctr, "d"), TASD_VIEW_F32));
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(test_refusals)
{
	struct tasd_container *ctr = make();
	struct tasd_node node = *node_at(ctr, "i");
	struct tasd_tensor tensor = *node.tensor;
	struct tasd_content content;

	ck_assert_int_eq(tasd_content_open(ctr, &node, TASD_VIEW_F32, &content),
		-ENOENT);
	ck_assert_int_eq(tasd_content_open(ctr, tasd_statedict_root(ctr->sd),
				 TASD_VIEW_RAW, &content),
		-ENOENT);
	node.tensor = &tensor;
	tensor.data = TASD_DATA_PLACEHOLDER;
	ck_assert_int_eq(tasd_content_open(ctr, &node, TASD_VIEW_RAW, &content),
		-ENODATA);
	ck_assert_uint_eq(tasd_content_size(&node, TASD_VIEW_RAW), 8);
	tensor.data = TASD_DATA_BROKEN;
	ck_assert_int_eq(
		tasd_content_open(ctr, &node, TASD_VIEW_RAW, &content), -EIO);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

/* A value's bytes, and a tensor in several pieces. */
START_TEST(test_other_forms)
{
	struct tasd_container *ctr = make();
	struct tasd_node node = *node_at(ctr, "i");
	struct tasd_tensor tensor = *node.tensor;
	uint64_t data = node_at(ctr, "bf")->tensor->extent.offset;
	const struct tasd_extent extents[] = {
		{.offset = data + 8, .length = 3},
		{.offset = data, .length = 0},
		{.offset = data, .length = 5},
	};
	struct tasd_content content;
	struct tasd_source *source;
	unsigned char got[16], want[8];
	uint64_t offset;
	size_t len = 0;

	memcpy(want, bytes + 8, 3);
	memcpy(want + 3, bytes, 5);
	node.tensor = &tensor;
	tensor.nextents = 3;
	tensor.extents = extents;
	ck_assert(!tasd_content_window(
		ctr, &node, TASD_VIEW_RAW, &source, &offset));
	ck_assert_int_eq(
		tasd_content_open(ctr, &node, TASD_VIEW_RAW, &content), 0);
	for (size_t from = 0; from < 8; from++) {
		ck_assert_int_eq(tasd_content_pread(&content, got, sizeof(got),
					 from, &len),
			0);
		ck_assert_uint_eq(len, 8 - from);
		ck_assert_mem_eq(got, want + from, len);
	}
	tasd_content_close(&content);
	node.form = TASD_FORM_VALUE;
	node.value.bytes = "hello\n";
	node.value.len = 6;
	ck_assert(!tasd_content_exists(&node, TASD_VIEW_NPY));
	ck_assert_uint_eq(tasd_content_size(&node, TASD_VIEW_RAW), 6);
	ck_assert_int_eq(
		tasd_content_open(ctr, &node, TASD_VIEW_RAW, &content), 0);
	ck_assert_int_eq(tasd_content_pread(&content, got, 3, 1, &len), 0);
	ck_assert_mem_eq(got, "ell", 3);
	tasd_content_close(&content);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(test_window)
{
	struct tasd_container *ctr = make();
	struct tasd_source *source = NULL;
	uint64_t offset = 0;
	const struct tasd_node *node = node_at(ctr, "i");

	ck_assert(tasd_content_window(
		ctr, node, TASD_VIEW_RAW, &source, &offset));
	ck_assert_ptr_eq(source, ctr->sources[0]);
	ck_assert_uint_eq(offset, source->size - BYTES + 52);
	ck_assert(!tasd_content_window(
		ctr, node, TASD_VIEW_NPY, &source, &offset));
	tasd_container_put(ctr);
	teardown();
}
END_TEST

/* The content outlives the caller's reference, and no changed byte is read. */
START_TEST(test_changed)
{
	struct tasd_container *ctr = make();
	struct tasd_content content;
	unsigned char got[8];
	size_t len = 0;
	int fd;

	ck_assert_int_eq(tasd_content_open(ctr, node_at(ctr, "i"),
				 TASD_VIEW_RAW, &content),
		0);
	tasd_container_put(ctr);
	ck_assert_int_eq(tasd_content_pread(&content, got, 8, 0, &len), 0);
	fd = openat(topfd, "m", O_WRONLY | O_TRUNC);
	close(fd);
	ck_assert_int_eq(tasd_content_pread(&content, got, 8, 0, &len), -EIO);
	ck_assert_uint_eq(len, 0);
	tasd_content_close(&content);
	teardown();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_pieces,
		test_raw,
		test_npy,
		test_f32,
		test_refusals,
		test_other_forms,
		test_window,
		test_changed,
		NULL,
	};

	return unit_run("format-content", tests);
}
