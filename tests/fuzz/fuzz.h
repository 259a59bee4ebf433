/*
 * What the fuzz targets share: a folder of their own, and what must hold of
 * every container that was taken, whatever it was read from.
 */
#ifndef TASD_TESTS_FUZZ_H
#define TASD_TESTS_FUZZ_H

#include <format/container.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stop with a line on standard error: libFuzzer keeps the input. */
#define fuzz_check(what)                                                       \
	do {                                                                   \
		if (!(what))                                                   \
			fuzz_fail(__FILE__, __LINE__, #what);                  \
	} while (0)
__attribute__((noreturn)) void fuzz_fail(
	const char *file, int line, const char *what);

/* A folder that is removed at exit, as a descriptor. */
int fuzz_folder(void);

void fuzz_write(int dirfd, const char *name, const void *data, size_t size);

/* A refusal says why, in one line. */
void fuzz_check_refusal(tasd_err err, const struct tasd_diag *diag);

/*
 * Walk all of it: the tree and its names, where the bytes are, what can be read
 * of them, attributes and indexes.
 */
void fuzz_check_container(struct tasd_container *ctr);

#endif
