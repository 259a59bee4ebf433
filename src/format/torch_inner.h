/*
 * What the files that map a pickle to a state dict share.
 */
#ifndef TASD_FORMAT_TORCH_INNER_H
#define TASD_FORMAT_TORCH_INNER_H

#include "torch_known.h"
#include "torch_value.h"
#include <base/map.h>

/* Directories within directories; what lies deeper is a leaf with an error. */
#define TASD_TORCH_DEPTH_MAX 256
/* The text of one list of plain values: so much, but for small pickles less;
 * and of all of them. */
#define TASD_TORCH_TEXT_MAX  ((uint64_t)16 << 20)
#define TASD_TORCH_TEXT_MIN  ((uint64_t)1 << 20)
#define TASD_TORCH_TEXT_EACH 64u /* more for each byte of the pickle */
#define TASD_TORCH_TEXTS_MAX ((uint64_t)64 << 20)
/* Entries that wait to be added: more are too many for a state dict. */
#define TASD_TORCH_PARTS_MAX 2500000u
/* BUILDs of one object that count; the last ones do. */
#define TASD_TORCH_STATES_MAX 64u
/* Bytes that may be decoded: a few bytes of the pickle can ask for the same
 * megabytes again.  More for each byte of the pickle. */
#define TASD_TORCH_WORK      ((uint64_t)256 << 20)
#define TASD_TORCH_WORK_EACH 16u
/* Array bytes that do not stand in the file as they are. */
#define TASD_TORCH_BLOB_MAX ((size_t)32 << 20)

/* One entry of a directory that is being filled. */
struct tasd_torch_part {
	const struct tasd_pkl *value;
	const struct tasd_pkl *key; /* of a dict, or an attribute's name */
	const char *name;           /* the same where no value says it; outlives
				       the walk */
	bool is_attr;               /* key or name is the name of one */
	bool beside; /* the items: not in the tree but below attrs */
};

struct tasd_torch_storage {
	struct tasd_torch_persid persid;
	struct tasd_torch_place place;
	const char *device; /* NULL: cpu */
	const char *error;  /* why no tensor can use it */
	/* Those that use it: with the second one they all get its number. */
	struct tasd_tensor *first;
	struct tasd_node *first_node;
	uint32_t id; /* of the record, from 1 */
	uint32_t uses;
	bool listed;  /* among the ties */
	bool in_blob; /* its place is one in the blob */
	bool meta;    /* has no bytes anywhere */
};

/* A view of a storage, as the arguments of a rebuild function say it. */
struct tasd_torch_view {
	struct tasd_torch_storage *storage; /* NULL: a meta tensor */
	uint64_t *shape, *stride;           /* in the arena */
	uint64_t start;
	uint32_t ndim;
	uint8_t dtype;
	bool requires_grad;
};

/* An array whose bytes are in the blob until all of it is known. */
struct tasd_torch_fix {
	struct tasd_torch_fix *next;
	struct tasd_tensor *tensor;
};

/*
 * What becomes of one value.  A leaf has a payload; a directory's entries are
 * the parts from `parts` on, and a leaf may have some beside it.
 */
struct tasd_torch_shape {
	uint8_t kind; /* enum tasd_kind */
	uint8_t form; /* enum tasd_node_form */
	bool requires_grad;
	const char *class;
	const char *error;
	struct tasd_tensor *tensor;
	struct tasd_torch_storage *storage; /* of the tensor; NULL: none */
	const char *bytes;
	uint64_t len;
	struct tasd_node_fact *facts; /* further attributes, in the arena */
	uint32_t nfacts;
};

/* A class that many nodes have, and what they share to say so. */
struct tasd_torch_recent {
	const char *class;
	const struct tasd_node_extra *extra;
};
#define TASD_TORCH_RECENT 16u

struct tasd_torch_map {
	const struct tasd_torch *torch;
	struct tasd_container *ctr;
	struct tasd_statedict *sd;
	struct tasd_arena *arena;  /* the state dict's */
	struct tasd_arena scratch; /* goes when all is mapped */
	struct tasd_node **nodes;  /* by value id: where it stands first */
	uint32_t *costs;           /* by value id: see torch_text.c */
	unsigned char *met, *seen; /* by value id, a bit: several refer to it */
	uint8_t *tags;             /* by global: what it is known as, plus 1 */
	const char **classes;      /* by global: its name as text */
	struct tasd_torch_part *parts; /* a stack of directories' entries */
	size_t nparts, parts_room;
	struct tasd_map storages; /* of struct tasd_torch_storage */
	struct tasd_map ties;     /* of struct tasd_node, see torch_tie.c */
	uint32_t nstorages;
	uint64_t work;     /* bytes that may still be decoded */
	uint64_t text_max; /* bytes of the text of one list */
	uint64_t texts;    /* of all of them so far */
	struct tasd_buf blob;
	struct tasd_torch_fix *fixes;
	struct tasd_torch_recent recent[TASD_TORCH_RECENT];
	struct tasd_buf text; /* for whoever needs one for a moment */
};

/* torch_value.c */
enum tasd_torch_tag tasd_torch_tag(
	struct tasd_torch_map *map, const struct tasd_pkl *value);
/* "module.name"; NULL when it is no global, or out of memory. */
const char *tasd_torch_class(
	struct tasd_torch_map *map, const struct tasd_pkl *value);
/* The class that a persistent id stands for, as files of whole modules had it
 * with its source: ("module", class, ..), or in tar files (class, ..). */
const struct tasd_pkl *tasd_torch_source_class(const struct tasd_pkl *value);
tasd_err tasd_torch_add_part(
	struct tasd_torch_map *map, const struct tasd_torch_part *part);
/* Another attribute of the node: name is static, value is copied. */
tasd_err tasd_torch_fact(struct tasd_torch_map *map,
	struct tasd_torch_shape *shape, const char *name, const char *value,
	size_t len);
/* May so much be decoded?  It counts. */
static inline bool tasd_torch_work(struct tasd_torch_map *map, uint64_t bytes)
{
	if (bytes > map->work)
		return false;
	map->work -= bytes;
	return true;
}
/* A text in the arena; the error is then shape's. */
__attribute__((format(printf, 3, 4))) tasd_err tasd_torch_broken(
	struct tasd_torch_map *map, struct tasd_torch_shape *shape,
	const char *format, ...);
/* Bytes that have no place in a source get one in the blob.  -EFBIG: there are
 * too many of them. */
tasd_err tasd_torch_blob(struct tasd_torch_map *map, const char *bytes,
	uint64_t len, uint64_t *ret_offset);
/* The tensor's bytes are in the blob. */
tasd_err tasd_torch_fix(struct tasd_torch_map *map, struct tasd_tensor *tensor);
/* Where in the pickle's source bytes of its stream are; false: nowhere. */
bool tasd_torch_in_stream(const struct tasd_torch_map *map, const char *bytes,
	uint64_t len, uint64_t *ret_offset);
/* Argument n of an object, NULL when it has fewer. */
static inline const struct tasd_pkl *tasd_torch_arg(
	const struct tasd_pkl_seq *args, uint32_t n)
{
	return n < args->n ? args->at[n] : NULL;
}

/* torch_object.c: how objects are shown that are no tensors or arrays */
tasd_err tasd_torch_object(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape);
/* The attributes that a BUILD or a state argument gives, as parts. */
tasd_err tasd_torch_state(
	struct tasd_torch_map *map, const struct tasd_pkl *state, bool beside);
/* The BUILDs of value, as parts. */
tasd_err tasd_torch_states(
	struct tasd_torch_map *map, const struct tasd_pkl *value, bool beside);

/* torch_text.c */
/* A list, tuple or set, by whatever way it was made: its items and kind. */
bool tasd_torch_seq(struct tasd_torch_map *map, const struct tasd_pkl *value,
	const struct tasd_pkl_seq **ret_seq, enum tasd_kind *ret_kind);
/* bytes, however they were written: borrowed from the stream, or decoded into
 * buf.  false: no bytes. */
bool tasd_torch_bytes(struct tasd_torch_map *map, const struct tasd_pkl *value,
	struct tasd_buf *buf, const char **ret_bytes, uint64_t *ret_len);
/* Bytes that are written as a str: which? */
bool tasd_torch_encoded(struct tasd_torch_map *map,
	const struct tasd_pkl *value, const struct tasd_pkl **ret_text);
/* A complex number's parts. */
bool tasd_torch_complex(struct tasd_torch_map *map,
	const struct tasd_pkl *value, double *ret_re, double *ret_im);
/* Append a complex number as Python prints it. */
void tasd_torch_complex_text(struct tasd_buf *buf, double re, double im);
/* Can a list, tuple or set be one JSON text? */
tasd_err tasd_torch_is_plain(struct tasd_torch_map *map,
	const struct tasd_pkl *value, bool *ret_plain);
/* Append that. */
tasd_err tasd_torch_json(struct tasd_torch_map *map, struct tasd_buf *buf,
	const struct tasd_pkl *value);
/* The text or bytes of a value that is no container and no object. */
tasd_err tasd_torch_plain(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape);

/* torch_key.c */
/* A dict's key; its text is in map->text until that is used again.  position
 * is that of the item, for keys of which there is no telling. */
tasd_err tasd_torch_key(struct tasd_torch_map *map, const struct tasd_pkl *key,
	uint32_t position, struct tasd_key *ret);
/* The same for a key that is there already. */
tasd_err tasd_torch_key_again(struct tasd_torch_map *map,
	const struct tasd_pkl *key, uint32_t position, struct tasd_key *ret);

/* torch_storage.c */
/* The storage of a persistent id. */
tasd_err tasd_torch_storage_of(struct tasd_torch_map *map,
	const struct tasd_torch_persid *persid,
	struct tasd_torch_storage **ret);
/* The storage that an argument is.  *ret is NULL when shape got an error. */
tasd_err tasd_torch_storage(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_storage **ret,
	struct tasd_torch_shape *shape);

/* torch_tensor.c */
/* What a rebuild function, a tensor class or a persistent id makes. */
tasd_err tasd_torch_tensor(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape,
	bool *ret_is);
/* The arguments of _rebuild_tensor and its like. */
tasd_err tasd_torch_view_args(struct tasd_torch_map *map,
	const struct tasd_pkl_seq *args, struct tasd_torch_view *view,
	struct tasd_torch_shape *shape);
/* A device's text in the arena, NULL for the CPU. */
tasd_err tasd_torch_device(struct tasd_torch_map *map, const char *text,
	uint64_t len, const char **ret);
/* The tensor of a view. */
tasd_err tasd_torch_view_tensor(struct tasd_torch_map *map,
	const struct tasd_torch_view *view, struct tasd_torch_shape *shape);
/* A shape or strides: a tuple, list or torch.Size of what is not negative. */
tasd_err tasd_torch_sizes(struct tasd_torch_map *map,
	const struct tasd_pkl *value, const char *what, uint64_t **ret,
	uint32_t *ret_n, struct tasd_torch_shape *shape);
/* node looks at storage: it may be the same tensor as one before. */
tasd_err tasd_torch_tie(struct tasd_torch_map *map, struct tasd_node *node,
	struct tasd_torch_storage *storage);
/* node is the same tensor as first. */
tasd_err tasd_torch_same(struct tasd_torch_map *map, struct tasd_node *node,
	struct tasd_node *first);

/* torch_script.c: is the root a TorchScript module?  Then the entries of its
 * state dict. */
tasd_err tasd_torch_script(struct tasd_torch_map *map,
	const struct tasd_pkl *root, struct tasd_torch_shape *shape,
	bool *ret_is);

/* torch_nested.c: the storage of _load_from_bytes(), which plain pickles of
 * tensors have: a stream of torch's in itself.  *ret is NULL when shape got an
 * error. */
tasd_err tasd_torch_nested(struct tasd_torch_map *map,
	const struct tasd_pkl *value, struct tasd_torch_storage **ret,
	struct tasd_torch_shape *shape);

/* torch_special.c: quantised, sparse, nested tensors and wrappers */
tasd_err tasd_torch_special(struct tasd_torch_map *map, enum tasd_torch_tag tag,
	const struct tasd_pkl_seq *args, struct tasd_torch_shape *shape);

/* torch_numpy.c */
tasd_err tasd_torch_numpy(struct tasd_torch_map *map, enum tasd_torch_tag tag,
	const struct tasd_pkl *value, struct tasd_torch_shape *shape,
	bool *ret_is);

#endif
