/*
 * A slab has two parts, so that while one is filled those who are a little
 * behind still find theirs in the other.  Each fill goes on where the newest
 * one ended and takes four times as much as it, up to TASD_SLAB_MAX; one that
 * does not go on begins small again.  Requests that come in another order than
 * they were made in, as a kernel's do, are within NEAR of each other.
 *
 * States of a slab, all under the lock:
 *	free	  owner is NULL
 *	owned	  its parts hold [start, start + len) each; len may be 0
 *	filling	  `busy` is the part that is written to without the lock; its
 *		  range is set and nobody reads it.  It cannot be taken over.
 *
 * A request that another thread's fill will answer waits for it; one that no
 * slab can serve is gathered by itself.
 */
#include "slab.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SLABS 3
#define NEAR  ((uint64_t)2 << 20)
#define FEW   ((size_t)64 << 10) /* less than that is no sign of a reader */

struct part {
	char *bytes; /* owned; room bytes */
	size_t room;
	uint64_t start;
	size_t len;
};

struct slab {
	const void *owner;
	uint64_t used; /* when last: the set's clock */
	uint64_t next; /* where the reader is expected to go on */
	size_t ahead;  /* bytes of the newest fill */
	struct part parts[2];
	int busy;   /* the part being filled, or -1 */
	int newest; /* the part filled last */
};

struct tasd_slabs {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	uint64_t clock;
	struct slab slabs[SLABS];
};

tasd_err tasd_slabs_new(struct tasd_slabs **ret)
{
	struct tasd_slabs *slabs = calloc(1, sizeof(*slabs));

	if (!slabs)
		return -ENOMEM;
	pthread_mutex_init(&slabs->lock, NULL);
	pthread_cond_init(&slabs->filled, NULL);
	for (int i = 0; i < SLABS; i++)
		slabs->slabs[i].busy = -1;
	*ret = slabs;
	return 0;
}

static void empty(struct slab *slab)
{
	for (int i = 0; i < 2; i++) {
		free(slab->parts[i].bytes);
		slab->parts[i] = (struct part){.bytes = NULL};
	}
	slab->owner = NULL;
	slab->used = 0;
	slab->ahead = 0;
	slab->next = 0;
}

void tasd_slabs_free(struct tasd_slabs *slabs)
{
	if (!slabs)
		return;
	for (int i = 0; i < SLABS; i++)
		empty(&slabs->slabs[i]);
	pthread_cond_destroy(&slabs->filled);
	pthread_mutex_destroy(&slabs->lock);
	free(slabs);
}

void tasd_slabs_drop(struct tasd_slabs *slabs, const void *owner)
{
	if (!slabs)
		return;
	pthread_mutex_lock(&slabs->lock);
	for (int i = 0; i < SLABS; i++)
		if (slabs->slabs[i].owner == owner && slabs->slabs[i].busy < 0)
			empty(&slabs->slabs[i]);
	pthread_mutex_unlock(&slabs->lock);
}

/* The owner's slab, or the one unused longest; NULL: all are being filled. */
static struct slab *find(struct tasd_slabs *slabs, const void *owner)
{
	struct slab *oldest = NULL;

	for (int i = 0; i < SLABS; i++) {
		struct slab *slab = &slabs->slabs[i];

		if (slab->owner == owner)
			return slab;
		if (slab->busy < 0 && (!oldest || slab->used < oldest->used))
			oldest = slab;
	}
	if (oldest) {
		empty(oldest);
		oldest->owner = owner;
	}
	return oldest;
}

/* Bytes of the request that a part holds, from its beginning on; copied. */
static size_t copy_from(
	const struct slab *slab, void *out, size_t len, uint64_t offset)
{
	for (int i = 0; i < 2; i++) {
		const struct part *p = &slab->parts[i];
		size_t n;

		if (i == slab->busy || offset < p->start ||
			offset - p->start >= p->len)
			continue;
		n = p->len - (size_t)(offset - p->start);
		n = n < len ? n : len;
		memcpy(out, p->bytes + (offset - p->start), n);
		return n;
	}
	return 0;
}

/* Will the fill that is under way answer a request at offset? */
static bool is_coming(const struct slab *slab, uint64_t offset)
{
	const struct part *p;

	if (slab->busy < 0)
		return false;
	p = &slab->parts[slab->busy];
	return offset >= p->start && offset - p->start < p->len;
}

/* Choose what to fill, so that it holds offset; false: nothing. */
static bool plan_fill(
	struct slab *slab, uint64_t size, size_t len, uint64_t offset)
{
	uint64_t near = len < FEW ? FEW : NEAR;
	bool goes_on = offset >= slab->next && offset - slab->next <= near &&
		       slab->next > 0;
	struct part *p;
	uint64_t n;

	if (!goes_on && len < FEW) {
		slab->next = offset + len;
		slab->ahead = FEW / 4;
		return false;
	}
	slab->busy = 1 - slab->newest;
	p = &slab->parts[slab->busy];
	p->start = goes_on ? slab->next : offset;
	n = goes_on ? 4 * (uint64_t)slab->ahead : len;
	if (n < offset + len - p->start)
		n = offset + len - p->start;
	n = n < TASD_SLAB_MAX ? n : TASD_SLAB_MAX;
	p->len = (size_t)(n < size - p->start ? n : size - p->start);
	slab->ahead = p->len;
	slab->next = p->start + p->len;
	return true;
}

/* Without the lock: the part is this thread's. */
static tasd_err fill(struct part *p, tasd_slab_fn fn, void *ctx)
{
	if (p->room < p->len) {
		free(p->bytes);
		p->room = 0;
		p->bytes = malloc(p->len);
		if (!p->bytes)
			return -ENOMEM;
		p->room = p->len;
	}
	return fn(ctx, p->bytes, p->len, p->start);
}

/* Under the lock, which is let go meanwhile. */
static tasd_err run_fill(
	struct tasd_slabs *slabs, struct slab *slab, tasd_slab_fn fn, void *ctx)
{
	struct part *p = &slab->parts[slab->busy];
	tasd_err err;

	pthread_mutex_unlock(&slabs->lock);
	err = fill(p, fn, ctx);
	pthread_mutex_lock(&slabs->lock);
	if (err) {
		p->len = 0;
		slab->next = 0;
	} else {
		slab->newest = slab->busy;
	}
	slab->busy = -1;
	pthread_cond_broadcast(&slabs->filled);
	return err;
}

tasd_err tasd_slabs_pread(struct tasd_slabs *slabs, const void *owner,
	uint64_t size, tasd_slab_fn fn, void *ctx, void *out, size_t len,
	uint64_t offset)
{
	char *at = out;
	tasd_err err = 0;

	pthread_mutex_lock(&slabs->lock);
	while (len > 0 && !err) {
		struct slab *slab = find(slabs, owner);
		size_t n = slab ? copy_from(slab, at, len, offset) : 0;

		if (n > 0) {
			slab->used = ++slabs->clock;
			at += n;
			offset += n;
			len -= n;
		} else if (slab && is_coming(slab, offset)) {
			pthread_cond_wait(&slabs->filled, &slabs->lock);
		} else if (slab && slab->busy < 0 &&
			   plan_fill(slab, size, len, offset)) {
			slab->used = ++slabs->clock;
			err = run_fill(slabs, slab, fn, ctx);
		} else {
			break;
		}
	}
	pthread_mutex_unlock(&slabs->lock);
	return err || len == 0 ? err : fn(ctx, at, len, offset);
}
