/*
 * The header of one safetensors file, read from a source as a stream of
 * tensors and metadata pairs.  The file by itself and every shard of a set go
 * through here.
 *
 * What it accepts is what safetensors 0.8.0 accepts, but for these refusals:
 * the same tensor name twice, more than TASD_ST_RANK_MAX dimensions, a dtype
 * given as an object, a string over 16 MiB.
 */
#ifndef TASD_FORMAT_ST_HEADER_H
#define TASD_FORMAT_ST_HEADER_H

#include <base/arena.h>
#include <base/json.h>
#include <source/source.h>
#include <tensor/tensor.h>

#define TASD_ST_HEADER_MAX ((uint64_t)100000000)
#define TASD_ST_RANK_MAX   65536u

/* A file cannot make us read or keep more than these at a time. */
#define TASD_ST_CHUNK ((size_t)256 << 10)

struct tasd_st_sink {
	void *ctx;
	/*
	 * One tensor, in the order of the header; name, tensor and its shape
	 * are borrowed.  *ret_name is a copy of the name that lasts until
	 * tasd_st_header_read() returns.  -EEXIST: its name was there before.
	 */
	tasd_err (*tensor)(void *ctx, const char *name, uint32_t len,
		const struct tasd_tensor *tensor, const char **ret_name);
	/* One pair of __metadata__; a name may come again, the last counts. */
	tasd_err (*meta)(void *ctx, const char *name, uint32_t name_len,
		const char *value, uint32_t value_len);
	/* What reading needs for itself counts against its limit. */
	const struct tasd_arena *budget;
};

/*
 * Read and check all of it: -EINVAL with one line in diag when the file is not
 * as it must be, or what the source or the sink gives.  Tensors have been
 * given to the sink before a later one turns out wrong.
 */
tasd_err tasd_st_header_read(struct tasd_source *source, uint32_t source_index,
	const struct tasd_st_sink *sink, struct tasd_diag *diag);

/* Push all of [from, from + len) of source through json, and end it. */
tasd_err tasd_st_json_read(struct tasd_source *source, uint64_t from,
	uint64_t len, struct tasd_json *json, struct tasd_diag *diag);

/* A tensor and its shape in the arena; NULL at the limit. */
struct tasd_tensor *tasd_st_tensor_copy(
	struct tasd_arena *arena, const struct tasd_tensor *tensor);

/* What the header calls a dtype; NULL when it has no name for it. */
const char *tasd_st_dtype_name(enum tasd_dtype dtype);

/* Do a file's first bytes look like such a file, whole or cut? */
bool tasd_st_plausible(const unsigned char *head, size_t len);

/* 8192 -> "8,192". */
#define TASD_ST_NUMBER_MAX 27
const char *tasd_st_number(char out[TASD_ST_NUMBER_MAX], uint64_t value);

#endif
