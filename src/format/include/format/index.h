/*
 * The hollow state dict as text: what .tasd/index.json, .tasd/index.msgpack and
 * .tasd/tree hold, and what the commands print.  Written into a buffer, which
 * may be a counting one.
 */
#ifndef TASD_FORMAT_INDEX_H
#define TASD_FORMAT_INDEX_H

#include "container.h"
#include <base/buf.h>

#define TASD_INDEX_VERSION 1

/*
 * {"tasdfs_index": 1, "format": .., "tensors": n, "bytes": n,
 *  "meta": {name: value, ..},
 *  "problems": [..],          when there are any
 *  "nodes": [{"path": "a/b", "key": [..], "kind": .., "order": n,
 *             "dtype": .., "shape": [..], "nbytes": n, "error": ..,
 *             "source": {"file","offset","length"}}, ..]}
 * Nodes stand in preorder without the root; a line each.  msgpack has the same
 * maps and arrays, one object.
 */
void tasd_index_json(struct tasd_buf *buf, const struct tasd_container *ctr);
void tasd_index_msgpack(struct tasd_buf *buf, const struct tasd_container *ctr);

/* The table for people: path, dtype, shape, bytes; one line a leaf. */
void tasd_index_table(struct tasd_buf *buf, const struct tasd_container *ctr);

#endif
