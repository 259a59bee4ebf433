/*
 * Protocol 0: opcodes whose argument is a line of text.
 *
 * Numbers are read in the one form that Python's pickler writes.  Its reader
 * takes more (hexadecimal, underscores), in which its two implementations
 * disagree; those are refused.
 */
#include "pickle_inner.h"
#include <base/utf8.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool all_digits(const char *text, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (text[i] < '0' || text[i] > '9')
			return false;
	return len > 0;
}

/* Decimal digits as a two's complement number: groups of eighteen, each a
 * multiplication of what there is so far. */
static tasd_err push_decimal(struct tasd_pkl_machine *m, const char *digits,
	uint64_t len, bool negative)
{
	uint64_t limbs[TASD_PKL_INT_DIGITS / 18 + 2];
	unsigned char *bytes;
	size_t used = 0, room;

	for (uint64_t at = 0; at < len;) {
		uint64_t base = 1;
		unsigned __int128 carry = 0;

		do {
			carry = 10 * carry + (unsigned int)(digits[at] - '0');
			base *= 10;
		} while (++at < len && base < 1000000000000000000);
		for (size_t i = 0; i < used; i++) {
			carry += (unsigned __int128)limbs[i] * base;
			limbs[i] = (uint64_t)carry;
			carry >>= 64;
		}
		if (carry)
			limbs[used++] = (uint64_t)carry;
	}
	room = 8 * used + 1;
	bytes = (unsigned char *)tasd_arena_bytes(&m->out->arena, room);
	if (!bytes)
		return tasd_pkl_fail_room(m);
	bytes[8 * used] = 0;
	for (size_t i = 0; i < 8 * used; i++)
		bytes[i] = (unsigned char)(limbs[i / 8] >> 8 * (i % 8));
	for (size_t i = 0, carry = 1; negative && i < room; i++) {
		carry += (unsigned char)~bytes[i];
		bytes[i] = (unsigned char)carry;
		carry >>= 8;
	}
	return tasd_pkl_push_long(m, bytes, room);
}

tasd_err tasd_pkl_text_int(struct tasd_pkl_machine *m, unsigned int is_long)
{
	const char *line = NULL;
	uint64_t len = 0;
	bool negative;
	tasd_err err = tasd_pkl_line(m, &line, &len);

	if (err)
		return err;
	if (!is_long && len == 2 && line[0] == '0' &&
		(line[1] == '0' || line[1] == '1'))
		return tasd_pkl_push_const(
			m, line[1] == '1' ? TASD_PKL_TRUE : TASD_PKL_FALSE);
	if (is_long && len && line[len - 1] == 'L')
		len--;
	negative = len && *line == '-';
	line += negative;
	len -= negative;
	if (!all_digits(line, len) || (len > 1 && *line == '0'))
		return tasd_pkl_fail(m, "not a decimal number");
	if (len > TASD_PKL_INT_DIGITS)
		return tasd_pkl_fail(
			m, "a number of %llu digits", (unsigned long long)len);
	return push_decimal(m, line, len, negative);
}

static uint64_t digits(const char *text, uint64_t len)
{
	uint64_t n = 0;

	while (n < len && text[n] >= '0' && text[n] <= '9')
		n++;
	return n;
}

/* What Python's float() takes, without spaces and underscores. */
static bool is_float(const char *text, uint64_t len)
{
	uint64_t at = len && (*text == '-' || *text == '+'), n;

	if ((len - at == 3 && (strncasecmp(text + at, "inf", 3) == 0 ||
				      strncasecmp(text + at, "nan", 3) == 0)) ||
		(len - at == 8 && strncasecmp(text + at, "infinity", 8) == 0))
		return true;
	n = digits(text + at, len - at);
	at += n;
	if (at < len && text[at] == '.') {
		uint64_t more = digits(text + at + 1, len - at - 1);

		n += more;
		at += 1 + more;
	}
	if (!n)
		return false;
	if (at < len && (text[at] == 'e' || text[at] == 'E')) {
		at++;
		at += at < len && (text[at] == '-' || text[at] == '+');
		n = digits(text + at, len - at);
		at += n;
	}
	return n && at == len;
}

tasd_err tasd_pkl_text_float(struct tasd_pkl_machine *m, unsigned int arg)
{
	const char *line = NULL;
	struct tasd_pkl *value = NULL;
	uint64_t len = 0;
	double f;
	tasd_err err = tasd_pkl_line(m, &line, &len);

	(void)arg;
	if (err)
		return err;
	if (!is_float(line, len))
		return tasd_pkl_fail(m, "not a number");
	/* It ends at the newline that the line has. */
	f = strtod(line, NULL);
	if (isinf(f) && line[len - 1] <= '9')
		return tasd_pkl_fail(m, "a number too large");
	err = tasd_pkl_new(m, TASD_PKL_FLOAT, &value);
	if (err)
		return err;
	value->f = f;
	return tasd_pkl_push(m, value);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What a backslash and c stand for; 0 when nothing special. */
static char simple_escape(char c)
{
	static const char from[] = "\\'\"bftnrva";
	static const char to[] = "\\'\"\b\f\t\n\r\v\a";
	const char *at = c ? strchr(from, c) : NULL;

	return at ? to[at - from] : 0;
}

/*
 * One escape of a bytes literal; text[0] is what follows the backslash.
 * Returns how many bytes it takes, 0 when it is broken.  What Python does not
 * know stays, backslash and all.
 */
static uint64_t unescape(const char *text, uint64_t len, char *out, size_t *at)
{
	unsigned int value = 0, n = 0;

	if (simple_escape(*text)) {
		out[(*at)++] = simple_escape(*text);
		return 1;
	}
	if (*text == 'x') {
		if (len < 3 || hex_digit(text[1]) < 0 || hex_digit(text[2]) < 0)
			return 0;
		out[(*at)++] =
			(char)(hex_digit(text[1]) << 4 | hex_digit(text[2]));
		return 3;
	}
	while (n < 3 && n < len && text[n] >= '0' && text[n] <= '7')
		value = 8 * value + (unsigned int)(text[n++] - '0');
	if (n) {
		out[(*at)++] = (char)value;
		return n;
	}
	out[(*at)++] = '\\';
	out[(*at)++] = *text;
	return 1;
}

tasd_err tasd_pkl_text_string(struct tasd_pkl_machine *m, unsigned int arg)
{
	const char *line = NULL;
	uint64_t len = 0;
	size_t n = 0;
	char *out;
	tasd_err err = tasd_pkl_line(m, &line, &len);

	(void)arg;
	if (err)
		return err;
	if (len < 2 || line[0] != line[len - 1] ||
		(line[0] != '\'' && line[0] != '"'))
		return tasd_pkl_fail(m, "its text is not in quotes");
	line++;
	len -= 2;
	if (!len || !memchr(line, '\\', len))
		return tasd_pkl_push_py2(m, line, len);
	/* No escape stands for more bytes than it takes. */
	out = tasd_arena_bytes(&m->out->arena, len);
	if (!out)
		return tasd_pkl_fail_room(m);
	for (uint64_t i = 0; i < len;) {
		uint64_t used;

		if (line[i] != '\\') {
			out[n++] = line[i++];
			continue;
		}
		used = ++i < len ? unescape(line + i, len - i, out, &n) : 0;
		if (!used)
			return tasd_pkl_fail(m, "a broken escape");
		i += used;
	}
	return tasd_pkl_push_py2(m, out, n);
}

static size_t put_utf8(char *out, uint32_t c)
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

/* A character at text: Latin-1, or \uXXXX, \UXXXXXXXX.  Returns how many bytes
 * it takes, 0 when it is broken. */
static uint64_t raw_unicode(const char *text, uint64_t len, uint32_t *ret)
{
	uint64_t want;

	*ret = (unsigned char)*text;
	if (*text != '\\' || len < 2 || (text[1] != 'u' && text[1] != 'U'))
		return 1;
	want = text[1] == 'u' ? 4 : 8;
	*ret = 0;
	if (len < 2 + want)
		return 0;
	for (uint64_t i = 0; i < want; i++) {
		int d = hex_digit(text[2 + i]);

		if (d < 0)
			return 0;
		*ret = *ret << 4 | (uint32_t)d;
	}
	return *ret <= 0x10ffff ? 2 + want : 0;
}

tasd_err tasd_pkl_text_unicode(struct tasd_pkl_machine *m, unsigned int arg)
{
	const char *line = NULL;
	uint64_t len = 0;
	size_t n = 0;
	char *out;
	tasd_err err = tasd_pkl_line(m, &line, &len);

	(void)arg;
	if (err)
		return err;
	/* A byte makes at most two. */
	out = tasd_arena_bytes(&m->out->arena, 2 * len);
	if (!out)
		return tasd_pkl_fail_room(m);
	for (uint64_t i = 0; i < len;) {
		uint32_t c = 0;
		uint64_t used = raw_unicode(line + i, len - i, &c);

		if (!used)
			return tasd_pkl_fail(m, "a broken escape");
		/* A pair of backslashes is two of them, not an escape. */
		if (c == '\\' && i + 1 < len && line[i] == '\\' &&
			line[i + 1] == '\\') {
			out[n++] = '\\';
			used = 2;
		}
		n += put_utf8(out + n, c);
		i += used;
	}
	return tasd_pkl_push_text(m, TASD_PKL_STR, out, n);
}

/* Module and name, a line each. */
static tasd_err two_lines(
	struct tasd_pkl_machine *m, const char **line, uint64_t *len)
{
	tasd_err err = tasd_pkl_line(m, &line[0], &len[0]);

	if (!err)
		err = tasd_pkl_line(m, &line[1], &len[1]);
	if (!err && (!len[0] || !len[1]))
		return tasd_pkl_fail(m, "an empty name");
	return err;
}

static bool is_ascii(const char *text, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
}

tasd_err tasd_pkl_text_global(struct tasd_pkl_machine *m, unsigned int arg)
{
	const char *line[2] = {NULL};
	uint64_t len[2] = {0};
	tasd_err err = two_lines(m, line, len);

	(void)arg;
	if (err)
		return err;
	if (tasd_utf8_valid(line[0], len[0]) != len[0] ||
		tasd_utf8_valid(line[1], len[1]) != len[1])
		return tasd_pkl_fail(m, "a name that is not UTF-8");
	return tasd_pkl_push_global(m, line[0], len[0], line[1], len[1]);
}

tasd_err tasd_pkl_text_inst(struct tasd_pkl_machine *m, unsigned int arg)
{
	struct tasd_pkl *class, *args = NULL;
	const char *line[2] = {NULL};
	uint64_t len[2] = {0};
	size_t at = 0;
	tasd_err err = tasd_pkl_mark(m, &at);

	(void)arg;
	if (!err)
		err = two_lines(m, line, len);
	if (err)
		return err;
	if (!is_ascii(line[0], len[0]) || !is_ascii(line[1], len[1]))
		return tasd_pkl_fail(m, "a name that is not ASCII");
	err = tasd_pkl_push_global(m, line[0], len[0], line[1], len[1]);
	if (err)
		return err;
	class = m->stack[--m->depth];
	err = tasd_pkl_tuple_from(m, at, &args);
	return err ? err : tasd_pkl_make_object(m, TASD_PKL_INST, class, args);
}

tasd_err tasd_pkl_text_persid(struct tasd_pkl_machine *m, unsigned int arg)
{
	const char *line = NULL;
	uint64_t len = 0;
	tasd_err err = tasd_pkl_line(m, &line, &len);

	(void)arg;
	if (err)
		return err;
	if (!is_ascii(line, len))
		return tasd_pkl_fail(m, "an id that is not ASCII");
	err = tasd_pkl_push_text(m, TASD_PKL_STR, line, len);
	return err ? err : tasd_pkl_op_persid(m, 0);
}

/* A memo index: at most 18 digits, so that it fits. */
static tasd_err line_index(struct tasd_pkl_machine *m, uint64_t *ret)
{
	const char *line = NULL;
	uint64_t len = 0;
	tasd_err err = tasd_pkl_line(m, &line, &len);

	*ret = 0;
	if (err)
		return err;
	if (!all_digits(line, len) || len > 18)
		return tasd_pkl_fail(m, "not a memo index");
	for (uint64_t i = 0; i < len; i++)
		*ret = 10 * *ret + (uint64_t)(line[i] - '0');
	return 0;
}

tasd_err tasd_pkl_text_put(struct tasd_pkl_machine *m, unsigned int arg)
{
	uint64_t index = 0;
	tasd_err err = line_index(m, &index);

	(void)arg;
	return err ? err : tasd_pkl_memo_put(m, index);
}

tasd_err tasd_pkl_text_get(struct tasd_pkl_machine *m, unsigned int arg)
{
	uint64_t index = 0;
	tasd_err err = line_index(m, &index);

	(void)arg;
	return err ? err : tasd_pkl_memo_get(m, index);
}
