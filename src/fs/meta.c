/*
 * `.tasd` of a state dict and of the mount.  What it holds is made when it is
 * looked at: an index's size by a counting pass, its text at open, flat's table
 * of names at the first lookup in it.  Nothing of it is kept for a state dict
 * that nobody looks at.
 */
#include "meta.h"
#include "dict.h"
#include "fs.h"
#include "serve.h"
#include <format/attr.h>
#include <format/index.h>
#include <statedict/name.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum meta_what {
	META_DIR, /* .tasd */
	META_INDEX_JSON,
	META_INDEX_MSGPACK,
	META_TREE,
	META_STATS,
	META_NPY,
	META_F32,
	META_FLAT_DIR,
	META_META_DIR,
	META_ATTRS,
	META_UNSAFE,
	META_FILES,
	META_VALUE, /* a file in meta/, by its number */
};

struct meta_entry {
	const char *name;
	enum meta_what what;
	bool of_mount; /* stands in the mount's .tasd only */
	bool of_dict;  /* ... in a state dict's */
};

static const struct meta_entry entries[] = {
	{"index.json", META_INDEX_JSON, false, true},
	{"index.msgpack", META_INDEX_MSGPACK, false, true},
	{"tree", META_TREE, false, true},
	{"npy", META_NPY, false, true},
	{"f32", META_F32, false, true},
	{"flat", META_FLAT_DIR, false, true},
	{"meta", META_META_DIR, false, true},
	{"attrs", META_ATTRS, false, true},
	{"unsafe", META_UNSAFE, false, true},
	{"files", META_FILES, false, true},
	{"stats", META_STATS, true, false},
};
#define NENTRIES (sizeof(entries) / sizeof(entries[0]))

struct meta_inode {
	struct tasd_inode base;
	struct tasd_version *version; /* owned reference; NULL: the mount's */
	enum meta_what what;
	uint32_t number; /* of a metadata value */
};

static const struct tasd_inode_ops meta_ops;

static struct meta_inode *meta_of(struct tasd_inode *inode)
{
	return (struct meta_inode *)inode;
}

/* version is not taken. */
static void meta_init(struct meta_inode *m, struct tasd_fs *fs,
	struct tasd_version *version, enum meta_what what, uint32_t number)
{
	uint64_t parts[3] = {(uintptr_t)version, what, number};

	*m = (struct meta_inode){
		.base = {.ops = &meta_ops,
			.fs = fs,
			.refs = 1,
			.ttl = what == META_STATS ? 0 : TASD_TTL_LONG,
			.hash = tasd_map_hash(
				&fs->table.map, parts, sizeof(parts), 1)},
		.version = version,
		.what = what,
		.number = number};
}

static tasd_err meta_inode(struct tasd_fs *fs, struct tasd_version *version,
	enum meta_what what, uint32_t number, struct tasd_inode **ret)
{
	struct meta_inode *m = malloc(sizeof(*m));

	if (!m)
		return -ENOMEM;
	meta_init(m, fs, version ? tasd_version_get(version) : NULL, what,
		number);
	return tasd_inode_intern(&m->base, ret);
}

tasd_err tasd_meta_root(struct tasd_fs *fs, struct tasd_version *version,
	struct tasd_inode **ret)
{
	return meta_inode(fs, version, META_DIR, 0, ret);
}

static bool meta_same(const struct tasd_inode *a, const struct tasd_inode *b)
{
	const struct meta_inode *x = (const struct meta_inode *)a;
	const struct meta_inode *y = (const struct meta_inode *)b;

	return x->version == y->version && x->what == y->what &&
	       x->number == y->number;
}

static void meta_free(struct tasd_inode *inode)
{
	tasd_version_put(meta_of(inode)->version);
	free(inode);
}

/* ---- texts -------------------------------------------------------------- */

static void write_text(const struct meta_inode *m, struct tasd_buf *text)
{
	switch (m->what) {
	case META_INDEX_JSON:
		tasd_index_json(text, m->version->ctr);
		break;
	case META_INDEX_MSGPACK:
		tasd_index_msgpack(text, m->version->ctr);
		break;
	case META_TREE:
		tasd_index_table(text, m->version->ctr);
		break;
	case META_STATS:
		tasd_stats_text(m->base.fs, text);
		break;
	case META_VALUE:
		tasd_buf_add(text, m->version->ctr->meta[m->number].value,
			m->version->ctr->meta[m->number].value_len);
		break;
	case META_UNSAFE:
		tasd_buf_add(text, m->version->ctr->unsafe,
			m->version->ctr->unsafe_len);
		break;
	case META_DIR:
	case META_NPY:
	case META_F32:
	case META_FLAT_DIR:
	case META_META_DIR:
	case META_ATTRS:
	case META_FILES:
		break;
	}
}

/* Where an index's size is remembered, or NULL. */
static uint64_t *size_slot(const struct meta_inode *m)
{
	switch (m->what) {
	case META_INDEX_JSON:
		return &m->version->text_size[0];
	case META_INDEX_MSGPACK:
		return &m->version->text_size[1];
	case META_TREE:
		return &m->version->text_size[2];
	case META_DIR:
	case META_STATS:
	case META_NPY:
	case META_F32:
	case META_FLAT_DIR:
	case META_META_DIR:
	case META_ATTRS:
	case META_UNSAFE:
	case META_FILES:
	case META_VALUE:
		break;
	}
	return NULL;
}

static tasd_err text_size(const struct meta_inode *m, uint64_t *ret_size)
{
	struct tasd_buf count = tasd_buf_counting();
	uint64_t *slot = size_slot(m);

	if (slot) {
		uint64_t known = __atomic_load_n(slot, __ATOMIC_RELAXED);

		if (known) {
			*ret_size = known - 1;
			return 0;
		}
	}
	write_text(m, &count);
	*ret_size = count.len;
	if (slot && !tasd_buf_err(&count))
		__atomic_store_n(slot, count.len + 1, __ATOMIC_RELAXED);
	return tasd_buf_err(&count);
}

static bool is_dir(enum meta_what what)
{
	return what == META_DIR || what == META_FLAT_DIR ||
	       what == META_META_DIR;
}

static uint64_t meta_st_ino(const struct tasd_version *version,
	enum meta_what what, uint32_t number)
{
	uint64_t parts[4] = {
		version ? version->place_hash : 0, what, number, 0x7461736466};

	return XXH3_64bits(parts, sizeof(parts));
}

static tasd_err meta_attr(struct tasd_inode *inode, struct stat *ret)
{
	const struct meta_inode *m = meta_of(inode);
	uint64_t size = 0;
	tasd_err err = is_dir(m->what) ? 0 : text_size(m, &size);
	uint64_t st_ino = meta_st_ino(m->version, m->what, m->number);

	if (err)
		return err;
	if (m->version) {
		tasd_dict_stat(m->version, is_dir(m->what), size, st_ino, ret);
		return 0;
	}
	memset(ret, 0, sizeof(*ret));
	ret->st_mode = is_dir(m->what) ? S_IFDIR | 0555 : S_IFREG | 0444;
	ret->st_nlink = is_dir(m->what) ? 2 : 1;
	ret->st_ino = st_ino;
	ret->st_uid = getuid();
	ret->st_gid = getgid();
	ret->st_size = (off_t)size;
	return 0;
}

/*
 * Does the place still hold what this is about?  The texts and metadata tell of
 * all its files; the other directories ask for themselves, below.
 */
static tasd_err fresh(const struct meta_inode *m)
{
	struct tasd_version *v = m->version;

	if (!v)
		return 0;
	if (m->what == META_DIR || m->what == META_FLAT_DIR)
		return tasd_version_check(v, tasd_statedict_root(v->ctr->sd));
	return tasd_version_check(v, NULL);
}

static tasd_err meta_open(struct tasd_inode *inode, struct tasd_open *open)
{
	const struct meta_inode *m = meta_of(inode);
	struct tasd_buf text = TASD_BUF_EMPTY;
	size_t len = 0;
	tasd_err err;

	if (is_dir(m->what))
		return -EISDIR;
	err = fresh(m);
	if (err)
		return err;
	write_text(m, &text);
	open->text = tasd_buf_steal(&text, &len);
	if (!open->text) {
		err = tasd_buf_err(&text);
		tasd_buf_free(&text);
		return err ? err : -ENOMEM;
	}
	open->size = len;
	open->kind = m->what == META_STATS ? TASD_OPEN_LIVE : TASD_OPEN_TEXT;
	return 0;
}

/* ---- flat --------------------------------------------------------------- */

struct flat_entry {
	const struct tasd_node *node;
	const char *name; /* terminated, in the arena */
};

struct tasd_flat {
	struct tasd_arena arena;
	struct tasd_map map; /* by name */
	struct flat_entry *entries;
	uint32_t count;
};

void tasd_flat_free(struct tasd_flat *flat)
{
	if (!flat)
		return;
	tasd_map_free(&flat->map);
	tasd_arena_free(&flat->arena);
	free(flat->entries);
	free(flat);
}

static bool flat_named(const void *value, const void *key)
{
	return strcmp(((const struct flat_entry *)value)->name, key) == 0;
}

static struct flat_entry *flat_find(
	const struct tasd_flat *flat, const char *name)
{
	return tasd_map_find(&flat->map,
		tasd_map_hash(&flat->map, name, strlen(name), 0), flat_named,
		name);
}

/* Name one tensor; two keys that read alike get a number from the second on. */
static tasd_err flat_add(struct tasd_flat *flat, const struct tasd_node *node)
{
	struct flat_entry *entry = &flat->entries[flat->count];
	struct tasd_buf key = TASD_BUF_EMPTY, name = TASD_BUF_EMPTY;
	tasd_err err;

	tasd_node_dotted(&key, node);
	for (unsigned int n = 1; !tasd_buf_err(&key); n++) {
		name.len = 0;
		tasd_name_escape(&name, key.bytes, key.len,
			n == 1 ? TASD_NAME_MAX : TASD_NAME_MAX - 12);
		if (n > 1)
			tasd_buf_printf(&name, "%%:%u", n);
		tasd_buf_char(&name, '\0');
		if (tasd_buf_err(&name) || !flat_find(flat, name.bytes))
			break;
	}
	err = tasd_buf_err(&key) ? tasd_buf_err(&key) : tasd_buf_err(&name);
	if (!err) {
		entry->node = node;
		entry->name =
			tasd_arena_copy(&flat->arena, name.bytes, name.len - 1);
		err = entry->name
			      ? tasd_map_put(&flat->map,
					tasd_map_hash(&flat->map, entry->name,
						name.len - 1, 0),
					entry)
			      : -ENOMEM;
	}
	if (!err)
		flat->count++;
	tasd_buf_free(&key);
	tasd_buf_free(&name);
	return err;
}

static tasd_err flat_new(
	const struct tasd_container *ctr, struct tasd_flat **ret)
{
	const struct tasd_node *root = tasd_statedict_root(ctr->sd);
	uint64_t n = tasd_statedict_totals(ctr->sd).tensors;
	struct tasd_flat *flat = calloc(1, sizeof(*flat));
	tasd_err err = 0;

	if (!flat)
		return -ENOMEM;
	tasd_arena_init(&flat->arena, TASD_CONTAINER_MEMORY);
	tasd_map_init(&flat->map);
	flat->entries = calloc(n ? n : 1, sizeof(*flat->entries));
	if (!flat->entries)
		err = -ENOMEM;
	for (const struct tasd_node *node = root; node && !err;
		node = tasd_node_next(node))
		if (node->form == TASD_FORM_TENSOR && flat->count < n)
			err = flat_add(flat, node);
	if (err) {
		tasd_flat_free(flat);
		return err;
	}
	*ret = flat;
	return 0;
}

/* The version's table, made once; when two threads make it, one is dropped. */
static tasd_err flat_of(
	struct tasd_version *version, const struct tasd_flat **ret)
{
	struct tasd_flat *mine = NULL;
	tasd_err err;

	pthread_mutex_lock(&version->lock);
	*ret = version->flat;
	pthread_mutex_unlock(&version->lock);
	if (*ret)
		return 0;
	err = flat_new(version->ctr, &mine);
	if (err)
		return err;
	pthread_mutex_lock(&version->lock);
	if (!version->flat) {
		version->flat = mine;
		mine = NULL;
	}
	*ret = version->flat;
	pthread_mutex_unlock(&version->lock);
	tasd_flat_free(mine);
	return 0;
}

/* ---- metadata values ---------------------------------------------------- */

/* The file name of value i. */
static tasd_err value_name(
	const struct tasd_container *ctr, uint32_t i, char *out, size_t size)
{
	struct tasd_buf name = TASD_BUF_EMPTY;
	tasd_err err;

	tasd_attr_meta_name(&name, &ctr->meta[i], TASD_NAME_MAX);
	tasd_buf_char(&name, '\0');
	err = tasd_buf_err(&name);
	if (!err && name.len > size)
		err = -ENAMETOOLONG;
	if (!err)
		memcpy(out, name.bytes, name.len);
	tasd_buf_free(&name);
	return err;
}

/* ---- directories -------------------------------------------------------- */

static tasd_err entry_inode(struct tasd_fs *fs, struct tasd_version *version,
	enum meta_what what, struct tasd_inode **ret)
{
	switch (what) {
	case META_NPY:
	case META_F32:
		return tasd_dict_inode(fs, version,
			tasd_statedict_root(version->ctr->sd),
			what == META_NPY ? TASD_DICT_NPY : TASD_DICT_F32, ret);
	case META_ATTRS:
		return tasd_dict_inode(fs, version,
			tasd_statedict_attrs(version->ctr->sd), TASD_DICT_TREE,
			ret);
	case META_FILES:
		return tasd_library_root(fs, version->files, ret);
	case META_DIR:
	case META_INDEX_JSON:
	case META_INDEX_MSGPACK:
	case META_TREE:
	case META_STATS:
	case META_FLAT_DIR:
	case META_META_DIR:
	case META_UNSAFE:
	case META_VALUE:
		break;
	}
	return meta_inode(fs, version, what, 0, ret);
}

/* Does this entry stand in the .tasd of version (NULL: of the mount)? */
static bool stands(
	const struct meta_entry *entry, const struct tasd_version *version)
{
	if (version && entry->what == META_ATTRS)
		return tasd_statedict_attrs(version->ctr->sd)->dir.nchildren;
	if (version && entry->what == META_UNSAFE)
		return version->ctr->nunsafe;
	if (version && entry->of_dict)
		return true;
	return entry->of_mount && (!version || version->is_root);
}

static tasd_err find_value(
	struct tasd_inode *inode, const char *name, struct tasd_inode **ret)
{
	struct tasd_version *v = meta_of(inode)->version;
	char other[TASD_NAME_MAX + 1];

	for (uint32_t i = 0; i < v->ctr->nmeta; i++)
		if (value_name(v->ctr, i, other, sizeof(other)) == 0 &&
			strcmp(other, name) == 0)
			return meta_inode(inode->fs, v, META_VALUE, i, ret);
	return -ENOENT;
}

static tasd_err find_entry(
	struct tasd_inode *inode, const char *name, struct tasd_inode **ret)
{
	const struct meta_inode *m = meta_of(inode);
	const struct tasd_flat *flat = NULL;
	struct flat_entry *found;
	tasd_err err;

	if (m->what == META_META_DIR)
		return find_value(inode, name, ret);
	if (m->what == META_FLAT_DIR) {
		err = flat_of(m->version, &flat);
		if (err)
			return err;
		found = flat_find(flat, name);
		return found ? tasd_dict_inode(inode->fs, m->version,
				       found->node, TASD_DICT_FLAT, ret)
			     : -ENOENT;
	}
	if (m->what != META_DIR)
		return -ENOTDIR;
	for (size_t i = 0; i < NENTRIES; i++)
		if (strcmp(entries[i].name, name) == 0 &&
			stands(&entries[i], m->version))
			return entry_inode(
				inode->fs, m->version, entries[i].what, ret);
	return -ENOENT;
}

/* A name that is not there may be by now; and the container's folder, which has
 * no version, may be another. */
static tasd_err meta_lookup(
	struct tasd_inode *inode, const char *name, struct tasd_inode **ret)
{
	const struct meta_inode *m = meta_of(inode);
	tasd_err err = m->what == META_DIR ? fresh(m) : 0, stale;

	if (err)
		return err;
	err = find_entry(inode, name, ret);
	if (err != -ENOENT)
		return err;
	stale = fresh(m);
	return stale ? stale : err;
}

static tasd_err meta_opendir(struct tasd_inode *inode, struct tasd_dir *dir)
{
	const struct meta_inode *m = meta_of(inode);
	const struct tasd_flat *flat = NULL;
	tasd_err err;

	if (!is_dir(m->what))
		return -ENOTDIR;
	err = fresh(m);
	if (err)
		return err;
	if (m->version)
		dir->version = tasd_version_get(m->version);
	return m->what == META_FLAT_DIR ? flat_of(m->version, &flat) : 0;
}

static tasd_err set_entry(
	struct tasd_dirent *ret, const char *name, uint64_t st_ino, mode_t type)
{
	size_t len = strlen(name);

	if (len >= sizeof(ret->name))
		return -ENAMETOOLONG;
	memcpy(ret->name, name, len + 1);
	ret->st_ino = st_ino;
	ret->type = type;
	return 0;
}

static mode_t entry_type(enum meta_what what)
{
	return is_dir(what) || what == META_NPY || what == META_F32 ||
			       what == META_ATTRS || what == META_FILES
		       ? S_IFDIR
		       : S_IFREG;
}

static tasd_err meta_entry(
	struct tasd_dir *dir, uint64_t *at, struct tasd_dirent *ret)
{
	const struct meta_inode *m = meta_of(dir->inode);
	const struct tasd_flat *flat = NULL;
	uint64_t i;

	if (m->what == META_META_DIR) {
		if (*at >= m->version->ctr->nmeta)
			return -ENOENT;
		i = (*at)++;
		ret->st_ino = meta_st_ino(m->version, META_VALUE, (uint32_t)i);
		ret->type = S_IFREG;
		return value_name(m->version->ctr, (uint32_t)i, ret->name,
			sizeof(ret->name));
	}
	if (m->what == META_FLAT_DIR) {
		tasd_err err = flat_of(m->version, &flat);

		if (err)
			return err;
		if (*at >= flat->count)
			return -ENOENT;
		i = (*at)++;
		return set_entry(ret, flat->entries[i].name,
			meta_st_ino(m->version, META_FLAT_DIR, (uint32_t)i + 1),
			S_IFREG);
	}
	while (*at < NENTRIES) {
		const struct meta_entry *entry = &entries[(*at)++];

		if (stands(entry, m->version))
			return set_entry(ret, entry->name,
				meta_st_ino(m->version, entry->what, 0),
				entry_type(entry->what));
	}
	return -ENOENT;
}

static tasd_err meta_entry_node(struct tasd_dir *dir, uint64_t at,
	const char *name, struct tasd_inode **ret)
{
	const struct meta_inode *m = meta_of(dir->inode);

	if (m->what == META_META_DIR)
		return meta_inode(dir->inode->fs, m->version, META_VALUE,
			(uint32_t)at, ret);
	return meta_lookup(dir->inode, name, ret);
}

/* ---- what was open of an old version ------------------------------------ */

static void drop_from(
	struct tasd_version *version, enum meta_what dir, const char *name)
{
	struct meta_inode probe;

	meta_init(&probe, version->fs, version, dir, 0);
	tasd_version_drop_name(version, &probe.base, name);
}

static void drop_entry(struct tasd_version *version, enum meta_what what)
{
	for (size_t i = 0; i < NENTRIES; i++)
		if (entries[i].what == what)
			drop_from(version, META_DIR, entries[i].name);
}

static void meta_closed(struct tasd_inode *inode)
{
	const struct meta_inode *m = meta_of(inode);
	char name[TASD_NAME_MAX + 1];

	if (!m->version || !tasd_version_is_stale(m->version))
		return;
	if (m->what == META_VALUE &&
		value_name(m->version->ctr, m->number, name, sizeof(name)) == 0)
		drop_from(m->version, META_META_DIR, name);
	drop_entry(m->version, m->what == META_VALUE ? META_META_DIR : m->what);
}

void tasd_meta_drop_view(struct tasd_version *version, enum tasd_dict_view view,
	const struct tasd_node *node)
{
	const struct tasd_flat *flat = NULL;

	if (view == TASD_DICT_FLAT && flat_of(version, &flat) == 0)
		for (uint32_t i = 0; i < flat->count; i++)
			if (flat->entries[i].node == node)
				drop_from(version, META_FLAT_DIR,
					flat->entries[i].name);
	drop_entry(version, view == TASD_DICT_NPY   ? META_NPY
			    : view == TASD_DICT_F32 ? META_F32
						    : META_FLAT_DIR);
}

static const struct tasd_inode_ops meta_ops = {
	.what = "meta",
	.same = meta_same,
	.free = meta_free,
	.attr = meta_attr,
	.lookup = meta_lookup,
	.opendir = meta_opendir,
	.entry = meta_entry,
	.entry_node = meta_entry_node,
	.open = meta_open,
	.closed = meta_closed,
};
