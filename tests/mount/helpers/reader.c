/*
 * The consumer of tools/bench: reads files in one stated way and prints how
 * long that took, so that both sides of a ratio pay for the same reader and
 * for nothing else.
 *
 *	reader seq FILE...          pread of 1 MiB pieces, in order
 *	reader touch FILE...        map privately, read one byte of each page
 *	reader random COUNT FILE... COUNT preads of 4 KiB, the same places for
 *	                            the same sizes in every run
 *
 * Prints "SECONDS BYTES".  Opening the files is part of the time, as it is
 * for any program that loads a checkpoint.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PIECE  ((size_t)1 << 20)
#define RANDOM ((size_t)4096)
#define PAGE   ((size_t)4096)

struct file {
	int fd;
	uint64_t size;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

__attribute__((noreturn)) static void fail(const char *what, const char *path)
{
	fprintf(stderr, "reader: %s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

static struct file open_file(const char *path)
{
	struct file file = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
	struct stat st;

	if (file.fd < 0 || fstat(file.fd, &st))
		fail("cannot open", path);
	file.size = (uint64_t)st.st_size;
	return file;
}

static uint64_t read_all(char **paths, char *buffer)
{
	uint64_t total = 0;

	for (; *paths; paths++) {
		struct file file = open_file(*paths);
		ssize_t n;

		while ((n = read(file.fd, buffer, PIECE)) > 0)
			total += (uint64_t)n;
		if (n < 0)
			fail("cannot read", *paths);
		close(file.fd);
	}
	return total;
}

static uint64_t touch_all(char **paths)
{
	volatile unsigned char sink = 0;
	uint64_t total = 0;

	for (; *paths; paths++) {
		struct file file = open_file(*paths);
		unsigned char *map;

		if (!file.size)
			continue;
		map = mmap(NULL, file.size, PROT_READ, MAP_PRIVATE, file.fd, 0);
		if (map == MAP_FAILED)
			fail("cannot map", *paths);
		for (uint64_t at = 0; at < file.size; at += PAGE)
			sink = map[at];
		munmap(map, file.size);
		close(file.fd);
		total += file.size;
	}
	(void)sink;
	return total;
}

/* xorshift64: a fixed sequence is the point, so the seed is a constant. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t read_random(
	char **paths, size_t npaths, unsigned long count, char *buffer)
{
	uint64_t state = UINT64_C(0x9e3779b97f4a7c15), total = 0;
	struct file *files = calloc(npaths, sizeof(*files));

	if (!files)
		fail("cannot hold", "the files");
	for (size_t i = 0; i < npaths; i++)
		files[i] = open_file(paths[i]);
	while (count--) {
		struct file *file = &files[next_random(&state) % npaths];
		uint64_t pages = file->size / RANDOM;
		uint64_t page = next_random(&state) % (pages ? pages : 1);
		ssize_t n =
			pread(file->fd, buffer, RANDOM, (off_t)(page * RANDOM));

		if (n < 0)
			fail("cannot read", "at random");
		total += (uint64_t)n;
	}
	for (size_t i = 0; i < npaths; i++)
		close(files[i].fd);
	free(files);
	return total;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "";
	char *buffer = aligned_alloc(PAGE, PIECE);
	uint64_t total;
	double start;

	if (!buffer)
		return 1;
	memset(buffer, 0, PIECE);
	start = now();
	if (!strcmp(how, "seq")) {
		total = read_all(argv + 2, buffer);
	} else if (!strcmp(how, "touch")) {
		total = touch_all(argv + 2);
	} else if (!strcmp(how, "random") && argc > 3) {
		total = read_random(argv + 3, (size_t)argc - 3,
			strtoul(argv[2], NULL, 10), buffer);
	} else {
		fputs("usage: reader seq|touch|random COUNT FILE...\n", stderr);
		free(buffer);
		return 2;
	}
	printf("%.9f %llu\n", now() - start, (unsigned long long)total);
	free(buffer);
	return 0;
}
