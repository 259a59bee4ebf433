/*
 * Checked arithmetic on sizes that come from a file.  Each returns true when
 * the result is exact and stored, false when it would not fit.
 */
#ifndef TASD_BASE_CHECKED_H
#define TASD_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool tasd_add_u64(uint64_t a, uint64_t b, uint64_t *ret_sum)
{
	return !__builtin_add_overflow(a, b, ret_sum);
}

static inline bool tasd_mul_u64(uint64_t a, uint64_t b, uint64_t *ret_product)
{
	return !__builtin_mul_overflow(a, b, ret_product);
}

/* Is [offset, offset + length) inside [0, size)? */
static inline bool tasd_range_fits(
	uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

#endif
