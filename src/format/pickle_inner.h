/*
 * What the files of the pickle machine share: its state while it reads.
 */
#ifndef TASD_FORMAT_PICKLE_INNER_H
#define TASD_FORMAT_PICKLE_INNER_H

#include "pickle.h"
#include <base/cursor.h>
#include <base/map.h>

/* Where a large dict or set keeps which key: see pickle_key.c. */
struct tasd_pkl_slot {
	uint32_t hash;
	uint32_t owner; /* id of the dict or set, plus 1; 0: free */
	uint32_t index; /* into its pairs or items */
};

/* A compound key that waits for the canonical ids of its parts. */
struct tasd_pkl_todo {
	const struct tasd_pkl *value;
	uint32_t next;
};

struct tasd_pkl_keys {
	struct tasd_pkl_slot *slots;
	size_t room; /* a power of two, or 0 */
	size_t used;
	uint32_t *canon; /* by value id: what equal keys share; 0: not known */
	size_t canon_room;
	struct tasd_map interned; /* of struct tasd_pkl_rep */
	struct tasd_pkl_todo *work;
	size_t work_room;
};

struct tasd_pkl_memo {
	struct tasd_pkl **dense; /* small indices */
	size_t room;
	struct tasd_map sparse; /* the others; of struct memo_entry */
	uint64_t count;
};

struct tasd_pkl_machine {
	struct tasd_cursor in;
	struct tasd_pickle *out;
	struct tasd_diag *diag;
	uint64_t op_at; /* offset of the opcode that runs */
	uint8_t op;
	bool done;          /* STOP was met */
	uint64_t frame_end; /* of the last FRAME */

	size_t limit;
	size_t heap; /* of it: in arrays outside the arena */

	struct tasd_pkl **stack;
	size_t depth;
	size_t stack_room;
	/* Stack depths at each MARK; nothing below the last can be taken. */
	size_t *marks;
	size_t nmarks;
	size_t marks_room;

	struct tasd_pkl_memo memo;
	struct tasd_pkl_keys keys;
	struct tasd_map globals; /* of values of type GLOBAL */
	size_t globals_room;

	struct tasd_pkl *slab; /* where the next value goes */
	unsigned int slab_left;
	struct tasd_pkl *bytes[256]; /* small ints, made when first met */
	struct tasd_pkl *consts[3];  /* None, False, True */
};

/* One opcode.  arg is its line's in the table. */
typedef tasd_err (*tasd_pkl_op)(struct tasd_pkl_machine *m, unsigned int arg);

/* pickle.c */
__attribute__((format(printf, 2, 3))) tasd_err tasd_pkl_fail(
	struct tasd_pkl_machine *m, const char *format, ...);
tasd_err tasd_pkl_fail_room(struct tasd_pkl_machine *m);
/* Grow *array to at least need elements of width bytes, within the limit. */
tasd_err tasd_pkl_grow(struct tasd_pkl_machine *m, void *array, size_t *room,
	size_t need, size_t width);
/* Free such an array. */
void tasd_pkl_shrink(
	struct tasd_pkl_machine *m, void *array, size_t room, size_t width);
/* Count a new entry of a hash map against the limit. */
tasd_err tasd_pkl_charge_map(struct tasd_pkl_machine *m);
/* The allocator of the graph; NULL at the limit. */
void *tasd_pkl_alloc(struct tasd_pkl_machine *m, size_t size);
tasd_err tasd_pkl_new(struct tasd_pkl_machine *m, enum tasd_pkl_type type,
	struct tasd_pkl **ret);
tasd_err tasd_pkl_push(struct tasd_pkl_machine *m, struct tasd_pkl *value);
tasd_err tasd_pkl_push_int(struct tasd_pkl_machine *m, int64_t i);
tasd_err tasd_pkl_push_const(
	struct tasd_pkl_machine *m, enum tasd_pkl_type type);
tasd_err tasd_pkl_push_text(struct tasd_pkl_machine *m, enum tasd_pkl_type type,
	const void *bytes, uint64_t len);
/* A str of Python 2. */
tasd_err tasd_pkl_push_py2(
	struct tasd_pkl_machine *m, const void *bytes, uint64_t len);
/* A number in two's complement, little-endian, of any width. */
tasd_err tasd_pkl_push_long(
	struct tasd_pkl_machine *m, const unsigned char *bytes, uint64_t len);
/* Borrow n bytes of the stream; a line without its newline. */
tasd_err tasd_pkl_take(struct tasd_pkl_machine *m, uint64_t n,
	const unsigned char **ret_bytes);
tasd_err tasd_pkl_line(
	struct tasd_pkl_machine *m, const char **ret_line, uint64_t *ret_len);
/* An unsigned little-endian integer of width bytes. */
tasd_err tasd_pkl_number(
	struct tasd_pkl_machine *m, unsigned int width, uint64_t *ret);

/* Values above the last MARK. */
static inline size_t tasd_pkl_above(const struct tasd_pkl_machine *m)
{
	return m->depth - (m->nmarks ? m->marks[m->nmarks - 1] : 0);
}

/* pickle_build.c */
tasd_err tasd_pkl_need(struct tasd_pkl_machine *m, size_t n);
/* Remove the last MARK; *ret_at: the depth it stood at. */
tasd_err tasd_pkl_mark(struct tasd_pkl_machine *m, size_t *ret_at);
tasd_err tasd_pkl_memo_put(struct tasd_pkl_machine *m, uint64_t index);
tasd_err tasd_pkl_memo_get(struct tasd_pkl_machine *m, uint64_t index);
tasd_err tasd_pkl_op_mark(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_pop(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_pop_mark(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_dup(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_empty(struct tasd_pkl_machine *m, unsigned int type);
tasd_err tasd_pkl_op_tuple(struct tasd_pkl_machine *m, unsigned int n);
tasd_err tasd_pkl_op_marked(struct tasd_pkl_machine *m, unsigned int type);
tasd_err tasd_pkl_op_append(struct tasd_pkl_machine *m, unsigned int many);
tasd_err tasd_pkl_op_setitem(struct tasd_pkl_machine *m, unsigned int many);
tasd_err tasd_pkl_op_additems(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_memoize(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_put(struct tasd_pkl_machine *m, unsigned int width);
tasd_err tasd_pkl_op_get(struct tasd_pkl_machine *m, unsigned int width);

/* pickle_object.c */
tasd_err tasd_pkl_push_global(struct tasd_pkl_machine *m, const char *module,
	uint64_t module_len, const char *name, uint64_t name_len);
tasd_err tasd_pkl_make_object(struct tasd_pkl_machine *m, enum tasd_pkl_how how,
	struct tasd_pkl *callable, struct tasd_pkl *args);
/* What is on the stack from depth at up, as a new tuple. */
tasd_err tasd_pkl_tuple_from(
	struct tasd_pkl_machine *m, size_t at, struct tasd_pkl **ret);
tasd_err tasd_pkl_more(struct tasd_pkl_machine *m, struct tasd_pkl *object,
	struct tasd_pkl_more **ret);
tasd_err tasd_pkl_op_stack_global(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_ext(struct tasd_pkl_machine *m, unsigned int width);
tasd_err tasd_pkl_op_reduce(struct tasd_pkl_machine *m, unsigned int how);
tasd_err tasd_pkl_op_newobj_ex(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_obj(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_build(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_op_persid(struct tasd_pkl_machine *m, unsigned int arg);

/* pickle_text.c: opcodes whose argument is a line of text */
tasd_err tasd_pkl_text_int(struct tasd_pkl_machine *m, unsigned int is_long);
tasd_err tasd_pkl_text_float(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_text_string(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_text_unicode(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_text_global(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_text_inst(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_text_persid(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_text_put(struct tasd_pkl_machine *m, unsigned int arg);
tasd_err tasd_pkl_text_get(struct tasd_pkl_machine *m, unsigned int arg);

/* pickle_key.c */
bool tasd_pkl_hashable(const struct tasd_pkl *value);
/* Into the map or set of owner, which is a DICT, SET, FROZENSET or OBJECT. */
tasd_err tasd_pkl_map_put(struct tasd_pkl_machine *m, struct tasd_pkl *owner,
	struct tasd_pkl_map *map, struct tasd_pkl *key, struct tasd_pkl *value);
tasd_err tasd_pkl_set_add(struct tasd_pkl_machine *m, struct tasd_pkl *owner,
	struct tasd_pkl *item);
tasd_err tasd_pkl_map_reserve(
	struct tasd_pkl_machine *m, struct tasd_pkl_map *map, uint64_t more);
tasd_err tasd_pkl_seq_reserve(
	struct tasd_pkl_machine *m, struct tasd_pkl_seq *seq, uint64_t more);
void tasd_pkl_keys_free(struct tasd_pkl_keys *keys);

#endif
