/*
 * A state dict in memory, hollow: a tree of dicts and lists whose leaves are
 * tensors and plain values.  Metadata only, never a tensor's bytes.
 *
 * A format adds the items of each dict in saved order under their whole keys;
 * tasd_statedict_seal() then splits keys at their dots, makes the groups and
 * gives every node its name.  Before seal: one thread.  After: immutable, any
 * thread, no locks.  Nodes live in the state dict's arena and go with it.
 */
#ifndef TASD_STATEDICT_STATEDICT_H
#define TASD_STATEDICT_STATEDICT_H

#include "key.h"
#include <base/arena.h>
#include <base/map.h>
#include <tensor/tensor.h>

enum tasd_kind {
	TASD_KIND_TENSOR,
	TASD_KIND_NDARRAY,
	TASD_KIND_NPSCALAR,
	TASD_KIND_STORAGE,
	TASD_KIND_INT,
	TASD_KIND_FLOAT,
	TASD_KIND_BOOL,
	TASD_KIND_COMPLEX,
	TASD_KIND_NONE,
	TASD_KIND_STR,
	TASD_KIND_BYTES,
	TASD_KIND_LIST,
	TASD_KIND_TUPLE,
	TASD_KIND_SET,
	TASD_KIND_DICT,
	TASD_KIND_GROUP,
	TASD_KIND_OBJECT,
	TASD_KIND_GLOBAL,
	TASD_KIND_PICKLE,
	TASD_KIND_COUNT,
};

/* What user.tasd.kind says. */
const char *tasd_kind_name(enum tasd_kind kind);

/* What a node's payload is; the kind alone does not tell (a list is a
 * directory, or one JSON text file when all it holds are plain values). */
enum tasd_node_form {
	TASD_FORM_DIR,
	TASD_FORM_TENSOR, /* a file of tensor bytes */
	TASD_FORM_VALUE,  /* a file of these bytes */
	TASD_FORM_LINK,   /* a container met before: a symlink to it */
};

/* One more attribute of a node, user.tasd.NAME. */
struct tasd_node_fact {
	const char *name;  /* terminated */
	const char *value; /* not terminated */
	uint32_t len;
};

/* What only some nodes have; in the arena. */
struct tasd_node_extra {
	const char *class; /* "torch.nn.parameter.Parameter"; NULL: not said */
	const struct tasd_node_fact *facts;
	uint32_t nfacts;
	/* Tensors that are the same bytes, seen in the same way, are one file
	 * of several names.  tie leads to the first of them and is NULL in
	 * that one, where nties counts them all. */
	uint32_t nties;
	const struct tasd_node *tie;
};

enum tasd_node_flag {
	TASD_NODE_BESIDE = 1 << 0, /* an attribute: see tasd_statedict_attr() */
	TASD_NODE_WAY = 1 << 1,    /* a directory on the way to one; no key */
	TASD_NODE_ITEM = 1 << 2,   /* such a one that stands for an item, whose
				      key is a component of those below */
};

struct tasd_node {
	struct tasd_node *parent; /* NULL for the root */
	const char *name;         /* path component, not terminated */
	const char *error;        /* terminated; NULL when nothing is wrong */
	const struct tasd_node_extra *extra; /* NULL: nothing of it */
	struct tasd_key key; /* within the nearest dict or list above */
	uint64_t path_hash;  /* of the names from the root: stable over
				runs, what st_ino is made of */
	uint32_t order;      /* position among the items of its dict; a
				group's is that of its first member,
				an attribute's that among all of them */
	uint32_t index;      /* position among its parent's children */
	uint16_t name_len;
	uint8_t kind; /* enum tasd_kind */
	uint8_t form; /* enum tasd_node_form */
	uint8_t requires_grad;
	uint8_t flags; /* enum tasd_node_flag */
	union {
		struct {
			struct tasd_node **children; /* saved order */
			uint32_t nchildren;
		} dir;
		const struct tasd_tensor *tensor;
		struct {
			const char *bytes;
			uint64_t len;
		} value;
		const struct tasd_node *link; /* what it leads to */
	};
};

struct tasd_statedict;

enum tasd_statedict_flag {
	TASD_STATEDICT_NOSPLIT = 1 << 0, /* keys stay in one piece */
};

/*
 * An empty state dict whose root is a dict.  limit bounds its memory in bytes;
 * what goes over it fails with -E2BIG.
 */
tasd_err tasd_statedict_new(
	unsigned int flags, size_t limit, struct tasd_statedict **ret);
void tasd_statedict_free(struct tasd_statedict *sd);

struct tasd_node *tasd_statedict_root(const struct tasd_statedict *sd);
struct tasd_arena *tasd_statedict_arena(struct tasd_statedict *sd);

/*
 * Add one item under parent (the root or a node of form DIR), after those
 * added before.  key's text is copied.  The new node has form DIR and kind
 * DICT until the caller sets kind, form and payload (in the arena).
 * -EEXIST: parent has that key already (same type and text).
 * -E2BIG: over the limit.  -EINVAL: the key is longer than 2^31 bytes.
 */
tasd_err tasd_statedict_add(struct tasd_statedict *sd, struct tasd_node *parent,
	struct tasd_key key, struct tasd_node **ret);

/*
 * Add an attribute of node, which is the root or an item: something it carries
 * beside what it holds, and which is not in the tree but below the directory
 * tasd_statedict_attrs(), at the same path.  Like an item otherwise; a
 * directory may be filled by tasd_statedict_add(), but what is in it has no
 * attributes of its own.
 */
tasd_err tasd_statedict_attr(struct tasd_statedict *sd, struct tasd_node *node,
	struct tasd_key key, struct tasd_node **ret);

/* The root of all attributes: a directory, empty when there are none. */
const struct tasd_node *tasd_statedict_attrs(const struct tasd_statedict *sd);

/*
 * The only leaf of a state dict that is one bare tensor or value: the item
 * that was added to the root under a key of type TASD_KEY_WHOLE, before any
 * other and with none after it (-EINVAL else).  NULL when it is a dict.
 */
const struct tasd_node *tasd_statedict_whole(const struct tasd_statedict *sd);

/*
 * Split, name and index everything.  No node may be added afterwards.  After
 * it every name is unique in its directory and no key is lost.  Of keys that
 * print alike the first in the order of enum tasd_key_type, str last, has the
 * plain name; the others end in "%:" and their type.
 * -E2BIG: over the limit.  -EINVAL: a node with items is no directory.  The
 * state dict can then only be freed.
 */
tasd_err tasd_statedict_seal(struct tasd_statedict *sd, struct tasd_diag *diag);

/* Child by name (as a path component); NULL when there is none. */
const struct tasd_node *tasd_statedict_child(const struct tasd_statedict *sd,
	const struct tasd_node *dir, const char *name, size_t len);

/*
 * By path ("a/b/c" in names, "" is the root), or NULL.
 */
const struct tasd_node *tasd_statedict_lookup(
	const struct tasd_statedict *sd, const char *path);

/*
 * The next node in preorder after node (root first), NULL at the end:
 *	for (n = root; n; n = tasd_node_next(n))
 */
const struct tasd_node *tasd_node_next(const struct tasd_node *node);

/* Append the node's key path as the JSON array of user.tasd.key. */
void tasd_node_key_json(struct tasd_buf *buf, const struct tasd_node *node);

/* Append the path of names from the root, "a/b"; nothing for the root. */
void tasd_node_path(struct tasd_buf *buf, const struct tasd_node *node);

/*
 * Append the full dotted key: the components of the key path as Python prints
 * them, joined by dots, unescaped.
 */
void tasd_node_dotted(struct tasd_buf *buf, const struct tasd_node *node);

struct tasd_statedict_totals {
	uint64_t tensors; /* nodes of form TENSOR */
	uint64_t bytes;   /* of them all, ties counted once */
	uint64_t nodes;   /* below the root */
};
struct tasd_statedict_totals tasd_statedict_totals(
	const struct tasd_statedict *sd);

#endif
