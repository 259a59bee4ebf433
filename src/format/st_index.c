/*
 * The index's JSON: {"metadata": {..}, "weight_map": {tensor: shard, ..}}.
 * Its order is the order of the state dict.  What is wrong with one entry is
 * told of that tensor; what is wrong with the text, or the same tensor twice,
 * refuses the whole.
 */
#include "st_index.h"
#include "st_header.h"
#include <string.h>

#define DEPTH_MAX 127

/* The text of a million tensors is a tenth of this. */
#define INDEX_MAX ((uint64_t)1 << 30)

/* Bytes of one slot of a map (base/map.h says so). */
#define MAP_SLOT 16

enum state {
	AT_START,
	IN_INDEX,      /* weight_map, metadata or another name comes */
	AT_WEIGHT_MAP, /* its object comes */
	IN_WEIGHT_MAP, /* a tensor's name comes */
	AT_SHARD,      /* a shard's name comes */
	AT_METADATA,   /* its object comes */
	IN_METADATA,   /* a metadata name comes */
	AT_META,       /* a metadata value comes */
	AT_OTHER,      /* a value that says nothing to us comes */
	IN_SKIPPED,    /* inside such a value */
};

struct parser {
	struct tasd_st_index *index;
	struct tasd_diag *diag;
	enum state state;
	enum state after; /* IN_SKIPPED: what it goes back to */
	unsigned int skip_depth;
	struct tasd_buf name;      /* of the metadata pair at hand */
	struct tasd_st_want *want; /* AT_SHARD: whose */
};

const struct tasd_tensor tasd_st_broken = {
	.dtype = TASD_DTYPE_NONE,
	.data = TASD_DATA_BROKEN,
};

struct text {
	const char *bytes;
	size_t len;
};

/* The maps count against the limit, too; the state dict's own is about as large
 * as that of the entries. */
static bool has_room(const struct tasd_st_index *index)
{
	const struct tasd_arena *arena = tasd_statedict_arena(index->ctr->sd);
	size_t slots = 2 * index->wants.room + index->shards.room +
		       index->metas.names.room;

	return slots <= (arena->limit - arena->used) / MAP_SLOT;
}

static bool want_has_name(const void *value, const void *key)
{
	const struct tasd_key *has =
		&((const struct tasd_st_want *)value)->node->key;
	const struct text *name = key;

	return has->len == name->len &&
	       memcmp(has->text, name->bytes, name->len) == 0;
}

static bool shard_has_name(const void *value, const void *key)
{
	const struct tasd_st_shard *shard = value;
	const struct text *name = key;

	return shard->len == name->len &&
	       memcmp(shard->name, name->bytes, name->len) == 0;
}

struct tasd_st_want *tasd_st_index_want(
	const struct tasd_st_index *index, const char *name, uint32_t len)
{
	struct text key = {.bytes = name, .len = len};
	uint64_t hash = tasd_map_hash(&index->wants, name, len, 0);

	return tasd_map_find(&index->wants, hash, want_has_name, &key);
}

/* The text is equal to a name of ours. */
static bool is(const struct tasd_json_event *e, const char *name)
{
	return e->len == strlen(name) && memcmp(e->text, name, e->len) == 0;
}

static bool begins(const struct tasd_json_event *e)
{
	return e->type == TASD_JSON_MAP_BEGIN ||
	       e->type == TASD_JSON_ARRAY_BEGIN;
}

/* This value is passed over; state after it is `after`. */
static void skip(
	struct parser *p, const struct tasd_json_event *e, enum state after)
{
	p->state = after;
	if (begins(e)) {
		p->state = IN_SKIPPED;
		p->after = after;
		p->skip_depth = e->depth;
	}
}

static tasd_err at_start(struct parser *p, const struct tasd_json_event *e)
{
	if (e->type != TASD_JSON_MAP_BEGIN)
		return tasd_diag_set(p->diag, -EINVAL,
			"the index is %s, an object was expected",
			tasd_json_type_name(e->type));
	p->state = IN_INDEX;
	return 0;
}

static tasd_err in_index(struct parser *p, const struct tasd_json_event *e)
{
	if (e->type == TASD_JSON_MAP_END)
		return 0; /* the reader takes care that nothing follows */
	p->state = AT_OTHER;
	if (is(e, "metadata"))
		p->state = AT_METADATA;
	if (is(e, "weight_map")) {
		if (p->index->has_weight_map)
			return tasd_diag_set(
				p->diag, -EINVAL, "weight_map stands twice");
		p->index->has_weight_map = true;
		p->state = AT_WEIGHT_MAP;
	}
	return 0;
}

static tasd_err at_weight_map(struct parser *p, const struct tasd_json_event *e)
{
	if (e->type != TASD_JSON_MAP_BEGIN)
		return tasd_diag_set(p->diag, -EINVAL,
			"weight_map is %s, an object was expected",
			tasd_json_type_name(e->type));
	p->state = IN_WEIGHT_MAP;
	return 0;
}

static tasd_err in_weight_map(struct parser *p, const struct tasd_json_event *e)
{
	struct tasd_st_index *index = p->index;
	struct tasd_statedict *sd = index->ctr->sd;
	struct tasd_arena *arena = tasd_statedict_arena(sd);
	struct tasd_st_want *want;
	char name[128];
	tasd_err err;

	if (e->type == TASD_JSON_MAP_END) {
		p->state = IN_INDEX;
		return 0;
	}
	if (e->len > UINT32_MAX)
		return -E2BIG;
	want = tasd_arena_alloc(arena, sizeof(*want));
	if (!want)
		return -E2BIG;
	err = tasd_statedict_add(sd, tasd_statedict_root(sd),
		tasd_key_str(e->text, (uint32_t)e->len), &want->node);
	if (err == -EEXIST)
		return tasd_diag_set(p->diag, -EINVAL,
			"duplicate tensor name \"%s\" in weight_map",
			tasd_print_bytes(name, sizeof(name), e->text, e->len));
	if (err)
		return err;
	want->node->kind = TASD_KIND_TENSOR;
	want->node->form = TASD_FORM_TENSOR;
	want->node->tensor = &tasd_st_broken;
	p->want = want;
	p->state = AT_SHARD;
	if (!has_room(index))
		return -E2BIG;
	return tasd_map_put(&index->wants,
		tasd_map_hash(&index->wants, e->text, e->len, 0), want);
}

/* The shard of that name, a new one if need be; NULL at the limit. */
static struct tasd_st_shard *shard_named(
	struct tasd_st_index *index, const struct tasd_json_event *e)
{
	struct tasd_arena *arena = tasd_statedict_arena(index->ctr->sd);
	struct text name = {.bytes = e->text, .len = e->len};
	uint64_t hash = tasd_map_hash(&index->shards, e->text, e->len, 0);
	struct tasd_st_shard *shard =
		tasd_map_find(&index->shards, hash, shard_has_name, &name);

	if (shard)
		return shard;
	if (!has_room(index))
		return NULL;
	shard = tasd_arena_alloc(arena, sizeof(*shard));
	if (!shard)
		return NULL;
	shard->name = tasd_arena_copy(arena, e->text, e->len);
	shard->len = (uint32_t)e->len;
	if (!shard->name || tasd_map_put(&index->shards, hash, shard))
		return NULL;
	if (index->last)
		index->last->next = shard;
	else
		index->first = shard;
	index->last = shard;
	return shard;
}

static tasd_err at_shard(struct parser *p, const struct tasd_json_event *e)
{
	struct tasd_st_want *want = p->want;
	struct tasd_st_shard *shard;

	if (e->type != TASD_JSON_STRING) {
		struct tasd_buf text = TASD_BUF_EMPTY;
		const struct tasd_key *key = &want->node->key;
		char name[128];

		p->index->incomplete = true;
		tasd_buf_printf(&text,
			"its shard is named by %s, a string was expected",
			tasd_json_type_name(e->type));
		want->node->error =
			tasd_arena_copy(tasd_statedict_arena(p->index->ctr->sd),
				text.bytes, text.len);
		tasd_buf_free(&text);
		if (!want->node->error)
			return -E2BIG;
		tasd_container_problem(p->index->ctr, "tensor \"%s\": %s",
			tasd_print_bytes(
				name, sizeof(name), key->text, key->len),
			want->node->error);
		skip(p, e, IN_WEIGHT_MAP);
		return 0;
	}
	if (e->len > UINT32_MAX)
		return -E2BIG;
	shard = shard_named(p->index, e);
	if (!shard)
		return -E2BIG;
	want->shard = shard;
	if (shard->last_want)
		shard->last_want->next = want;
	else
		shard->wants = want;
	shard->last_want = want;
	shard->nwants++;
	p->state = IN_WEIGHT_MAP;
	return 0;
}

static tasd_err at_metadata(struct parser *p, const struct tasd_json_event *e)
{
	if (e->type == TASD_JSON_MAP_BEGIN) {
		p->state = IN_METADATA;
		return 0;
	}
	if (e->type != TASD_JSON_NULL)
		tasd_container_problem(p->index->ctr,
			"the index's metadata is %s, an object was expected",
			tasd_json_type_name(e->type));
	skip(p, e, IN_INDEX);
	return 0;
}

static tasd_err in_metadata(struct parser *p, const struct tasd_json_event *e)
{
	if (e->type == TASD_JSON_MAP_END) {
		p->state = IN_INDEX;
		return 0;
	}
	p->state = AT_META;
	p->name.len = 0;
	tasd_buf_add(&p->name, e->text, e->len);
	return tasd_buf_err(&p->name);
}

static void take_total_size(struct parser *p, const struct tasd_json_event *e)
{
	struct tasd_st_index *index = p->index;

	index->has_total_size =
		e->type == TASD_JSON_NUMBER &&
		tasd_json_u64(e->text, e->len, &index->total_size) == 0;
	if (!index->has_total_size)
		tasd_container_problem(index->ctr,
			"the index's metadata.total_size is no unsigned "
			"integer");
}

static tasd_err at_meta(struct parser *p, const struct tasd_json_event *e)
{
	static const char total_size[] = "total_size";
	struct tasd_json_event value = *e;

	if (p->name.len == strlen(total_size) &&
		memcmp(p->name.bytes, total_size, p->name.len) == 0)
		take_total_size(p, e);
	skip(p, e, IN_METADATA);
	if (begins(e))
		return 0; /* only plain values are metadata */
	if (e->type != TASD_JSON_STRING && e->type != TASD_JSON_NUMBER) {
		value.text = tasd_json_type_name(e->type);
		value.len = strlen(value.text);
	}
	if (p->name.len > UINT32_MAX || value.len > UINT32_MAX)
		return -E2BIG;
	return tasd_metaset_put(&p->index->metas, TASD_META_REPLACE,
		p->name.len ? p->name.bytes : "", (uint32_t)p->name.len,
		value.text, (uint32_t)value.len);
}

static tasd_err at_other(struct parser *p, const struct tasd_json_event *e)
{
	skip(p, e, IN_INDEX);
	return 0;
}

static tasd_err in_skipped(struct parser *p, const struct tasd_json_event *e)
{
	if (e->depth == p->skip_depth &&
		(e->type == TASD_JSON_MAP_END ||
			e->type == TASD_JSON_ARRAY_END))
		p->state = p->after;
	return 0;
}

static tasd_err on_event(void *ctx, const struct tasd_json_event *e)
{
	static tasd_err (*const steps[])(
		struct parser *, const struct tasd_json_event *) = {
		[AT_START] = at_start,
		[IN_INDEX] = in_index,
		[AT_WEIGHT_MAP] = at_weight_map,
		[IN_WEIGHT_MAP] = in_weight_map,
		[AT_SHARD] = at_shard,
		[AT_METADATA] = at_metadata,
		[IN_METADATA] = in_metadata,
		[AT_META] = at_meta,
		[AT_OTHER] = at_other,
		[IN_SKIPPED] = in_skipped,
	};
	struct parser *p = ctx;

	return steps[p->state](p, e);
}

tasd_err tasd_st_index_parse(struct tasd_st_index *index,
	struct tasd_source *source, struct tasd_diag *diag)
{
	struct parser p = {
		.index = index,
		.diag = diag,
		.name = TASD_BUF_EMPTY,
	};
	struct tasd_json *json = NULL;
	tasd_err err;

	if (source->size > INDEX_MAX)
		return tasd_diag_set(
			diag, -E2BIG, "the index is longer than 1 GiB");
	err = tasd_json_new(on_event, &p, DEPTH_MAX, &json);
	if (err)
		return err;
	err = tasd_st_json_read(source, 0, source->size, json, diag);
	tasd_json_free(json);
	tasd_buf_free(&p.name);
	if (!err && !index->has_weight_map)
		err = tasd_diag_set(
			diag, -EINVAL, "the index has no weight_map");
	return err;
}
