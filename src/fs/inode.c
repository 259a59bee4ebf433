/*
 * The node table.
 *
 * State of a node: allocated (refs 1, nlookup 0) -> interned (in the map,
 * nlookup > 0, which holds one reference) -> forgotten (out of the map; lives
 * on while opens hold references) -> freed.  A node is in the map exactly while
 * nlookup > 0, so a lookup that races with the last forget either revives the
 * node before it leaves the map or makes a new one.
 */
#include "fs.h"
#include <stdlib.h>

/* Give memory back when the table has shrunk by this many nodes. */
#define TRIM_STEP 16384

void tasd_inode_table_init(struct tasd_inode_table *table)
{
	pthread_mutex_init(&table->lock, NULL);
	tasd_map_init(&table->map);
	table->count = table->peak = table->ntotal = 0;
}

struct tasd_inode *tasd_inode_get(struct tasd_inode *inode)
{
	__atomic_add_fetch(&inode->refs, 1, __ATOMIC_RELAXED);
	return inode;
}

void tasd_inode_put(struct tasd_inode *inode)
{
	if (!inode || __atomic_sub_fetch(&inode->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	inode->ops->free(inode);
}

static bool same_inode(const void *value, const void *key)
{
	const struct tasd_inode *a = value, *b = key;

	return a->ops == b->ops && a->ops->same(a, b);
}

tasd_err tasd_inode_intern(
	struct tasd_inode *candidate, struct tasd_inode **ret)
{
	struct tasd_inode_table *table = &candidate->fs->table;
	struct tasd_inode *known;
	tasd_err err = 0;

	pthread_mutex_lock(&table->lock);
	known = tasd_map_find(
		&table->map, candidate->hash, same_inode, candidate);
	if (known) {
		known->nlookup++;
	} else {
		err = tasd_map_put(&table->map, candidate->hash, candidate);
		if (!err) {
			candidate->nlookup = 1;
			if (++table->count > table->peak)
				table->peak = table->count;
		}
	}
	pthread_mutex_unlock(&table->lock);
	if (known || err)
		tasd_inode_put(candidate);
	*ret = known ? known : err ? NULL : candidate;
	return err;
}

struct tasd_inode *tasd_inode_lookup(
	struct tasd_fs *fs, const struct tasd_inode *probe)
{
	struct tasd_inode *known;

	pthread_mutex_lock(&fs->table.lock);
	known = tasd_map_find(&fs->table.map, probe->hash, same_inode, probe);
	if (known)
		known->nlookup++;
	pthread_mutex_unlock(&fs->table.lock);
	return known;
}

void tasd_inode_forget(struct tasd_inode *inode, uint64_t n)
{
	struct tasd_fs *fs = inode->fs;
	struct tasd_inode_table *table = &fs->table;
	bool gone = false, trim = false;

	pthread_mutex_lock(&table->lock);
	inode->nlookup = n < inode->nlookup ? inode->nlookup - n : 0;
	if (inode->nlookup == 0) {
		gone = tasd_map_remove(&table->map, inode->hash, inode);
		if (gone && --table->count + TRIM_STEP <= table->peak) {
			table->peak = table->count;
			trim = true;
		}
	}
	pthread_mutex_unlock(&table->lock);
	if (gone)
		tasd_inode_put(inode);
	if (trim)
		tasd_notifier_trim(fs->notifier);
}

void tasd_inode_table_drain(struct tasd_fs *fs)
{
	struct tasd_inode *inode;
	size_t at = 0;

	while ((inode = tasd_map_next(&fs->table.map, &at)))
		tasd_inode_put(inode);
	tasd_map_free(&fs->table.map);
	fs->table.count = 0;
}

uint64_t tasd_inode_id(const struct tasd_inode *inode)
{
	if (inode == inode->fs->root)
		return FUSE_ROOT_ID;
	return (uintptr_t)inode;
}

struct tasd_inode *tasd_inode_of(struct tasd_fs *fs, uint64_t id)
{
	if (id == FUSE_ROOT_ID)
		return fs->root;
	return (struct tasd_inode *)(uintptr_t)id;
}
