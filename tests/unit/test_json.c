/*
 * The JSON reader: what it refuses and where, in whole texts and in the
 * smallest pieces, and what it tells of texts it takes.
 */
#include "unit.h"
#include <base/buf.h>
#include <base/json.h>
#include <string.h>

#define DEPTH 8

static tasd_err record(void *ctx, const struct tasd_json_event *event)
{
	static const char *const mark[] = {
		"null", "false", "true", "n", "s", "k", "{", "}", "[", "]"};
	struct tasd_buf *log = ctx;

	tasd_buf_printf(log, "%s%u", mark[event->type], event->depth);
	if (event->type == TASD_JSON_NUMBER ||
		event->type == TASD_JSON_STRING || event->type == TASD_JSON_KEY)
		tasd_buf_json_str(log, event->text, event->len);
	tasd_buf_char(log, ' ');
	return 0;
}

/* Read text in pieces of step bytes. */
static tasd_err feed(const char *text, size_t len, size_t step,
	struct tasd_buf *log, struct tasd_diag *diag)
{
	struct tasd_json *json;
	tasd_err err;

	diag->text[0] = '\0';
	ck_assert_int_eq(tasd_json_new(record, log, DEPTH, &json), 0);
	for (size_t at = 0; at < len; at += step) {
		size_t n = len - at < step ? len - at : step;
		/* A copy of its own, so that reading past it is caught. */
		char *piece = malloc(n);

		memcpy(piece, text + at, n);
		err = tasd_json_push(json, piece, n, diag);
		free(piece);
		if (err) {
			ck_assert_int_eq(tasd_json_end(json, NULL), err);
			goto out;
		}
	}
	err = tasd_json_end(json, diag);
out:
	tasd_json_free(json);
	return err;
}

static void takes(const char *text, size_t len, const char *want)
{
	for (size_t step = 1; step <= len + 1; step++) {
		struct tasd_buf log = TASD_BUF_EMPTY;
		struct tasd_diag diag;
		tasd_err err = feed(text, len, step, &log, &diag);

		ck_assert_msg(
			err == 0, "%s: step %zu: %s", text, step, diag.text);
		tasd_buf_char(&log, '\0');
		ck_assert_str_eq(log.bytes, want);
		tasd_buf_free(&log);
	}
}

static void refuses(const char *text, size_t len, const char *want)
{
	for (size_t step = 1; step <= len + 1; step++) {
		struct tasd_buf log = TASD_BUF_EMPTY;
		struct tasd_diag diag;
		tasd_err err = feed(text, len, step, &log, &diag);

		ck_assert_msg(
			err == -EINVAL, "%s: step %zu: %d", text, step, err);
		ck_assert_msg(strstr(diag.text, want), "%s: step %zu: %s", text,
			step, diag.text);
		tasd_buf_free(&log);
	}
}

#define TAKES(text, want)   takes(text, sizeof(text) - 1, want)
#define REFUSES(text, want) refuses(text, sizeof(text) - 1, want)

START_TEST(test_events)
{
	TAKES("{\"a\": [1, -2.5e3, null], \"b\": {\"c\": true, \"d\": false}}",
		"{0 k1\"a\" [1 n2\"1\" n2\"-2.5e3\" null2 ]1 "
		"k1\"b\" {1 k2\"c\" true2 k2\"d\" false2 }1 }0 ");
	TAKES(" \r\n\t7 ", "n0\"7\" ");
	TAKES("\"\"", "s0\"\" ");
	TAKES("[[],{}]", "[0 [1 ]1 {1 }1 ]0 ");
	TAKES("{\"a\":1,\"a\":2}", "{0 k1\"a\" n1\"1\" k1\"a\" n1\"2\" }0 ");
}
END_TEST

START_TEST(test_strings)
{
	TAKES("\"\\u0061\\n\\/\\\\\\\"\"", "s0\"a\\n/\\\\\\\"\" ");
	TAKES("\"a\\u0000b\"", "s0\"a\\u0000b\" ");
	TAKES("\"\\ud83d\\ude00 \\uD83D\\uDE00\"",
		"s0\"\xf0\x9f\x98\x80 \xf0\x9f\x98\x80\" ");
	TAKES("\"caf\xc3\xa9 \xe5\x80\xa4 \xf0\x9f\x98\x80\x7f\"",
		"s0\"caf\xc3\xa9 \xe5\x80\xa4 \xf0\x9f\x98\x80\\u007f\" ");
	TAKES("\"\xee\x80\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf\"",
		"s0\"\xee\x80\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf\" ");
}
END_TEST

START_TEST(test_bad_strings)
{
	REFUSES("\"\\ud800\"", "lone high surrogate");
	REFUSES("\"\\ud800x\"", "lone high surrogate");
	REFUSES("\"\\ud800\\n\"", "lone high surrogate");
	REFUSES("\"\\ud800\\u0041\"", "lone high surrogate");
	REFUSES("\"\\ud800\\ud800\\udc00\"", "lone high surrogate");
	REFUSES("\"\\udc00\"", "lone low surrogate");
	REFUSES("\"\\ud83d\\ude00\\ude00\"", "lone low surrogate");
	REFUSES("\"\\u00g0\"", "byte 5: four hex digits");
	REFUSES("\"\\x\"", "a character which it may not");
	REFUSES("\"\xff\"", "byte 1: invalid UTF-8");
	REFUSES("\"\xc0\x80\"", "invalid UTF-8");
	REFUSES("\"\xe0\x9f\xbf\"", "invalid UTF-8");
	REFUSES("\"\xf0\x8f\xbf\xbf\"", "invalid UTF-8");
	REFUSES("\"\xed\xa0\x80\"", "invalid UTF-8");
	REFUSES("\"\xf4\x90\x80\x80\"", "invalid UTF-8");
	REFUSES("\"\xe5\x80\"", "byte 3: invalid UTF-8");
	REFUSES("\"a\nb\"", "byte 2: control character");
	REFUSES("\"a\0b\"", "byte 2: control character");
	REFUSES("\"abc", "byte 4: premature EOF");
}
END_TEST

START_TEST(test_bad_texts)
{
	REFUSES("", "byte 0: premature EOF");
	REFUSES("  ", "byte 2: premature EOF");
	REFUSES("[1,2", "byte 4: premature EOF");
	REFUSES("{},\"x\"", "byte 2: trailing garbage");
	REFUSES("1 2", "trailing garbage");
	REFUSES("{} \"", "premature EOF");
	REFUSES("{} \"ab", "premature EOF");
	REFUSES("{} \"\\u00", "premature EOF");
	REFUSES("{} tru", "invalid JSON");
	REFUSES("{} t", "invalid JSON");
	REFUSES("{} 1", "trailing garbage");
	REFUSES("{} -", "invalid JSON");
	REFUSES("{} 1.", "invalid JSON");
	REFUSES("{} 1e", "invalid JSON");
	REFUSES("{} /", "invalid JSON");
	REFUSES("1 \"", "premature EOF");
	REFUSES("\"a\"\"", "premature EOF");
	REFUSES("\"a\"b", "invalid JSON");
	REFUSES("{}}", "trailing garbage");
	REFUSES("[1]\0", "byte 3: unexpected byte");
	REFUSES("[\v1]", "byte 1: unexpected byte");
	REFUSES("[1\f]", "byte 2: unexpected byte");
	REFUSES("\xef\xbb\xbf{}", "byte 0: unexpected byte");
	REFUSES("[1,]", "byte 3: ");
	REFUSES("{\"a\":1,}", "byte 7: ");
	REFUSES("{a:1}", "byte 1: ");
	REFUSES("{1:1}", "invalid object key");
	REFUSES("[1]//", "trailing garbage");
	REFUSES("/*c*/1", "byte 0: ");
	REFUSES("[NaN]", "byte 1: ");
	REFUSES("[tru]", "invalid JSON");
	REFUSES("[Infinity]", "invalid JSON");
}
END_TEST

START_TEST(test_numbers)
{
	TAKES("[0,-0,8.0,8e0,1e308,18446744073709551616]",
		"[0 n1\"0\" n1\"-0\" n1\"8.0\" n1\"8e0\" n1\"1e308\" "
		"n1\"18446744073709551616\" ]0 ");
	TAKES("0e999", "n0\"0e999\" ");
	TAKES("1e-999", "n0\"1e-999\" ");
	REFUSES("[1e999]", "number out of range");
	REFUSES("[-1.5E309]", "number out of range");
	REFUSES("1e999", "number out of range");
	REFUSES("[01]", "invalid JSON");
	REFUSES("[1.]", "invalid JSON");
	REFUSES("[-]", "invalid JSON");
	REFUSES("[+1]", "invalid JSON");
	REFUSES("[.5]", "invalid JSON");
	REFUSES("[0x10]", "invalid JSON");
}
END_TEST

START_TEST(test_long_number)
{
	char text[402];
	struct tasd_buf log = TASD_BUF_EMPTY;
	struct tasd_diag diag;

	memset(text, '9', sizeof(text));
	ck_assert_int_eq(feed(text, 400, 400, &log, &diag), -EINVAL);
	ck_assert(strstr(diag.text, "number out of range"));
	text[1] = '.';
	ck_assert_int_eq(feed(text, 400, 400, &log, &diag), 0);
	tasd_buf_free(&log);
}
END_TEST

START_TEST(test_depth)
{
	REFUSES("[[[[[[[[[]]]]]]]]]", "byte 8: nested too deeply");
	REFUSES("{\"a\":[[[[[[[[]]]]]]]]}", "byte 12: nested too deeply");
	TAKES("[[[[[[[[1]]]]]]]]", "[0 [1 [2 [3 [4 [5 [6 [7 n8\"1\" "
				   "]7 ]6 ]5 ]4 ]3 ]2 ]1 ]0 ");
}
END_TEST

START_TEST(test_too_long)
{
	size_t len = (17u << 20) + 2;
	char *text = malloc(len);
	struct tasd_buf log = TASD_BUF_EMPTY;
	struct tasd_diag diag;

	memset(text, 'x', len);
	text[0] = text[len - 1] = '"';
	ck_assert_int_eq(feed(text, len, 256 << 10, &log, &diag), -EINVAL);
	ck_assert(strstr(diag.text, "string longer than"));
	memset(text, '1', len);
	ck_assert_int_eq(feed(text, len, 256 << 10, &log, &diag), -EINVAL);
	ck_assert(strstr(diag.text, "token too long"));
	tasd_buf_free(&log);
	free(text);
}
END_TEST

static tasd_err stop_at_two(void *ctx, const struct tasd_json_event *event)
{
	int *seen = ctx;

	++*seen;
	return event->len == 1 && event->text[0] == '2' ? -E2BIG : 0;
}

START_TEST(test_callback_stops)
{
	struct tasd_json *json;
	struct tasd_diag diag = {""};
	int seen = 0;

	ck_assert_int_eq(tasd_json_new(stop_at_two, &seen, DEPTH, &json), 0);
	ck_assert_int_eq(tasd_json_push(json, "[1,2,3]", 7, &diag), -E2BIG);
	ck_assert_str_eq(diag.text, "");
	ck_assert_int_eq(seen, 3);
	ck_assert_int_eq(tasd_json_push(json, "[1,2,3]", 7, &diag), -E2BIG);
	ck_assert_int_eq(tasd_json_end(json, &diag), -E2BIG);
	ck_assert_int_eq(seen, 3);
	tasd_json_free(json);
}
END_TEST

static tasd_err u64_of(const char *text, uint64_t *ret)
{
	return tasd_json_u64(text, strlen(text), ret);
}

START_TEST(test_u64)
{
	uint64_t n = 1;

	ck_assert_int_eq(u64_of("0", &n), 0);
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(u64_of("18446744073709551615", &n), 0);
	ck_assert_uint_eq(n, UINT64_MAX);
	ck_assert_int_eq(u64_of("18446744073709551616", &n), -ERANGE);
	ck_assert_int_eq(u64_of("99999999999999999999999", &n), -ERANGE);
	ck_assert_int_eq(u64_of("99999999999999999999e1", &n), -EINVAL);
	ck_assert_int_eq(u64_of("", &n), -EINVAL);
	ck_assert_int_eq(u64_of("-1", &n), -EINVAL);
	ck_assert_int_eq(u64_of("-0", &n), -EINVAL);
	ck_assert_int_eq(u64_of("8.0", &n), -EINVAL);
	ck_assert_int_eq(u64_of("8e0", &n), -EINVAL);
	ck_assert_int_eq(u64_of("07", &n), -EINVAL);
	ck_assert_uint_eq(n, UINT64_MAX);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_events,
		test_strings,
		test_bad_strings,
		test_bad_texts,
		test_numbers,
		test_long_number,
		test_depth,
		test_too_long,
		test_callback_stops,
		test_u64,
		NULL,
	};

	return unit_run("json", tests);
}
