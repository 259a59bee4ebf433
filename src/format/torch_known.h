/*
 * Globals that checkpoints name and whose meaning is known here, and torch's
 * names of element types.  Tables only.
 */
#ifndef TASD_FORMAT_TORCH_KNOWN_H
#define TASD_FORMAT_TORCH_KNOWN_H

#include "pickle.h"
#include <tensor/dtype.h>

enum tasd_torch_tag {
	TASD_TORCH_UNKNOWN,
	/* Functions that rebuild a tensor. */
	TASD_TORCH_TENSOR,       /* storage, offset, size, stride, .. */
	TASD_TORCH_TENSOR_V2,    /* .. requires_grad, hooks[, metadata] */
	TASD_TORCH_TENSOR_V3,    /* .. requires_grad, hooks, dtype[, ..] */
	TASD_TORCH_TENSOR_CLASS, /* torch.FloatTensor: a state of such args */
	TASD_TORCH_PARAMETER,    /* tensor, requires_grad, .. */
	TASD_TORCH_PARAMETER_STATE,
	TASD_TORCH_VARIABLE, /* tensor; a state of flags: before 0.4 */
	TASD_TORCH_FROM_TYPE, /* function, class, args, state */
	TASD_TORCH_COPIED, /* tensor or array, dtype, device, requires_grad */
	TASD_TORCH_QTENSOR,
	TASD_TORCH_SPARSE,
	TASD_TORCH_NESTED,
	TASD_TORCH_JAGGED,
	TASD_TORCH_META,
	TASD_TORCH_WRAPPER,
	/* Others of torch. */
	TASD_TORCH_LOAD_BYTES, /* a storage: a stream in bytes */
	TASD_TORCH_SIZE,
	TASD_TORCH_DEVICE,
	TASD_TORCH_LAYOUT,
	/* Python's own. */
	TASD_TORCH_DICT_TYPE, /* of which dict is the base */
	TASD_TORCH_LIST_TYPE,
	TASD_TORCH_TUPLE_TYPE,
	TASD_TORCH_SET_TYPE,
	TASD_TORCH_BYTES_TYPE,
	TASD_TORCH_COMPLEX_TYPE,
	TASD_TORCH_ENCODE,        /* text, encoding */
	TASD_TORCH_RECONSTRUCTOR, /* class, base, state of the base */
	TASD_TORCH_NEWOBJ,        /* class, *args */
	TASD_TORCH_NEWOBJ_EX,     /* class, args, kwargs */
	/* numpy's. */
	TASD_TORCH_ND_RECONSTRUCT, /* then a state */
	TASD_TORCH_ND_FROMBUFFER,  /* bytes, dtype, shape, order */
	TASD_TORCH_ND_SCALAR,      /* dtype, bytes */
	TASD_TORCH_ND_DTYPE,       /* text, align, copy; then a state */
};

/* What the global is known as. */
enum tasd_torch_tag tasd_torch_known(const struct tasd_pkl_global *global);

/* "float32" of torch: NONE when there is no such dtype. */
enum tasd_dtype tasd_torch_dtype(const char *name, size_t len);

/*
 * The dtype of a storage class: "FloatStorage" -> float32, whatever module it
 * is in.  "UntypedStorage" counts bytes: *ret_untyped.
 */
enum tasd_dtype tasd_torch_storage_dtype(
	const char *name, size_t len, bool *ret_untyped);

/* Is the global a dtype, scheme or the like of torch: a value that has a name
 * there, no class? */
bool tasd_torch_is_constant(const struct tasd_pkl_global *global);

#endif
