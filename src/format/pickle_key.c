/*
 * Keys: which are equal, and how a dict or a set finds one.
 *
 * Equality is Python's: numbers by value whatever their type, text by text,
 * tuples and frozensets by their parts, all else by identity.  A container of
 * few keys is searched in a row; for the large ones a single table holds
 * (container, key) -> position, seeded so that a file cannot make it collide.
 *
 * Tuples and frozensets are compared through a canonical id that equal values
 * share.  It is made bottom-up and kept, so that nested and shared tuples cost
 * what their items cost, once; walking them would cost 2^depth.  Long texts
 * have one too: a key of a megabyte may be used again for three bytes of the
 * stream.
 */
#include "pickle_inner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEW 8 /* keys that are searched in a row */

/* Holds any finite double as a two's complement integer.  A longer text or
 * number is never compared byte by byte but for its canonical id. */
#define NUM_BYTES 136

/* A number such that equal ones have equal bytes and kind. */
struct num {
	const unsigned char *bytes;
	uint64_t len;
	bool fraction; /* the bits of a double that is no integer */
	unsigned char own[NUM_BYTES];
};

/* What stands for all values equal to it. */
struct tasd_pkl_rep {
	const struct tasd_pkl *value;
	const uint32_t *ids; /* canonical ids of the parts of a compound */
	uint32_t n;
};

/* Where the keys of a container are: in one of the two. */
struct holder {
	const struct tasd_pkl_map *map;
	const struct tasd_pkl_seq *seq;
	uint32_t owner;
};

static bool is_compound(const struct tasd_pkl *value)
{
	return value->type == TASD_PKL_TUPLE ||
	       value->type == TASD_PKL_FROZENSET;
}

static bool is_long(const struct tasd_pkl *value)
{
	return value->type >= TASD_PKL_LONG && value->type <= TASD_PKL_BYTES &&
	       value->type != TASD_PKL_FLOAT && value->text.len > NUM_BYTES;
}

/* Is it compared by its canonical id? */
static bool has_canon(const struct tasd_pkl *value)
{
	return is_compound(value) || is_long(value);
}

bool tasd_pkl_hashable(const struct tasd_pkl *value)
{
	return !(value->flags & TASD_PKL_UNHASHABLE) &&
	       value->type != TASD_PKL_LIST && value->type != TASD_PKL_DICT &&
	       value->type != TASD_PKL_SET && value->type != TASD_PKL_BYTEARRAY;
}

static void num_int64(struct num *num, int64_t i)
{
	memcpy(num->own, &i, sizeof(i));
	num->bytes = num->own;
	num->len = sizeof(i);
}

/* An integral double past 64 bits: its 53 bits, shifted and signed. */
static void num_large(struct num *num, double f)
{
	int exponent = 0;
	uint64_t mantissa = (uint64_t)ldexp(frexp(fabs(f), &exponent), 53);
	unsigned int shift = (unsigned int)exponent - 53, carry = 1;
	uint64_t len = NUM_BYTES;

	memset(num->own, 0, sizeof(num->own));
	for (unsigned int bit = 0; bit < 53; bit++)
		if (mantissa >> bit & 1)
			num->own[(bit + shift) / 8] |=
				(unsigned char)(1u << (bit + shift) % 8);
	for (unsigned int i = 0; f < 0 && i < NUM_BYTES; i++) {
		carry += (unsigned char)~num->own[i];
		num->own[i] = (unsigned char)carry;
		carry >>= 8;
	}
	while (len > 1 &&
		num->own[len - 1] == (num->own[len - 2] & 0x80 ? 0xff : 0))
		len--;
	num->bytes = num->own;
	num->len = len;
}

/* false: no number, or a NaN, which equals nothing but itself. */
static bool num_of(const struct tasd_pkl *value, struct num *num)
{
	num->fraction = false;
	if (value->type == TASD_PKL_FALSE || value->type == TASD_PKL_TRUE) {
		num_int64(num, value->type == TASD_PKL_TRUE);
	} else if (value->type == TASD_PKL_INT) {
		num_int64(num, value->i);
	} else if (value->type == TASD_PKL_LONG) {
		num->bytes = (const unsigned char *)value->text.bytes;
		num->len = value->text.len;
	} else if (value->type != TASD_PKL_FLOAT || isnan(value->f)) {
		return false;
	} else if (isinf(value->f) || value->f != trunc(value->f)) {
		memcpy(num->own, &value->f, sizeof(value->f));
		num->bytes = num->own;
		num->len = sizeof(value->f);
		num->fraction = true;
	} else if (value->f >= -0x1p63 && value->f < 0x1p63) {
		num_int64(num, (int64_t)value->f);
	} else {
		num_large(num, value->f);
	}
	return true;
}

static bool num_equal(const struct num *a, const struct num *b)
{
	return a->fraction == b->fraction && a->len == b->len &&
	       memcmp(a->bytes, b->bytes, a->len) == 0;
}

static uint32_t canon(const struct tasd_pkl_keys *keys, uint32_t id)
{
	return id < keys->canon_room ? keys->canon[id] : 0;
}

static bool equal(const struct tasd_pkl_keys *keys, const struct tasd_pkl *a,
	const struct tasd_pkl *b)
{
	struct num num_a, num_b;

	if (a == b)
		return true;
	if (has_canon(a) && has_canon(b) && canon(keys, a->id) &&
		canon(keys, b->id))
		return canon(keys, a->id) == canon(keys, b->id);
	if (num_of(a, &num_a))
		return num_of(b, &num_b) && num_equal(&num_a, &num_b);
	if (a->type != b->type)
		return false;
	if (a->type == TASD_PKL_STR || a->type == TASD_PKL_BYTES)
		return a->text.len == b->text.len &&
		       (!a->text.len || memcmp(a->text.bytes, b->text.bytes,
						a->text.len) == 0);
	/* Compounds without one cannot be keys, but some object took them. */
	return a->type == TASD_PKL_GLOBAL && a->global == b->global;
}

static uint64_t hash(const struct tasd_pkl_keys *keys,
	const struct tasd_pkl *value, uint64_t owner)
{
	const uint64_t salt = owner << 3;
	uint64_t id = value->id;
	struct num num;

	if (owner && has_canon(value)) {
		if (canon(keys, value->id))
			id = canon(keys, value->id);
		return tasd_map_hash(
			&keys->interned, &id, sizeof(id), salt | 5);
	}
	if (num_of(value, &num))
		return tasd_map_hash(&keys->interned, num.bytes, num.len,
			salt | num.fraction);
	switch ((enum tasd_pkl_type)value->type) {
	case TASD_PKL_STR:
	case TASD_PKL_BYTES:
		return tasd_map_hash(&keys->interned, value->text.bytes,
			value->text.len, salt | (2 + (value->type & 1)));
	case TASD_PKL_GLOBAL:
		id = (uintptr_t)value->global;
		break;
	case TASD_PKL_NONE:
	case TASD_PKL_FALSE:
	case TASD_PKL_TRUE:
	case TASD_PKL_INT:
	case TASD_PKL_LONG:
	case TASD_PKL_FLOAT:
	case TASD_PKL_BYTEARRAY:
	case TASD_PKL_TUPLE:
	case TASD_PKL_LIST:
	case TASD_PKL_SET:
	case TASD_PKL_FROZENSET:
	case TASD_PKL_DICT:
	case TASD_PKL_OBJECT:
	case TASD_PKL_PERSID:
		break;
	}
	return tasd_map_hash(&keys->interned, &id, sizeof(id), salt | 4);
}

struct rep_key {
	const struct tasd_pkl_keys *keys;
	const struct tasd_pkl *value;
	const uint32_t *ids;
	uint32_t n;
};

static bool rep_eq(const void *value, const void *key)
{
	const struct tasd_pkl_rep *rep = value;
	const struct rep_key *want = key;

	if (rep->value->type != want->value->type && is_compound(want->value))
		return false;
	if (is_compound(rep->value) != is_compound(want->value))
		return false;
	if (!is_compound(want->value))
		return equal(want->keys, rep->value, want->value);
	return rep->n == want->n &&
	       (!rep->n || memcmp(rep->ids, want->ids,
				   rep->n * sizeof(*rep->ids)) == 0);
}

/* Give value the canonical id of what it equals, or its own. */
static tasd_err intern(struct tasd_pkl_machine *m, const uint32_t *ids,
	const struct tasd_pkl *value)
{
	struct tasd_pkl_keys *keys = &m->keys;
	struct rep_key key = {.keys = keys, .value = value, .ids = ids};
	struct tasd_pkl_rep *rep;
	uint64_t h;

	if (is_compound(value)) {
		key.n = value->seq.n;
		h = tasd_map_hash(&keys->interned, ids, key.n * sizeof(*ids),
			(uint64_t)value->type << 3);
	} else {
		h = hash(keys, value, 0);
	}
	rep = tasd_map_find(&keys->interned, h, rep_eq, &key);
	if (!rep) {
		tasd_err err = tasd_pkl_charge_map(m);

		rep = tasd_pkl_alloc(m, sizeof(*rep));
		if (err || !rep)
			return tasd_pkl_fail_room(m);
		*rep = (struct tasd_pkl_rep){
			.value = value, .ids = ids, .n = key.n};
		err = tasd_map_put(&keys->interned, h, rep);
		if (err)
			return err;
	}
	keys->canon[value->id] = rep->value->id + 1;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* A compound whose parts all have a canonical id. */
static tasd_err intern_compound(
	struct tasd_pkl_machine *m, const struct tasd_pkl *value)
{
	uint32_t n = value->seq.n;
	uint32_t *ids = tasd_pkl_alloc(m, n * sizeof(*ids));

	if (!ids)
		return tasd_pkl_fail_room(m);
	for (uint32_t i = 0; i < n; i++)
		ids[i] = m->keys.canon[value->seq.at[i]->id];
	/* The order of a frozenset means nothing. */
	if (n && value->type == TASD_PKL_FROZENSET)
		qsort(ids, n, sizeof(*ids), by_number);
	return intern(m, ids, value);
}

/*
 * One step of what canonical ids for a compound take: *ret_part is a compound
 * that must have one first, or NULL when value has got its own.  *next is the
 * first item that was not looked at yet.
 */
static tasd_err canon_step(struct tasd_pkl_machine *m,
	const struct tasd_pkl *value, uint32_t *next,
	const struct tasd_pkl **ret_part)
{
	*ret_part = NULL;
	for (; *next < value->seq.n; (*next)++) {
		const struct tasd_pkl *part = value->seq.at[*next];
		tasd_err err = 0;

		if (m->keys.canon[part->id])
			continue;
		if (is_compound(part)) {
			*ret_part = part;
			return 0;
		}
		err = intern(m, NULL, part);
		if (err)
			return err;
	}
	return intern_compound(m, value);
}

/* For keys that have one.  Compounds contain only what was made before them, so
 * this ends. */
static tasd_err canonize(
	struct tasd_pkl_machine *m, const struct tasd_pkl *value)
{
	struct tasd_pkl_keys *keys = &m->keys;
	size_t depth = 1;
	tasd_err err = tasd_pkl_grow(m, &keys->canon, &keys->canon_room,
		m->out->nvalues, sizeof(*keys->canon));

	if (err || keys->canon[value->id])
		return err;
	if (!is_compound(value))
		return intern(m, NULL, value);
	err = tasd_pkl_grow(
		m, &keys->work, &keys->work_room, 1, sizeof(*keys->work));
	if (!err)
		keys->work[0] = (struct tasd_pkl_todo){.value = value};
	while (!err && depth) {
		struct tasd_pkl_todo *todo = &keys->work[depth - 1];
		const struct tasd_pkl *part = NULL;

		err = canon_step(m, todo->value, &todo->next, &part);
		if (!part) {
			depth--;
			continue;
		}
		err = tasd_pkl_grow(m, &keys->work, &keys->work_room, depth + 1,
			sizeof(*keys->work));
		if (!err)
			keys->work[depth++] =
				(struct tasd_pkl_todo){.value = part};
	}
	return err;
}

static const struct tasd_pkl *key_at(const struct holder *h, uint32_t i)
{
	return h->map ? h->map->at[i].key : h->seq->at[i];
}

static uint32_t count(const struct holder *h)
{
	return h->map ? h->map->n : h->seq->n;
}

static void slot_put(
	struct tasd_pkl_slot *slots, size_t room, struct tasd_pkl_slot slot)
{
	size_t i = slot.hash & (room - 1);

	while (slots[i].owner)
		i = (i + 1) & (room - 1);
	slots[i] = slot;
}

static tasd_err slots_grow(struct tasd_pkl_machine *m)
{
	struct tasd_pkl_keys *keys = &m->keys;
	struct tasd_pkl_slot *slots = NULL;
	size_t room = 0, want = keys->room ? 2 * keys->room : 64;
	tasd_err err;

	if (keys->used < keys->room / 4 * 3)
		return 0;
	err = tasd_pkl_grow(m, &slots, &room, want, sizeof(*slots));
	if (err)
		return err;
	for (size_t i = 0; i < keys->room; i++)
		if (keys->slots[i].owner)
			slot_put(slots, room, keys->slots[i]);
	tasd_pkl_shrink(m, &keys->slots, keys->room, sizeof(*slots));
	keys->slots = slots;
	keys->room = room;
	return 0;
}

static tasd_err index_one(
	struct tasd_pkl_machine *m, const struct holder *h, uint32_t i)
{
	tasd_err err = slots_grow(m);

	if (err)
		return err;
	slot_put(m->keys.slots, m->keys.room,
		(struct tasd_pkl_slot){
			.hash = (uint32_t)hash(
				&m->keys, key_at(h, i), h->owner),
			.owner = h->owner,
			.index = i,
		});
	m->keys.used++;
	return 0;
}

/* A key was added at the end. */
static tasd_err added(struct tasd_pkl_machine *m, const struct holder *h)
{
	uint32_t n = count(h);
	tasd_err err = 0;

	if (n > FEW + 1)
		return index_one(m, h, n - 1);
	for (uint32_t i = 0; n == FEW + 1 && i < n && !err; i++)
		err = index_one(m, h, i);
	return err;
}

/* Position of the key that equals key, or the count when there is none. */
static tasd_err find(struct tasd_pkl_machine *m, const struct holder *h,
	const struct tasd_pkl *key, uint32_t *ret)
{
	const struct tasd_pkl_keys *keys = &m->keys;
	uint32_t n = count(h), want;
	tasd_err err =
		has_canon(key) && tasd_pkl_hashable(key) ? canonize(m, key) : 0;

	*ret = n;
	if (err)
		return err;
	for (uint32_t i = 0; n <= FEW && i < n; i++)
		if (equal(keys, key_at(h, i), key)) {
			*ret = i;
			return 0;
		}
	if (n <= FEW)
		return 0;
	want = (uint32_t)hash(keys, key, h->owner);
	for (size_t i = want & (keys->room - 1); keys->slots[i].owner;
		i = (i + 1) & (keys->room - 1)) {
		const struct tasd_pkl_slot *slot = &keys->slots[i];

		if (slot->hash == want && slot->owner == h->owner &&
			equal(keys, key_at(h, slot->index), key)) {
			*ret = slot->index;
			return 0;
		}
	}
	return 0;
}

tasd_err tasd_pkl_map_put(struct tasd_pkl_machine *m, struct tasd_pkl *owner,
	struct tasd_pkl_map *map, struct tasd_pkl *key, struct tasd_pkl *value)
{
	struct holder h = {.map = map, .owner = owner->id + 1};
	uint32_t i = 0;
	tasd_err err;

	/* What an object of an unknown class takes as a key is its business. */
	if (owner->type == TASD_PKL_DICT && !tasd_pkl_hashable(key))
		return tasd_pkl_fail(
			m, "%s cannot be a key", tasd_pkl_type_name(key));
	err = find(m, &h, key, &i);
	if (err)
		return err;
	if (i < map->n) {
		map->at[i].value = value;
		return 0;
	}
	err = tasd_pkl_map_reserve(m, map, 1);
	if (err)
		return err;
	map->at[map->n++] = (struct tasd_pkl_pair){key, value};
	return added(m, &h);
}

tasd_err tasd_pkl_set_add(struct tasd_pkl_machine *m, struct tasd_pkl *owner,
	struct tasd_pkl *item)
{
	struct holder h = {.seq = &owner->seq, .owner = owner->id + 1};
	uint32_t i = 0;
	tasd_err err;

	if (!tasd_pkl_hashable(item))
		return tasd_pkl_fail(
			m, "%s cannot be in a set", tasd_pkl_type_name(item));
	err = find(m, &h, item, &i);
	if (err || i < owner->seq.n)
		return err;
	err = tasd_pkl_seq_reserve(m, &owner->seq, 1);
	if (err)
		return err;
	owner->seq.at[owner->seq.n++] = item;
	return added(m, &h);
}

void tasd_pkl_keys_free(struct tasd_pkl_keys *keys)
{
	free(keys->slots);
	free(keys->canon);
	free(keys->work);
	tasd_map_free(&keys->interned);
}
