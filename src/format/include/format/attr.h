/*
 * The extended attributes of a node (DESIGN section 2.3): names without the
 * "user.tasd." prefix.  The same for the mount, `tasdfs info` and the indexes.
 */
#ifndef TASD_FORMAT_ATTR_H
#define TASD_FORMAT_ATTR_H

#include "container.h"
#include <base/buf.h>

/* Values longer than this are not listed (`key` always is); a metadata value
 * over it is only a file below .tasd/meta. */
#define TASD_ATTR_VALUE_MAX 4096
/* All names of one node, prefix and NULs included. */
#define TASD_ATTR_LIST_MAX (48 << 10)

/*
 * Append the value of attribute `name` of node.  *ret_found tells whether node
 * has it.  with_source: may the caller know where the bytes are?
 */
tasd_err tasd_attr_get(const struct tasd_container *ctr,
	const struct tasd_node *node, const char *name, bool with_source,
	struct tasd_buf *value, bool *ret_found);

/*
 * Call fn for each attribute name of node, in a fixed order, names without the
 * prefix and terminated.  What does not fit TASD_ATTR_LIST_MAX is left out and
 * counted in `meta_omitted`.
 */
void tasd_attr_list(const struct tasd_container *ctr,
	const struct tasd_node *node, bool with_source,
	void (*fn)(void *ctx, const char *name), void *ctx);

/*
 * A metadata name as it stands in an xattr name or as a file in .tasd/meta:
 * escaped like a key (statedict/name.h), at most max bytes.
 */
void tasd_attr_meta_name(
	struct tasd_buf *buf, const struct tasd_meta *meta, size_t max);

#endif
