/*
 * The shards of a set.  The index decides what is shown; this file says what
 * the shards have to say to it.
 *
 * All shards are opened first, so that two names of one file are known to be
 * one.  Then each file is read once.  Its tensors go to the entries of the
 * index that want them, and count only when the whole header proves good: a
 * broken shard gives nothing, and takes nothing from the others.
 */
#include "sniff.h"
#include "st_header.h"
#include "st_index.h"
#include <base/checked.h>
#include <base/cleanup.h>
#include <source/beneath.h>
#include <string.h>

/* What one shard may hold beside what the index wants, in bytes of memory. */
#define EXTRAS_MAX ((size_t)16 << 20)

#define SHOWN_MAX 128

/* A metadata pair that counts once its shard proves good. */
struct pair {
	struct pair *next;
	const char *name, *value;
	uint32_t name_len, value_len;
};

/* A tensor of a shard that the index does not want from it. */
struct extra {
	const char *name;
	uint32_t len;
};

/* One shard while its header is read. */
struct reading {
	struct tasd_st_index *index;
	struct tasd_st_shard *shard;
	struct tasd_arena arena; /* of what goes when it has been read */
	struct tasd_map extras;
	const struct extra *first_extra;
	uint64_t nextras;
	struct pair *pairs, *last_pair;
	bool full; /* arena reached its limit */
};

/* Note why nothing of a shard can be read. */
static tasd_err shard_fails(struct tasd_st_index *index,
	struct tasd_st_shard *shard, const char *why)
{
	struct tasd_arena *arena = tasd_statedict_arena(index->ctr->sd);
	struct tasd_buf text = TASD_BUF_EMPTY;
	char name[SHOWN_MAX];

	tasd_print_bytes(name, sizeof(name), shard->name, shard->len);
	tasd_buf_printf(&text, "shard %s: %s", name, why);
	if (!tasd_buf_err(&text))
		shard->error = tasd_arena_copy(arena, text.bytes, text.len);
	tasd_buf_free(&text);
	if (!shard->error)
		return -E2BIG;
	tasd_container_problem(index->ctr, "%s; %u tensor%s cannot be read",
		shard->error, shard->nwants, shard->nwants == 1 ? "" : "s");
	return 0;
}

static bool same_file(const void *value, const void *key)
{
	const struct tasd_st_shard *shard = value;
	const struct tasd_stamp *stamp = key;

	return shard->source->stamp.dev == stamp->dev &&
	       shard->source->stamp.ino == stamp->ino;
}

/* *ret_why: what is wrong with the shard; an error is one of the whole. */
static tasd_err open_shard(struct tasd_st_index *index, struct tasd_map *files,
	struct tasd_st_shard *shard, struct tasd_diag *why)
{
	cleanup_fd int fd = -1;
	struct tasd_stamp stamp;
	uint64_t hash;
	tasd_err err;

	if (strlen(shard->name) != shard->len) {
		tasd_diag_set(why, -EINVAL, "a NUL byte in a file name");
		return 0;
	}
	err = tasd_beneath_open(index->ctr->dirfd, shard->name, &fd, why);
	if (!err)
		err = tasd_stamp_fd(fd, &stamp);
	if (err) {
		if (!why->text[0])
			tasd_diag_set(why, err, "%s", strerror(-err));
		return 0;
	}
	hash = tasd_map_hash(files, &stamp.ino, sizeof(stamp.ino), stamp.dev);
	shard->same = tasd_map_find(files, hash, same_file, &stamp);
	if (shard->same)
		return 0;
	err = tasd_source_file(fd, shard->name, &shard->source);
	if (err)
		return err;
	(void)tasd_steal_fd(&fd);
	shard->same = shard;
	err = tasd_container_add_source(
		index->ctr, shard->source, &shard->source_index);
	return err ? err : tasd_map_put(files, hash, shard);
}

static tasd_err open_shards(struct tasd_st_index *index)
{
	struct tasd_map files;
	tasd_err err = 0;

	tasd_map_init(&files);
	for (struct tasd_st_shard *s = index->first; s && !err; s = s->next) {
		struct tasd_diag why = {""};

		err = open_shard(index, &files, s, &why);
		if (!err && !s->same)
			err = shard_fails(index, s, why.text);
	}
	tasd_map_free(&files);
	return err;
}

static bool extra_has_name(const void *value, const void *key)
{
	const struct extra *has = value, *want = key;

	return has->len == want->len &&
	       memcmp(has->name, want->name, want->len) == 0;
}

/* A tensor that the index does not name, or places in another shard. */
static tasd_err take_extra(struct reading *r, const char *name, uint32_t len,
	const char **ret_name)
{
	struct extra key = {.name = name, .len = len}, *extra;
	uint64_t hash = tasd_map_hash(&r->extras, name, len, 0);

	if (tasd_map_find(&r->extras, hash, extra_has_name, &key))
		return -EEXIST;
	extra = tasd_arena_alloc(&r->arena, sizeof(*extra));
	key.name = extra ? tasd_arena_copy(&r->arena, name, len) : NULL;
	if (!key.name || tasd_map_put(&r->extras, hash, extra)) {
		r->full = true;
		return -E2BIG;
	}
	*extra = key;
	if (!r->first_extra)
		r->first_extra = extra;
	r->nextras++;
	*ret_name = extra->name;
	return 0;
}

static tasd_err take_tensor(void *ctx, const char *name, uint32_t len,
	const struct tasd_tensor *tensor, const char **ret_name)
{
	struct reading *r = ctx;
	struct tasd_st_want *want = tasd_st_index_want(r->index, name, len);

	if (!want || !want->shard || want->shard->same != r->shard)
		return take_extra(r, name, len, ret_name);
	if (want->tensor)
		return -EEXIST;
	want->tensor = tasd_st_tensor_copy(
		tasd_statedict_arena(r->index->ctr->sd), tensor);
	*ret_name = want->node->key.text;
	return want->tensor ? 0 : -E2BIG;
}

static tasd_err take_meta(void *ctx, const char *name, uint32_t name_len,
	const char *value, uint32_t value_len)
{
	struct reading *r = ctx;
	struct pair *pair = tasd_arena_alloc(&r->arena, sizeof(*pair));

	if (pair) {
		pair->name = tasd_arena_copy(&r->arena, name, name_len);
		pair->value = tasd_arena_copy(&r->arena, value, value_len);
	}
	if (!pair || !pair->name || !pair->value) {
		r->full = true;
		return -E2BIG;
	}
	pair->name_len = name_len;
	pair->value_len = value_len;
	if (r->last_pair)
		r->last_pair->next = pair;
	else
		r->pairs = pair;
	r->last_pair = pair;
	return 0;
}

/* The header was good to the end: what it said counts. */
static tasd_err accept_shard(struct reading *r)
{
	char shard[SHOWN_MAX], tensor[SHOWN_MAX];

	for (const struct pair *p = r->pairs; p; p = p->next) {
		tasd_err err =
			tasd_metaset_put(&r->index->metas, TASD_META_KEEP,
				p->name, p->name_len, p->value, p->value_len);

		if (err)
			return err;
	}
	if (r->nextras)
		tasd_container_problem(r->index->ctr,
			"shard %s: holds %llu tensor%s that the index does "
			"not take from it, the first is \"%s\"",
			tasd_print_bytes(shard, sizeof(shard), r->shard->name,
				r->shard->len),
			(unsigned long long)r->nextras,
			r->nextras == 1 ? "" : "s",
			tasd_print_bytes(tensor, sizeof(tensor),
				r->first_extra->name, r->first_extra->len));
	return 0;
}

/* What stands there instead of a shard ("a git-lfs pointer"), or NULL. */
static const char *sniff_shard(const struct tasd_st_shard *shard)
{
	unsigned char head[TASD_PROBE_BYTES];
	struct tasd_probe probe = {.head = head,
		.size = shard->source->size,
		.fd = shard->source->fd,
		.name = shard->name};

	probe.head_len =
		probe.size < sizeof(head) ? (size_t)probe.size : sizeof(head);
	if (tasd_source_pread(shard->source, head, probe.head_len, 0) ||
		tasd_st_plausible(head, probe.head_len))
		return NULL;
	return tasd_sniff(&probe);
}

static tasd_err read_shard(
	struct tasd_st_index *index, struct tasd_st_shard *shard)
{
	struct reading r = {.index = index, .shard = shard};
	struct tasd_diag why = {""};
	const struct tasd_st_sink sink = {
		.ctx = &r,
		.tensor = take_tensor,
		.meta = take_meta,
		.budget = tasd_statedict_arena(index->ctr->sd),
	};
	tasd_err err;

	tasd_arena_init(&r.arena, EXTRAS_MAX);
	tasd_map_init(&r.extras);
	err = tasd_st_header_read(
		shard->source, shard->source_index, &sink, &why);
	if (!err)
		err = accept_shard(&r);
	else if (r.full)
		err = shard_fails(index, shard,
			"holds too much that the index does not name");
	else if (err != -ENOMEM && err != -E2BIG) {
		const char *what = sniff_shard(shard);

		err = shard_fails(
			index, shard, what ? what : tasd_diag_text(&why, err));
	}
	tasd_map_free(&r.extras);
	tasd_arena_free(&r.arena);
	return err;
}

static tasd_err not_in_shard(
	struct tasd_st_index *index, struct tasd_node *node, const char *shard)
{
	struct tasd_buf text = TASD_BUF_EMPTY;
	char name[SHOWN_MAX];

	tasd_buf_printf(&text, "not in shard %s", shard);
	if (!tasd_buf_err(&text))
		node->error =
			tasd_arena_copy(tasd_statedict_arena(index->ctr->sd),
				text.bytes, text.len);
	tasd_buf_free(&text);
	tasd_container_problem(index->ctr, "tensor \"%s\": not in shard %s",
		tasd_print_bytes(
			name, sizeof(name), node->key.text, node->key.len),
		shard);
	return node->error ? 0 : -E2BIG;
}

/* Give every entry of a shard what was found, or say why nothing was. */
static tasd_err settle_shard(
	struct tasd_st_index *index, struct tasd_st_shard *shard)
{
	const char *error = shard->error;
	char name[SHOWN_MAX];
	tasd_err err = 0;

	tasd_print_bytes(name, sizeof(name), shard->name, shard->len);
	if (!error && shard->same)
		error = shard->same->error;
	for (struct tasd_st_want *w = shard->wants; w && !err; w = w->next) {
		if (!error && w->tensor) {
			w->node->tensor = w->tensor;
			continue;
		}
		index->incomplete = true;
		w->node->error = error;
		if (!error)
			err = not_in_shard(index, w->node, name);
	}
	return err;
}

/* Only when all tensors are there is there a sum to hold against it. */
static void check_sum(struct tasd_st_index *index)
{
	uint64_t sum = 0;

	for (struct tasd_st_shard *s = index->first; s; s = s->next) {
		for (struct tasd_st_want *w = s->wants; w; w = w->next) {
			if (!tasd_add_u64(sum, w->tensor->nbytes, &sum))
				return;
		}
	}
	if (sum != index->total_size)
		tasd_container_problem(index->ctr,
			"the index's metadata.total_size is %llu, its tensors "
			"have %llu bytes",
			(unsigned long long)index->total_size,
			(unsigned long long)sum);
}

tasd_err tasd_st_shards_read(struct tasd_st_index *index)
{
	struct tasd_st_shard *s;
	tasd_err err = open_shards(index);

	for (s = index->first; s && !err; s = s->next) {
		if (s->same == s)
			err = read_shard(index, s);
	}
	for (s = index->first; s && !err; s = s->next)
		err = settle_shard(index, s);
	if (!err && index->has_total_size && !index->incomplete)
		check_sum(index);
	return err;
}
