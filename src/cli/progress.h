/*
 * How far a command has come, on standard error, for someone who waits: only
 * on a terminal, and only when it takes longer than a second.  One thread.
 */
#ifndef TASD_CLI_PROGRESS_H
#define TASD_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct tasd_progress {
	const char *what;     /* "compared" */
	uint64_t total, done; /* in bytes */
	int64_t began, drawn; /* in nanoseconds */
	bool terminal;
	bool visible; /* a line stands there now */
};

void tasd_progress_begin(
	struct tasd_progress *progress, const char *what, uint64_t total);

/* That many bytes more are done. */
void tasd_progress_add(struct tasd_progress *progress, uint64_t bytes);

/* Take the line away: before anything else is printed, and at the end. */
void tasd_progress_clear(struct tasd_progress *progress);

#endif
