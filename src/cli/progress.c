/*
 * One line that is drawn over itself, a few times a second.
 */
#include "progress.h"
#include "print.h"
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SECOND ((int64_t)1000000000)
#define WAIT   SECOND
#define EVERY  (SECOND / 5)

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

void tasd_progress_begin(
	struct tasd_progress *progress, const char *what, uint64_t total)
{
	*progress = (struct tasd_progress){
		.what = what,
		.total = total,
		.terminal = isatty(STDERR_FILENO),
		.began = now(),
	};
}

static void draw(struct tasd_progress *progress, int64_t at)
{
	char done[TASD_NUMBER_TEXT], total[TASD_NUMBER_TEXT];
	char rate[TASD_NUMBER_TEXT];
	double seconds = (double)(at - progress->began) / (double)SECOND;
	double share = progress->total ? (double)progress->done /
						 (double)progress->total
				       : 1;

	fprintf(stderr, "\r%s %s of %s (%d %%), %s/s\033[K", progress->what,
		tasd_print_size(done, progress->done),
		tasd_print_size(total, progress->total),
		(int)(share < 1 ? share * 100 : 100),
		tasd_print_size(
			rate, (uint64_t)((double)progress->done / seconds)));
	fflush(stderr);
	progress->drawn = at;
	progress->visible = true;
}

void tasd_progress_add(struct tasd_progress *progress, uint64_t bytes)
{
	int64_t at;

	progress->done += bytes;
	if (!progress->terminal)
		return;
	at = now();
	if (at - progress->began >= WAIT && at - progress->drawn >= EVERY)
		draw(progress, at);
}

void tasd_progress_clear(struct tasd_progress *progress)
{
	if (!progress->visible)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	progress->visible = false;
}
