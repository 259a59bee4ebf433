/*
 * From the graph of a pickle to a state dict: what torch, numpy and Python's
 * own classes would have made of each object, told by its name and arguments
 * alone (DESIGN section 2.2).  Nothing is called, and a class that is not known
 * is shown by its state.
 *
 * It knows nothing of how the pickle and its storages are packed: the reader of
 * a zip, a stream or a tar says where a storage lies when it is asked.
 */
#ifndef TASD_FORMAT_TORCH_VALUE_H
#define TASD_FORMAT_TORCH_VALUE_H

#include "pickle.h"
#include <format/container.h>

/* Where the bytes of a storage are. */
struct tasd_torch_place {
	uint64_t offset; /* in the source */
	uint64_t length;
	uint32_t source;   /* index in the container's table */
	bool big_endian;   /* its elements, if they have more than a byte */
	const char *error; /* why it cannot be read; static or in the
			      container's arena; NULL: it can */
};

/*
 * A persistent id: ("storage", class, key, location, numel[, view]).  Texts
 * point into the stream.
 */
struct tasd_torch_persid {
	const char *key; /* the name of its record; not terminated */
	uint64_t key_len;
	const char *location; /* "cpu", "cuda:0", .. */
	uint64_t location_len;
	uint64_t numel;  /* elements of the whole storage */
	uint64_t nbytes; /* the same in bytes */
	uint8_t dtype;   /* enum tasd_dtype */
	bool untyped;    /* its numel counts bytes */
	bool is_view;    /* legacy streams: a part of the storage .. */
	uint64_t view_offset, view_numel; /* .. in elements */
};

/*
 * Is value a persistent id of a storage, and which?  -EINVAL with diag: one,
 * but not as torch writes it; *ret_is tells whether it is one at all.
 */
tasd_err tasd_torch_persid(const struct tasd_pkl *value, bool *ret_is,
	struct tasd_torch_persid *ret, struct tasd_diag *diag);

/* Say where a storage is.  Errors other than place->error end the reading. */
typedef tasd_err (*tasd_torch_find)(void *ctx,
	const struct tasd_torch_persid *persid, struct tasd_torch_place *ret);

/* What a file lists outside its pickle, as the tar files of torch 0.1 do. */
struct tasd_torch_listed {
	struct tasd_torch_persid storage;
	bool whole; /* the storage itself, not a tensor on it */
	const uint64_t *shape,
		*stride; /* ndim of each; outlive the state dict */
	uint64_t start;
	uint32_t ndim;
};

/* The one that a persistent id means; *ret_is tells whether there is one. */
typedef tasd_err (*tasd_torch_list)(void *ctx, const struct tasd_pkl *pid,
	bool *ret_is, struct tasd_torch_listed *ret);

struct tasd_torch {
	struct tasd_container *ctr; /* its state dict is empty still */
	const struct tasd_pickle *pickle;
	const struct tasd_pkl *root; /* what becomes the state dict's root */
	/* The pickle's bytes, which the graph points into; and where they are
	 * in a source of the container, when they are there as they are. */
	const char *stream;
	uint64_t stream_len;
	uint64_t stream_offset;
	uint32_t stream_source;
	bool stream_in_source;
	tasd_torch_find find;
	tasd_torch_list list; /* NULL: nothing is listed */
	void *ctx;
	/* root is a TorchScript module: the state dict is that of its tensors,
	 * under the names of the modules they are in. */
	bool script;
};

/*
 * Fill the container's state dict.  What is wrong with one value is its node's
 * error and a problem of the container.  -E2BIG: too much for the state dict.
 */
tasd_err tasd_torch_map(const struct tasd_torch *torch, struct tasd_diag *diag);

#endif
