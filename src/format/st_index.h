/*
 * The index of a sharded safetensors set as it is being read: which tensor the
 * index wants from which shard.  Shared by the parts of that format.
 */
#ifndef TASD_FORMAT_ST_INDEX_H
#define TASD_FORMAT_ST_INDEX_H

#include "metaset.h"
#include <base/map.h>
#include <format/container.h>

struct tasd_st_shard;

/* One entry of weight_map. */
struct tasd_st_want {
	struct tasd_node *node;
	struct tasd_st_shard *shard; /* NULL: no shard is named */
	struct tasd_tensor *tensor;  /* what the shard has; NULL: nothing */
	struct tasd_st_want *next;   /* of the same shard */
};

/* One shard as the index names it.  In the container's arena. */
struct tasd_st_shard {
	const char *name; /* terminated; it may hold NULs, too */
	uint32_t len;
	uint32_t nwants;
	struct tasd_st_want *wants, *last_want; /* in the index's order */
	struct tasd_st_shard *next;             /* in the index's order */
	/* The first shard that is the same file, perhaps this one; NULL: it
	 * could not be opened. */
	struct tasd_st_shard *same;
	struct tasd_source *source; /* the container's; only of the first */
	uint32_t source_index;
	const char *error; /* why nothing of it can be read */
};

struct tasd_st_index {
	struct tasd_container *ctr;
	struct tasd_metaset metas;
	struct tasd_map wants;  /* by the tensor's name */
	struct tasd_map shards; /* by name */
	struct tasd_st_shard *first, *last;
	bool has_weight_map;
	bool incomplete; /* some tensor is broken */
	bool has_total_size;
	uint64_t total_size; /* metadata.total_size */
};

/* What a node has until its shard has given it better. */
extern const struct tasd_tensor tasd_st_broken;

/* Parse the JSON text in source into an index that is empty but for ctr. */
tasd_err tasd_st_index_parse(struct tasd_st_index *index,
	struct tasd_source *source, struct tasd_diag *diag);

/*
 * Open and read every shard, and give each node its tensor or its error.  All
 * that disagrees becomes a problem of the container.
 */
tasd_err tasd_st_shards_read(struct tasd_st_index *index);

/* The entry of that tensor; NULL: the index does not name it. */
struct tasd_st_want *tasd_st_index_want(
	const struct tasd_st_index *index, const char *name, uint32_t len);

#endif
