#include "unit.h"
#include <base/checked.h>
#include <base/cursor.h>

START_TEST(integers)
{
	const unsigned char bytes[] = {0x01, 0x02, 0x83, 0x04, 0x05, 0x06, 0x87,
		0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};
	struct tasd_cursor c = tasd_cursor_over(bytes, sizeof(bytes));
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	ck_assert_int_eq(tasd_cursor_u8(&c, &u8), 0);
	ck_assert_uint_eq(u8, 0x01);
	ck_assert_int_eq(tasd_cursor_u16le(&c, &u16), 0);
	ck_assert_uint_eq(u16, 0x8302);
	ck_assert_int_eq(tasd_cursor_u32le(&c, &u32), 0);
	ck_assert_uint_eq(u32, 0x87060504);
	ck_assert_int_eq(tasd_cursor_u64le(&c, &u64), 0);
	ck_assert_uint_eq(u64, 0xfffefdfcfbfaf9f8);
	ck_assert_uint_eq(tasd_cursor_left(&c), 0);
}
END_TEST

/* Every call at every distance from the end: it fits, or nothing moves. */
START_TEST(bounds)
{
	unsigned char bytes[16] = {0};

	for (uint64_t left = 0; left <= 9; left++) {
		struct tasd_cursor at = tasd_cursor_over(bytes, 16), c;
		const unsigned char *p;
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;

		ck_assert_int_eq(tasd_cursor_skip(&at, 16 - left), 0);
		c = at;
		ck_assert_int_eq(
			tasd_cursor_u8(&c, &u8), left >= 1 ? 0 : -ENODATA);
		ck_assert_uint_eq(c.at, at.at + (left >= 1 ? 1 : 0));
		c = at;
		ck_assert_int_eq(
			tasd_cursor_u16le(&c, &u16), left >= 2 ? 0 : -ENODATA);
		ck_assert_uint_eq(c.at, at.at + (left >= 2 ? 2 : 0));
		c = at;
		ck_assert_int_eq(
			tasd_cursor_u32le(&c, &u32), left >= 4 ? 0 : -ENODATA);
		ck_assert_uint_eq(c.at, at.at + (left >= 4 ? 4 : 0));
		c = at;
		ck_assert_int_eq(
			tasd_cursor_u64le(&c, &u64), left >= 8 ? 0 : -ENODATA);
		ck_assert_uint_eq(c.at, at.at + (left >= 8 ? 8 : 0));
		c = at;
		ck_assert_int_eq(tasd_cursor_take(&c, left, &p), 0);
		ck_assert_ptr_eq(p, bytes + 16 - left);
		c = at;
		ck_assert_int_eq(tasd_cursor_take(&c, left + 1, &p), -ENODATA);
		ck_assert_int_eq(
			tasd_cursor_take(&c, UINT64_MAX, &p), -ENODATA);
		ck_assert_int_eq(tasd_cursor_skip(&c, UINT64_MAX), -ENODATA);
		ck_assert_uint_eq(c.at, at.at);
		ck_assert_uint_eq(tasd_cursor_left(&c), left);
	}
}
END_TEST

START_TEST(checked_arithmetic)
{
	uint64_t out;

	ck_assert(tasd_add_u64(UINT64_MAX - 1, 1, &out));
	ck_assert_uint_eq(out, UINT64_MAX);
	ck_assert(!tasd_add_u64(UINT64_MAX, 1, &out));
	ck_assert(tasd_mul_u64((uint64_t)1 << 32, UINT32_MAX, &out));
	ck_assert_uint_eq(out, 0xffffffff00000000);
	ck_assert(!tasd_mul_u64((uint64_t)1 << 32, (uint64_t)1 << 32, &out));
	ck_assert(tasd_mul_u64(UINT64_MAX, 0, &out));
	ck_assert_uint_eq(out, 0);

	ck_assert(tasd_range_fits(0, 10, 10));
	ck_assert(tasd_range_fits(10, 0, 10));
	ck_assert(tasd_range_fits(3, 7, 10));
	ck_assert(!tasd_range_fits(3, 8, 10));
	ck_assert(!tasd_range_fits(11, 0, 10));
	ck_assert(!tasd_range_fits(UINT64_MAX, 2, 10));
	ck_assert(!tasd_range_fits(2, UINT64_MAX, 10));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		integers, bounds, checked_arithmetic, NULL};

	return unit_run("base cursor", tests);
}
