/*
 * Two tensors of one dtype and shape, element by element.
 */
#ifndef TASD_CLI_COMPARE_H
#define TASD_CLI_COMPARE_H

#include "progress.h"
#include <format/content.h>

enum tasd_measure {
	TASD_MEASURE_NONE,  /* no numbers: alike or not */
	TASD_MEASURE_WHOLE, /* integers: exact */
	TASD_MEASURE_REAL,  /* floats, in double; complex by modulus */
};

struct tasd_comparison {
	enum tasd_measure measure;
	uint64_t elements;
	uint64_t different; /* elements; NaN equals NaN, 0 equals -0 */
	uint64_t nan;       /* of them, those that are NaN in one only */
	bool has_largest;   /* there is a difference that is a number */
	uint64_t at;        /* element of the largest, in row-major order */
	uint64_t whole;     /* the largest difference */
	double real;
};

/*
 * Compare all of a and b, opened in the raw view.  Memory does not grow with
 * them.  An error is a's or b's: *ret_side is 0 or 1.
 */
tasd_err tasd_compare(struct tasd_content *a, struct tasd_content *b,
	struct tasd_progress *progress, struct tasd_comparison *ret,
	int *ret_side);

#endif
