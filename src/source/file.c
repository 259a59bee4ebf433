/*
 * A regular file.  The stamp is taken when the source is made and looked at
 * again after every read: bytes are handed out only when the file is still the
 * one that was parsed, so no reply mixes two states of it.
 */
#include <source/fileio.h>
#include <source/source.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tasd_err read_all(int fd, void *out, size_t len, uint64_t offset)
{
	size_t done = 0;
	tasd_err err = tasd_fileio_pread(fd, out, len, offset, &done);

	if (!err && done < len)
		err = -EIO; /* shorter than it was */
	return err;
}

static tasd_err file_preadv(struct tasd_source *source,
	const struct tasd_span *spans, size_t nspans)
{
	tasd_err err = 0;

	for (size_t i = 0; i < nspans && !err; i++)
		err = read_all(source->fd, spans[i].out, spans[i].len,
			spans[i].offset);
	if (err)
		return err;
	return tasd_source_check(source) ? -EIO : 0;
}

static tasd_err file_pread(
	struct tasd_source *source, void *out, size_t len, uint64_t offset)
{
	const struct tasd_span span = {
		.offset = offset, .len = len, .out = out};

	return file_preadv(source, &span, 1);
}

static void file_free(struct tasd_source *source)
{
	close(source->fd);
	free(source->name);
	free(source);
}

static const struct tasd_source_ops file_ops = {
	.pread = file_pread,
	.preadv = file_preadv,
	.free = file_free,
};

tasd_err tasd_source_file(int fd, const char *name, struct tasd_source **ret)
{
	struct tasd_source *source;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < 0)
		return -EINVAL;
	source = calloc(1, sizeof(*source));
	if (!source)
		return -ENOMEM;
	source->name = strdup(name);
	if (!source->name) {
		free(source);
		return -ENOMEM;
	}
	source->ops = &file_ops;
	source->stamp = tasd_stamp_of(&st);
	source->size = source->stamp.size;
	source->fd = fd;
	source->refs = 1;
	*ret = source;
	return 0;
}
