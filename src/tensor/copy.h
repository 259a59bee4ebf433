/*
 * Copying between two strided layouts in memory.
 */
#ifndef TASD_TENSOR_COPY_H
#define TASD_TENSOR_COPY_H

#include <stddef.h>
#include <stdint.h>

#define TASD_COPY_DIMS 64u

struct tasd_copy_dim {
	uint64_t n;
	uint64_t from, to; /* bytes from one to the next, on either side */
};

/*
 * Copy unit bytes for each combination of the dimensions, whatever their
 * order; no two units may overlap in to.  Reorders dims.
 */
void tasd_copy_strided(char *to, const char *from, size_t unit,
	struct tasd_copy_dim *dims, unsigned int ndim);

#endif
