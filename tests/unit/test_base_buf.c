#include "unit.h"
#include <base/buf.h>
#include <string.h>

START_TEST(appends)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	char *text;
	size_t len = 0;

	ck_assert_ptr_null(buf.bytes);
	tasd_buf_str(&buf, "ab");
	tasd_buf_char(&buf, '-');
	tasd_buf_add(&buf, "c\0d", 3);
	tasd_buf_add(&buf, NULL, 0);
	tasd_buf_printf(&buf, "[%d|%s]", -5, "x");
	tasd_buf_u64(&buf, 0);
	tasd_buf_u64(&buf, UINT64_MAX);
	text = tasd_buf_steal(&buf, &len);
	ck_assert_uint_eq(len, 33);
	ck_assert_mem_eq(text, "ab-c\0d[-5|x]018446744073709551615", len + 1);
	ck_assert_ptr_null(buf.bytes);
	ck_assert_uint_eq(buf.len, 0);
	free(text);
	text = tasd_buf_steal(&buf, NULL);
	ck_assert_str_eq(text, "");
	free(text);
}
END_TEST

START_TEST(grows)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	struct tasd_buf count = tasd_buf_counting();
	size_t grown = 0;

	for (unsigned int i = 0; i < 20000; i++) {
		size_t room = buf.room;

		tasd_buf_char(&buf, (char)(i % 127));
		grown += buf.room != room;
		tasd_buf_char(&count, (char)(i % 127));
	}
	ck_assert_uint_eq(buf.len, 20000);
	ck_assert_uint_eq(count.len, 20000);
	/* By doubling, not a byte a time. */
	ck_assert_uint_lt(grown, 16);
	for (unsigned int i = 0; i < 20000; i++)
		require_eq(buf.bytes[i], i % 127);
	tasd_buf_free(&buf);
	ck_assert_ptr_null(buf.bytes);
}
END_TEST

/* Longer than the buffer printf works in, and exactly as long. */
START_TEST(long_printf)
{
	char word[600];

	for (size_t len = 250; len < 260; len++) {
		struct tasd_buf buf = TASD_BUF_EMPTY;

		memset(word, 'w', len);
		word[len] = '\0';
		tasd_buf_printf(&buf, "%s", word);
		ck_assert_uint_eq(buf.len, len);
		ck_assert_mem_eq(buf.bytes, word, len);
		tasd_buf_free(&buf);
	}
}
END_TEST

START_TEST(counting_stores_nothing)
{
	struct tasd_buf count = tasd_buf_counting();

	tasd_buf_add(&count, "xyz", 3);
	tasd_buf_printf(&count, "%0300d", 1);
	tasd_buf_json_str(&count, "\n\xff", 2);
	ck_assert_uint_eq(count.len, 3 + 300 + 2 + 2 + 6);
	ck_assert_ptr_null(count.bytes);
	ck_assert_int_eq(tasd_buf_err(&count), 0);
	ck_assert_ptr_null(tasd_buf_steal(&count, NULL));
}
END_TEST

START_TEST(errors_stick)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	struct tasd_buf count = tasd_buf_counting();

	tasd_buf_str(&buf, "kept");
	tasd_buf_add(&buf, "", SIZE_MAX);
	ck_assert_int_eq(tasd_buf_err(&buf), -EOVERFLOW);
	tasd_buf_str(&buf, "not");
	ck_assert_uint_eq(buf.len, 4);
	ck_assert_int_eq(tasd_buf_err(&buf), -EOVERFLOW);
	ck_assert_ptr_null(tasd_buf_steal(&buf, NULL));
	tasd_buf_free(&buf);
	ck_assert_int_eq(tasd_buf_err(&buf), 0);

	tasd_buf_add(&count, NULL, SIZE_MAX);
	tasd_buf_char(&count, 'x');
	ck_assert_int_eq(tasd_buf_err(&count), -EOVERFLOW);
}
END_TEST

START_TEST(json_strings)
{
	static const struct {
		const char *text;
		size_t len;
		const char *json;
	} rows[] = {
		{"", 0, "\"\""},
		{"plain /~", 8, "\"plain /~\""},
		{"q\"b\\", 4, "\"q\\\"b\\\\\""},
		{"\n\r\t", 3, "\"\\n\\r\\t\""},
		{"\0\x01\x1f", 3, "\"\\u0000\\u0001\\u001f\""},
		{"caf\xc3\xa9", 5, "\"caf\xc3\xa9\""},
		{"\xf0\x9f\x98\x80", 4, "\"\xf0\x9f\x98\x80\""},
		/* Lone surrogates as three bytes: the ends of the range. */
		{"\xed\xa0\x80", 3, "\"\\ud800\""},
		{"\xed\xaf\xbf", 3, "\"\\udbff\""},
		{"\xed\xbf\xbf", 3, "\"\\udfff\""},
		{"a\xed\xb2\x80z", 5, "\"a\\udc80z\""},
		/* No UTF-8 at all: as Python's surrogateescape. */
		{"\xff", 1, "\"\\udcff\""},
		{"\xc3(", 2, "\"\\udcc3(\""},
		{"\xc0\x80", 2, "\"\\udcc0\\udc80\""},
		{"\xed\xa0", 2, "\"\\udced\\udca0\""},
		{"\xf4\x90\x80\x80", 4, "\"\\udcf4\\udc90\\udc80\\udc80\""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tasd_buf buf = TASD_BUF_EMPTY;
		char *json;

		tasd_buf_json_str(&buf, rows[i].text, rows[i].len);
		json = tasd_buf_steal(&buf, NULL);
		ck_assert_pstr_eq(json, rows[i].json);
		free(json);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {appends, grows, long_printf,
		counting_stores_nothing, errors_stick, json_strings, NULL};

	return unit_run("base buf", tests);
}
