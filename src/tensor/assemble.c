/*
 * Dimensions at the end that all boxes fill are one with the bytes of an
 * element, so that what is left are the dimensions in which boxes differ, the
 * last of them counted in bytes.
 *
 * The boxes are laid out as a tree of cuts, a level for each dimension: between
 * two cuts no box begins or ends, so behind every path of cuts there is the
 * next dimension, and behind the last one a box.  Making it proves that they
 * tile the shape; reading it finds the box of any byte.
 */
#include <base/checked.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tensor/assemble.h>

/* Comparisons of a box with a cut that making a tree may take, and the cuts it
 * may have: so many, and more for each box. */
#define WORK_MAX      ((uint64_t)1 << 27)
#define CUTS_MAX      4096u
#define CUTS_MAX_EACH 64u
/* Runs that are handed on together. */
#define RUNS 512u

struct cut {
	uint64_t start;
	uint32_t to; /* a level's node, or a box */
};

/* One dimension between cuts of those before it. */
struct level {
	uint32_t first; /* of its cuts */
	uint32_t ncuts;
};

struct tasd_assembly {
	uint32_t ndim;     /* after folding, at least 1 */
	uint64_t *shape;   /* ndim; the last in bytes */
	uint64_t *bounds;  /* by box: ndim starts, then ndim sizes */
	struct level *levels;
	struct cut *cuts;
	uint32_t nlevels, levels_room;
	uint32_t ncuts, cuts_room;
	uint64_t size; /* bytes of the whole */
};

static const uint64_t *box_start(const struct tasd_assembly *a, uint32_t box)
{
	return a->bounds + (size_t)box * 2 * a->ndim;
}

static const uint64_t *box_size(const struct tasd_assembly *a, uint32_t box)
{
	return box_start(a, box) + a->ndim;
}

void tasd_assembly_free(struct tasd_assembly *a)
{
	if (!a)
		return;
	free(a->shape);
	free(a->bounds);
	free(a->levels);
	free(a->cuts);
	free(a);
}

/* ---- making ------------------------------------------------------------- */

struct making {
	struct tasd_assembly *a;
	struct tasd_diag *diag;
	uint64_t work;
	uint64_t cuts_max;
};

static tasd_err grow(void *array, uint32_t *room, uint32_t need, size_t width)
{
	uint32_t more = *room ? *room : 4;
	void *new;

	if (need <= *room)
		return 0;
	while (more < need) {
		if (more > UINT32_MAX / 2)
			return -E2BIG;
		more *= 2;
	}
	new = reallocarray(*(void **)array, more, width);
	if (!new)
		return -ENOMEM;
	*(void **)array = new;
	*room = more;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

struct order {
	const struct tasd_assembly *a;
	uint32_t dim;
};

static int by_start(const void *a, const void *b, void *ctx)
{
	const struct order *order = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t i = box_start(order->a, x)[order->dim];
	uint64_t j = box_start(order->a, y)[order->dim];

	if (i != j)
		return i < j ? -1 : 1;
	return x < y ? -1 : x > y;
}

static tasd_err hole(struct making *m, uint32_t dim, uint64_t from)
{
	if (m->a->ndim == 1)
		return tasd_diag_set(m->diag, -EINVAL,
			"no piece holds its bytes from %llu on",
			(unsigned long long)from);
	return tasd_diag_set(m->diag, -EINVAL,
		"there is a hole between its pieces: nothing begins at %llu "
		"of dimension %u%s",
		(unsigned long long)from, (unsigned int)dim,
		dim + 1 == m->a->ndim ? " (in bytes)" : "");
}

static bool equal(const struct tasd_assembly *a, uint32_t x, uint32_t y)
{
	return memcmp(box_start(a, x), box_start(a, y),
		       2 * a->ndim * sizeof(uint64_t)) == 0;
}

static tasd_err too_intricate(struct making *m)
{
	return tasd_diag_set(m->diag, -E2BIG,
		"its pieces do not form a mesh that could be laid out");
}

static tasd_err add_cut(struct making *m, uint64_t start, uint32_t to)
{
	struct tasd_assembly *a = m->a;
	tasd_err err;

	if (a->ncuts >= m->cuts_max)
		return too_intricate(m);
	err = grow(&a->cuts, &a->cuts_room, a->ncuts + 1, sizeof(*a->cuts));
	if (!err)
		a->cuts[a->ncuts++] = (struct cut){.start = start, .to = to};
	return err;
}

/* The last dimension: boxes one behind the other.  Sorted by start. */
static tasd_err lay_row(struct making *m, const uint32_t *boxes, uint32_t n)
{
	struct tasd_assembly *a = m->a;
	uint32_t dim = a->ndim - 1, last = 0;
	uint64_t end = 0;
	bool any = false;
	tasd_err err;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t start = box_start(a, boxes[i])[dim];

		if (any && start < end) {
			if (equal(a, boxes[i], last))
				continue;
			return tasd_diag_set(m->diag, -EINVAL,
				"its pieces %u and %u overlap",
				(unsigned int)last, (unsigned int)boxes[i]);
		}
		if (start > end)
			break;
		err = add_cut(m, start, boxes[i]);
		if (err)
			return err;
		last = boxes[i];
		any = true;
		end = start + box_size(a, boxes[i])[dim];
	}
	return end == a->shape[dim] ? 0 : hole(m, dim, end);
}

static tasd_err lay(struct making *m, uint32_t dim, uint32_t *boxes, uint32_t n,
	uint32_t *ret_level);

/* All places where one of the boxes begins or ends, sorted. */
static tasd_err find_cuts(const struct tasd_assembly *a, uint32_t dim,
	const uint32_t *boxes, uint32_t n, uint64_t **ret, uint32_t *ret_n)
{
	uint64_t *at = reallocarray(NULL, 2 * (size_t)n + 1, sizeof(*at));
	uint32_t kept = 0;

	if (!at)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		at[2 * i] = box_start(a, boxes[i])[dim];
		at[2 * i + 1] = at[2 * i] + box_size(a, boxes[i])[dim];
	}
	qsort(at, 2 * (size_t)n, sizeof(*at), by_value);
	for (size_t i = 0; i < 2 * (size_t)n; i++)
		if (!kept || at[i] != at[kept - 1])
			at[kept++] = at[i];
	*ret = at;
	*ret_n = kept;
	return 0;
}

/* Between two cuts: the boxes that reach over it, into *some. */
static tasd_err lay_between(struct making *m, uint32_t dim, uint64_t from,
	const uint32_t *boxes, uint32_t n, uint32_t *some, uint32_t *first,
	uint32_t *ret_level)
{
	const struct tasd_assembly *a = m->a;
	uint32_t found = 0;

	/* Boxes are sorted by start: what ended before is passed over for
	 * good where it stands in front of all that has not. */
	while (*first < n &&
		box_start(a, boxes[*first])[dim] +
				box_size(a, boxes[*first])[dim] <=
			from)
		++*first;
	for (uint32_t i = *first; i < n; i++) {
		uint64_t start = box_start(a, boxes[i])[dim];

		if (m->work++ > WORK_MAX)
			return too_intricate(m);
		if (start > from)
			break;
		if (start + box_size(a, boxes[i])[dim] > from)
			some[found++] = boxes[i];
	}
	if (!found)
		return hole(m, dim, from);
	return lay(m, dim + 1, some, found, ret_level);
}

static tasd_err lay_level(
	struct making *m, uint32_t dim, const uint32_t *boxes, uint32_t n,
	uint32_t level)
{
	struct tasd_assembly *a = m->a;
	uint32_t *some = reallocarray(NULL, n, sizeof(*some));
	uint64_t *at = NULL;
	uint32_t nat = 0, below = 0, first = 0;
	tasd_err err = some ? find_cuts(a, dim, boxes, n, &at, &nat) : -ENOMEM;

	if (!err && at[0] != 0)
		err = hole(m, dim, 0);
	if (!err && at[nat - 1] != a->shape[dim])
		err = hole(m, dim, at[nat - 1]);
	/* The cuts of a level stand together: room for them comes first. */
	if (!err) {
		a->levels[level].first = a->ncuts;
		a->levels[level].ncuts = nat - 1;
	}
	for (uint32_t i = 0; !err && i + 1 < nat; i++)
		err = add_cut(m, at[i], 0);
	for (uint32_t i = 0; !err && i + 1 < nat; i++) {
		err = lay_between(
			m, dim, at[i], boxes, n, some, &first, &below);
		if (!err)
			a->cuts[a->levels[level].first + i].to = below;
	}
	free(some);
	free(at);
	return err;
}

/* boxes are reordered; n is not 0.  As deep as there are dimensions. */
static tasd_err lay(struct making *m, uint32_t dim, uint32_t *boxes, uint32_t n,
	uint32_t *ret_level)
{
	struct tasd_assembly *a = m->a;
	struct order order = {.a = a, .dim = dim};
	uint32_t level = a->nlevels;
	tasd_err err = grow(
		&a->levels, &a->levels_room, level + 1, sizeof(*a->levels));

	if (err)
		return err;
	a->nlevels++;
	*ret_level = level;
	qsort_r(boxes, n, sizeof(*boxes), by_start, &order);
	if (dim + 1 < a->ndim)
		return lay_level(m, dim, boxes, n, level);
	a->levels[level].first = a->ncuts;
	err = lay_row(m, boxes, n);
	a->levels[level].ncuts = a->ncuts - a->levels[level].first;
	return err;
}

static bool is_empty(const struct tasd_box *box, uint32_t ndim)
{
	for (uint32_t d = 0; d < ndim; d++)
		if (box->size[d] == 0)
			return true;
	return false;
}

/* Dimensions that stay when those are folded that every box fills. */
static uint32_t fold(const uint64_t *shape, uint32_t ndim,
	const struct tasd_box *boxes, uint32_t nboxes)
{
	uint32_t keep = ndim;

	while (keep > 1) {
		for (uint32_t i = 0; i < nboxes; i++)
			if (!is_empty(&boxes[i], ndim) &&
				(boxes[i].start[keep - 1] != 0 ||
					boxes[i].size[keep - 1] !=
						shape[keep - 1]))
				return keep;
		keep--;
	}
	return keep;
}

/* Copy a box, its last dimension in bytes; inner elements behind it. */
static tasd_err copy_box(struct making *m, uint32_t number,
	const struct tasd_box *box, const uint64_t *shape, uint32_t ndim,
	uint64_t bits)
{
	struct tasd_assembly *a = m->a;
	uint64_t *start = a->bounds + (size_t)number * 2 * a->ndim;
	uint64_t *size = start + a->ndim;
	uint32_t last = a->ndim - 1;

	for (uint32_t d = 0; d < ndim; d++)
		if (!tasd_range_fits(box->start[d], box->size[d], shape[d]))
			return tasd_diag_set(m->diag, -EINVAL,
				"its piece %u reaches outside of it: %llu + "
				"%llu in dimension %u, which has %llu",
				(unsigned int)number,
				(unsigned long long)box->start[d],
				(unsigned long long)box->size[d],
				(unsigned int)d, (unsigned long long)shape[d]);
	if (ndim == 0) {
		start[0] = 0;
		size[0] = a->shape[0];
		return 0;
	}
	memcpy(start, box->start, a->ndim * sizeof(*start));
	memcpy(size, box->size, a->ndim * sizeof(*size));
	if (!tasd_bits_bytes(start[last], bits, &start[last]) ||
		!tasd_bits_bytes(size[last], bits, &size[last]))
		return tasd_diag_set(m->diag, -EINVAL,
			"its piece %u begins or ends within a byte",
			(unsigned int)number);
	return 0;
}

/* Sizes of the whole; *bits becomes what is behind a step of the last one. */
static tasd_err set_shape(struct tasd_assembly *a, const uint64_t *shape,
	uint32_t ndim, uint64_t *bits)
{
	uint32_t last = a->ndim - 1;

	for (uint32_t d = a->ndim; d < ndim; d++)
		if (!tasd_mul_u64(*bits, shape[d], bits))
			return -EOVERFLOW;
	for (uint32_t d = 0; d < a->ndim; d++)
		a->shape[d] = d < ndim ? shape[d] : 1;
	if (!tasd_bits_bytes(a->shape[last], *bits, &a->shape[last]))
		return -EOVERFLOW;
	a->size = 1;
	for (uint32_t d = 0; d < a->ndim; d++)
		if (!tasd_mul_u64(a->size, a->shape[d], &a->size))
			return -EOVERFLOW;
	return 0;
}

static tasd_err make(struct making *m, const uint64_t *shape, uint32_t ndim,
	uint64_t bits, const struct tasd_box *boxes, uint32_t nboxes)
{
	struct tasd_assembly *a = m->a;
	uint32_t *used, n = 0, level;
	tasd_err err;

	a->ndim = ndim ? fold(shape, ndim, boxes, nboxes) : 1;
	a->shape = reallocarray(NULL, a->ndim, sizeof(*a->shape));
	a->bounds = calloc(
		(size_t)nboxes + 1, 2 * a->ndim * sizeof(*a->bounds));
	used = reallocarray(NULL, (size_t)nboxes + 1, sizeof(*used));
	err = a->shape && a->bounds && used ? 0 : -ENOMEM;
	if (!err)
		err = set_shape(a, shape, ndim, &bits);
	for (uint32_t i = 0; i < nboxes && !err; i++) {
		if (is_empty(&boxes[i], ndim))
			continue;
		used[n++] = i;
		err = copy_box(m, i, &boxes[i], shape, ndim, bits);
	}
	if (!err && a->size > 0)
		err = n ? lay(m, 0, used, n, &level)
			: tasd_diag_set(m->diag, -EINVAL,
				  "none of its pieces is there");
	free(used);
	return err;
}

tasd_err tasd_assembly_new(const uint64_t *shape, uint32_t ndim, uint64_t bits,
	const struct tasd_box *boxes, uint32_t nboxes,
	struct tasd_assembly **ret, struct tasd_diag *diag)
{
	struct making m = {.a = calloc(1, sizeof(*m.a)),
		.diag = diag,
		.cuts_max = CUTS_MAX + (uint64_t)CUTS_MAX_EACH * nboxes};
	tasd_err err;

	if (!m.a)
		return -ENOMEM;
	err = make(&m, shape, ndim, bits, boxes, nboxes);
	if (err)
		tasd_assembly_free(m.a);
	else
		*ret = m.a;
	return err;
}

/* ---- reading ------------------------------------------------------------ */

struct run {
	uint32_t box;
	uint32_t number; /* order of making */
	struct tasd_span span;
};

struct reading {
	const struct tasd_assembly *a;
	tasd_assembly_fn fn;
	void *ctx;
	struct run *runs; /* RUNS */
	size_t nruns;
	bool mixed; /* of several boxes */
};

/* The cut that holds at. */
static const struct cut *find_cut(
	const struct tasd_assembly *a, uint32_t level, uint64_t at)
{
	const struct cut *cuts = a->cuts + a->levels[level].first;
	uint32_t low = 0, high = a->levels[level].ncuts;

	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (cuts[mid].start <= at)
			low = mid;
		else
			high = mid;
	}
	return cuts + low;
}

/* The box that byte offset of the whole is in, where in it, and how many of
 * those behind it stand there one after the other. */
static uint32_t locate(const struct tasd_assembly *a, uint64_t offset,
	uint64_t *ret_at, uint64_t *ret_len)
{
	uint64_t below = a->size, rest = offset, at = 0;
	const uint64_t *start, *size;
	uint32_t level = 0, box;

	for (uint32_t d = 0; d < a->ndim; d++) {
		below /= a->shape[d];
		level = find_cut(a, level, rest / below)->to;
		rest %= below;
	}
	box = level; /* behind the last dimension */
	start = box_start(a, box);
	size = box_size(a, box);
	below = a->size;
	rest = offset;
	*ret_len = 0;
	for (uint32_t d = 0; d < a->ndim; d++) {
		below /= a->shape[d];
		at = at * size[d] + (rest / below - start[d]);
		*ret_len = size[d] - (rest / below - start[d]);
		rest %= below;
	}
	*ret_at = at;
	return box;
}

static int by_box(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	if (x->box != y->box)
		return x->box < y->box ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static tasd_err flush(struct reading *r)
{
	struct tasd_span spans[64];
	size_t i = 0;
	tasd_err err = 0;

	if (r->mixed)
		qsort(r->runs, r->nruns, sizeof(*r->runs), by_box);
	while (i < r->nruns && !err) {
		uint32_t box = r->runs[i].box;
		size_t n = 0;

		while (i < r->nruns && r->runs[i].box == box &&
			n < sizeof(spans) / sizeof(spans[0]))
			spans[n++] = r->runs[i++].span;
		err = r->fn(r->ctx, box, spans, n);
	}
	r->nruns = 0;
	r->mixed = false;
	return err;
}

tasd_err tasd_assembly_pread(const struct tasd_assembly *a, tasd_assembly_fn fn,
	void *ctx, void *out, size_t len, uint64_t offset)
{
	struct reading r = {.a = a, .fn = fn, .ctx = ctx};
	char *to = out;
	tasd_err err = 0;

	if (len == 0)
		return 0;
	r.runs = reallocarray(NULL, RUNS, sizeof(*r.runs));
	if (!r.runs)
		return -ENOMEM;
	while (len > 0 && !err) {
		uint64_t at, n;
		struct run *run;
		uint32_t box = locate(a, offset, &at, &n);

		n = n < len ? n : len;
		if (r.nruns && r.runs[r.nruns - 1].box != box)
			r.mixed = true;
		run = &r.runs[r.nruns];
		*run = (struct run){.box = box,
			.number = (uint32_t)r.nruns,
			.span = {.offset = at, .len = (size_t)n, .out = to}};
		if (++r.nruns == RUNS)
			err = flush(&r);
		to += n;
		offset += n;
		len -= (size_t)n;
	}
	if (!err)
		err = flush(&r);
	free(r.runs);
	return err;
}
