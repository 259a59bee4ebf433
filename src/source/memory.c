/*
 * Bytes that are in memory already: a small inflated member, a test's input.
 */
#include <source/source.h>
#include <stdlib.h>
#include <string.h>

struct memory {
	struct tasd_source source; /* first: a source is freed as this */
	char *bytes;               /* owned */
};

static tasd_err memory_pread(
	struct tasd_source *source, void *out, size_t len, uint64_t offset)
{
	const struct memory *memory = (const struct memory *)source;

	memcpy(out, memory->bytes + offset, len);
	return 0;
}

static void memory_free(struct tasd_source *source)
{
	struct memory *memory = (struct memory *)source;

	free(memory->bytes);
	free(source->name);
	free(memory);
}

static const struct tasd_source_ops memory_ops = {
	.pread = memory_pread,
	.free = memory_free,
};

tasd_err tasd_source_memory(
	char *bytes, uint64_t size, const char *name, struct tasd_source **ret)
{
	struct memory *memory;

	if (size > SIZE_MAX)
		return -EINVAL;
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	memory->source.name = strdup(name);
	if (!memory->source.name) {
		free(memory);
		return -ENOMEM;
	}
	memory->source.ops = &memory_ops;
	memory->source.size = size;
	memory->source.fd = -1;
	memory->source.refs = 1;
	memory->bytes = bytes;
	*ret = &memory->source;
	return 0;
}
