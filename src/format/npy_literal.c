/*
 * Strings are single-quoted or double-quoted, with a u in front as Python 2
 * has it, and Python's escapes; what is not in the header that numpy writes
 * (bytes, raw and joined strings, floats, names) is no literal here.
 */
#include "npy_literal.h"
#include <base/utf8.h>
#include <string.h>

char tasd_literal_peek(struct tasd_literal *in)
{
	while (in->at < in->len && in->text[in->at] &&
		strchr(" \t\n\r\f", in->text[in->at]))
		in->at++;
	return in->at < in->len ? in->text[in->at] : '\0';
}

bool tasd_literal_take(struct tasd_literal *in, char c)
{
	if (tasd_literal_peek(in) != c || in->at == in->len)
		return false;
	in->at++;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool in_name(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '_' || c < 0;
}

bool tasd_literal_word(struct tasd_literal *in, const char *word)
{
	size_t n = strlen(word);

	(void)tasd_literal_peek(in);
	if (in->len - in->at < n || memcmp(in->text + in->at, word, n) != 0 ||
		(in->len - in->at > n && in_name(in->text[in->at + n])))
		return false;
	in->at += n;
	return true;
}

bool tasd_literal_ended(struct tasd_literal *in)
{
	(void)tasd_literal_peek(in);
	return in->at == in->len;
}

tasd_err tasd_literal_u64(struct tasd_literal *in, uint64_t *ret)
{
	size_t from, at;
	uint64_t value = 0;

	(void)tasd_literal_peek(in);
	from = at = in->at;
	for (; at < in->len && is_digit(in->text[at]); at++) {
		uint64_t digit = (uint64_t)(in->text[at] - '0');

		if (__builtin_mul_overflow(value, 10u, &value) ||
			__builtin_add_overflow(value, digit, &value))
			return -ERANGE;
	}
	if (at == from || (in->text[from] == '0' && at > from + 1))
		return -EINVAL;
	if (at < in->len && in->text[at] == 'L')
		at++;
	if (at < in->len && (in_name(in->text[at]) || in->text[at] == '.'))
		return -EINVAL;
	in->at = at;
	*ret = value;
	return 0;
}

/* Append a code point; false when there is no such character. */
static bool add_char(struct tasd_buf *out, uint32_t c)
{
	char utf8[4];
	size_t n = 1;

	if (c < 0x80) {
		utf8[0] = (char)c;
	} else if (c < 0x800) {
		utf8[0] = (char)(0xc0 | c >> 6);
		n = 2;
	} else if (c < 0x10000) {
		utf8[0] = (char)(0xe0 | c >> 12);
		n = 3;
	} else {
		utf8[0] = (char)(0xf0 | c >> 18);
		n = 4;
	}
	for (size_t i = 1; i < n; i++)
		utf8[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
	if (c > 0x10ffff || tasd_utf8_next(utf8, n) != n)
		return false;
	tasd_buf_add(out, utf8, n);
	return true;
}

static int digit_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* `least` to `most` digits of that base at *at. */
static bool take_code(const struct tasd_literal *in, size_t *at,
	unsigned int base, unsigned int least, unsigned int most,
	struct tasd_buf *out)
{
	uint32_t code = 0;
	unsigned int n = 0;

	while (n < most && *at < in->len &&
		digit_value(in->text[*at]) < (int)base) {
		code = code * base + (uint32_t)digit_value(in->text[*at]);
		++*at;
		n++;
	}
	return n >= least && add_char(out, code);
}

/* What follows a backslash, which is at *at - 1. */
static bool take_escape(
	const struct tasd_literal *in, size_t *at, struct tasd_buf *out)
{
	static const char plain[] = "\\'\"abfnrtv";
	static const char means[] = "\\'\"\a\b\f\n\r\t\v";
	char c = *at < in->len ? in->text[*at] : '\0';
	const char *found = c ? strchr(plain, c) : NULL;

	if (found) {
		++*at;
		tasd_buf_char(out, means[found - plain]);
		return true;
	}
	if (c >= '0' && c <= '7')
		return take_code(in, at, 8, 1, 3, out);
	++*at;
	switch (c) {
	case 'x':
		return take_code(in, at, 16, 2, 2, out);
	case 'u':
		return take_code(in, at, 16, 4, 4, out);
	case 'U':
		return take_code(in, at, 16, 8, 8, out);
	default:
		return false;
	}
}

/* One character as it stands in the text. */
static bool take_char(
	const struct tasd_literal *in, size_t *at, struct tasd_buf *out)
{
	unsigned char c = (unsigned char)in->text[*at];
	size_t n = 1;

	if (c == '\n' || c == '\r' || c == '\0')
		return false;
	if (in->latin1 && c >= 0x80) {
		++*at;
		return add_char(out, c);
	}
	n = tasd_utf8_next(in->text + *at, in->len - *at);
	if (n == 0)
		return false;
	tasd_buf_add(out, in->text + *at, n);
	*at += n;
	return true;
}

tasd_err tasd_literal_string(struct tasd_literal *in, struct tasd_buf *out)
{
	char quote = tasd_literal_peek(in);
	size_t at = in->at;

	if (quote == 'u' && at + 1 < in->len)
		quote = in->text[++at];
	if (quote != '\'' && quote != '"')
		return -EINVAL;
	at++;
	while (at < in->len && in->text[at] != quote) {
		bool good;

		if (in->text[at] == '\\') {
			at++;
			good = take_escape(in, &at, out);
		} else {
			good = take_char(in, &at, out);
		}
		if (!good)
			return -EINVAL;
	}
	if (at == in->len)
		return -EINVAL;
	in->at = at + 1;
	return 0;
}

void tasd_literal_print(struct tasd_buf *buf, const char *text, size_t len)
{
	bool apostrophe = len && memchr(text, '\'', len);
	char quote = apostrophe && !memchr(text, '"', len) ? '"' : '\'';

	tasd_buf_char(buf, quote);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\\' || c == quote) {
			tasd_buf_char(buf, '\\');
			tasd_buf_char(buf, (char)c);
		} else if (c == '\n') {
			tasd_buf_str(buf, "\\n");
		} else if (c == '\r') {
			tasd_buf_str(buf, "\\r");
		} else if (c == '\t') {
			tasd_buf_str(buf, "\\t");
		} else if (c < 0x20 || c == 0x7f) {
			tasd_buf_printf(buf, "\\x%02x", c);
		} else {
			tasd_buf_char(buf, (char)c);
		}
	}
	tasd_buf_char(buf, quote);
}
