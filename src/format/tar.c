/*
 * A walk from header to header.
 *
 * A header is a block of text fields; the member's bytes follow, filled up to
 * whole blocks.  Headers of the types x, g and L are about the next one: pax
 * records and a name too long for the field.
 */
#include "tar.h"
#include <base/checked.h>
#include <stdlib.h>
#include <string.h>

/* Torch writes four members, each perhaps with a pax header before it. */
#define HEADERS_MAX 64u
/* Bytes of one set of pax records or of one long name. */
#define RECORDS_MAX ((uint64_t)64 << 10)

/* A name, as far as it can be one that somebody looks for. */
struct name {
	char text[TASD_TAR_NAME_MAX];
	size_t len; /* may be more than there is room for */
};

/* What headers before it say of the next member. */
struct next {
	struct name name;
	uint64_t size;
	bool has_name, has_size;
};

struct walk {
	struct tasd_source *source;
	struct tasd_tar_member *members;
	size_t nmembers;
	uint64_t at; /* of the next header */
	struct next next;
	struct tasd_diag *diag;
};

static void set_name(struct name *name, const char *text, size_t len)
{
	name->len = len;
	memcpy(name->text, text,
		len < sizeof(name->text) ? len : sizeof(name->text));
}

/* Up to a NUL, or all of the field. */
static size_t text_len(const unsigned char *field, size_t room)
{
	return strnlen((const char *)field, room);
}

/* Octal text, or GNU's binary for what has no room in that. */
static bool get_number(const unsigned char *field, size_t room, uint64_t *ret)
{
	size_t len = text_len(field, room), at = 0;

	*ret = 0;
	if (field[0] == 0x80) {
		for (size_t i = 1; i < room; i++) {
			if (*ret >> 56)
				return false;
			*ret = *ret << 8 | field[i];
		}
		return true;
	}
	while (at < len && field[at] == ' ')
		at++;
	for (; at < len && field[at] >= '0' && field[at] <= '7'; at++) {
		if (*ret >> 61)
			return false;
		*ret = *ret << 3 | (uint64_t)(field[at] - '0');
	}
	while (at < len && field[at] == ' ')
		at++;
	return at == len;
}

bool tasd_tar_is_header(const unsigned char *block)
{
	uint64_t want = 0, sum = 0;
	int64_t is_signed = 0;

	/* A block of zeros is an end, and its sum would not be right. */
	for (size_t i = 0; i < TASD_TAR_BLOCK; i++) {
		unsigned char c = i >= 148 && i < 156 ? ' ' : block[i];

		sum += c;
		is_signed += (signed char)c;
	}
	return get_number(block + 148, 8, &want) &&
	       (want == sum || (is_signed >= 0 && want == (uint64_t)is_signed));
}

/* Types that are about the next member. */
static bool is_about(char type)
{
	return type && strchr("xgXLK", type);
}

static bool is_end(const unsigned char *block)
{
	for (size_t i = 0; i < TASD_TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* Types whose headers are followed by no bytes, whatever size they say. */
static bool is_bare(char type)
{
	return type >= '1' && type <= '6';
}

static bool is_file(const unsigned char *block, char type)
{
	size_t len = text_len(block, 100);

	/* Before there were types, a folder had a slash at its end. */
	if (type == '\0')
		return !len || block[len - 1] != '/';
	return type == '0' || type == '7';
}

/* "size=12": what it means for the next member.  false: it is not understood.
 */
static bool take_record(struct next *next, const char *text, size_t len)
{
	const char *equals = memchr(text, '=', len);
	size_t key = equals ? (size_t)(equals - text) : len;
	uint64_t size = 0;

	if (key == 4 && memcmp(text, "path", 4) == 0 && equals) {
		set_name(&next->name, equals + 1, len - key - 1);
		next->has_name = true;
		return true;
	}
	if (key == 4 && memcmp(text, "size", 4) == 0 && equals) {
		if (key + 1 == len)
			return false;
		for (size_t i = key + 1; i < len; i++) {
			if (text[i] < '0' || text[i] > '9' ||
				size > INT64_MAX / 10 - 9)
				return false;
			size = 10 * size + (uint64_t)(text[i] - '0');
		}
		next->size = size;
		next->has_size = true;
		return true;
	}
	/* A file with holes has other bytes than it shows. */
	return key < 10 || memcmp(text, "GNU.sparse", 10) != 0;
}

/* "20 path=storages\n", one behind the other. */
static bool take_records(struct next *next, const char *text, size_t len)
{
	size_t at = 0;

	while (at < len && text[at]) {
		size_t from = at, length = 0;

		for (; at < len && text[at] >= '0' && text[at] <= '9'; at++) {
			if (length > RECORDS_MAX)
				return false;
			length = 10 * length + (size_t)(text[at] - '0');
		}
		if (at == len || text[at] != ' ' || length > len - from ||
			length < at - from + 2 ||
			text[from + length - 1] != '\n' ||
			!take_record(next, text + at + 1,
				from + length - 1 - (at + 1)))
			return false;
		at = from + length;
	}
	return true;
}

/* Of several headers about one member the first counts. */
static void merge(struct next *next, const struct next *said)
{
	if (said->has_name && !next->has_name) {
		next->name = said->name;
		next->has_name = true;
	}
	if (said->has_size && !next->has_size) {
		next->size = said->size;
		next->has_size = true;
	}
}

/* What the bytes of a header about the next one say. */
static tasd_err take_about(struct walk *w, char type, uint64_t size)
{
	struct next said = {.has_name = false};
	char *text;
	bool ok = true;
	tasd_err err;

	if (size > RECORDS_MAX)
		return tasd_diag_set(w->diag, -EINVAL,
			"tar, byte %llu: %llu bytes about the next member",
			(unsigned long long)w->at, (unsigned long long)size);
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	err = tasd_source_pread(w->source, text, size, w->at + TASD_TAR_BLOCK);
	if (err) {
		free(text);
		return err;
	}
	text[size] = '\0';
	if (type == 'L') {
		set_name(&said.name, text, strlen(text));
		said.has_name = true;
	} else {
		ok = take_records(&said, text, size);
	}
	free(text);
	/* What is about all members may say nothing of use here. */
	if (!ok || (type == 'g' && (said.has_name || said.has_size)))
		return tasd_diag_set(w->diag, -EINVAL,
			"tar, byte %llu: what it says about the next member "
			"is not understood",
			(unsigned long long)w->at);
	merge(&w->next, &said);
	return 0;
}

static void note_member(
	struct walk *w, const unsigned char *block, char type, uint64_t size)
{
	bool file = is_file(block, type);
	struct name name;

	set_name(&name, (const char *)block, text_len(block, 100));
	/* A prefix makes it one that nobody looks for. */
	if (block[345])
		name.len = sizeof(name.text) + 1;
	if (w->next.has_name)
		name = w->next.name;
	if (!file && name.len && name.len <= sizeof(name.text) &&
		name.text[name.len - 1] == '/')
		name.len--;
	for (size_t i = 0; i < w->nmembers; i++) {
		struct tasd_tar_member *m = &w->members[i];

		if (strlen(m->name) != name.len ||
			memcmp(m->name, name.text, name.len) != 0)
			continue;
		m->found = true;
		m->is_file = file;
		m->offset = w->at + TASD_TAR_BLOCK;
		m->size = size;
	}
	w->next = (struct next){.has_name = false};
}

static tasd_err truncated(const struct walk *w, uint64_t need)
{
	return tasd_diag_set(w->diag, -EINVAL,
		"tar: truncated: what begins at byte %llu needs %llu bytes, "
		"%llu are left",
		(unsigned long long)w->at, (unsigned long long)need,
		(unsigned long long)(w->source->size - w->at));
}

/* A header and what follows it. */
static tasd_err take(struct walk *w, const unsigned char *block)
{
	char type = (char)block[156];
	uint64_t size = 0, need;
	tasd_err err = 0;

	if (!tasd_tar_is_header(block) || !get_number(block + 124, 12, &size))
		return tasd_diag_set(w->diag, -EINVAL,
			"tar, byte %llu: no header, or a broken one",
			(unsigned long long)w->at);
	if (type == 'S')
		return tasd_diag_set(w->diag, -EINVAL,
			"tar, byte %llu: a file with holes",
			(unsigned long long)w->at);
	if (w->next.has_size && !is_about(type))
		size = w->next.size;
	if (is_bare(type))
		size = 0;
	need = size > INT64_MAX ? UINT64_MAX
				: (size + 2 * TASD_TAR_BLOCK - 1) /
					  TASD_TAR_BLOCK * TASD_TAR_BLOCK;
	if (!tasd_range_fits(w->at, need, w->source->size))
		return truncated(w, need);
	if (!is_about(type))
		note_member(w, block, type, size);
	else if (type != 'K')
		err = take_about(w, type, size);
	w->at += need;
	return err;
}

/* The header at w->at; *ret_end when there is no other. */
static tasd_err step(struct walk *w, bool *ret_end)
{
	unsigned char block[TASD_TAR_BLOCK];
	tasd_err err;

	*ret_end = w->at == w->source->size;
	if (*ret_end)
		return 0;
	if (!tasd_range_fits(w->at, sizeof(block), w->source->size))
		return truncated(w, sizeof(block));
	err = tasd_source_pread(w->source, block, sizeof(block), w->at);
	if (err)
		return err;
	*ret_end = is_end(block);
	return *ret_end ? 0 : take(w, block);
}

tasd_err tasd_tar_find(struct tasd_source *source,
	struct tasd_tar_member *members, size_t n, struct tasd_diag *diag)
{
	struct walk w = {.source = source,
		.members = members,
		.nmembers = n,
		.diag = diag};
	bool end = false;
	tasd_err err = 0;

	for (size_t i = 0; i < n; i++)
		members[i].found = false;
	for (unsigned int i = 0; i < HEADERS_MAX && !err && !end; i++)
		err = step(&w, &end);
	if (!err && !end)
		return tasd_diag_set(diag, -EINVAL, "tar: more than %u headers",
			HEADERS_MAX - 1);
	return err;
}
