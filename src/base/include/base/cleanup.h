/*
 * Scope-bound clean-up.  `cleanup_free char *p = NULL;` frees p when the
 * scope ends; tasd_steal_ptr() hands it on.  Every cleanup keeps errno.
 */
#ifndef TASD_BASE_CLEANUP_H
#define TASD_BASE_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void tasd_cleanup_free(void *ptr)
{
	int saved = errno;

	free(*(void **)ptr);
	errno = saved;
}

static inline void tasd_cleanup_fd(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

#define cleanup_free     __attribute__((__cleanup__(tasd_cleanup_free)))
#define cleanup_fd       __attribute__((__cleanup__(tasd_cleanup_fd)))
#define cleanup_with(fn) __attribute__((__cleanup__(fn)))

static inline int tasd_steal_fd(int *fd)
{
	int out = *fd;

	*fd = -1;
	return out;
}

#define tasd_steal_ptr(pp)                                                     \
	({                                                                     \
		__typeof__(*(pp)) steal_ptr_ = *(pp);                          \
		*(pp) = NULL;                                                  \
		steal_ptr_;                                                    \
	})

#endif
