/* UTF-8, and the lines for people: nothing a file says reaches a terminal. */
#include "unit.h"
#include <base/err.h>
#include <base/utf8.h>
#include <string.h>

/* Encode a code point the general way; 0 where UTF-8 has no form for it. */
static size_t encode(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c >= 0xd800 && c < 0xe000)
		return 0;
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

START_TEST(every_code_point)
{
	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		char text[5] = "";
		size_t n = encode(c, text);

		if (n == 0)
			continue;
		require_eq(tasd_utf8_next(text, n), n);
		require_eq(tasd_utf8_next(text, 5), n);
		for (size_t cut = 0; cut < n; cut++)
			require_eq(tasd_utf8_next(text, cut), 0);
	}
}
END_TEST

/*
 * All sequences of two bytes, and of three and four whose later bytes are at
 * the borders: as many are valid as there are code points of that width.
 */
START_TEST(nothing_else)
{
	size_t two = 0, three = 0;

	for (unsigned int a = 0x80; a < 0x100; a++) {
		for (unsigned int b = 0; b < 0x100; b++) {
			char text[3] = {(char)a, (char)b, 0};

			two += tasd_utf8_next(text, 2) == 2;
			require(tasd_utf8_next(text, 2) != 1);
			for (unsigned int c = 0; c < 0x100; c++) {
				text[2] = (char)c;
				three += tasd_utf8_next(text, 3) == 3;
			}
		}
	}
	ck_assert_uint_eq(two, 0x800 - 0x80);
	ck_assert_uint_eq(three, 0x10000 - 0x800 - 0x800);
	ck_assert_uint_eq(tasd_utf8_next("\xf0\x8f\xbf\xbf", 4), 0);
	ck_assert_uint_eq(tasd_utf8_next("\xf0\x90\x80\x80", 4), 4);
	ck_assert_uint_eq(tasd_utf8_next("\xf4\x8f\xbf\xbf", 4), 4);
	ck_assert_uint_eq(tasd_utf8_next("\xf4\x90\x80\x80", 4), 0);
	ck_assert_uint_eq(tasd_utf8_next("\xf5\x80\x80\x80", 4), 0);
	ck_assert_uint_eq(tasd_utf8_next("\xf0\x90\x80(", 4), 0);
}
END_TEST

START_TEST(first_bad_byte)
{
	ck_assert_uint_eq(tasd_utf8_valid("", 0), 0);
	ck_assert_uint_eq(tasd_utf8_valid("caf\xc3\xa9!", 6), 6);
	ck_assert_uint_eq(tasd_utf8_valid("caf\xc3", 4), 3);
	ck_assert_uint_eq(tasd_utf8_valid("a\0b\xff", 4), 3);
	ck_assert_uint_eq(tasd_utf8_valid("ab\xed\xa0\x80", 5), 2);
}
END_TEST

static void check_print(const char *bytes, size_t len, const char *want)
{
	char out[64];

	ck_assert_ptr_eq(tasd_print_bytes(out, sizeof(out), bytes, len), out);
	ck_assert_str_eq(out, want);
}

START_TEST(printing_bytes)
{
	check_print("", 0, "");
	check_print("w.\xc3\xa9", 4, "w.\xc3\xa9");
	check_print("\x1b[31m\n\0", 7, "\\x1b[31m\\x0a\\x00");
	check_print("\x7f\xff\xc3(", 4, "\\x7f\\xff\\xc3(");
	/* U+009B is an escape sequence's start in one character. */
	check_print("\xc2\x9b"
		    "31m",
		5, "\\xc2\\x9b31m");
	check_print("\xc2\xa0", 2, "\xc2\xa0");
}
END_TEST

/* For every size: terminated, no longer, a whole beginning and "...". */
START_TEST(printing_is_bounded)
{
	static const char bytes[] = "ab\n\xc3\xa9\xf0\x9f\x98\x80\x01";
	char whole[64], out[64];

	tasd_print_bytes(whole, sizeof(whole), bytes, sizeof(bytes) - 1);
	for (size_t size = 1; size < sizeof(out); size++) {
		size_t len, kept;

		memset(out, '#', sizeof(out));
		tasd_print_bytes(out, size, bytes, sizeof(bytes) - 1);
		len = strnlen(out, sizeof(out));
		ck_assert_uint_lt(len, size);
		for (size_t i = size; i < sizeof(out); i++)
			ck_assert_int_eq(out[i], '#');
		if (strcmp(out, whole) == 0)
			continue;
		ck_assert_uint_le(size, strlen(whole));
		kept = len < 3 ? 0 : len - 3;
		ck_assert_mem_eq(out + kept, "...", len - kept);
		ck_assert_mem_eq(out, whole, kept);
		ck_assert_uint_eq(tasd_utf8_valid(out, len), len);
	}
	out[0] = '#';
	tasd_print_bytes(out, 0, "x", 1);
	ck_assert_int_eq(out[0], '#');
}
END_TEST

START_TEST(diagnostics)
{
	struct tasd_diag diag = {""};
	char longer[3000];

	ck_assert_int_eq(tasd_diag_set(NULL, -EINVAL, "%s", "x"), -EINVAL);
	ck_assert_str_eq(tasd_diag_text(NULL, -ENOENT), strerror(ENOENT));
	ck_assert_str_eq(tasd_diag_text(&diag, -ENOENT), strerror(ENOENT));
	ck_assert_int_eq(
		tasd_diag_set(&diag, -EIO, "tensor '%s': %d", "a\x1b\nb", 7),
		-EIO);
	ck_assert_str_eq(
		tasd_diag_text(&diag, -EIO), "tensor 'a\\x1b\\x0ab': 7");
	ck_assert_int_eq(
		tasd_diag_prefix(&diag, -EBADMSG, "f\t%d", 1), -EBADMSG);
	ck_assert_str_eq(diag.text, "f\\x091: tensor 'a\\x1b\\x0ab': 7");
	ck_assert_int_eq(tasd_diag_prefix(NULL, -EIO, "f"), -EIO);

	memset(longer, '\x01', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	tasd_diag_set(&diag, -EIO, "%s", longer);
	ck_assert_uint_lt(strlen(diag.text), TASD_DIAG_MAX);
	ck_assert_uint_gt(strlen(diag.text), TASD_DIAG_MAX - 16);
	ck_assert_str_eq(diag.text + strlen(diag.text) - 3, "...");
	ck_assert_ptr_null(strchr(diag.text, '\x01'));
	tasd_diag_prefix(&diag, -EIO, "%s", "front");
	ck_assert_mem_eq(diag.text, "front: \\x01", 11);
	ck_assert_uint_lt(strlen(diag.text), TASD_DIAG_MAX);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {every_code_point, nothing_else,
		first_bad_byte, printing_bytes, printing_is_bounded,
		diagnostics, NULL};

	return unit_run("base text", tests);
}
