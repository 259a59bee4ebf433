/*
 * The well-formed sequences of Unicode table 3-7; everything else is not UTF-8.
 */
#include <base/utf8.h>

static bool is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

size_t tasd_utf8_next(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;

	if (len == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	if (p[0] < 0xe0)
		return len >= 2 && is_tail(p[1]) ? 2 : 0;
	if (p[0] < 0xf0) {
		if (len < 3 || !is_tail(p[1]) || !is_tail(p[2]))
			return 0;
		if (p[0] == 0xe0 && p[1] < 0xa0)
			return 0; /* overlong */
		if (p[0] == 0xed && p[1] >= 0xa0)
			return 0; /* surrogate */
		return 3;
	}
	if (len < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3]))
		return 0;
	if (p[0] == 0xf0 && p[1] < 0x90)
		return 0; /* overlong */
	if (p[0] == 0xf4 && p[1] >= 0x90)
		return 0; /* past U+10FFFF */
	return 4;
}

size_t tasd_utf8_valid(const char *text, size_t len)
{
	size_t at = 0;

	while (at < len) {
		size_t n = tasd_utf8_next(text + at, len - at);

		if (n == 0)
			break;
		at += n;
	}
	return at;
}
