#include "unit.h"
#include <statedict/key.h>
#include <string.h>

#define TEXT(t) .text = (t), .len = sizeof(t) - 1

static const struct {
	struct tasd_key key;
	const char *json;
	const char *print;
} rows[] = {
	{{TEXT("layers.0"), TASD_KEY_STR}, "\"layers.0\"", "layers.0"},
	{{TEXT(""), TASD_KEY_STR}, "\"\"", ""},
	{{TEXT("a\"b\\\n"), TASD_KEY_STR}, "\"a\\\"b\\\\\\n\"", "a\"b\\\n"},
	{{TEXT("7"), TASD_KEY_INT}, "7", "7"},
	{{TEXT("-123456789012345678901234567890"), TASD_KEY_INT},
		"-123456789012345678901234567890",
		"-123456789012345678901234567890"},
	{{TEXT("x"), TASD_KEY_ATTR}, "{\"attr\":\"x\"}", "x"},
	{{TEXT("1.5"), TASD_KEY_FLOAT}, "{\"float\":\"1.5\"}", "1.5"},
	{{TEXT("(1, 'a')\0[1,\"a\"]"), TASD_KEY_TUPLE}, "{\"tuple\":[1,\"a\"]}",
		"(1, 'a')"},
	{{TEXT("\0\xff"), TASD_KEY_BYTES}, "{\"bytes\":\"00ff\"}",
		"b'\\x00\\xff'"},
	{{TEXT(""), TASD_KEY_BYTES}, "{\"bytes\":\"\"}", "b''"},
	/* As Python's repr chooses quotes and escapes. */
	{{TEXT("it's"), TASD_KEY_BYTES}, "{\"bytes\":\"69742773\"}",
		"b\"it's\""},
	{{TEXT("'\""), TASD_KEY_BYTES}, "{\"bytes\":\"2722\"}", "b'\\'\"'"},
	{{TEXT("\\\t\n\r\x1b\x7f\x80~"), TASD_KEY_BYTES},
		"{\"bytes\":\"5c090a0d1b7f807e\"}",
		"b'\\\\\\t\\n\\r\\x1b\\x7f\\x80~'"},
	{{TEXT(""), TASD_KEY_NONE}, "null", "None"},
	{{TEXT(""), TASD_KEY_TRUE}, "true", "True"},
	{{TEXT(""), TASD_KEY_FALSE}, "false", "False"},
};

START_TEST(json_and_print)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tasd_buf json = TASD_BUF_EMPTY, print = TASD_BUF_EMPTY;
		struct tasd_key key = rows[i].key;
		char *text;

		if (key.type == TASD_KEY_TUPLE)
			key.len = (uint32_t)strlen(key.text);
		tasd_key_json(&json, &key);
		text = tasd_buf_steal(&json, NULL);
		ck_assert_pstr_eq(text, rows[i].json);
		free(text);
		tasd_key_print(&print, &key);
		text = tasd_buf_steal(&print, NULL);
		ck_assert_pstr_eq(text, rows[i].print);
		free(text);
	}
}
END_TEST

START_TEST(str_keeps_nul_and_surrogates)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	struct tasd_key key = tasd_key_str("a\0\xed\xa0\x80z", 6);
	char *text;

	tasd_key_json(&buf, &key);
	text = tasd_buf_steal(&buf, NULL);
	ck_assert_str_eq(text, "\"a\\u0000\\ud800z\"");
	free(text);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		json_and_print, str_keeps_nul_and_surrogates, NULL};

	return unit_run("statedict key", tests);
}
