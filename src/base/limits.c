/*
 * The soft limit is kept low for programs that use select(2); none here does.
 */
#include <base/limits.h>
#include <sys/resource.h>

void tasd_limits_raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
		limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}
