/*
 * File and memory sources: exact ranges, and never a byte of a file that is no
 * longer the one that was looked at.
 */
#include "unit.h"
#include <fcntl.h>
#include <pthread.h>
#include <source/source.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of size bytes, byte i holding i & 255; its path is in path. */
static struct tasd_source *make(char path[64], size_t size)
{
	struct tasd_source *source;
	int fd;

	strcpy(path, "/tmp/tasd-source-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)i;

		ck_assert_int_eq(write(fd, &c, 1), 1);
	}
	ck_assert_int_eq(tasd_source_file(fd, "name", &source), 0);
	return source;
}

/* Make sure a change that follows has another mtime than the stamp's. */
static void touch_later(const char *path)
{
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};

	ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

START_TEST(test_ranges)
{
	char path[64], out[300];
	struct tasd_source *s = make(path, 300);

	ck_assert_uint_eq(s->size, 300);
	ck_assert_str_eq(s->name, "name");
	ck_assert_int_eq(tasd_source_pread(s, out, 300, 0), 0);
	ck_assert_int_eq((unsigned char)out[299], 299 & 255);
	ck_assert_int_eq(tasd_source_pread(s, out, 1, 299), 0);
	ck_assert_int_eq((unsigned char)out[0], 299 & 255);
	ck_assert_int_eq(tasd_source_pread(s, out, 0, 300), 0);
	ck_assert_int_eq(tasd_source_pread(s, out, 1, 300), -EIO);
	ck_assert_int_eq(tasd_source_pread(s, out, 2, 299), -EIO);
	ck_assert_int_eq(tasd_source_pread(s, out, 0, 301), -EIO);
	ck_assert_int_eq(tasd_source_pread(s, out, 8, UINT64_MAX - 4), -EIO);
	tasd_source_put(s);
	unlink(path);
}
END_TEST

START_TEST(test_truncated)
{
	char path[64], out[300];
	struct tasd_source *s = make(path, 300);

	ck_assert_int_eq(truncate(path, 100), 0);
	ck_assert_int_eq(tasd_source_check(s), -ESTALE);
	ck_assert_int_eq(tasd_source_pread(s, out, 300, 0), -EIO);
	ck_assert_int_eq(tasd_source_pread(s, out, 10, 0), -EIO);
	tasd_source_put(s);
	unlink(path);
}
END_TEST

START_TEST(test_rewritten)
{
	char path[64], out[4];
	struct tasd_source *s = make(path, 4);
	int fd = open(path, O_WRONLY);

	ck_assert_int_eq(tasd_source_check(s), 0);
	ck_assert_int_eq(pwrite(fd, "x", 1, 1), 1);
	close(fd);
	touch_later(path);
	ck_assert_int_eq(tasd_source_check(s), -ESTALE);
	ck_assert_int_eq(tasd_source_pread(s, out, 4, 0), -EIO);
	tasd_source_put(s);
	unlink(path);
}
END_TEST

/* An open file that lost its name still holds its bytes. */
START_TEST(test_unlinked)
{
	char path[64], out[4];
	struct tasd_source *s = make(path, 4);

	ck_assert_int_eq(chmod(path, 0400), 0);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(tasd_source_check(s), 0);
	ck_assert_int_eq(tasd_source_pread(s, out, 4, 0), 0);
	tasd_source_put(s);
}
END_TEST

START_TEST(test_not_regular)
{
	struct tasd_source *s = NULL;
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY);

	ck_assert_int_eq(tasd_source_file(fd, "x", &s), -EINVAL);
	ck_assert_ptr_null(s);
	close(fd);
	ck_assert_int_eq(tasd_source_file(-1, "x", &s), -EBADF);
}
END_TEST

START_TEST(test_memory)
{
	struct tasd_source *s;
	char out[5];

	ck_assert_int_eq(tasd_source_memory(strdup("hello"), 5, "m", &s), 0);
	ck_assert_int_eq(s->fd, -1);
	ck_assert_int_eq(tasd_source_check(s), 0);
	ck_assert_int_eq(tasd_source_pread(s, out, 4, 1), 0);
	ck_assert_mem_eq(out, "ello", 4);
	ck_assert_int_eq(tasd_source_pread(s, out, 5, 1), -EIO);
	tasd_source_put(tasd_source_get(s));
	ck_assert_int_eq(tasd_source_pread(s, out, 5, 0), 0);
	tasd_source_put(s);
	tasd_source_put(NULL);
}
END_TEST

static void *read_all(void *arg)
{
	struct tasd_source *s = arg;
	unsigned char out[64];

	for (unsigned int i = 0; i < 2000; i++) {
		ck_assert_int_eq(tasd_source_pread(s, out, 64, i % 200), 0);
		ck_assert_int_eq(out[63], (i % 200 + 63) & 255);
		tasd_source_put(tasd_source_get(s));
	}
	return NULL;
}

START_TEST(test_threads)
{
	char path[64];
	struct tasd_source *s = make(path, 300);
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, read_all, s);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(s->refs, 1);
	tasd_source_put(s);
	unlink(path);
}
END_TEST

START_TEST(test_stamps)
{
	struct tasd_stamp a = {1, 2, 3, 4, 5}, b = a;

	ck_assert(tasd_stamp_equal(&a, &b));
	b.ctime_ns++;
	ck_assert(!tasd_stamp_equal(&a, &b));
	ck_assert(tasd_stamp_same_bytes(&a, &b));
	b.mtime_ns++;
	ck_assert(!tasd_stamp_same_bytes(&a, &b));
	b = a;
	b.size++;
	ck_assert(!tasd_stamp_same_bytes(&a, &b));
	b = a;
	b.ino++;
	ck_assert(!tasd_stamp_same_bytes(&a, &b));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_ranges,
		test_truncated,
		test_rewritten,
		test_unlinked,
		test_not_regular,
		test_memory,
		test_threads,
		test_stamps,
		NULL,
	};

	return unit_run("source-file", tests);
}
