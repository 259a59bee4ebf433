#include "unit.h"
#include <statedict/name.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static char *escape(const char *piece, size_t len, size_t max)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	char *out;

	tasd_name_escape(&buf, piece, len, max);
	out = tasd_buf_steal(&buf, NULL);
	ck_assert_ptr_nonnull(out);
	return out;
}

static char *cut(const char *name, size_t max)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	char *out;

	tasd_name_cut(&buf, name, strlen(name), max);
	out = tasd_buf_steal(&buf, NULL);
	ck_assert_ptr_nonnull(out);
	return out;
}

START_TEST(escapes)
{
	static const struct {
		const char *piece;
		size_t len;
		const char *name;
	} rows[] = {
		{"weight", 6, "weight"},
		{"", 0, "%"},
		{".", 1, "%2E"},
		{"..", 2, "%2E%2E"},
		{"...", 3, "..."},
		{".tasd", 5, "%2Etasd"},
		{".tasd2", 6, ".tasd2"},
		{".tas", 4, ".tas"},
		{"a.tasd", 6, "a.tasd"},
		{".sharded", 8, ".sharded"},
		{"a/b", 3, "a%2Fb"},
		{"50%", 3, "50%25"},
		{"%", 1, "%25"},
		{"%2F", 3, "%252F"},
		{"a\0b", 3, "a%00b"},
		{"\n\t\x1f\x7f", 4, "%0A%09%1F%7F"},
		{" -rf *", 6, " -rf *"},
		{"caf\xc3\xa9", 5, "caf\xc3\xa9"},
		{"\xff\x80", 2, "\xff\x80"},
		{"a\\b:c~", 6, "a\\b:c~"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *name = escape(rows[i].piece, rows[i].len, TASD_NAME_MAX);

		ck_assert_str_eq(name, rows[i].name);
		ck_assert_int_eq(tasd_name_is_plain(rows[i].piece, rows[i].len),
			strlen(name) == rows[i].len &&
				memcmp(name, rows[i].piece, rows[i].len) == 0);
		free(name);
	}
}
END_TEST

/* Exactly these bytes are escaped, each to its own %XX. */
START_TEST(every_byte)
{
	for (unsigned int c = 0; c < 256; c++) {
		char piece[3] = {'x', (char)c, 'y'}, want[8];
		char *name = escape(piece, 3, TASD_NAME_MAX);
		bool special = c < 0x20 || c == 0x7f || c == '%' || c == '/';

		if (special)
			snprintf(want, sizeof(want), "x%%%02Xy", c);
		else
			snprintf(want, sizeof(want), "x%cy", (int)c);
		ck_assert_str_eq(name, want);
		ck_assert_int_eq(tasd_name_is_plain(piece, 3), !special);
		free(name);
	}
}
END_TEST

START_TEST(long_names_are_cut)
{
	char piece[700], *one, *two;

	memset(piece, 'x', sizeof(piece));
	one = escape(piece, 255, TASD_NAME_MAX);
	ck_assert_uint_eq(strlen(one), 255);
	ck_assert_ptr_null(strchr(one, '%'));
	ck_assert(tasd_name_is_plain(piece, 255));
	free(one);

	ck_assert(!tasd_name_is_plain(piece, 256));
	one = escape(piece, 256, TASD_NAME_MAX);
	two = escape(piece, 257, TASD_NAME_MAX);
	ck_assert_uint_eq(strlen(one), 255);
	ck_assert_uint_eq(strlen(two), 255);
	ck_assert_mem_eq(one, piece, 221);
	ck_assert_mem_eq(one + 221, "%~", 2);
	for (size_t i = 223; i < 255; i++)
		ck_assert_ptr_nonnull(strchr("0123456789abcdef", one[i]));
	ck_assert_str_ne(one, two);
	free(one);
	free(two);

	/* XXH3-128 of the piece, highest digits first: names stay what they
	 * are from one version to the next. */
	one = escape(piece, 300, TASD_NAME_MAX);
	ck_assert_str_eq(one + 221, "%~125237ea2ad7bc7aa5d1b4607dc83554");
	free(one);
}
END_TEST

/* The cut falls between characters wherever they lie. */
START_TEST(cut_between_characters)
{
	static const char *const chars[] = {
		"\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "/"};

	for (size_t c = 0; c < sizeof(chars) / sizeof(chars[0]); c++) {
		size_t wide = strlen(chars[c]);

		for (size_t shift = 0; shift < 5; shift++) {
			char piece[600] = "", *name, *mark;
			size_t unit = wide == 1 ? 3 : wide, kept;

			memset(piece, 'a', shift);
			while (strlen(piece) + wide < 500)
				strcat(piece, chars[c]);
			name = escape(piece, strlen(piece), TASD_NAME_MAX);
			mark = strstr(name, "%~");
			ck_assert_ptr_nonnull(mark);
			ck_assert_uint_eq(strlen(mark), 34);
			kept = (size_t)(mark - name);
			ck_assert_uint_le(kept, 221);
			ck_assert_uint_gt(kept + unit, 221);
			ck_assert_uint_eq((kept - shift) % unit, 0);
			free(name);
		}
	}
}
END_TEST

/* Cutting a name gives what escaping its piece with that limit gives. */
START_TEST(cut_is_escape_with_less_room)
{
	unsigned int seed = (unsigned int)time(NULL);
	static const char alphabet[][5] = {"a", ".", "/", "%", "\x01",
		"\xc3\xa9", "\xf0\x9f\x98\x80", "\xff"};

	printf("seed %u\n", seed);
	fflush(stdout);
	for (int round = 0; round < 3000; round++) {
		char piece[600] = "", *full, *cut_name, *want;
		size_t target = (size_t)rand_r(&seed) % 500;
		size_t max = TASD_NAME_MIN + (size_t)rand_r(&seed) % 192;
		bool mostly_plain = rand_r(&seed) % 2;

		while (strlen(piece) < target) {
			unsigned int c = (unsigned int)rand_r(&seed) % 8;

			if (mostly_plain && rand_r(&seed) % 8)
				c = 0;
			strcat(piece, alphabet[c]);
		}
		full = escape(piece, strlen(piece), TASD_NAME_MAX);
		cut_name = cut(full, max);
		want = escape(piece, strlen(piece), max);
		ck_assert_str_eq(cut_name, want);
		ck_assert_uint_le(strlen(want), max);
		free(full);
		free(cut_name);
		free(want);
	}
}
END_TEST

START_TEST(cut_keeps_the_suffix)
{
	char name[300], *out, *other;

	memset(name, '7', 250);
	strcpy(name + 250, "%:str");
	out = cut(name, 251);
	ck_assert_uint_eq(strlen(out), 251);
	ck_assert_str_eq(out + 246, "%:str");
	ck_assert_mem_eq(out + 251 - 5 - 34, "%~", 2);
	name[250] = '\0';
	other = cut(name, 240);
	/* The same piece, so the same hash. */
	ck_assert_mem_eq(out + 251 - 5 - 34, other + 240 - 34, 34);
	free(other);
	/* Cut again: only what is before the hash gets shorter. */
	other = cut(out, 100);
	ck_assert_uint_eq(strlen(other), 100);
	ck_assert_str_eq(other + 100 - 39, out + 251 - 39);
	free(other);
	free(out);
	out = cut("short%:str", 64);
	ck_assert_str_eq(out, "short%:str");
	free(out);
}
END_TEST

/* All the dots at which a key is split, as a string of their offsets. */
static const char *dots(const char *key, char *out)
{
	size_t len = strlen(key), at = tasd_name_split_at(key, len, 0);

	*out = '\0';
	for (; at < len; at = tasd_name_split_at(key, len, at + 1))
		sprintf(out + strlen(out), "%zu ", at);
	ck_assert_uint_eq(at, len);
	return out;
}

START_TEST(splits)
{
	char out[200];

	ck_assert_str_eq(dots("layers.0.weight", out), "6 8 ");
	ck_assert_str_eq(dots("", out), "");
	ck_assert_str_eq(dots(".", out), "");
	ck_assert_str_eq(dots("..", out), "");
	ck_assert_str_eq(dots("w", out), "");
	ck_assert_str_eq(dots(".sharded", out), "");
	ck_assert_str_eq(dots("end.", out), "");
	ck_assert_str_eq(dots("a..b", out), "");
	ck_assert_str_eq(dots("a...b", out), "");
	ck_assert_str_eq(dots("x.a..b.c", out), "1 6 ");
	ck_assert_str_eq(dots(".a.b.", out), "2 ");
	ck_assert_str_eq(dots("a.b..", out), "1 ");
	ck_assert_str_eq(dots("../up", out), "");
	ck_assert_str_eq(dots("a./.b", out), "1 3 ");
}
END_TEST

START_TEST(split_limits)
{
	char key[TASD_SPLIT_KEY_MAX + 2];

	memset(key, 'k', sizeof(key));
	key[5] = '.';
	ck_assert_uint_eq(tasd_name_split_at(key, TASD_SPLIT_KEY_MAX, 0), 5);
	ck_assert_uint_eq(tasd_name_split_at(key, TASD_SPLIT_KEY_MAX + 1, 0),
		TASD_SPLIT_KEY_MAX + 1);
	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = i % 2 ? '.' : 'k';
	/* n components take 2n - 1 bytes. */
	ck_assert_uint_eq(
		tasd_name_split_at(key, 2 * TASD_SPLIT_COMPONENT_MAX - 1, 0),
		1);
	ck_assert_uint_eq(
		tasd_name_split_at(key, 2 * TASD_SPLIT_COMPONENT_MAX + 1, 0),
		2 * TASD_SPLIT_COMPONENT_MAX + 1);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {escapes, every_byte, long_names_are_cut,
		cut_between_characters, cut_is_escape_with_less_room,
		cut_keeps_the_suffix, splits, split_limits, NULL};

	return unit_run("statedict name", tests);
}
