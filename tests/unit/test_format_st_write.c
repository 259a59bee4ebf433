/*
 * What the writer makes is what the reader takes: every dtype, the order, the
 * alignment, metadata; and what it refuses, each with its own words.
 */
#include "format_unit.h"
#include <format/content.h>
#include <format/st_write.h>

#define MAX_ITEMS 64

/* The leaves of a container under their own keys. */
static size_t items_of(
	const struct tasd_container *ctr, struct tasd_st_item *items)
{
	const struct tasd_node *n = tasd_statedict_root(ctr->sd);
	size_t count = 0;

	while ((n = tasd_node_next(n))) {
		if (n->form != TASD_FORM_TENSOR)
			continue;
		ck_assert_uint_lt(count, MAX_ITEMS);
		items[count++] = (struct tasd_st_item){
			.node = n, .name = n->key.text, .name_len = n->key.len};
	}
	return count;
}

static tasd_err write_to(const char *path,
	const struct tasd_st_writing *writing, struct tasd_diag *diag)
{
	int fd = openat(topfd, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	tasd_err err;

	ck_assert_int_ge(fd, 0);
	diag->text[0] = '\0';
	err = tasd_st_write(fd, writing, diag);
	close(fd);
	return err;
}

static void same_bytes(struct tasd_container *a, const struct tasd_node *x,
	struct tasd_container *b, const struct tasd_node *y)
{
	struct tasd_content content[2];
	char bytes[2][4096];
	size_t len[2];

	ck_assert_uint_eq(x->tensor->dtype, y->tensor->dtype);
	ck_assert_uint_eq(x->tensor->ndim, y->tensor->ndim);
	for (uint32_t i = 0; i < x->tensor->ndim; i++)
		ck_assert_uint_eq(x->tensor->shape[i], y->tensor->shape[i]);
	ck_assert_uint_eq(x->tensor->nbytes, y->tensor->nbytes);
	ck_assert_uint_le(x->tensor->nbytes, sizeof(bytes[0]));
	ck_assert_int_eq(
		tasd_content_open(a, x, TASD_VIEW_RAW, &content[0]), 0);
	ck_assert_int_eq(
		tasd_content_open(b, y, TASD_VIEW_RAW, &content[1]), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(tasd_content_pread(&content[i], bytes[i],
					 sizeof(bytes[i]), 0, &len[i]),
			0);
		tasd_content_close(&content[i]);
	}
	ck_assert_uint_eq(len[0], len[1]);
	ck_assert(memcmp(bytes[0], bytes[1], len[0]) == 0);
}

#define EVERY                                                                  \
	"{\"__metadata__\":{\"a\\\"\":\"\\u00e9\\n\",\"\":\"\"},"              \
	"\"b\":[\"BOOL\",[1],[0,1]],\"u8\":[\"U8\",[1],[1,2]],"                \
	"\"i8\":[\"I8\",[1],[2,3]],\"e4\":[\"F8_E4M3\",[1],[3,4]],"            \
	"\"e5\":[\"F8_E5M2\",[1],[4,5]],\"e8\":[\"F8_E8M0\",[1],[5,6]],"       \
	"\"z4\":[\"F8_E4M3FNUZ\",[1],[6,7]],"                                  \
	"\"z5\":[\"F8_E5M2FNUZ\",[1],[7,8]],\"f4\":[\"F4\",[2],[8,9]],"        \
	"\"f23\":[\"F6_E2M3\",[4],[9,12]],\"f32\":[\"F6_E3M2\",[4],[12,15]],"  \
	"\"u16\":[\"U16\",[1],[15,17]],\"i16\":[\"I16\",[1],[17,19]],"         \
	"\"f16\":[\"F16\",[1],[19,21]],\"bf\":[\"BF16\",[1],[21,23]],"         \
	"\"u32\":[\"U32\",[1],[23,27]],\"i32\":[\"I32\",[1],[27,31]],"         \
	"\"f\":[\"F32\",[1],[31,35]],\"u64\":[\"U64\",[1],[35,43]],"           \
	"\"i64\":[\"I64\",[1],[43,51]],\"d\":[\"F64\",[],[51,59]],"            \
	"\"c\":[\"C64\",[1],[59,67]],\"none\":[\"F64\",[0,3],[67,67]]}"
#define EVERY_BYTES 67

START_TEST(test_every_dtype)
{
	struct tasd_st_item items[MAX_ITEMS], back[MAX_ITEMS];
	unsigned char data[EVERY_BYTES];
	struct tasd_st_writing writing = {.items = items};
	struct tasd_container *ctr, *got;
	struct tasd_diag diag;

	setup();
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 37 + 1);
	put_st("in", EVERY, data, sizeof(data));
	ctr = opened("in");
	writing.ctr = ctr;
	writing.nitems = items_of(ctr, items);
	writing.meta = ctr->meta;
	writing.nmeta = ctr->nmeta;
	ck_assert_uint_eq(writing.nitems, 23);
	for (size_t i = 0; i < writing.nitems; i++)
		ck_assert_int_eq(tasd_st_write_check(&items[i], &diag), 0);
	ck_assert_int_eq(write_to("out", &writing, &diag), 0);
	got = opened("out");
	ck_assert_uint_eq(got->nproblems, 0);
	ck_assert_uint_eq(items_of(got, back), writing.nitems);
	for (size_t i = 0; i < writing.nitems; i++) {
		const struct tasd_tensor *t = back[i].node->tensor;
		uint16_t bits = tasd_dtype_info(t->dtype)->bits;

		ck_assert_uint_eq(items[i].name_len, back[i].name_len);
		ck_assert(memcmp(items[i].name, back[i].name,
				  items[i].name_len) == 0);
		same_bytes(ctr, items[i].node, got, back[i].node);
		if (bits >= 16)
			ck_assert_uint_eq(t->extent.offset % (bits / 8), 0);
	}
	ck_assert_uint_eq(got->nmeta, 2);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_str_eq(got->meta[i].name, ctr->meta[i].name);
		ck_assert_str_eq(got->meta[i].value, ctr->meta[i].value);
	}
	tasd_container_put(got);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

/* A container of one tensor, by hand: what no safetensors file can give. */
struct odd {
	struct tasd_container ctr;
	struct tasd_source *source;
	struct tasd_tensor tensor;
	struct tasd_node *node;
};

static void odd_make(struct odd *odd, enum tasd_dtype dtype, uint64_t *shape,
	uint32_t ndim, const char *bytes, size_t len)
{
	struct tasd_statedict *sd;

	*odd = (struct odd){.tensor = {.shape = shape,
				    .ndim = ndim,
				    .nbytes = len,
				    .dtype = (uint8_t)dtype,
				    .nextents = 1,
				    .extent = {.length = len}}};
	ck_assert_int_eq(tasd_source_memory(memcpy(malloc(len + 1), bytes, len),
				 len, "m", &odd->source),
		0);
	ck_assert_int_eq(tasd_statedict_new(0, 1 << 20, &sd), 0);
	ck_assert_int_eq(tasd_statedict_add(sd, tasd_statedict_root(sd),
				 tasd_key_str("w", 1), &odd->node),
		0);
	odd->node->kind = TASD_KIND_TENSOR;
	odd->node->form = TASD_FORM_TENSOR;
	odd->node->tensor = &odd->tensor;
	odd->ctr = (struct tasd_container){.sd = sd,
		.sources = &odd->source,
		.nsources = 1,
		.dirfd = -1,
		.rootfd = -1,
		.refs = 1};
}

static void odd_free(struct odd *odd)
{
	ck_assert_uint_eq(odd->ctr.refs, 1);
	tasd_statedict_free(odd->ctr.sd);
	tasd_source_put(odd->source);
}

/* torch's pairs of 4-bit elements. */
START_TEST(test_pairs)
{
	uint64_t shape[] = {2, 3};
	struct odd odd;
	struct tasd_st_item item = {.name = "w", .name_len = 1};
	struct tasd_st_writing writing = {
		.ctr = &odd.ctr, .items = &item, .nitems = 1};
	struct tasd_container *got;
	const struct tasd_tensor *t;
	struct tasd_diag diag;

	setup();
	odd_make(&odd, TASD_DTYPE_F4_E2M1FN_X2, shape, 2, "abcdef", 6);
	item.node = odd.node;
	ck_assert_int_eq(tasd_st_write_check(&item, &diag), 0);
	ck_assert_int_eq(write_to("out", &writing, &diag), 0);
	got = opened("out");
	t = node_at(got, "w")->tensor;
	ck_assert_uint_eq(t->dtype, TASD_DTYPE_F4_E2M1FN);
	ck_assert_uint_eq(t->ndim, 2);
	ck_assert_uint_eq(t->shape[0], 2);
	ck_assert_uint_eq(t->shape[1], 6);
	ck_assert_uint_eq(t->nbytes, 6);
	ck_assert_uint_eq(got->nmeta, 0);
	tasd_container_put(got);
	odd.tensor.ndim = 0;
	ck_assert_int_eq(tasd_st_write_check(&item, &diag), -ENOTSUP);
	odd_free(&odd);
	teardown();
}
END_TEST

static void cannot(
	const struct tasd_st_item *item, tasd_err want, const char *why)
{
	struct tasd_diag diag = {.text = ""};

	ck_assert_int_eq(tasd_st_write_check(item, &diag), want);
	ck_assert_msg(strstr(diag.text, why), "%s: %s", why, diag.text);
}

START_TEST(test_refusals)
{
	static const enum tasd_dtype dtypes[] = {TASD_DTYPE_NONE,
		TASD_DTYPE_C32, TASD_DTYPE_BC32, TASD_DTYPE_C128,
		TASD_DTYPE_QI8, TASD_DTYPE_QU8, TASD_DTYPE_QI32,
		TASD_DTYPE_QU4X2, TASD_DTYPE_QU2X4, TASD_DTYPE_BITS8,
		TASD_DTYPE_U1, TASD_DTYPE_I7};
	const struct tasd_tensor_extra descr = {.descr = "<U5", .item = 20};
	uint64_t shape[] = {1};
	struct odd odd;
	struct tasd_st_item item = {.name = "w", .name_len = 1};

	odd_make(&odd, TASD_DTYPE_U8, shape, 1, "x", 1);
	item.node = odd.node;
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		odd.tensor.dtype = (uint8_t)dtypes[i];
		cannot(&item, -ENOTSUP, tasd_dtype_info(dtypes[i])->name);
	}
	odd.tensor.dtype = TASD_DTYPE_NONE;
	odd.tensor.extra = &descr;
	cannot(&item, -ENOTSUP, "<U5");
	odd.tensor.extra = NULL;
	odd.tensor.dtype = TASD_DTYPE_U8;
	odd.tensor.data = TASD_DATA_PLACEHOLDER;
	cannot(&item, -ENODATA, "placeholder");
	odd.tensor.data = TASD_DATA_BROKEN;
	odd.node->error = "cut short";
	cannot(&item, -EIO, "cut short");
	odd.tensor.data = TASD_DATA_PLAIN;
	item.name = "__metadata__";
	item.name_len = 12;
	cannot(&item, -ENOTSUP, "name");
	/* A lone surrogate: a Python str, but no UTF-8. */
	item.name = "\xed\xa0\x80";
	item.name_len = 3;
	cannot(&item, -ENOTSUP, "name");
	item.name = "__metadata__x";
	item.name_len = 13;
	ck_assert_int_eq(tasd_st_write_check(&item, NULL), 0);
	odd_free(&odd);
}
END_TEST

/* A header that readers would refuse is not written. */
START_TEST(test_long_header)
{
	uint64_t shape[] = {1};
	struct odd odd;
	size_t len = 100000000;
	char *name = malloc(len);
	struct tasd_st_item item = {.name = name};
	struct tasd_st_writing writing = {
		.ctr = &odd.ctr, .items = &item, .nitems = 1};
	struct tasd_diag diag;
	struct stat st;

	setup();
	odd_make(&odd, TASD_DTYPE_U8, shape, 1, "x", 1);
	item.node = odd.node;
	memset(name, 'n', len);
	item.name_len = (uint32_t)len;
	ck_assert_int_eq(write_to("out", &writing, &diag), -E2BIG);
	ck_assert_msg(strstr(diag.text, "100,000,000"), "%s", diag.text);
	ck_assert_int_eq(fstatat(topfd, "out", &st, 0), 0);
	ck_assert_int_eq(st.st_size, 0);
	/* {"n..":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} */
	item.name_len = (uint32_t)len - 52;
	ck_assert_int_eq(write_to("out", &writing, &diag), 0);
	ck_assert_int_eq(fstatat(topfd, "out", &st, 0), 0);
	ck_assert_int_eq(st.st_size, 8 + 100000000 + 1);
	item.name_len++;
	ck_assert_int_eq(write_to("out", &writing, &diag), -E2BIG);
	free(name);
	odd_free(&odd);
	teardown();
}
END_TEST

static tasd_err stop_at(void *ctx, uint64_t bytes)
{
	uint64_t *left = ctx;

	*left = bytes < *left ? *left - bytes : 0;
	return *left ? 0 : -ECANCELED;
}

/* What fails on the way is told, and with which tensor. */
START_TEST(test_failures)
{
	struct tasd_st_item items[MAX_ITEMS];
	struct tasd_st_writing writing = {.items = items};
	size_t len = (size_t)5 << 20;
	char *data = calloc(1, len);
	struct tasd_diag diag;
	uint64_t left = (uint64_t)2 << 20;
	int fd;

	setup();
	put_st("in", "{\"first\":[\"U8\",[5242880],[0,5242880]]}", data, len);
	writing.ctr = opened("in");
	writing.nitems = items_of(writing.ctr, items);
	writing.progress = stop_at;
	writing.ctx = &left;
	ck_assert_int_eq(write_to("out", &writing, &diag), -ECANCELED);
	ck_assert_uint_eq(left, 0);
	writing.progress = NULL;
	fd = open("/dev/full", O_WRONLY);
	ck_assert_int_eq(tasd_st_write(fd, &writing, &diag), -ENOSPC);
	ck_assert(strstr(diag.text, "cannot write"));
	close(fd);
	fd = openat(topfd, "in", O_WRONLY);
	ck_assert_int_eq(ftruncate(fd, 100), 0);
	close(fd);
	ck_assert_int_eq(write_to("out", &writing, &diag), -EIO);
	ck_assert_msg(strstr(diag.text, "cannot read first"), "%s", diag.text);
	tasd_container_put(writing.ctr);
	free(data);
	teardown();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {test_every_dtype, test_pairs,
		test_refusals, test_long_header, test_failures, NULL};

	return unit_run("format-st-write", tests);
}
