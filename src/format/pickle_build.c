/*
 * The stack, the memo, and the opcodes that make and fill containers.
 *
 * A MARK fences off the stack: what lies below the last one can be reached
 * only by the opcodes that take the MARK itself, as in CPython.
 *
 * The memo is dense where writers keep it dense (they count up) and a hash map
 * for the rest, so an index costs what one value costs, however large it is.
 */
#include "pickle_inner.h"
#include <string.h>

/* How far an index may run ahead of the count and still be dense. */
#define MEMO_AHEAD 1024

struct memo_entry {
	uint64_t index;
	struct tasd_pkl *value;
};

tasd_err tasd_pkl_need(struct tasd_pkl_machine *m, size_t n)
{
	if (tasd_pkl_above(m) >= n)
		return 0;
	return tasd_pkl_fail(m, "needs %zu value%s on the stack, %zu %s there",
		n, n == 1 ? "" : "s", tasd_pkl_above(m),
		tasd_pkl_above(m) == 1 ? "is" : "are");
}

tasd_err tasd_pkl_mark(struct tasd_pkl_machine *m, size_t *ret_at)
{
	if (!m->nmarks)
		return tasd_pkl_fail(m, "no MARK on the stack");
	*ret_at = m->marks[--m->nmarks];
	return 0;
}

tasd_err tasd_pkl_op_mark(struct tasd_pkl_machine *m, unsigned int arg)
{
	tasd_err err = tasd_pkl_grow(
		m, &m->marks, &m->marks_room, m->nmarks + 1, sizeof(*m->marks));

	(void)arg;
	if (!err)
		m->marks[m->nmarks++] = m->depth;
	return err;
}

tasd_err tasd_pkl_op_pop(struct tasd_pkl_machine *m, unsigned int arg)
{
	tasd_err err;

	(void)arg;
	/* A MARK on top is what it takes. */
	if (m->nmarks && m->marks[m->nmarks - 1] == m->depth) {
		m->nmarks--;
		return 0;
	}
	err = tasd_pkl_need(m, 1);
	if (!err)
		m->depth--;
	return err;
}

tasd_err tasd_pkl_op_pop_mark(struct tasd_pkl_machine *m, unsigned int arg)
{
	(void)arg;
	return tasd_pkl_mark(m, &m->depth);
}

tasd_err tasd_pkl_op_dup(struct tasd_pkl_machine *m, unsigned int arg)
{
	tasd_err err = tasd_pkl_need(m, 1);

	(void)arg;
	return err ? err : tasd_pkl_push(m, m->stack[m->depth - 1]);
}

tasd_err tasd_pkl_op_empty(struct tasd_pkl_machine *m, unsigned int type)
{
	struct tasd_pkl *value = NULL;
	tasd_err err = tasd_pkl_new(m, type, &value);

	return err ? err : tasd_pkl_push(m, value);
}

tasd_err tasd_pkl_tuple_from(
	struct tasd_pkl_machine *m, size_t at, struct tasd_pkl **ret)
{
	size_t n = m->depth - at;
	struct tasd_pkl *tuple = NULL;
	tasd_err err = tasd_pkl_new(m, TASD_PKL_TUPLE, &tuple);

	if (!err)
		err = tasd_pkl_seq_reserve(m, &tuple->seq, n);
	if (err)
		return err;
	for (size_t i = 0; i < n; i++) {
		tuple->seq.at[i] = m->stack[at + i];
		if (!tasd_pkl_hashable(tuple->seq.at[i]))
			tuple->flags |= TASD_PKL_UNHASHABLE;
	}
	tuple->seq.n = (uint32_t)n;
	m->depth = at;
	*ret = tuple;
	return 0;
}

static tasd_err push_tuple(struct tasd_pkl_machine *m, size_t at)
{
	struct tasd_pkl *tuple = NULL;
	tasd_err err = tasd_pkl_tuple_from(m, at, &tuple);

	return err ? err : tasd_pkl_push(m, tuple);
}

tasd_err tasd_pkl_op_tuple(struct tasd_pkl_machine *m, unsigned int n)
{
	tasd_err err = tasd_pkl_need(m, n);

	return err ? err : push_tuple(m, m->depth - n);
}

/* Append what is on the stack from depth at up, and take it off. */
static tasd_err append_from(
	struct tasd_pkl_machine *m, size_t at, struct tasd_pkl_seq *seq)
{
	size_t n = m->depth - at;
	tasd_err err = tasd_pkl_seq_reserve(m, seq, n);

	if (err)
		return err;
	if (n)
		memcpy(seq->at + seq->n, m->stack + at, n * sizeof(*seq->at));
	seq->n += (uint32_t)n;
	m->depth = at;
	return 0;
}

static tasd_err set_from(
	struct tasd_pkl_machine *m, size_t at, struct tasd_pkl *set)
{
	tasd_err err = tasd_pkl_seq_reserve(m, &set->seq, m->depth - at);

	for (size_t i = at; i < m->depth && !err; i++)
		err = tasd_pkl_set_add(m, set, m->stack[i]);
	m->depth = at;
	return err;
}

static tasd_err map_from(struct tasd_pkl_machine *m, size_t at,
	struct tasd_pkl *owner, struct tasd_pkl_map *map)
{
	size_t n = m->depth - at;
	tasd_err err;

	if (n % 2)
		return tasd_pkl_fail(m, "a key without a value");
	err = tasd_pkl_map_reserve(m, map, n / 2);
	for (size_t i = at; i < m->depth && !err; i += 2)
		err = tasd_pkl_map_put(
			m, owner, map, m->stack[i], m->stack[i + 1]);
	m->depth = at;
	return err;
}

tasd_err tasd_pkl_op_marked(struct tasd_pkl_machine *m, unsigned int type)
{
	struct tasd_pkl *value = NULL;
	size_t at = 0;
	tasd_err err = tasd_pkl_mark(m, &at);

	if (err)
		return err;
	if (type == TASD_PKL_TUPLE)
		return push_tuple(m, at);
	err = tasd_pkl_new(m, type, &value);
	if (err)
		return err;
	if (type == TASD_PKL_LIST)
		err = append_from(m, at, &value->seq);
	else if (type == TASD_PKL_FROZENSET)
		err = set_from(m, at, value);
	else
		err = map_from(m, at, value, &value->map);
	return err ? err : tasd_pkl_push(m, value);
}

/* The container that an opcode fills, and from which depth the stack holds what
 * goes in. */
static tasd_err target(struct tasd_pkl_machine *m, bool many, unsigned int one,
	struct tasd_pkl **ret, size_t *ret_at)
{
	tasd_err err;

	if (many) {
		err = tasd_pkl_mark(m, ret_at);
		if (!err && tasd_pkl_above(m) - (m->depth - *ret_at) < 1)
			return tasd_pkl_fail(m, "nothing below its MARK");
	} else {
		err = tasd_pkl_need(m, 1 + one);
		*ret_at = m->depth - one;
	}
	if (!err)
		*ret = m->stack[*ret_at - 1];
	return err;
}

tasd_err tasd_pkl_op_append(struct tasd_pkl_machine *m, unsigned int many)
{
	struct tasd_pkl *to = NULL;
	struct tasd_pkl_more *more = NULL;
	size_t at = 0;
	tasd_err err = target(m, many, 1, &to, &at);

	if (err || at == m->depth)
		return err;
	if (to->type == TASD_PKL_LIST)
		return append_from(m, at, &to->seq);
	if (to->type != TASD_PKL_OBJECT)
		return tasd_pkl_fail(
			m, "%s has no append", tasd_pkl_type_name(to));
	err = tasd_pkl_more(m, to, &more);
	return err ? err : append_from(m, at, &more->items);
}

tasd_err tasd_pkl_op_setitem(struct tasd_pkl_machine *m, unsigned int many)
{
	struct tasd_pkl *to = NULL;
	struct tasd_pkl_more *more = NULL;
	size_t at = 0;
	tasd_err err = target(m, many, 2, &to, &at);

	if (err || at == m->depth)
		return err;
	if (to->type == TASD_PKL_DICT)
		return map_from(m, at, to, &to->map);
	if (to->type != TASD_PKL_OBJECT)
		return tasd_pkl_fail(
			m, "%s takes no keys", tasd_pkl_type_name(to));
	err = tasd_pkl_more(m, to, &more);
	return err ? err : map_from(m, at, to, &more->pairs);
}

tasd_err tasd_pkl_op_additems(struct tasd_pkl_machine *m, unsigned int arg)
{
	struct tasd_pkl *to = NULL;
	struct tasd_pkl_more *more = NULL;
	size_t at = 0;
	tasd_err err = target(m, true, 0, &to, &at);

	(void)arg;
	if (err || at == m->depth)
		return err;
	if (to->type == TASD_PKL_SET)
		return set_from(m, at, to);
	if (to->type != TASD_PKL_OBJECT)
		return tasd_pkl_fail(
			m, "%s has no add", tasd_pkl_type_name(to));
	err = tasd_pkl_more(m, to, &more);
	return err ? err : append_from(m, at, &more->items);
}

static bool memo_eq(const void *value, const void *key)
{
	return ((const struct memo_entry *)value)->index ==
	       *(const uint64_t *)key;
}

static uint64_t memo_hash(const struct tasd_pkl_memo *memo, uint64_t index)
{
	return tasd_map_hash(&memo->sparse, &index, sizeof(index), 0);
}

static struct memo_entry *memo_sparse(
	const struct tasd_pkl_memo *memo, uint64_t index)
{
	return memo->sparse.used
		       ? tasd_map_find(&memo->sparse, memo_hash(memo, index),
				 memo_eq, &index)
		       : NULL;
}

static tasd_err put_sparse(
	struct tasd_pkl_machine *m, uint64_t index, struct tasd_pkl *value)
{
	struct memo_entry *entry = tasd_pkl_alloc(m, sizeof(*entry));
	tasd_err err = tasd_pkl_charge_map(m);

	if (!entry || err)
		return tasd_pkl_fail_room(m);
	*entry = (struct memo_entry){.index = index, .value = value};
	return tasd_map_put(&m->memo.sparse, memo_hash(&m->memo, index), entry);
}

/* What is on top of the stack goes into the memo. */
tasd_err tasd_pkl_memo_put(struct tasd_pkl_machine *m, uint64_t index)
{
	struct tasd_pkl_memo *memo = &m->memo;
	struct memo_entry *entry = memo_sparse(memo, index);
	tasd_err err = tasd_pkl_need(m, 1);

	if (err)
		return err;
	if (entry) {
		entry->value = m->stack[m->depth - 1];
		return 0;
	}
	if (index >= memo->room && index < memo->count + MEMO_AHEAD)
		err = tasd_pkl_grow(m, &memo->dense, &memo->room, index + 1,
			sizeof(struct tasd_pkl *));
	if (err)
		return err;
	if (index >= memo->room) {
		memo->count++;
		return put_sparse(m, index, m->stack[m->depth - 1]);
	}
	if (!memo->dense[index])
		memo->count++;
	memo->dense[index] = m->stack[m->depth - 1];
	return 0;
}

tasd_err tasd_pkl_memo_get(struct tasd_pkl_machine *m, uint64_t index)
{
	const struct tasd_pkl_memo *memo = &m->memo;
	struct tasd_pkl *value = index < memo->room ? memo->dense[index] : NULL;

	if (!value) {
		const struct memo_entry *entry = memo_sparse(memo, index);

		value = entry ? entry->value : NULL;
	}
	if (!value)
		return tasd_pkl_fail(m, "nothing is in the memo at %llu",
			(unsigned long long)index);
	return tasd_pkl_push(m, value);
}

/* Its index is how many the memo holds, whoever put them there. */
tasd_err tasd_pkl_op_memoize(struct tasd_pkl_machine *m, unsigned int arg)
{
	(void)arg;
	return tasd_pkl_memo_put(m, m->memo.count);
}

tasd_err tasd_pkl_op_put(struct tasd_pkl_machine *m, unsigned int width)
{
	uint64_t index = 0;
	tasd_err err = tasd_pkl_number(m, width, &index);

	return err ? err : tasd_pkl_memo_put(m, index);
}

tasd_err tasd_pkl_op_get(struct tasd_pkl_machine *m, unsigned int width)
{
	uint64_t index = 0;
	tasd_err err = tasd_pkl_number(m, width, &index);

	return err ? err : tasd_pkl_memo_get(m, index);
}
