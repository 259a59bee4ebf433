/*
 * A view is first put into bytes: dimensions that lie behind one another are
 * merged, and what is contiguous on both sides becomes one run.  A range of
 * the output is then at most two pieces of runs and, between them, whole runs,
 * which fall into boxes: a range in one dimension, all of those further in.
 *
 * A box is read in the order of the storage.  A read is taken to cost as much
 * as READ_COST bytes, and from the innermost dimension outwards it is decided
 * whether reading all that lies between costs less than reading piece by
 * piece.  Pieces that are single runs go straight to where they belong.
 * Larger ones (tiles) are read into a scratch buffer, as many as fit it, and
 * their runs are copied from there.
 *
 * Byte order: units of a big-endian element are reversed in place once they
 * are gathered.  A unit that the range cuts is gathered whole on the side.
 *
 * Invariant: every dimension that is kept has two elements or more, and the
 * view's bytes fit 64 bits, so there are at most 63 of them.
 */
#include "copy.h"
#include <base/checked.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tensor/gather.h>

#define SCRATCH   ((size_t)1 << 20)
#define READ_COST 8192u
#define SPANS     512u
#define UNIT_MAX  16u

/* A view in bytes: dimensions of runs. */
struct view {
	unsigned int ndim;
	uint64_t run;   /* bytes that are contiguous on both sides */
	uint64_t start; /* of the first run, in the storage */
	uint64_t size[TASD_COPY_DIMS];
	uint64_t step[TASD_COPY_DIMS]; /* in the storage */
	uint64_t runs[TASD_COPY_DIMS]; /* in one step of that dimension */
};

struct job {
	struct view view;
	tasd_gather_fn fn;
	void *ctx;
	char *scratch; /* owned; NULL until it is needed */
	size_t nspans;
	struct tasd_span spans[SPANS];
};

struct tasd_gather tasd_gather_of(const struct tasd_tensor *tensor)
{
	const struct tasd_tensor_extra *extra = tensor->extra;

	return (struct tasd_gather){
		.shape = tensor->shape,
		.ndim = tensor->ndim,
		.item = tasd_tensor_item(tensor),
		.stride = extra ? extra->stride : NULL,
		.start = extra ? extra->start : 0,
		.swaps = extra ? extra->swaps : NULL,
		.nswaps = extra ? extra->nswaps : 0,
	};
}

static tasd_err check_swaps(const struct tasd_gather *g)
{
	uint64_t at = 0, bytes;

	for (uint32_t i = 0; i < g->nswaps; i++) {
		const struct tasd_swap *s = &g->swaps[i];

		if (s->unit < 2 || s->unit > UNIT_MAX || s->offset < at ||
			!tasd_mul_u64(s->count, s->unit, &bytes) ||
			!tasd_range_fits(s->offset, bytes, g->item))
			return -EINVAL;
		at = s->offset + bytes;
	}
	return 0;
}

tasd_err tasd_gather_need(const struct tasd_gather *g, uint64_t *ret_bytes)
{
	uint64_t elements = 1, last = g->start, far;
	bool empty = false;

	if (g->item == 0 || check_swaps(g))
		return -EINVAL;
	/* A zero does not excuse the other dimensions: with it or without,
	 * they are sizes that must be sane. */
	for (uint32_t i = g->ndim; i-- > 0;) {
		uint64_t n = g->shape[i];

		if (n == 0) {
			empty = true;
			continue;
		}
		if (!tasd_mul_u64(
			    n - 1, g->stride ? g->stride[i] : elements, &far) ||
			!tasd_add_u64(last, far, &last) ||
			!tasd_mul_u64(elements, n, &elements))
			return -EOVERFLOW;
	}
	if (!tasd_mul_u64(elements, g->item, &far) ||
		!tasd_add_u64(last, 1, &last) ||
		!tasd_mul_u64(last, g->item, &last))
		return -EOVERFLOW;
	*ret_bytes = empty ? 0 : last;
	return 0;
}

/* -EOVERFLOW only when tasd_gather_need() was not asked. */
static tasd_err make_view(const struct tasd_gather *g, struct view *view)
{
	uint64_t elements = 1, runs = 1, step;
	unsigned int n = 0;

	view->run = g->item;
	if (!tasd_mul_u64(g->start, g->item, &view->start))
		return -EOVERFLOW;
	for (uint32_t i = g->ndim; i-- > 0; elements *= g->shape[i]) {
		uint64_t size = g->shape[i];

		if (size <= 1)
			continue;
		if (!tasd_mul_u64(g->stride ? g->stride[i] : elements, g->item,
			    &step))
			return -EOVERFLOW;
		if (n == 0 && step == view->run) {
			view->run *= size;
		} else if (n > 0 &&
			   step == view->size[n - 1] * view->step[n - 1]) {
			view->size[n - 1] *= size;
		} else if (n == TASD_COPY_DIMS) {
			return -EOVERFLOW;
		} else {
			view->size[n] = size;
			view->step[n++] = step;
		}
	}
	view->ndim = n;
	for (unsigned int i = 0; i < n; i++) {
		view->runs[i] = runs;
		runs *= view->size[i];
	}
	return 0;
}

static tasd_err flush(struct job *job)
{
	size_t n = job->nspans;

	job->nspans = 0;
	return n ? job->fn(job->ctx, job->spans, n) : 0;
}

static tasd_err want(struct job *job, uint64_t offset, uint64_t len, char *out)
{
	struct tasd_span *last;

	if (job->nspans > 0) {
		last = &job->spans[job->nspans - 1];
		if (last->offset + last->len == offset &&
			(char *)last->out + last->len == out) {
			last->len += (size_t)len;
			return 0;
		}
	}
	job->spans[job->nspans++] = (struct tasd_span){
		.offset = offset, .len = (size_t)len, .out = out};
	return job->nspans == SPANS ? flush(job) : 0;
}

/* One dimension of a box: where its elements lie and where they go. */
struct axis {
	uint64_t n, step, pitch;
};

/*
 * How a box is read.  axes ascend by step.  The first `tile` of them are read
 * in one piece of `span` bytes; of the outermost of those, `group` elements.
 */
struct plan {
	unsigned int naxes, tile;
	uint64_t group, span;
	uint64_t base; /* of the box, in the storage */
	char *out;
	struct axis axes[TASD_COPY_DIMS];
};

static uint64_t mul_or_max(uint64_t a, uint64_t b)
{
	return tasd_mul_u64(a, b, &a) ? a : UINT64_MAX;
}

/* Decide what is read in one piece. */
static void choose_tile(struct plan *p, uint64_t run)
{
	uint64_t best = READ_COST + run, len = run;

	p->tile = 0;
	p->span = run;
	for (unsigned int t = 0; t < p->naxes; t++) {
		const struct axis *a = &p->axes[t];
		uint64_t apart = mul_or_max(best, a->n);
		uint64_t group = 0, cost = UINT64_MAX, span = 0;

		if (len <= SCRATCH) {
			group = a->step ? 1 + (SCRATCH - len) / a->step : a->n;
			if (group > a->n)
				group = a->n;
			span = (group - 1) * a->step + len;
			cost = mul_or_max(
				(a->n + group - 1) / group, READ_COST + span);
		}
		best = apart;
		if (group > 1 && cost <= apart) {
			best = cost;
			p->tile = t + 1;
			p->group = group;
			p->span = span;
		}
		if (a->step && len <= SCRATCH)
			len += mul_or_max(a->n - 1, a->step) < SCRATCH
				       ? (a->n - 1) * a->step
				       : SCRATCH + 1;
	}
}

/* Count on: the next combination of axes[from..to), false after the last. */
static bool next_index(const struct plan *p, unsigned int from, unsigned int to,
	uint64_t *index, uint64_t *offset, uint64_t *out)
{
	for (unsigned int i = from; i < to; i++) {
		const struct axis *a = &p->axes[i];

		*offset += a->step;
		*out += a->pitch;
		if (++index[i] < a->n)
			return true;
		*offset -= a->n * a->step;
		*out -= a->n * a->pitch;
		index[i] = 0;
	}
	return false;
}

/* Every run is read by itself, to where it belongs. */
static tasd_err read_runs(struct job *job, const struct plan *p)
{
	uint64_t index[TASD_COPY_DIMS] = {0}, offset = p->base, out = 0;
	tasd_err err;

	do {
		err = want(job, offset, job->view.run, p->out + out);
	} while (!err && next_index(p, 0, p->naxes, index, &offset, &out));
	return err;
}

/*
 * How many tiles fit the scratch buffer: all of axes[tile..chunked), and of
 * axes[chunked] (when there is one) `chunk` at a time.  A tile that is a part
 * of its outermost axis is alone: then that is the axis that is chunked.
 */
struct batch {
	unsigned int chunked;
	uint64_t chunk;
	size_t pitch; /* from one tile to the next in the scratch buffer */
};

static struct batch choose_batch(const struct plan *p)
{
	struct batch b = {.chunked = p->tile, .chunk = 1};
	uint64_t tiles = 1, fit;

	/* Tiles a power of two apart would fall on the same cache lines. */
	b.pitch = ((size_t)p->span + 63) / 64 * 64;
	if (b.pitch % 512 == 0)
		b.pitch += 64;
	if (p->group < p->axes[p->tile - 1].n) {
		b.chunked = p->tile - 1;
		b.chunk = p->group;
		return b;
	}
	fit = SCRATCH / b.pitch;
	while (b.chunked < p->naxes && tiles <= fit / p->axes[b.chunked].n) {
		tiles *= p->axes[b.chunked].n;
		b.chunked++;
	}
	if (b.chunked < p->naxes && fit / tiles > 1)
		b.chunk = fit / tiles;
	return b;
}

/* Read the tiles of one batch, n elements of the chunked axis, and copy. */
static tasd_err read_batch(struct job *job, const struct plan *p,
	const struct batch *b, uint64_t n, uint64_t offset, char *out)
{
	struct tasd_copy_dim dims[TASD_COPY_DIMS];
	uint64_t index[TASD_COPY_DIMS] = {0}, span = p->span, pitch = b->pitch;
	uint64_t unused = 0;
	struct plan lanes = *p;
	unsigned int ndims = 0;
	char *scratch = job->scratch;
	tasd_err err;

	if (b->chunked < p->naxes)
		lanes.axes[b->chunked].n = n;
	for (; ndims < p->naxes && ndims <= b->chunked; ndims++) {
		const struct axis *a = &lanes.axes[ndims];

		dims[ndims] = (struct tasd_copy_dim){
			.n = a->n, .from = a->step, .to = a->pitch};
		if (ndims >= p->tile) {
			dims[ndims].from = pitch;
			pitch *= a->n;
		}
	}
	if (b->chunked < p->tile)
		span -= (p->group - n) * p->axes[b->chunked].step;
	do {
		err = want(job, offset, span, scratch);
		scratch += b->pitch;
	} while (!err &&
		 next_index(&lanes, p->tile, ndims, index, &offset, &unused));
	if (!err)
		err = flush(job);
	if (!err)
		tasd_copy_strided(
			out, job->scratch, (size_t)job->view.run, dims, ndims);
	return err;
}

static tasd_err read_tiles(struct job *job, const struct plan *p)
{
	struct batch b = choose_batch(p);
	uint64_t index[TASD_COPY_DIMS] = {0}, offset = p->base, out = 0;
	struct axis none = {1, 0, 0};
	const struct axis *a =
		b.chunked < p->naxes ? &p->axes[b.chunked] : &none;
	tasd_err err = 0;

	if (!job->scratch)
		job->scratch = malloc(SCRATCH + 4096);
	if (!job->scratch)
		return -ENOMEM;
	do {
		for (uint64_t i = 0; i < a->n && !err; i += b.chunk)
			err = read_batch(job, p, &b,
				a->n - i < b.chunk ? a->n - i : b.chunk,
				offset + i * a->step,
				p->out + out + i * a->pitch);
	} while (!err &&
		 next_index(p, b.chunked + 1, p->naxes, index, &offset, &out));
	return err;
}

/* Runs that are a box: `count` in dimension `level`, all further in. */
static tasd_err read_box(struct job *job, unsigned int level, uint64_t count,
	uint64_t base, char *out)
{
	const struct view *v = &job->view;
	struct plan p = {.base = base, .out = out};

	for (unsigned int i = 0; i <= level && v->ndim > 0; i++) {
		struct axis a = {.n = i < level ? v->size[i] : count,
			.step = v->step[i],
			.pitch = v->runs[i] * v->run};
		unsigned int at = p.naxes;

		if (a.n == 1)
			continue;
		for (; at > 0 && p.axes[at - 1].step > a.step; at--)
			p.axes[at] = p.axes[at - 1];
		p.axes[at] = a;
		p.naxes++;
	}
	choose_tile(&p, v->run);
	return p.tile ? read_tiles(job, &p) : read_runs(job, &p);
}

/* Where run r lies. */
static uint64_t run_offset(const struct view *v, uint64_t r)
{
	uint64_t offset = v->start;

	for (unsigned int i = 0; i < v->ndim; i++)
		offset += r / v->runs[i] % v->size[i] * v->step[i];
	return offset;
}

static tasd_err read_whole_runs(
	struct job *job, uint64_t r, uint64_t count, char *out)
{
	const struct view *v = &job->view;
	tasd_err err = 0;

	while (count > 0 && !err) {
		unsigned int level = 0;
		uint64_t n = 1, left;

		while (level + 1 < v->ndim && r % v->runs[level + 1] == 0 &&
			v->runs[level + 1] <= count)
			level++;
		if (v->ndim > 0) {
			n = count / v->runs[level];
			left = v->size[level] -
			       r / v->runs[level] % v->size[level];
			n = n < left ? n : left;
		}
		err = read_box(job, level, n, run_offset(v, r), out);
		if (v->ndim > 0)
			n *= v->runs[level];
		r += n;
		count -= n;
		out += n * v->run;
	}
	return err;
}

static tasd_err read_range(
	struct job *job, char *out, uint64_t len, uint64_t offset)
{
	const struct view *v = &job->view;
	uint64_t run = offset / v->run, skip = offset % v->run;
	tasd_err err = 0;

	if (skip > 0 || len < v->run) {
		uint64_t n = v->run - skip < len ? v->run - skip : len;

		err = want(job, run_offset(v, run) + skip, n, out);
		out += n;
		len -= n;
		run++;
	}
	if (!err && len >= v->run) {
		uint64_t count = len / v->run;

		err = read_whole_runs(job, run, count, out);
		out += count * v->run;
		len -= count * v->run;
		run += count;
	}
	if (!err && len > 0)
		err = want(job, run_offset(v, run), len, out);
	return err ? err : flush(job);
}

static void reverse(char *bytes, uint64_t count, unsigned int unit)
{
	for (uint64_t i = 0; i < count; i++, bytes += unit) {
		uint64_t x8;
		uint32_t x4;
		uint16_t x2;

		switch (unit) {
		case 2:
			memcpy(&x2, bytes, 2);
			x2 = __builtin_bswap16(x2);
			memcpy(bytes, &x2, 2);
			break;
		case 4:
			memcpy(&x4, bytes, 4);
			x4 = __builtin_bswap32(x4);
			memcpy(bytes, &x4, 4);
			break;
		case 8:
			memcpy(&x8, bytes, 8);
			x8 = __builtin_bswap64(x8);
			memcpy(bytes, &x8, 8);
			break;
		default:
			for (unsigned int k = 0; k < unit / 2; k++) {
				char c = bytes[k];

				bytes[k] = bytes[unit - 1 - k];
				bytes[unit - 1 - k] = c;
			}
		}
	}
}

/* The first swap that ends behind byte `at` of an element. */
static uint32_t swap_after(const struct tasd_gather *g, uint64_t at)
{
	uint32_t low = 0, high = g->nswaps;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const struct tasd_swap *s = &g->swaps[mid];

		if (s->offset + s->count * s->unit <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The bytes from offset on of which all or none are reversed together: their
 * start and length. */
static void unit_at(const struct tasd_gather *g, uint64_t offset,
	uint64_t *ret_start, uint64_t *ret_len)
{
	uint64_t at = offset % g->item;
	uint32_t i = swap_after(g, at);

	*ret_start = offset;
	*ret_len = 1;
	if (i < g->nswaps && at >= g->swaps[i].offset) {
		*ret_start =
			offset - (at - g->swaps[i].offset) % g->swaps[i].unit;
		*ret_len = g->swaps[i].unit;
	}
}

/* Reverse the units in len bytes of the view from offset on; none is cut. */
static void swap_range(
	const struct tasd_gather *g, char *bytes, uint64_t len, uint64_t offset)
{
	const struct tasd_swap *s = g->swaps;
	uint64_t at = offset % g->item;

	if (g->nswaps == 1 && s->count * s->unit == g->item) {
		reverse(bytes, len / s->unit, s->unit);
		return;
	}
	while (len > 0) {
		uint64_t n = g->item - at < len ? g->item - at : len;

		for (uint32_t i = swap_after(g, at); i < g->nswaps; i++) {
			uint64_t from, to;

			s = &g->swaps[i];
			from = s->offset > at ? s->offset : at;
			to = s->offset + s->count * s->unit;
			to = to < at + n ? to : at + n;
			if (from >= at + n)
				break;
			reverse(bytes + (from - at), (to - from) / s->unit,
				s->unit);
		}
		bytes += n;
		len -= n;
		at = 0;
	}
}

/* Units that the range cuts at either end are gathered by themselves. */
static tasd_err read_swapped(struct job *job, const struct tasd_gather *g,
	char *out, uint64_t len, uint64_t offset)
{
	while (len > 0) {
		char unit[UNIT_MAX];
		uint64_t start, size, end, n = len;
		tasd_err err;

		unit_at(g, offset, &start, &size);
		if (start == offset && size <= len) {
			unit_at(g, offset + len - 1, &end, &size);
			if (end + size != offset + len)
				n = end - offset;
			err = read_range(job, out, n, offset);
			swap_range(g, out, err ? 0 : n, offset);
		} else {
			n = size - (offset - start);
			n = n < len ? n : len;
			err = read_range(job, unit, size, start);
			if (!err) {
				swap_range(g, unit, size, start);
				memcpy(out, unit + (offset - start), n);
			}
		}
		if (err)
			return err;
		out += n;
		len -= n;
		offset += n;
	}
	return 0;
}

tasd_err tasd_gather_pread(const struct tasd_gather *g, tasd_gather_fn fn,
	void *ctx, void *out, size_t len, uint64_t offset)
{
	struct job job;
	tasd_err err;

	if (len == 0)
		return 0;
	job.fn = fn;
	job.ctx = ctx;
	job.scratch = NULL;
	job.nspans = 0;
	err = make_view(g, &job.view);
	if (!err && g->nswaps > 0)
		err = read_swapped(&job, g, out, len, offset);
	else if (!err)
		err = read_range(&job, out, len, offset);
	free(job.scratch);
	return err;
}
