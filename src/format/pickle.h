/*
 * The pickle machine: reads a pickle of protocol 0 to 5 as data and builds an
 * inert graph of what it says.  It has no way to call anything: a class or a
 * function is a name, what would be its result is an object that records the
 * name and the arguments.
 *
 * The graph is immutable once read and belongs to one owner; any thread may
 * look at it.  Values that the stream shares are the same pointer, so it may
 * have cycles, and no walk over it may recurse.  Texts point into the stream,
 * which must outlive the graph.
 */
#ifndef TASD_FORMAT_PICKLE_H
#define TASD_FORMAT_PICKLE_H

#include <base/arena.h>
#include <base/buf.h>
#include <base/err.h>
#include <stdbool.h>
#include <stdint.h>

enum tasd_pkl_type {
	TASD_PKL_NONE,
	TASD_PKL_FALSE,
	TASD_PKL_TRUE,
	TASD_PKL_INT,       /* fits 64 bits: i */
	TASD_PKL_LONG,      /* does not: text, two's complement, little-endian,
			       no byte more than it takes */
	TASD_PKL_FLOAT,     /* f */
	TASD_PKL_STR,       /* text: UTF-8, a lone surrogate as three bytes */
	TASD_PKL_BYTES,     /* text */
	TASD_PKL_BYTEARRAY, /* text */
	TASD_PKL_TUPLE,     /* seq */
	TASD_PKL_LIST,      /* seq */
	TASD_PKL_SET,       /* seq: the first of equal items */
	TASD_PKL_FROZENSET, /* seq */
	TASD_PKL_DICT,      /* map */
	TASD_PKL_GLOBAL,    /* global: a class or function, never looked up */
	TASD_PKL_OBJECT,    /* object: what a call would have made */
	TASD_PKL_PERSID,    /* pid: names something outside the stream */
};

/* How an object was made; in its value's `how`. */
enum tasd_pkl_how {
	TASD_PKL_REDUCE = 1, /* callable(*args) */
	TASD_PKL_NEWOBJ,     /* callable.__new__(callable, *args) */
	TASD_PKL_NEWOBJ_EX,  /* the same with keyword arguments */
	TASD_PKL_INST,       /* protocol 0: an instance of a named class */
	TASD_PKL_OBJ,        /* protocol 1: the same, the class on the stack */
};

enum tasd_pkl_flag {
	/* A str of Python 2, which did not tell text from bytes: STR when it is
	 * UTF-8, else BYTES. */
	TASD_PKL_PY2 = 1 << 0,
	/* A tuple with something in it that cannot be a key. */
	TASD_PKL_UNHASHABLE = 1 << 1,
};

struct tasd_pkl;

struct tasd_pkl_seq {
	struct tasd_pkl **at;
	uint32_t n;
	uint32_t room;
};

struct tasd_pkl_pair {
	struct tasd_pkl *key;
	struct tasd_pkl *value;
};

/* Saved order; a key given again stays at its first place with its last value,
 * as Python has it (1 == True == 1.0). */
struct tasd_pkl_map {
	struct tasd_pkl_pair *at;
	uint32_t n;
	uint32_t room;
};

/* A name, once however often the stream gives it. */
struct tasd_pkl_global {
	const char *module; /* not terminated */
	const char *name;
	uint32_t module_len;
	uint32_t name_len;
	uint64_t count; /* how often the stream names it */
	uint32_t ext;   /* an extension registry code, else 0; then module is
			   empty and name says "extension N" */
	uint32_t index; /* in the graph's list */
	bool safe;      /* torch's own safe loader allows it */
};

/* What few objects have. */
struct tasd_pkl_more {
	struct tasd_pkl *kwargs;    /* a dict, or NULL */
	struct tasd_pkl_seq states; /* of each BUILD, in order */
	struct tasd_pkl_seq items;  /* appended or added */
	struct tasd_pkl_map pairs;  /* set by key */
};

struct tasd_pkl_object {
	struct tasd_pkl *callable;  /* GLOBAL, OBJECT or PERSID */
	struct tasd_pkl *args;      /* a tuple */
	struct tasd_pkl_more *more; /* NULL: nothing of it */
};

/* One value. */
struct tasd_pkl {
	uint32_t id;  /* position in order of making, < nvalues of the graph:
			 an index for side tables of whoever walks it */
	uint8_t type; /* enum tasd_pkl_type */
	uint8_t how;  /* enum tasd_pkl_how, of an OBJECT */
	uint8_t flags;
	union {
		int64_t i;
		double f;
		struct {
			const char *bytes; /* not terminated */
			uint64_t len;
		} text;
		struct tasd_pkl_seq seq;
		struct tasd_pkl_map map;
		struct tasd_pkl_global *global;
		struct tasd_pkl_object *object;
		struct tasd_pkl *pid;
	};
};

struct tasd_pickle {
	const struct tasd_pkl *root;      /* NULL when reading failed */
	struct tasd_pkl_global **globals; /* in order of first appearance */
	uint32_t nglobals;
	uint32_t nunsafe; /* of them */
	uint32_t nvalues;
	bool cut; /* reading failed where the bytes end: more of them might
		     have helped */
	struct tasd_arena arena; /* all of it */
};

/*
 * Read one pickle from the front of bytes.  limit bounds all memory, that of
 * the machine while it runs included.  *ret_used is the offset behind STOP, so
 * that pickles standing one behind the other can be read.
 *
 * -EINVAL: not a whole, well-formed pickle; diag says at which byte and opcode.
 * -E2BIG: over the limit.  On any error *ret still holds the globals that were
 * named up to there, since a real unpickler would have met them, and root is
 * NULL; it is NULL itself only with -ENOMEM.
 */
tasd_err tasd_pickle_read(const void *bytes, uint64_t size, size_t limit,
	struct tasd_pickle **ret, uint64_t *ret_used, struct tasd_diag *diag);
void tasd_pickle_free(struct tasd_pickle *pickle); /* NULL is fine */

/* What a type is called in a message: "a list", "an object", ... */
const char *tasd_pkl_type_name(const struct tasd_pkl *value);

/* Is value the global module.name? */
bool tasd_pkl_is_global(
	const struct tasd_pkl *value, const char *module, const char *name);

/* Is value a str, and that text? */
bool tasd_pkl_is_str(const struct tasd_pkl *value, const char *text);

/* The value of str key text in map; NULL when there is none. */
const struct tasd_pkl *tasd_pkl_get(
	const struct tasd_pkl_map *map, const char *text);

/* Parts of a value, the same for all types. */
enum tasd_pkl_role {
	TASD_PKL_ITEM, /* of a sequence, or appended to an object */
	TASD_PKL_KEY,  /* its VALUE comes next */
	TASD_PKL_VALUE,
	TASD_PKL_CALLABLE,
	TASD_PKL_ARGS,
	TASD_PKL_KWARGS,
	TASD_PKL_STATE,
	TASD_PKL_PID,
};

/*
 * The part number n (from 0) of value, NULL past the last; role may be NULL.
 * In order: callable, args, kwargs, states, items, keys and values.
 */
const struct tasd_pkl *tasd_pkl_part(
	const struct tasd_pkl *value, uint64_t n, enum tasd_pkl_role *ret_role);

/*
 * Every value that can be reached from value, each once, before its parts.
 * Stops when fn returns other than 0 and returns that; -ENOMEM.
 */
typedef tasd_err (*tasd_pkl_fn)(void *ctx, const struct tasd_pkl *value);
tasd_err tasd_pkl_walk(const struct tasd_pickle *pickle,
	const struct tasd_pkl *value, tasd_pkl_fn fn, void *ctx);

/* Longest decimal text of an int, Python's own limit for int(). */
#define TASD_PKL_INT_DIGITS 4300

/*
 * Append an int's decimal text (INT, LONG).  -ERANGE: more than
 * TASD_PKL_INT_DIGITS digits, which Python does not print either.
 */
tasd_err tasd_pkl_int_text(struct tasd_buf *buf, const struct tasd_pkl *value);

/*
 * Append a float as Python's repr: the shortest text that reads back as the
 * same number.
 */
void tasd_pkl_float_text(struct tasd_buf *buf, double f);

#endif
