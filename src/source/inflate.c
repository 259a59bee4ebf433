/*
 * The bytes of a raw deflate stream that lies inside another source.
 *
 * A stream can only be inflated forwards.  Two kinds of things make other
 * orders bearable: streams that are idle somewhere, and points, from which a
 * stream can be started (the 32 KiB before a block, which is all that deflate
 * may look back at).  A read takes whichever is nearest before it, inflates
 * from there, and leaves its stream idle for the next one.  No lock is held
 * while it does: what it uses has been taken out or copied.
 *
 * Readers that go forwards but not quite in order are served by points that
 * are dense near the newest; elsewhere they are spread evenly.
 *
 * Memory: IDLE streams of 72 KiB and POINTS of 32 KiB, less than half a
 * megabyte a source, and a stream for each read that is under way.  Once the
 * end was read only the points stay.  Short sources have none.
 *
 * The declared size is held to: a stream that ends before it, or goes on after
 * it, fails with -EIO when that place is read.
 */
#include <base/checked.h>
#include <pthread.h>
#include <source/source.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define IDLE    2
#define POINTS  8
#define FRESH   3 /* of the points, the newest, are left where they are */
#define CHUNK   ((size_t)32 << 10)
#define WINDOW  ((size_t)32 << 10)
#define SPACING ((uint64_t)1 << 20)
#define SHORT   ((uint64_t)8 << 20)

/* A place between two blocks from which inflating can go on. */
struct point {
	uint64_t in, out;
	unsigned int window_len;
	unsigned char bits; /* of the byte before `in` that are still to come */
	unsigned char byte; /* that byte */
	unsigned char window[WINDOW];
};

struct stream {
	z_stream z;
	uint64_t in;  /* compressed bytes loaded so far */
	uint64_t out; /* bytes inflated so far */
	bool ended;
	unsigned char last; /* the byte loaded before those in `chunk` */
	unsigned char chunk[CHUNK];
};

struct inflate {
	struct tasd_source source;  /* first: a source is freed as this */
	struct tasd_source *parent; /* owned reference */
	uint64_t offset, csize;     /* of the stream in parent */
	pthread_mutex_t lock;
	struct stream *idle[IDLE];    /* protected by lock */
	struct point *points[POINTS]; /* protected by lock; by out */
	unsigned int npoints;         /* protected by lock */
};

static void stream_free(struct stream *s)
{
	if (!s)
		return;
	inflateEnd(&s->z);
	free(s);
}

/* A stream at the point, or at the beginning when that is NULL. */
static tasd_err stream_new(const struct point *point, struct stream **ret)
{
	struct stream *s = calloc(1, sizeof(*s));
	int code;

	if (!s)
		return -ENOMEM;
	if (inflateInit2(&s->z, -MAX_WBITS) != Z_OK) {
		free(s);
		return -ENOMEM;
	}
	s->z.next_in = s->chunk;
	*ret = s;
	if (!point)
		return 0;
	s->in = point->in;
	s->out = point->out;
	code = inflateSetDictionary(&s->z, point->window, point->window_len);
	if (code == Z_OK && point->bits)
		code = inflatePrime(
			&s->z, point->bits, point->byte >> (8 - point->bits));
	if (code == Z_OK)
		return 0;
	stream_free(s);
	*ret = NULL;
	return code == Z_MEM_ERROR ? -ENOMEM : -EIO;
}

/* Under the lock: the last point at or before offset, or NULL. */
static struct point *point_before(const struct inflate *inf, uint64_t offset)
{
	struct point *found = NULL;

	for (unsigned int i = 0; i < inf->npoints; i++)
		if (inf->points[i]->out <= offset)
			found = inf->points[i];
	return found;
}

/* The stream from which offset is soonest reached; the caller's own. */
static tasd_err take_stream(
	struct inflate *inf, uint64_t offset, struct stream **ret)
{
	struct stream **nearest = NULL, *taken = NULL;
	struct point *copy = NULL;
	const struct point *point;
	tasd_err err;

	pthread_mutex_lock(&inf->lock);
	for (unsigned int i = 0; i < IDLE; i++) {
		struct stream *s = inf->idle[i];

		if (s && s->out <= offset &&
			(!nearest || s->out > (*nearest)->out))
			nearest = &inf->idle[i];
	}
	point = point_before(inf, offset);
	if (nearest && (!point || (*nearest)->out >= point->out)) {
		taken = *nearest;
		*nearest = NULL;
	} else if (point) {
		copy = malloc(sizeof(*copy));
		if (copy)
			*copy = *point;
	}
	pthread_mutex_unlock(&inf->lock);
	if (taken) {
		*ret = taken;
		return 0;
	}
	if (point && !copy)
		return -ENOMEM;
	err = stream_new(copy, ret);
	free(copy);
	return err;
}

/* Leave it for the next read, in the place of the one that is furthest
 * behind. */
static void leave_stream(struct inflate *inf, struct stream *s)
{
	struct stream *over[IDLE + 1] = {s};

	pthread_mutex_lock(&inf->lock);
	if (s->out == inf->source.size) {
		for (unsigned int i = 0; i < IDLE; i++) {
			over[i + 1] = inf->idle[i];
			inf->idle[i] = NULL;
		}
	} else {
		struct stream **slot = &inf->idle[0];

		for (unsigned int i = 1; i < IDLE; i++)
			if (*slot && (!inf->idle[i] ||
					     inf->idle[i]->out < (*slot)->out))
				slot = &inf->idle[i];
		over[0] = *slot;
		*slot = s;
	}
	pthread_mutex_unlock(&inf->lock);
	for (unsigned int i = 0; i < IDLE + 1; i++)
		stream_free(over[i]);
}

/* Under the lock: does a point at out make reading easier? */
static bool point_helps(const struct inflate *inf, uint64_t out)
{
	const struct point *before = point_before(inf, out);
	uint64_t spacing = SPACING;

	if (inf->source.size < SHORT)
		return false;
	/* Behind the newest a full list is spread over all of the source. */
	if (inf->npoints == POINTS && out < inf->points[POINTS - 1]->out &&
		inf->source.size / POINTS > spacing)
		spacing = inf->source.size / POINTS;
	return out - (before ? before->out : 0) >= spacing;
}

/* Under the lock: make room, by the point between the closest neighbours. */
static struct point *drop_point(struct inflate *inf)
{
	unsigned int drop = 0;
	uint64_t least = UINT64_MAX;
	struct point *dropped;

	for (unsigned int i = 0; i + FRESH < inf->npoints; i++) {
		uint64_t from = i ? inf->points[i - 1]->out : 0;
		uint64_t gap = inf->points[i + 1]->out - from;

		if (gap < least) {
			least = gap;
			drop = i;
		}
	}
	dropped = inf->points[drop];
	inf->npoints--;
	memmove(&inf->points[drop], &inf->points[drop + 1],
		(inf->npoints - drop) * sizeof(inf->points[0]));
	return dropped;
}

/* The stream is between two blocks: keep the place, if that helps.  Without
 * memory for it reading goes on all the same. */
static void keep_point(struct inflate *inf, struct stream *s)
{
	struct point *point = NULL, *dropped = NULL;
	unsigned int at;
	bool helps;

	pthread_mutex_lock(&inf->lock);
	helps = point_helps(inf, s->out);
	pthread_mutex_unlock(&inf->lock);
	if (helps)
		point = malloc(sizeof(*point));
	if (!point)
		return;
	point->in = s->in - s->z.avail_in;
	point->out = s->out;
	point->bits = (unsigned char)(s->z.data_type & 7);
	point->byte = s->z.next_in > s->chunk ? s->z.next_in[-1] : s->last;
	if (inflateGetDictionary(&s->z, point->window, &point->window_len) !=
		Z_OK) {
		free(point);
		return;
	}
	pthread_mutex_lock(&inf->lock);
	if (point_helps(inf, point->out)) {
		if (inf->npoints == POINTS)
			dropped = drop_point(inf);
		at = inf->npoints++;
		for (; at > 0 && inf->points[at - 1]->out > point->out; at--)
			inf->points[at] = inf->points[at - 1];
		inf->points[at] = point;
		point = NULL;
	}
	pthread_mutex_unlock(&inf->lock);
	free(dropped);
	free(point);
}

/* More compressed bytes, when there are none at hand. */
static tasd_err load(struct inflate *inf, struct stream *s)
{
	uint64_t left = inf->csize - s->in;
	size_t n = left < CHUNK ? (size_t)left : CHUNK;
	tasd_err err;

	if (s->z.avail_in > 0 || n == 0)
		return 0;
	if (s->z.next_in > s->chunk)
		s->last = s->z.next_in[-1];
	err = tasd_source_pread(inf->parent, s->chunk, n, inf->offset + s->in);
	if (err)
		return err;
	s->z.next_in = s->chunk;
	s->z.avail_in = (unsigned int)n;
	s->in += n;
	return 0;
}

/* Inflate len bytes into out; -EIO when the stream has fewer. */
static tasd_err advance(
	struct inflate *inf, struct stream *s, void *out, size_t len)
{
	s->z.next_out = out;
	while (len > 0) {
		unsigned int room =
			len < (1u << 30) ? (unsigned int)len : 1u << 30;
		unsigned int made;
		tasd_err err = load(inf, s);
		int code;

		if (err)
			return err;
		if (s->ended)
			return -EIO;
		s->z.avail_out = room;
		code = inflate(&s->z, Z_BLOCK);
		made = room - s->z.avail_out;
		len -= made;
		s->out += made;
		if (code == Z_MEM_ERROR)
			return -ENOMEM;
		if (code == Z_STREAM_END)
			s->ended = true;
		else if (code != Z_OK) /* Z_BUF_ERROR: it is cut off */
			return -EIO;
		else if ((s->z.data_type & 0xc0) == 0x80)
			keep_point(inf, s);
	}
	return 0;
}

/* All of the declared size was inflated: nothing more may come. */
static tasd_err end_here(struct inflate *inf, struct stream *s)
{
	unsigned char more;

	while (!s->ended) {
		tasd_err err = load(inf, s);
		int code;

		if (err)
			return err;
		s->z.next_out = &more;
		s->z.avail_out = 1;
		code = inflate(&s->z, Z_BLOCK);
		if (s->z.avail_out == 0)
			return -EIO;
		if (code == Z_MEM_ERROR)
			return -ENOMEM;
		if (code == Z_STREAM_END)
			s->ended = true;
		else if (code != Z_OK)
			return -EIO;
	}
	return 0;
}

static tasd_err read_span(
	struct inflate *inf, struct stream *s, const struct tasd_span *span)
{
	unsigned char skipped[WINDOW];
	tasd_err err = 0;

	while (!err && s->out < span->offset) {
		uint64_t n = span->offset - s->out;

		err = advance(inf, s, skipped,
			n < sizeof(skipped) ? (size_t)n : sizeof(skipped));
	}
	if (!err)
		err = advance(inf, s, span->out, span->len);
	if (!err && s->out == inf->source.size)
		err = end_here(inf, s);
	return err;
}

static tasd_err inflate_preadv(struct tasd_source *source,
	const struct tasd_span *spans, size_t nspans)
{
	struct inflate *inf = (struct inflate *)source;
	struct stream *s = NULL;
	tasd_err err = 0;

	for (size_t i = 0; i < nspans && !err; i++) {
		if (s && s->out > spans[i].offset) {
			leave_stream(inf, s);
			s = NULL;
		}
		if (!s)
			err = take_stream(inf, spans[i].offset, &s);
		if (!err)
			err = read_span(inf, s, &spans[i]);
	}
	if (err)
		stream_free(s);
	else if (s)
		leave_stream(inf, s);
	/* What was loaded before may have changed since. */
	if (!err && tasd_source_check(inf->parent))
		err = -EIO;
	return err;
}

static tasd_err inflate_pread(
	struct tasd_source *source, void *out, size_t len, uint64_t offset)
{
	const struct tasd_span span = {
		.offset = offset, .len = len, .out = out};

	return inflate_preadv(source, &span, 1);
}

static void inflate_free(struct tasd_source *source)
{
	struct inflate *inf = (struct inflate *)source;

	for (unsigned int i = 0; i < IDLE; i++)
		stream_free(inf->idle[i]);
	for (unsigned int i = 0; i < inf->npoints; i++)
		free(inf->points[i]);
	pthread_mutex_destroy(&inf->lock);
	tasd_source_put(inf->parent);
	free(inf->source.name);
	free(inf);
}

static const struct tasd_source_ops inflate_ops = {
	.pread = inflate_pread,
	.preadv = inflate_preadv,
	.free = inflate_free,
};

tasd_err tasd_source_inflate(struct tasd_source *parent, uint64_t offset,
	uint64_t csize, uint64_t usize, const char *name,
	struct tasd_source **ret)
{
	struct inflate *inf;

	if (!tasd_range_fits(offset, csize, parent->size))
		return -EINVAL;
	inf = calloc(1, sizeof(*inf));
	if (!inf)
		return -ENOMEM;
	inf->source.name = strdup(name);
	if (!inf->source.name) {
		free(inf);
		return -ENOMEM;
	}
	inf->source.ops = &inflate_ops;
	inf->source.size = usize;
	inf->source.fd = -1;
	inf->source.refs = 1;
	inf->parent = tasd_source_get(parent);
	inf->offset = offset;
	inf->csize = csize;
	pthread_mutex_init(&inf->lock, NULL);
	*ret = &inf->source;
	return 0;
}
