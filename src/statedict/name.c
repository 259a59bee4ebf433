/*
 * Escaping works character by character: a byte that may not stand in a name
 * becomes three, every other character stays.  A name is only ever cut between
 * those, so a cut name holds neither half an escape nor half a UTF-8 character.
 *
 * '%' in a name is always the start of %XX, of the "%" of the empty str, of
 * the "%~" of a cut, or of the "%:" that a state dict puts behind a name.
 */
#include <base/utf8.h>
#include <statedict/name.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* "%~" and the hash. */
#define CUT_LEN (2 + 32)

static size_t next_dot(const char *key, size_t len, size_t from)
{
	while (from < len) {
		const char *found = memchr(key + from, '.', len - from);
		size_t dot;

		if (!found)
			break;
		dot = (size_t)(found - key);
		if (dot > 0 && dot + 1 < len && key[dot - 1] != '.' &&
			key[dot + 1] != '.')
			return dot;
		from = dot + 1;
	}
	return len;
}

size_t tasd_name_split_at(const char *key, size_t len, size_t from)
{
	size_t dot, components = 1;

	if (len > TASD_SPLIT_KEY_MAX)
		return len;
	dot = next_dot(key, len, from);
	if (from > 0)
		return dot;
	for (size_t at = dot; at < len; at = next_dot(key, len, at + 1))
		components++;
	return components > TASD_SPLIT_COMPONENT_MAX ? len : dot;
}

static bool must_escape(unsigned char c)
{
	return c < 0x20 || c == 0x7f || c == '%' || c == '/';
}

/* The pieces whose name is not that of their characters, or NULL. */
static const char *special_name(const char *piece, size_t len)
{
	if (len == 0)
		return "%";
	if (piece[0] != '.')
		return NULL;
	if (len == 1)
		return "%2E";
	if (len == 2 && piece[1] == '.')
		return "%2E%2E";
	if (len == 5 && memcmp(piece, ".tasd", 5) == 0)
		return "%2Etasd";
	return NULL;
}

bool tasd_name_is_plain(const char *piece, size_t len)
{
	if (len > TASD_NAME_MAX || special_name(piece, len))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (must_escape((unsigned char)piece[i]))
			return false;
	}
	return true;
}

/* Length of the UTF-8 character at text; a byte that is none stands alone. */
static size_t character(const char *text, size_t len)
{
	size_t n;

	if (!((unsigned char)text[0] & 0x80))
		return 1;
	n = tasd_utf8_next(text, len);
	return n ? n : 1;
}

/* How much of piece, in whole characters, has a name of at most max bytes. */
static size_t fits(const char *piece, size_t len, size_t max)
{
	size_t at = 0, out = 0;

	while (at < len) {
		size_t n = character(piece + at, len - at);
		size_t wide = must_escape((unsigned char)piece[at]) ? 3 : n;

		if (wide > max - out)
			break;
		at += n;
		out += wide;
	}
	return at;
}

/* The same for what is escaped already. */
static size_t fits_escaped(const char *name, size_t len, size_t max)
{
	size_t at = 0;

	while (at < len) {
		size_t n = name[at] == '%' ? 3 : character(name + at, len - at);

		if (n > len - at || n > max - at)
			break;
		at += n;
	}
	return at;
}

static void add_escaped(struct tasd_buf *buf, const char *piece, size_t len)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t from = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)piece[i];

		if (!must_escape(c))
			continue;
		tasd_buf_add(buf, piece + from, i - from);
		tasd_buf_char(buf, '%');
		tasd_buf_char(buf, digits[c >> 4]);
		tasd_buf_char(buf, digits[c & 15]);
		from = i + 1;
	}
	tasd_buf_add(buf, piece + from, len - from);
}

static void add_hash(struct tasd_buf *buf, XXH128_hash_t hash)
{
	tasd_buf_printf(buf, "%%~%016llx%016llx",
		(unsigned long long)hash.high64,
		(unsigned long long)hash.low64);
}

void tasd_name_escape(
	struct tasd_buf *buf, const char *piece, size_t len, size_t max)
{
	const char *special = special_name(piece, len);

	if (special) {
		tasd_buf_str(buf, special);
	} else if (fits(piece, len, max) == len) {
		add_escaped(buf, piece, len);
	} else {
		add_escaped(buf, piece, fits(piece, len, max - CUT_LEN));
		add_hash(buf, XXH3_128bits(piece, len));
	}
}

/* Where the part of a name begins that did not come from escaping; len when
 * there is none. */
static size_t suffix_at(const char *name, size_t len)
{
	for (size_t i = 0; i + 1 < len; i++) {
		if (name[i] == '%' &&
			(name[i + 1] == '~' || name[i + 1] == ':'))
			return i;
	}
	return len;
}

static unsigned int hex(char c)
{
	return (unsigned int)(c <= '9' ? c - '0' : c - 'A' + 10);
}

/* The hash of the piece that this escaped text stands for. */
static XXH128_hash_t hash_of_escaped(const char *name, size_t len)
{
	XXH3_state_t state;
	size_t at = 0;

	XXH3_INITSTATE(&state);
	XXH3_128bits_reset(&state);
	while (at < len) {
		const char *found = memchr(name + at, '%', len - at);
		size_t run = found ? (size_t)(found - name) - at : len - at;
		unsigned char c;

		XXH3_128bits_update(&state, name + at, run);
		at += run;
		if (len - at < 3)
			break;
		c = (unsigned char)(hex(name[at + 1]) << 4 | hex(name[at + 2]));
		XXH3_128bits_update(&state, &c, 1);
		at += 3;
	}
	return XXH3_128bits_digest(&state);
}

void tasd_name_cut(
	struct tasd_buf *buf, const char *name, size_t len, size_t max)
{
	size_t stem = suffix_at(name, len);
	size_t suffix = len - stem;
	bool cut = suffix > 0 && name[stem + 1] == '~';
	size_t room = suffix + (cut ? 0 : CUT_LEN);

	if (len <= max) {
		tasd_buf_add(buf, name, len);
		return;
	}
	room = max > room ? max - room : 0;
	tasd_buf_add(buf, name, fits_escaped(name, stem, room));
	if (!cut)
		add_hash(buf, hash_of_escaped(name, stem));
	tasd_buf_add(buf, name + stem, suffix);
}
