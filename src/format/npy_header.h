/*
 * The header of a .npy file (numpy's format 1.0, 2.0 and 3.0): a Python dict
 * literal, read by a parser that knows just the literals it may hold.
 */
#ifndef TASD_FORMAT_NPY_HEADER_H
#define TASD_FORMAT_NPY_HEADER_H

#include <base/arena.h>
#include <source/source.h>
#include <tensor/tensor.h>

/* numpy's own limit. */
#define TASD_NPY_NDIM_MAX 64u
/* Longer headers are refused, and so are types of more fields. */
#define TASD_NPY_HEADER_MAX ((uint64_t)4 << 20)
#define TASD_NPY_SWAPS_MAX  65536u
/* Structured types within structured types. */
#define TASD_NPY_DEPTH_MAX 16u

/* What a header says; all in the arena. */
struct tasd_npy {
	const uint64_t *shape;
	uint32_t ndim;
	bool fortran_order;
	enum tasd_dtype dtype; /* NONE: descr tells */
	const char *descr;     /* little-endian; as tensor.h has it, or NULL */
	uint64_t item;         /* bytes of an element; may be 0 */
	uint64_t nbytes;       /* of all */
	uint64_t header_len;   /* bytes before the data */
	const struct tasd_swap *swaps;
	uint32_t nswaps;
};

#define TASD_NPY_MAGIC     "\x93NUMPY"
#define TASD_NPY_MAGIC_LEN 6u

/*
 * Read the header of the file that is `size` bytes of source at offset.
 * -EINVAL: not as it must be, or its data are cut; bytes behind the data are
 * let be, as numpy does.  -ENOTSUP: an array of Python objects, which are
 * pickles.  -E2BIG: the arena is full.
 */
tasd_err tasd_npy_read(struct tasd_source *source, uint64_t offset,
	uint64_t size, struct tasd_arena *arena, struct tasd_npy *ret,
	struct tasd_diag *diag);

/*
 * Parse the text of a header alone; latin1: it is that, not UTF-8.  Everything
 * but header_len is filled in.
 */
tasd_err tasd_npy_parse(const char *text, size_t len, bool latin1,
	struct tasd_arena *arena, struct tasd_npy *ret, struct tasd_diag *diag);

/* The tensor: its data are in that source, at that offset.  NULL at the
 * arena's limit. */
struct tasd_tensor *tasd_npy_tensor(const struct tasd_npy *npy, uint32_t source,
	uint64_t offset, struct tasd_arena *arena);

#endif
