/*
 * A container's metadata while it is being read: each name once.
 */
#ifndef TASD_FORMAT_METASET_H
#define TASD_FORMAT_METASET_H

#include <base/map.h>
#include <format/container.h>

struct tasd_metaset {
	struct tasd_container *ctr; /* borrowed; what it fills */
	struct tasd_map names;
};

void tasd_metaset_init(struct tasd_metaset *set, struct tasd_container *ctr);
void tasd_metaset_free(struct tasd_metaset *set);

enum tasd_metaset_twice {
	TASD_META_KEEP,    /* the first value of a name stays */
	TASD_META_REPLACE, /* the last one counts */
};

/* Both texts are copied. */
tasd_err tasd_metaset_put(struct tasd_metaset *set,
	enum tasd_metaset_twice twice, const char *name, uint32_t name_len,
	const char *value, uint32_t value_len);

#endif
