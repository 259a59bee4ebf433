/*
 * The invariants, checked by asking the same questions in another way than the
 * readers do.  Reading costs little: small tensors whole, large ones at the
 * ends.
 */
#include "fuzz.h"
#include <fcntl.h>
#include <format/attr.h>
#include <format/content.h>
#include <format/index.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tensor/gather.h>
#include <unistd.h>

/* So many nodes of a container have all their attributes read. */
#define ATTR_NODES 64
#define READ_MAX   4096u

void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

static char folder_path[] = "/dev/shm/tasd-fuzz-XXXXXX";

static int remove_entry(
	const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path);
}

static void remove_folder(void)
{
	nftw(folder_path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int fuzz_folder(void)
{
	int fd;

	fuzz_check(mkdtemp(folder_path));
	atexit(remove_folder);
	fd = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fuzz_check(fd >= 0);
	return fd;
}

void fuzz_write(int dirfd, const char *name, const void *data, size_t size)
{
	int fd = openat(
		dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	fuzz_check(fd >= 0);
	fuzz_check(size == 0 || write(fd, data, size) == (ssize_t)size);
	close(fd);
}

void fuzz_check_refusal(tasd_err err, const struct tasd_diag *diag)
{
	fuzz_check(err < 0);
	fuzz_check(memchr(diag->text, '\0', sizeof(diag->text)));
	fuzz_check(!strchr(diag->text, '\n'));
	/* The machine's own errors may say nothing; a file's may not. */
	if (err == -EINVAL || err == -ENOTSUP || err == -E2BIG)
		fuzz_check(diag->text[0]);
}

static void check_name(
	const struct tasd_container *ctr, const struct tasd_node *node)
{
	fuzz_check(node->name_len > 0 && node->name_len <= 255);
	fuzz_check(!memchr(node->name, '/', node->name_len));
	fuzz_check(!memchr(node->name, '\0', node->name_len));
	fuzz_check(!(node->name_len == 1 && node->name[0] == '.'));
	fuzz_check(!(node->name_len == 2 && !memcmp(node->name, "..", 2)));
	fuzz_check(!(node->name_len == 5 && !memcmp(node->name, ".tasd", 5)));
	fuzz_check(node->parent->dir.children[node->index] == node);
	fuzz_check(tasd_statedict_child(ctr->sd, node->parent, node->name,
			   node->name_len) == node);
}

static tasd_err size_of(const struct tasd_tensor *tensor, uint64_t *ret)
{
	uint64_t n = tasd_tensor_item(tensor);

	if (tensor->dtype != TASD_DTYPE_NONE)
		return tasd_dtype_nbytes(
			tensor->dtype, tensor->shape, tensor->ndim, ret);
	fuzz_check(tensor->extra && tensor->extra->descr);
	for (uint32_t i = 0; i < tensor->ndim; i++)
		n = tensor->shape[i] ? n : 0;
	for (uint32_t i = 0; i < tensor->ndim && n; i++)
		if (__builtin_mul_overflow(n, tensor->shape[i], &n))
			return -EOVERFLOW;
	*ret = n;
	return 0;
}

static void check_tensor(
	const struct tasd_container *ctr, const struct tasd_node *node)
{
	const struct tasd_tensor *tensor = node->tensor;
	const struct tasd_extent *extents = tasd_tensor_extents(tensor);
	uint64_t sum = 0, nbytes = 0;

	if (tensor->data == TASD_DATA_BROKEN) {
		fuzz_check(node->error && node->error[0]);
		fuzz_check(tensor->dtype != TASD_DTYPE_NONE ||
			   tensor->nbytes == 0);
		return;
	}
	fuzz_check(!node->error);
	fuzz_check(size_of(tensor, &nbytes) == 0);
	fuzz_check(nbytes == tensor->nbytes);
	for (uint32_t i = 0; i < tensor->nextents; i++) {
		const struct tasd_source *source;

		fuzz_check(extents[i].source < ctr->nsources);
		source = ctr->sources[extents[i].source];
		fuzz_check(extents[i].offset <= source->size);
		fuzz_check(
			extents[i].length <= source->size - extents[i].offset);
		sum += extents[i].length;
	}
	if (tensor->data == TASD_DATA_STRIDED) {
		struct tasd_gather g = tasd_gather_of(tensor);

		fuzz_check(tasd_gather_need(&g, &nbytes) == 0);
		fuzz_check(sum >= nbytes);
		return;
	}
	fuzz_check(sum == nbytes);
}

/* Bytes that are made from a file's (inflated) may turn out not to be there:
 * then any read of them fails, but none is short or changes its mind. */
static bool may_fail(
	const struct tasd_container *ctr, const struct tasd_node *node)
{
	const struct tasd_tensor *tensor = node->tensor;

	if (node->form != TASD_FORM_TENSOR)
		return false;
	for (uint32_t i = 0; i < tensor->nextents; i++) {
		uint32_t at = tasd_tensor_extents(tensor)[i].source;

		if (ctr->sources[at]->fd < 0)
			return true;
	}
	return false;
}

/* In one piece, and again in two that meet anywhere. */
static void read_twice(struct tasd_content *content, uint64_t from)
{
	static unsigned char once[READ_MAX], twice[READ_MAX];
	size_t got = 0, first = 0, second = 0, cut;
	tasd_err err =
		tasd_content_pread(content, once, sizeof(once), from, &got);

	if (err == -EIO && may_fail(content->ctr, content->node))
		return;
	fuzz_check(err == 0);
	fuzz_check(
		got == (content->size - from < READ_MAX ? content->size - from
							: READ_MAX));
	cut = got ? (size_t)(from * 7 + got * 3) % got : 0;
	fuzz_check(tasd_content_pread(content, twice, cut, from, &first) == 0);
	fuzz_check(tasd_content_pread(content, twice + first,
			   sizeof(twice) - first, from + first, &second) == 0);
	fuzz_check(first == cut && first + second == got);
	fuzz_check(memcmp(once, twice, got) == 0);
}

static void check_content(struct tasd_container *ctr,
	const struct tasd_node *node, enum tasd_view view)
{
	struct tasd_content content;
	tasd_err err = tasd_content_open(ctr, node, view, &content);

	if (!tasd_content_exists(node, view)) {
		fuzz_check(err == -ENOENT);
		return;
	}
	if (node->form == TASD_FORM_TENSOR &&
		node->tensor->data == TASD_DATA_BROKEN) {
		fuzz_check(err == -EIO);
		return;
	}
	fuzz_check(err == 0);
	fuzz_check(content.size == tasd_content_size(node, view));
	read_twice(&content, 0);
	if (content.size > READ_MAX)
		read_twice(&content, content.size - READ_MAX / 2 - 1);
	tasd_content_close(&content);
}

struct listing {
	struct tasd_container *ctr;
	const struct tasd_node *node;
	size_t bytes;
};

static void check_attr(void *ctx, const char *name)
{
	struct listing *listing = ctx;
	struct tasd_buf value = TASD_BUF_EMPTY;
	bool found = false;

	fuzz_check(strlen(name) > 0 && strlen(name) <= 245);
	listing->bytes += strlen("user.tasd.") + strlen(name) + 1;
	fuzz_check(tasd_attr_get(listing->ctr, listing->node, name, true,
			   &value, &found) == 0);
	fuzz_check(found);
	fuzz_check(value.len <= TASD_ATTR_VALUE_MAX || !strcmp(name, "key"));
	tasd_buf_free(&value);
}

static void check_attrs(
	struct tasd_container *ctr, const struct tasd_node *node)
{
	struct listing listing = {.ctr = ctr, .node = node};

	tasd_attr_list(ctr, node, true, check_attr, &listing);
	fuzz_check(listing.bytes <= TASD_ATTR_LIST_MAX);
}

/* A counting buffer and a real one agree. */
static void check_text(const struct tasd_container *ctr,
	void (*write_text)(struct tasd_buf *, const struct tasd_container *))
{
	struct tasd_buf text = TASD_BUF_EMPTY, count = tasd_buf_counting();

	write_text(&text, ctr);
	write_text(&count, ctr);
	fuzz_check(tasd_buf_err(&text) == 0 && tasd_buf_err(&count) == 0);
	fuzz_check(text.len == count.len);
	tasd_buf_free(&text);
}

void fuzz_check_container(struct tasd_container *ctr)
{
	struct tasd_statedict_totals totals = tasd_statedict_totals(ctr->sd);
	const struct tasd_node *root = tasd_statedict_root(ctr->sd);
	uint64_t tensors = 0;
	unsigned int seen = 0;

	for (const struct tasd_node *n = root; n; n = tasd_node_next(n)) {
		if (n != root)
			check_name(ctr, n);
		if (seen++ < ATTR_NODES)
			check_attrs(ctr, n);
		if (n->form != TASD_FORM_TENSOR)
			continue;
		tensors++;
		check_tensor(ctr, n);
		if (seen < ATTR_NODES) {
			check_content(ctr, n, TASD_VIEW_RAW);
			check_content(ctr, n, TASD_VIEW_NPY);
			check_content(ctr, n, TASD_VIEW_F32);
		}
	}
	fuzz_check(tensors == totals.tensors);
	fuzz_check((ctr->problems != NULL) == (ctr->nproblems > 0));
	check_text(ctr, tasd_index_json);
	check_text(ctr, tasd_index_msgpack);
	check_text(ctr, tasd_index_table);
	fuzz_check(tasd_container_check(ctr, NULL) == 0);
}
