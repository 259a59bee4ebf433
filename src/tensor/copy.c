/*
 * Two dimensions are done by a kernel, those around them by counting.  One of
 * the two is what lies closest together where it goes to, the other where it
 * comes from; when these differ it is a transposition, which goes in bands of
 * BAND so that what was loaded into the cache is used before it is gone.
 * Units of the usual sizes have a kernel each, in which a copy is one move.
 */
#include "copy.h"
#include <stdbool.h>
#include <string.h>

#define BAND 8

struct square {
	struct tasd_copy_dim inner, outer;
};

static inline __attribute__((always_inline)) void copy_square(
	char *to, const char *from, const struct square *sq, size_t unit)
{
	const struct tasd_copy_dim a = sq->inner, b = sq->outer;

	for (uint64_t j = 0; j < b.n; j += BAND) {
		uint64_t rows = b.n - j < BAND ? b.n - j : BAND;
		const char *src = from + j * b.from;
		char *dst = to + j * b.to;

		if (rows == BAND) {
			for (uint64_t i = 0; i < a.n; i++) {
				for (unsigned int r = 0; r < BAND; r++)
					memcpy(dst + r * b.to, src + r * b.from,
						unit);
				src += a.from;
				dst += a.to;
			}
			continue;
		}
		for (uint64_t i = 0; i < a.n; i++)
			for (uint64_t r = 0; r < rows; r++)
				memcpy(dst + i * a.to + r * b.to,
					src + i * a.from + r * b.from, unit);
	}
}

static inline __attribute__((always_inline)) void copy_rows(
	char *to, const char *from, const struct square *sq, size_t unit)
{
	const struct tasd_copy_dim a = sq->inner, b = sq->outer;

	for (uint64_t j = 0; j < b.n; j++) {
		const char *src = from + j * b.from;
		char *dst = to + j * b.to;

		for (uint64_t i = 0; i < a.n; i++)
			memcpy(dst + i * a.to, src + i * a.from, unit);
	}
}

static void copy_two(char *to, const char *from, const struct square *sq,
	size_t unit, bool transposed)
{
#define KERNEL(size)                                                           \
	case size:                                                             \
		if (transposed)                                                \
			copy_square(to, from, sq, size);                       \
		else                                                           \
			copy_rows(to, from, sq, size);                         \
		return

	switch (unit) {
		KERNEL(1);
		KERNEL(2);
		KERNEL(4);
		KERNEL(8);
		KERNEL(16);
	default:
		copy_rows(to, from, sq, unit);
	}
#undef KERNEL
}

/* Move the dimension with the smallest pitch on one side to dims[at]. */
static void pull(struct tasd_copy_dim *dims, unsigned int at, unsigned int ndim,
	bool by_from)
{
	unsigned int best = at;
	struct tasd_copy_dim dim;

	for (unsigned int i = at + 1; i < ndim; i++) {
		uint64_t pitch = by_from ? dims[i].from : dims[i].to;
		uint64_t least = by_from ? dims[best].from : dims[best].to;

		if (pitch < least)
			best = i;
	}
	dim = dims[best];
	dims[best] = dims[at];
	dims[at] = dim;
}

void tasd_copy_strided(char *to, const char *from, size_t unit,
	struct tasd_copy_dim *dims, unsigned int ndim)
{
	struct square sq = {{1, 0, 0}, {1, 0, 0}};
	uint64_t index[TASD_COPY_DIMS] = {0};
	bool transposed = false;
	unsigned int i;

	if (ndim > 0) {
		pull(dims, 0, ndim, false);
		sq.inner = dims[0];
	}
	if (ndim > 1) {
		pull(dims, 1, ndim, true);
		sq.outer = dims[1];
		transposed = sq.outer.from < sq.inner.from;
		if (!transposed) {
			/* Then the next closest where it goes to. */
			pull(dims, 1, ndim, false);
			sq.outer = dims[1];
		}
	}
	do {
		copy_two(to, from, &sq, unit, transposed);
		for (i = 2; i < ndim; i++) {
			to += dims[i].to;
			from += dims[i].from;
			if (++index[i] < dims[i].n)
				break;
			to -= dims[i].n * dims[i].to;
			from -= dims[i].n * dims[i].from;
			index[i] = 0;
		}
	} while (i < ndim);
}
