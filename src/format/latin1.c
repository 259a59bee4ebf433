/*
 * A mark for every STEP bytes says where in the text they begin, so that any
 * read starts close by.  The text was valid when the source was made; when it
 * is no more, the file has changed.
 */
#include "latin1.h"
#include <base/cleanup.h>
#include <stdlib.h>
#include <string.h>

#define STEP  ((uint64_t)64 << 10)
#define PIECE ((size_t)64 << 10)

struct latin1 {
	struct tasd_source source;  /* first: a source is freed as this */
	struct tasd_source *parent; /* owned reference */
	uint64_t offset, len;       /* of the text in parent */
	uint64_t *marks;            /* owned: offsets in the text */
};

/* Decode from text until need bytes are out or the text ends; skip of them are
 * not wanted.  A character that is cut at the end of the text is left. */
struct decoder {
	char *out;
	uint64_t skip, need;
};

/* How many bytes of text were used; SIZE_MAX: not what it should be. */
static size_t decode(struct decoder *d, const unsigned char *text, size_t len)
{
	size_t at = 0;

	while (at < len && d->need) {
		unsigned char c = text[at];
		size_t n = c < 0x80 ? 1 : 2;

		if (n == 2) {
			if (c != 0xc2 && c != 0xc3)
				return SIZE_MAX;
			if (at + 1 == len)
				break;
			if ((text[at + 1] & 0xc0) != 0x80)
				return SIZE_MAX;
			c = (unsigned char)(c << 6 | (text[at + 1] & 0x3f));
		}
		at += n;
		if (d->skip) {
			d->skip--;
			continue;
		}
		*d->out++ = (char)c;
		d->need--;
	}
	return at;
}

static tasd_err latin1_pread(
	struct tasd_source *source, void *out, size_t len, uint64_t offset)
{
	const struct latin1 *l = (const struct latin1 *)source;
	cleanup_free unsigned char *piece = malloc(PIECE);
	struct decoder d = {.out = out, .skip = offset % STEP, .need = len};
	uint64_t at;

	if (!piece)
		return -ENOMEM;
	if (!len)
		return 0;
	at = l->marks[offset / STEP];
	while (d.need) {
		uint64_t left = l->len - at;
		size_t n = left < PIECE ? (size_t)left : PIECE, used;
		tasd_err err =
			tasd_source_pread(l->parent, piece, n, l->offset + at);

		if (err)
			return err;
		used = decode(&d, piece, n);
		if (used == SIZE_MAX || used == 0)
			return -EIO;
		at += used;
	}
	return 0;
}

static void latin1_free(struct tasd_source *source)
{
	struct latin1 *l = (struct latin1 *)source;

	tasd_source_put(l->parent);
	free(l->marks);
	free(source->name);
	free(l);
}

static const struct tasd_source_ops latin1_ops = {
	.pread = latin1_pread,
	.free = latin1_free,
};

/* Count the characters and set the marks. */
static bool scan(struct latin1 *l, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	for (uint64_t at = 0; at < l->len; l->source.size++) {
		if (l->source.size % STEP == 0)
			l->marks[l->source.size / STEP] = at;
		if (p[at] < 0x80) {
			at++;
			continue;
		}
		if ((p[at] != 0xc2 && p[at] != 0xc3) || l->len - at < 2 ||
			(p[at + 1] & 0xc0) != 0x80)
			return false;
		at += 2;
	}
	return true;
}

tasd_err tasd_source_latin1(struct tasd_source *parent, uint64_t offset,
	const char *text, uint64_t len, struct tasd_source **ret)
{
	struct latin1 *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->parent = tasd_source_get(parent);
	l->offset = offset;
	l->len = len;
	l->source.ops = &latin1_ops;
	l->source.fd = -1;
	l->source.refs = 1;
	l->source.name = strdup(parent->name);
	/* No more bytes come out than go in. */
	l->marks = calloc(len / STEP + 1, sizeof(*l->marks));
	if (!l->source.name || !l->marks) {
		latin1_free(&l->source);
		return -ENOMEM;
	}
	if (!scan(l, text)) {
		latin1_free(&l->source);
		return -EINVAL;
	}
	*ret = &l->source;
	return 0;
}
