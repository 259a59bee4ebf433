/*
 * The bytes of one leaf as a reader sees them: the tensor itself, or the same
 * tensor as a .npy file, or widened to float32, or a value's text.  What fs
 * serves and what `tasdfs cat` prints are the same bytes, from here.
 *
 * A content holds a reference on its source, so it outlives the container.
 * Any thread; pread needs no lock.
 */
#ifndef TASD_FORMAT_CONTENT_H
#define TASD_FORMAT_CONTENT_H

#include "container.h"

enum tasd_view {
	TASD_VIEW_RAW, /* row-major little-endian bytes, or the value's */
	TASD_VIEW_NPY, /* NAME.npy */
	TASD_VIEW_F32, /* NAME.npy of float32 */
};

/* Does node have a file in that view? */
bool tasd_content_exists(const struct tasd_node *node, enum tasd_view view);

/*
 * Exact size in bytes without touching data.  For a broken tensor: 0 when the
 * size is not known.
 */
uint64_t tasd_content_size(const struct tasd_node *node, enum tasd_view view);

struct tasd_content {
	struct tasd_container *ctr; /* owned reference */
	const struct tasd_node *node;
	char *head; /* .npy header; owned */
	uint64_t head_len;
	uint64_t size;
	enum tasd_view view;
};

/*
 * -EIO: the node is broken (its error says why).  -ENODATA: a placeholder.
 * -ENOENT: no such view of it.
 */
tasd_err tasd_content_open(struct tasd_container *ctr,
	const struct tasd_node *node, enum tasd_view view,
	struct tasd_content *ret);
void tasd_content_close(struct tasd_content *content);

/*
 * Read up to len bytes at offset; *ret_len is short only at the end.
 * -EIO: the source changed or is short.
 */
tasd_err tasd_content_pread(struct tasd_content *content, void *out, size_t len,
	uint64_t offset, size_t *ret_len);

/*
 * When the bytes are one plain range of a file: its source and offset, so that
 * a server can read straight from the fd.  false otherwise.
 */
bool tasd_content_window(const struct tasd_container *ctr,
	const struct tasd_node *node, enum tasd_view view,
	struct tasd_source **ret_source, uint64_t *ret_offset);

#endif
