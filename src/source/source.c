/*
 * What all kinds share: counting, and the range check that lets a kind's own
 * pread trust its arguments.
 */
#include <base/checked.h>
#include <source/source.h>
#include <stdlib.h>
#include <unistd.h>

struct tasd_source *tasd_source_get(struct tasd_source *source)
{
	__atomic_add_fetch(&source->refs, 1, __ATOMIC_RELAXED);
	return source;
}

void tasd_source_put(struct tasd_source *source)
{
	if (!source)
		return;
	if (__atomic_sub_fetch(&source->refs, 1, __ATOMIC_ACQ_REL))
		return;
	source->ops->free(source);
}

tasd_err tasd_source_pread(
	struct tasd_source *source, void *out, size_t len, uint64_t offset)
{
	if (!tasd_range_fits(offset, len, source->size))
		return -EIO;
	if (len == 0)
		return 0;
	return source->ops->pread(source, out, len, offset);
}

tasd_err tasd_source_preadv(struct tasd_source *source,
	const struct tasd_span *spans, size_t nspans)
{
	tasd_err err = 0;

	for (size_t i = 0; i < nspans; i++) {
		if (!tasd_range_fits(
			    spans[i].offset, spans[i].len, source->size))
			return -EIO;
	}
	if (source->ops->preadv && nspans > 0)
		return source->ops->preadv(source, spans, nspans);
	for (size_t i = 0; i < nspans && !err; i++)
		err = tasd_source_pread(
			source, spans[i].out, spans[i].len, spans[i].offset);
	return err;
}

tasd_err tasd_source_check(const struct tasd_source *source)
{
	struct tasd_stamp now;
	tasd_err err;

	if (source->fd < 0)
		return 0;
	err = tasd_stamp_fd(source->fd, &now);
	if (err)
		return err;
	return tasd_stamp_same_bytes(&source->stamp, &now) ? 0 : -ESTALE;
}
