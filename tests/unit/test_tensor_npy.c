#include "unit.h"
#include <string.h>
#include <tensor/npy.h>

struct header {
	struct tasd_buf buf;
	unsigned int major;
	size_t at; /* of the dict's text */
};

/* Make one, check its frame, leave the dict. */
static struct header make(const char *descr, const uint64_t *shape, size_t ndim)
{
	struct header h = {.buf = TASD_BUF_EMPTY};
	struct tasd_buf counted = tasd_buf_counting();
	const unsigned char *b;
	size_t len = 0;

	tasd_npy_header(&h.buf, descr, shape, (uint32_t)ndim);
	tasd_npy_header(&counted, descr, shape, (uint32_t)ndim);
	ck_assert_int_eq(tasd_buf_err(&h.buf), 0);
	ck_assert_uint_eq(counted.len, h.buf.len);
	ck_assert_uint_eq(h.buf.len % 64, 0);
	b = (const unsigned char *)h.buf.bytes;
	ck_assert_mem_eq(b, "\x93NUMPY", 6);
	h.major = b[6];
	ck_assert_uint_eq(b[7], 0);
	h.at = h.major == 1 ? 10 : 12;
	for (size_t i = h.at; i > 8; i--)
		len = len << 8 | b[i - 1];
	ck_assert_uint_eq(h.at + len, h.buf.len);
	ck_assert_int_eq(h.buf.bytes[h.buf.len - 1], '\n');
	return h;
}

static void check_dict(
	const char *descr, const uint64_t *shape, size_t ndim, const char *want)
{
	struct header h = make(descr, shape, ndim);
	size_t n = strlen(want);

	ck_assert_uint_eq(h.major, 1);
	ck_assert_uint_lt(h.at + n, h.buf.len);
	ck_assert_mem_eq(h.buf.bytes + h.at, want, n);
	for (size_t i = h.at + n; i + 1 < h.buf.len; i++)
		ck_assert_int_eq(h.buf.bytes[i], ' ');
	/* No more padding than it takes. */
	ck_assert_uint_lt(h.buf.len - h.at - n, 65);
	tasd_buf_free(&h.buf);
}

START_TEST(dicts)
{
	const uint64_t shape[] = {4096, 11008, 0, UINT64_MAX};

	check_dict("<f4", NULL, 0,
		"{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
	check_dict("|b1", shape, 1,
		"{'descr': '|b1', 'fortran_order': False, 'shape': (4096,), }");
	check_dict("<V2", shape, 2,
		"{'descr': '<V2', 'fortran_order': False, "
		"'shape': (4096, 11008), }");
	/* A structured descr is a list already. */
	check_dict("[('a', '<i4'), ('b', '|S3')]", shape, 1,
		"{'descr': [('a', '<i4'), ('b', '|S3')], "
		"'fortran_order': False, 'shape': (4096,), }");
	check_dict("<c16", shape, 4,
		"{'descr': '<c16', 'fortran_order': False, "
		"'shape': (4096, 11008, 0, 18446744073709551615), }");
}
END_TEST

/* Every length of the dict gives a whole number of 64-byte lines. */
START_TEST(padding)
{
	uint64_t shape[200];

	for (size_t i = 0; i < 200; i++)
		shape[i] = i;
	for (size_t n = 0; n < 200; n++) {
		struct header h = make("<f4", shape, n);

		ck_assert_uint_eq(h.major, 1);
		tasd_buf_free(&h.buf);
	}
}
END_TEST

START_TEST(version_two)
{
	size_t ndim = 30000, first_v2 = 0;
	uint64_t *shape = calloc(ndim, sizeof(*shape));

	ck_assert_ptr_nonnull(shape);
	/* The change lies where the padded text passes 65535 bytes. */
	for (size_t n = 21780; n < 21880; n += 7) {
		struct header h = make("<f4", shape, n);

		if (h.major == 2 && !first_v2)
			first_v2 = n;
		ck_assert_uint_eq(h.major, first_v2 ? 2 : 1);
		if (h.major == 1)
			ck_assert_uint_le(h.buf.len - 10, 65535);
		tasd_buf_free(&h.buf);
	}
	ck_assert_uint_ne(first_v2, 0);
	free(shape);
}
END_TEST

START_TEST(version_three)
{
	uint64_t shape[] = {1};
	struct header h = make("[('\xcf\x80', '<f4')]", shape, 1);

	ck_assert_uint_eq(h.major, 3);
	ck_assert_ptr_nonnull(strstr(h.buf.bytes + h.at, "'\xcf\x80'"));
	tasd_buf_free(&h.buf);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		dicts, padding, version_two, version_three, NULL};

	return unit_run("tensor npy", tests);
}
