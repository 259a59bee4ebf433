/*
 * Errors: the type every fallible function returns, and the one line for
 * people that goes with it.
 *
 * Any thread may call these; a struct tasd_diag belongs to its caller and is
 * not shared.
 */
#ifndef TASD_BASE_ERR_H
#define TASD_BASE_ERR_H

#include <errno.h>
#include <stddef.h>

/* 0, or a negative errno value.  Positive values never occur. */
typedef int tasd_err;

#define TASD_DIAG_MAX 512

/*
 * What went wrong, for people: what, where, expected, found.  One line, no
 * trailing newline, never longer than TASD_DIAG_MAX - 1 bytes, control bytes
 * shown as \xNN so that a hostile name cannot write to a terminal.
 */
struct tasd_diag {
	char text[TASD_DIAG_MAX];
};

/*
 * Fill diag (may be NULL) and return err, so that a refusal is one line:
 *	return tasd_diag_set(diag, -EINVAL, "...", ...);
 */
__attribute__((format(printf, 3, 4))) tasd_err tasd_diag_set(
	struct tasd_diag *diag, tasd_err err, const char *format, ...);

/*
 * Put "prefix: " in front of what diag says, cutting at the end.  Returns err.
 */
__attribute__((format(printf, 3, 4))) tasd_err tasd_diag_prefix(
	struct tasd_diag *diag, tasd_err err, const char *format, ...);

/* The text in diag, or strerror(-err) when it is empty or NULL. */
const char *tasd_diag_text(const struct tasd_diag *diag, tasd_err err);

/*
 * Print a byte string for people into out (size bytes, always terminated):
 * control bytes and invalid UTF-8 as \xNN, cut with "..." when too long.
 * Returns out.
 */
char *tasd_print_bytes(char *out, size_t size, const char *bytes, size_t len);

#endif
