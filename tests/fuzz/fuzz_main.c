/*
 * A fuzz target as an ordinary program: each argument is an input, or a folder
 * of inputs.  It is how corpora run in the tests, and where there is no
 * libFuzzer.
 */
#include "fuzz.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static unsigned long run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = NULL;
	size_t size = 0, room = 0, n;

	fuzz_check(file);
	do {
		if (size == room) {
			room = room ? 2 * room : 4096;
			data = realloc(data, room);
			fuzz_check(data);
		}
		n = fread(data + size, 1, room - size, file);
		size += n;
	} while (n > 0);
	fclose(file);
	/* Exactly its size, so that reading past it is caught. */
	data = realloc(data, size ? size : 1);
	fuzz_check(data);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 1;
}

static unsigned long run_folder(const char *path)
{
	unsigned long count = 0;
	DIR *dir = opendir(path);
	struct dirent *entry;

	fuzz_check(dir);
	while ((entry = readdir(dir))) {
		char name[4096];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		count += run_file(name);
	}
	closedir(dir);
	return count;
}

int main(int argc, char **argv)
{
	unsigned long count = 0;

	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st) < 0) {
			perror(argv[i]);
			return EXIT_FAILURE;
		}
		count += S_ISDIR(st.st_mode) ? run_folder(argv[i])
					     : run_file(argv[i]);
	}
	printf("%lu inputs\n", count);
	/* A corpus that is not there is no corpus that passes. */
	return count ? EXIT_SUCCESS : EXIT_FAILURE;
}
