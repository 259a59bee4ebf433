/*
 * What the tests of formats share: a folder of their own, files put into it,
 * and containers opened from it.
 */
#ifndef TASD_TESTS_FORMAT_UNIT_H
#define TASD_TESTS_FORMAT_UNIT_H

#include "unit.h"
#include <fcntl.h>
#include <format/container.h>
#include <format/format.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64];
static int topfd;

static inline void setup(void)
{
	strcpy(top, "/tmp/tasd-format-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	topfd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(topfd, 0);
}

static inline void teardown(void)
{
	char command[96];

	close(topfd);
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	ck_assert_int_eq(system(command), 0);
}

static inline void put(const char *path, const void *bytes, size_t len)
{
	int fd = openat(topfd, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_msg(fd >= 0, "%s", path);
	ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
	close(fd);
}

static inline void put_text(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

/* A safetensors file of this header and data. */
static inline void put_st(
	const char *path, const char *header, const void *data, size_t len)
{
	struct tasd_buf file = TASD_BUF_EMPTY;
	size_t n = strlen(header);

	for (unsigned int i = 0; i < 8; i++)
		tasd_buf_char(&file, (char)(n >> 8 * i & 0xff));
	tasd_buf_str(&file, header);
	tasd_buf_add(&file, data, len);
	put(path, file.bytes, file.len);
	tasd_buf_free(&file);
}

static inline struct tasd_container *opened(const char *path)
{
	struct tasd_container *ctr = NULL;
	struct tasd_diag diag;
	tasd_err err = tasd_container_open(topfd, path, 0, &ctr, &diag);

	ck_assert_msg(err == 0, "%s: %d %s", path, err, diag.text);
	return ctr;
}

/* Expect a refusal that says `why`. */
static inline void refused(const char *path, tasd_err want, const char *why)
{
	struct tasd_container *ctr = NULL;
	struct tasd_diag diag;
	tasd_err err = tasd_container_open(topfd, path, 0, &ctr, &diag);

	ck_assert_msg(err == want, "%s: %d", path, err);
	ck_assert_ptr_null(ctr);
	ck_assert_msg(strstr(diag.text, why), "%s: %s", path, diag.text);
	ck_assert(!strchr(diag.text, '\n'));
}

static inline const struct tasd_node *node_at(
	const struct tasd_container *ctr, const char *path)
{
	const struct tasd_node *node = tasd_statedict_lookup(ctr->sd, path);

	ck_assert_msg(node, "%s", path);
	return node;
}

#endif
