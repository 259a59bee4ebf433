/*
 * The loop of the pickle machine, its memory, and the opcodes that push a
 * plain value.
 *
 * A pickle is a program for a stack machine.  Each opcode here only checks,
 * moves pointers and allocates; there is no opcode for which a name would be
 * looked up or anything run.  Refused is what CPython's unpickler refuses, so
 * that a stream shown here is one that Python can read; where it would depend
 * on a class, the value is kept as an object.
 *
 * Memory: values come from the arena in slabs, texts stay in the stream, and
 * the arrays that grow while the machine runs (stack, marks, memo, keys) are
 * counted against the same limit, so no stream makes more than that of it.
 */
#include "pickle_inner.h"
#include "pickle_safe.h"
#include <base/utf8.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLAB_VALUES 64

struct op {
	const char *name;
	tasd_pkl_op run;
	unsigned int arg;
};

static const struct op ops[256];

tasd_err tasd_pkl_fail(struct tasd_pkl_machine *m, const char *format, ...)
{
	char what[256], number[16];
	const char *name = ops[m->op].name;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	(void)snprintf(number, sizeof(number), "opcode 0x%02x", m->op);
	return tasd_diag_set(m->diag, -EINVAL, "pickle, byte %llu, %s: %s",
		(unsigned long long)m->op_at, name ? name : number, what);
}

tasd_err tasd_pkl_fail_room(struct tasd_pkl_machine *m)
{
	return tasd_diag_set(m->diag, -E2BIG,
		"pickle, byte %llu: needs more than the %zu bytes of memory "
		"allowed",
		(unsigned long long)m->op_at, m->limit);
}

tasd_err tasd_pkl_grow(struct tasd_pkl_machine *m, void *array, size_t *room,
	size_t need, size_t width)
{
	size_t want = *room ? 2 * *room : 64, more;
	void *grown, *old;

	if (need <= *room)
		return 0;
	if (want < need)
		want = need;
	if (want > SIZE_MAX / width)
		return tasd_pkl_fail_room(m);
	more = (want - *room) * width;
	if (more > m->limit - m->heap ||
		m->out->arena.used > m->limit - m->heap - more)
		return tasd_pkl_fail_room(m);
	memcpy(&old, array, sizeof(old));
	grown = realloc(old, want * width);
	if (!grown)
		return -ENOMEM;
	memset((char *)grown + *room * width, 0, more);
	memcpy(array, &grown, sizeof(grown));
	*room = want;
	m->heap += more;
	m->out->arena.limit = m->limit - m->heap;
	return 0;
}

void tasd_pkl_shrink(
	struct tasd_pkl_machine *m, void *array, size_t room, size_t width)
{
	void *old;

	memcpy(&old, array, sizeof(old));
	free(old);
	memset(array, 0, sizeof(old));
	m->heap -= room * width;
	m->out->arena.limit = m->limit - m->heap;
}

/* A table has two to four slots of 16 bytes for each entry. */
tasd_err tasd_pkl_charge_map(struct tasd_pkl_machine *m)
{
	const size_t more = 64;

	if (more > m->limit - m->heap ||
		m->out->arena.used > m->limit - m->heap - more)
		return tasd_pkl_fail_room(m);
	m->heap += more;
	m->out->arena.limit = m->limit - m->heap;
	return 0;
}

void *tasd_pkl_alloc(struct tasd_pkl_machine *m, size_t size)
{
	return tasd_arena_alloc(&m->out->arena, size);
}

tasd_err tasd_pkl_new(struct tasd_pkl_machine *m, enum tasd_pkl_type type,
	struct tasd_pkl **ret)
{
	struct tasd_pkl *value;

	if (!m->slab_left) {
		m->slab = tasd_pkl_alloc(m, SLAB_VALUES * sizeof(*m->slab));
		if (!m->slab)
			return tasd_pkl_fail_room(m);
		m->slab_left = SLAB_VALUES;
	}
	/* One less, so that id + 1 is a number too. */
	if (m->out->nvalues == UINT32_MAX - 1)
		return tasd_pkl_fail_room(m);
	value = m->slab++;
	m->slab_left--;
	value->id = m->out->nvalues++;
	value->type = (uint8_t)type;
	*ret = value;
	return 0;
}

tasd_err tasd_pkl_push(struct tasd_pkl_machine *m, struct tasd_pkl *value)
{
	if (m->depth == m->stack_room) {
		tasd_err err = tasd_pkl_grow(m, &m->stack, &m->stack_room,
			m->depth + 1, sizeof(struct tasd_pkl *));

		if (err)
			return err;
	}
	m->stack[m->depth++] = value;
	return 0;
}

tasd_err tasd_pkl_push_int(struct tasd_pkl_machine *m, int64_t i)
{
	struct tasd_pkl **small = i >= 0 && i < 256 ? &m->bytes[i] : NULL;
	struct tasd_pkl *value = small ? *small : NULL;

	if (!value) {
		tasd_err err = tasd_pkl_new(m, TASD_PKL_INT, &value);

		if (err)
			return err;
		value->i = i;
		if (small)
			*small = value;
	}
	return tasd_pkl_push(m, value);
}

tasd_err tasd_pkl_push_const(
	struct tasd_pkl_machine *m, enum tasd_pkl_type type)
{
	return tasd_pkl_push(m, m->consts[type]);
}

tasd_err tasd_pkl_push_text(struct tasd_pkl_machine *m, enum tasd_pkl_type type,
	const void *bytes, uint64_t len)
{
	struct tasd_pkl *value = NULL;
	tasd_err err = tasd_pkl_new(m, type, &value);

	if (err)
		return err;
	value->text.bytes = bytes;
	value->text.len = len;
	return tasd_pkl_push(m, value);
}

tasd_err tasd_pkl_push_py2(
	struct tasd_pkl_machine *m, const void *bytes, uint64_t len)
{
	bool is_text = tasd_utf8_valid(bytes, len) == len;
	tasd_err err = tasd_pkl_push_text(
		m, is_text ? TASD_PKL_STR : TASD_PKL_BYTES, bytes, len);

	if (!err)
		m->stack[m->depth - 1]->flags |= TASD_PKL_PY2;
	return err;
}

tasd_err tasd_pkl_push_long(
	struct tasd_pkl_machine *m, const unsigned char *bytes, uint64_t len)
{
	uint64_t u = 0;

	/* The top byte says nothing when it repeats the sign below it. */
	while (len > 1 && bytes[len - 1] == (bytes[len - 2] & 0x80 ? 0xff : 0))
		len--;
	if (len > 8)
		return tasd_pkl_push_text(m, TASD_PKL_LONG, bytes, len);
	if (len && bytes[len - 1] & 0x80)
		u = UINT64_MAX;
	for (uint64_t i = len; i > 0; i--)
		u = u << 8 | bytes[i - 1];
	return tasd_pkl_push_int(m, (int64_t)u);
}

tasd_err tasd_pkl_take(
	struct tasd_pkl_machine *m, uint64_t n, const unsigned char **ret_bytes)
{
	if (!tasd_cursor_take(&m->in, n, ret_bytes))
		return 0;
	m->out->cut = true;
	return tasd_pkl_fail(m, "needs %llu bytes, %llu are left",
		(unsigned long long)n,
		(unsigned long long)tasd_cursor_left(&m->in));
}

tasd_err tasd_pkl_line(
	struct tasd_pkl_machine *m, const char **ret_line, uint64_t *ret_len)
{
	uint64_t left = tasd_cursor_left(&m->in);
	const char *from = (const char *)m->in.base + m->in.at;
	const char *end = left ? memchr(from, '\n', left) : NULL;

	if (!end) {
		m->out->cut = true;
		return tasd_pkl_fail(m, "the line it needs has no end");
	}
	*ret_line = from;
	*ret_len = (uint64_t)(end - from);
	return tasd_cursor_skip(&m->in, *ret_len + 1);
}

tasd_err tasd_pkl_number(
	struct tasd_pkl_machine *m, unsigned int width, uint64_t *ret)
{
	const unsigned char *p = NULL;
	tasd_err err = tasd_pkl_take(m, width, &p);

	*ret = 0;
	for (unsigned int i = width; !err && i > 0; i--)
		*ret = *ret << 8 | p[i - 1];
	return err;
}

static tasd_err op_proto(struct tasd_pkl_machine *m, unsigned int arg)
{
	uint64_t version = 0;
	tasd_err err = tasd_pkl_number(m, 1, &version);

	(void)arg;
	if (!err && version > 5)
		return tasd_pkl_fail(m, "protocol %llu is not known",
			(unsigned long long)version);
	return err;
}

/*
 * Frames are a hint for buffering, but CPython reads a file whose frames do not
 * fall on opcodes in another way than the same bytes in memory: what it drops
 * with a buffer would be opcodes here.  So they must be as writers make them.
 */
static tasd_err op_frame(struct tasd_pkl_machine *m, unsigned int arg)
{
	uint64_t len = 0;
	tasd_err err = tasd_pkl_number(m, 8, &len);

	(void)arg;
	if (err)
		return err;
	if (len > tasd_cursor_left(&m->in)) {
		m->out->cut = true;
		return tasd_pkl_fail(m, "a frame of %llu bytes, %llu are left",
			(unsigned long long)len,
			(unsigned long long)tasd_cursor_left(&m->in));
	}
	if (m->op_at < m->frame_end)
		return tasd_pkl_fail(m, "a frame inside another");
	m->frame_end = m->in.at + len;
	return 0;
}

static tasd_err op_stop(struct tasd_pkl_machine *m, unsigned int arg)
{
	tasd_err err = tasd_pkl_need(m, 1);

	(void)arg;
	if (err)
		return err;
	if (m->in.at < m->frame_end)
		return tasd_pkl_fail(m, "before the end of its frame");
	m->out->root = m->stack[m->depth - 1];
	m->done = true;
	return 0;
}

static tasd_err op_const(struct tasd_pkl_machine *m, unsigned int type)
{
	return tasd_pkl_push_const(m, type);
}

static tasd_err op_binint(struct tasd_pkl_machine *m, unsigned int width)
{
	uint64_t u = 0;
	tasd_err err = tasd_pkl_number(m, width, &u);

	if (err)
		return err;
	/* Only the widest is signed. */
	return tasd_pkl_push_int(
		m, width == 4 ? (int64_t)(int32_t)u : (int64_t)u);
}

/* A length of width bytes and what it counts; widths that Python reads as
 * signed may not be negative. */
static tasd_err counted(struct tasd_pkl_machine *m, unsigned int width,
	bool is_signed, const unsigned char **ret_bytes, uint64_t *ret_len)
{
	tasd_err err = tasd_pkl_number(m, width, ret_len);

	if (err)
		return err;
	if (is_signed && width == 4 && *ret_len > INT32_MAX)
		return tasd_pkl_fail(m, "a negative length");
	return tasd_pkl_take(m, *ret_len, ret_bytes);
}

static tasd_err op_long(struct tasd_pkl_machine *m, unsigned int width)
{
	const unsigned char *p = NULL;
	uint64_t len = 0;
	tasd_err err = counted(m, width, true, &p, &len);

	return err ? err : tasd_pkl_push_long(m, p, len);
}

static tasd_err op_binfloat(struct tasd_pkl_machine *m, unsigned int arg)
{
	const unsigned char *p = NULL;
	struct tasd_pkl *value = NULL;
	uint64_t bits = 0;
	tasd_err err = tasd_pkl_take(m, 8, &p);

	(void)arg;
	if (!err)
		err = tasd_pkl_new(m, TASD_PKL_FLOAT, &value);
	if (err)
		return err;
	for (unsigned int i = 0; i < 8; i++)
		bits = bits << 8 | p[i];
	memcpy(&value->f, &bits, sizeof(bits));
	return tasd_pkl_push(m, value);
}

static tasd_err op_binstring(struct tasd_pkl_machine *m, unsigned int width)
{
	const unsigned char *p = NULL;
	uint64_t len = 0;
	tasd_err err = counted(m, width, true, &p, &len);

	return err ? err : tasd_pkl_push_py2(m, p, len);
}

/* Offset of the first byte that Python's surrogatepass does not take. */
static uint64_t valid_text(const char *text, uint64_t len)
{
	uint64_t at = 0;

	for (;;) {
		const unsigned char *p;

		at += tasd_utf8_valid(text + at, len - at);
		p = (const unsigned char *)text + at;
		if (len - at < 3 || p[0] != 0xed || p[1] < 0xa0 ||
			p[1] > 0xbf || (p[2] & 0xc0) != 0x80)
			return at;
		at += 3;
	}
}

static tasd_err op_binunicode(struct tasd_pkl_machine *m, unsigned int width)
{
	const unsigned char *p = NULL;
	uint64_t len = 0, valid;
	tasd_err err = counted(m, width, false, &p, &len);

	if (err)
		return err;
	valid = valid_text((const char *)p, len);
	if (valid != len)
		return tasd_pkl_fail(m,
			"a str that is not UTF-8: 0x%02x at byte %llu of it",
			p[valid], (unsigned long long)valid);
	return tasd_pkl_push_text(m, TASD_PKL_STR, p, len);
}

static tasd_err op_binbytes(struct tasd_pkl_machine *m, unsigned int width)
{
	const unsigned char *p = NULL;
	uint64_t len = 0;
	tasd_err err = counted(m, width, false, &p, &len);

	return err ? err : tasd_pkl_push_text(m, TASD_PKL_BYTES, p, len);
}

static tasd_err op_bytearray(struct tasd_pkl_machine *m, unsigned int width)
{
	const unsigned char *p = NULL;
	uint64_t len = 0;
	tasd_err err = counted(m, width, false, &p, &len);

	return err ? err : tasd_pkl_push_text(m, TASD_PKL_BYTEARRAY, p, len);
}

static tasd_err op_buffer(struct tasd_pkl_machine *m, unsigned int arg)
{
	(void)arg;
	return tasd_pkl_fail(m, "its data is not in the file");
}

/* In the order of pickletools. */
static const struct op ops[256] = {
	['I'] = {"INT", tasd_pkl_text_int, 0},
	['J'] = {"BININT", op_binint, 4},
	['K'] = {"BININT1", op_binint, 1},
	['M'] = {"BININT2", op_binint, 2},
	['L'] = {"LONG", tasd_pkl_text_int, 1},
	[0x8a] = {"LONG1", op_long, 1},
	[0x8b] = {"LONG4", op_long, 4},
	['S'] = {"STRING", tasd_pkl_text_string, 0},
	['T'] = {"BINSTRING", op_binstring, 4},
	['U'] = {"SHORT_BINSTRING", op_binstring, 1},
	['B'] = {"BINBYTES", op_binbytes, 4},
	['C'] = {"SHORT_BINBYTES", op_binbytes, 1},
	[0x8e] = {"BINBYTES8", op_binbytes, 8},
	[0x96] = {"BYTEARRAY8", op_bytearray, 8},
	[0x97] = {"NEXT_BUFFER", op_buffer, 0},
	[0x98] = {"READONLY_BUFFER", op_buffer, 0},
	['N'] = {"NONE", op_const, TASD_PKL_NONE},
	[0x88] = {"NEWTRUE", op_const, TASD_PKL_TRUE},
	[0x89] = {"NEWFALSE", op_const, TASD_PKL_FALSE},
	['V'] = {"UNICODE", tasd_pkl_text_unicode, 0},
	[0x8c] = {"SHORT_BINUNICODE", op_binunicode, 1},
	['X'] = {"BINUNICODE", op_binunicode, 4},
	[0x8d] = {"BINUNICODE8", op_binunicode, 8},
	['F'] = {"FLOAT", tasd_pkl_text_float, 0},
	['G'] = {"BINFLOAT", op_binfloat, 0},
	[']'] = {"EMPTY_LIST", tasd_pkl_op_empty, TASD_PKL_LIST},
	['a'] = {"APPEND", tasd_pkl_op_append, 0},
	['e'] = {"APPENDS", tasd_pkl_op_append, 1},
	['l'] = {"LIST", tasd_pkl_op_marked, TASD_PKL_LIST},
	[')'] = {"EMPTY_TUPLE", tasd_pkl_op_empty, TASD_PKL_TUPLE},
	['t'] = {"TUPLE", tasd_pkl_op_marked, TASD_PKL_TUPLE},
	[0x85] = {"TUPLE1", tasd_pkl_op_tuple, 1},
	[0x86] = {"TUPLE2", tasd_pkl_op_tuple, 2},
	[0x87] = {"TUPLE3", tasd_pkl_op_tuple, 3},
	['}'] = {"EMPTY_DICT", tasd_pkl_op_empty, TASD_PKL_DICT},
	['d'] = {"DICT", tasd_pkl_op_marked, TASD_PKL_DICT},
	['s'] = {"SETITEM", tasd_pkl_op_setitem, 0},
	['u'] = {"SETITEMS", tasd_pkl_op_setitem, 1},
	[0x8f] = {"EMPTY_SET", tasd_pkl_op_empty, TASD_PKL_SET},
	[0x90] = {"ADDITEMS", tasd_pkl_op_additems, 0},
	[0x91] = {"FROZENSET", tasd_pkl_op_marked, TASD_PKL_FROZENSET},
	['0'] = {"POP", tasd_pkl_op_pop, 0},
	['2'] = {"DUP", tasd_pkl_op_dup, 0},
	['('] = {"MARK", tasd_pkl_op_mark, 0},
	['1'] = {"POP_MARK", tasd_pkl_op_pop_mark, 0},
	['g'] = {"GET", tasd_pkl_text_get, 0},
	['h'] = {"BINGET", tasd_pkl_op_get, 1},
	['j'] = {"LONG_BINGET", tasd_pkl_op_get, 4},
	['p'] = {"PUT", tasd_pkl_text_put, 0},
	['q'] = {"BINPUT", tasd_pkl_op_put, 1},
	['r'] = {"LONG_BINPUT", tasd_pkl_op_put, 4},
	[0x94] = {"MEMOIZE", tasd_pkl_op_memoize, 0},
	[0x82] = {"EXT1", tasd_pkl_op_ext, 1},
	[0x83] = {"EXT2", tasd_pkl_op_ext, 2},
	[0x84] = {"EXT4", tasd_pkl_op_ext, 4},
	['c'] = {"GLOBAL", tasd_pkl_text_global, 0},
	[0x93] = {"STACK_GLOBAL", tasd_pkl_op_stack_global, 0},
	['R'] = {"REDUCE", tasd_pkl_op_reduce, TASD_PKL_REDUCE},
	['b'] = {"BUILD", tasd_pkl_op_build, 0},
	['i'] = {"INST", tasd_pkl_text_inst, 0},
	['o'] = {"OBJ", tasd_pkl_op_obj, 0},
	[0x81] = {"NEWOBJ", tasd_pkl_op_reduce, TASD_PKL_NEWOBJ},
	[0x92] = {"NEWOBJ_EX", tasd_pkl_op_newobj_ex, 0},
	[0x80] = {"PROTO", op_proto, 0},
	['.'] = {"STOP", op_stop, 0},
	[0x95] = {"FRAME", op_frame, 0},
	['P'] = {"PERSID", tasd_pkl_text_persid, 0},
	['Q'] = {"BINPERSID", tasd_pkl_op_persid, 0},
};

static tasd_err run(struct tasd_pkl_machine *m)
{
	tasd_err err = 0;

	for (int i = 0; i < 3 && !err; i++)
		err = tasd_pkl_new(m, TASD_PKL_NONE + i, &m->consts[i]);
	while (!err && !m->done) {
		m->op_at = m->in.at;
		if (tasd_cursor_u8(&m->in, &m->op)) {
			m->out->cut = true;
			return tasd_diag_set(m->diag, -EINVAL,
				"pickle: ends at byte %llu without STOP",
				(unsigned long long)m->in.size);
		}
		if (!ops[m->op].run)
			return tasd_pkl_fail(m, "no such opcode");
		err = ops[m->op].run(m, ops[m->op].arg);
		if (!err && m->op_at < m->frame_end && m->in.at > m->frame_end)
			return tasd_pkl_fail(m, "its frame ends inside it");
	}
	return err;
}

tasd_err tasd_pickle_read(const void *bytes, uint64_t size, size_t limit,
	struct tasd_pickle **ret, uint64_t *ret_used, struct tasd_diag *diag)
{
	struct tasd_pkl_machine m = {
		.in = tasd_cursor_over(bytes, size),
		.diag = diag,
		.limit = limit,
	};
	tasd_err err;

	*ret_used = 0;
	*ret = m.out = calloc(1, sizeof(*m.out));
	if (!m.out)
		return -ENOMEM;
	tasd_arena_init(&m.out->arena, limit);
	tasd_map_init(&m.memo.sparse);
	tasd_map_init(&m.keys.interned);
	tasd_map_init(&m.globals);
	err = run(&m);
	if (!err)
		*ret_used = m.in.at;
	else
		m.out->root = NULL;
	free(m.stack);
	free(m.marks);
	free(m.memo.dense);
	tasd_map_free(&m.memo.sparse);
	tasd_pkl_keys_free(&m.keys);
	tasd_map_free(&m.globals);
	return err;
}

void tasd_pickle_free(struct tasd_pickle *pickle)
{
	if (!pickle)
		return;
	free(pickle->globals);
	tasd_arena_free(&pickle->arena);
	free(pickle);
}
