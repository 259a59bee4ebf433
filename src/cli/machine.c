/*
 * Questions to the kernel and to the files of /proc and /etc.  Whatever cannot
 * be read counts as unknown or not there.
 */
#include "machine.h"
#include <base/cleanup.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef TASD_HAVE_ZLIB
#include <zlib.h>
#endif

#define CAP_SYS_ADMIN_BIT 21

bool tasd_machine_user_allow_other(void)
{
	static const char word[] = "user_allow_other";
	cleanup_free char *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *file = fopen("/etc/fuse.conf", "re");

	if (!file)
		return false;
	while (!found && getline(&line, &room, file) > 0) {
		const char *at = line + strspn(line, " \t");

		found = strncmp(at, word, sizeof(word) - 1) == 0 &&
			strspn(at + sizeof(word) - 1, " \t\n") ==
				strlen(at + sizeof(word) - 1);
	}
	fclose(file);
	return found;
}

bool tasd_machine_may_allow_other(void)
{
	return tasd_machine_has_admin() || tasd_machine_user_allow_other();
}

char *tasd_machine_program(const char *name)
{
	const char *path = getenv("PATH");

	if (!path || !*path)
		path = "/usr/local/bin:/usr/bin:/bin";
	while (*path) {
		size_t n = strcspn(path, ":");
		char *full = NULL;

		if (asprintf(&full, "%.*s/%s", (int)n, path, name) < 0)
			return NULL;
		if (n > 0 && access(full, X_OK) == 0)
			return full;
		free(full);
		path += n + (path[n] == ':');
	}
	return NULL;
}

bool tasd_machine_has_admin(void)
{
	char line[256];
	unsigned long long mask = 0;
	FILE *file = fopen("/proc/self/status", "re");

	if (!file)
		return geteuid() == 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &mask) == 1)
			break;
	fclose(file);
	return mask >> CAP_SYS_ADMIN_BIT & 1;
}

bool tasd_machine_in_first_userns(void)
{
	unsigned long inside = 1, outside = 1, count = 0;
	FILE *file = fopen("/proc/self/uid_map", "re");

	if (!file)
		return true;
	if (fscanf(file, "%lu %lu %lu", &inside, &outside, &count) != 3)
		count = 0;
	fclose(file);
	return inside == 0 && outside == 0 && count == 4294967295UL;
}

bool tasd_machine_kernel_is(int major, int minor)
{
	struct utsname name;
	int have_major, have_minor;

	return uname(&name) == 0 &&
	       sscanf(name.release, "%d.%d", &have_major, &have_minor) == 2 &&
	       (have_major > major ||
		       (have_major == major && have_minor >= minor));
}

#ifdef TASD_HAVE_ZLIB
/* gzgets() reads a file that is not compressed as it is. */
static enum tasd_answer config_in(const char *path, const char *option)
{
	size_t len = strlen(option);
	enum tasd_answer answer = TASD_UNKNOWN;
	char line[512];
	gzFile file = gzopen(path, "re");

	if (!file)
		return TASD_UNKNOWN;
	while (gzgets(file, line, sizeof(line))) {
		/* A configuration that can be read and lacks it says no. */
		answer = TASD_NO;
		if (strncmp(line, option, len) == 0 && line[len] == '=') {
			answer = line[len + 1] == 'y' || line[len + 1] == 'm';
			break;
		}
	}
	gzclose(file);
	return answer;
}

enum tasd_answer tasd_machine_config(const char *option)
{
	enum tasd_answer answer = config_in("/proc/config.gz", option);
	struct utsname name;
	char path[sizeof(name.release) + 16];

	if (answer != TASD_UNKNOWN || uname(&name) < 0)
		return answer;
	snprintf(path, sizeof(path), "/boot/config-%s", name.release);
	return config_in(path, option);
}
#else
enum tasd_answer tasd_machine_config(const char *option)
{
	(void)option;
	return TASD_UNKNOWN;
}
#endif

long tasd_machine_number(const char *path)
{
	char text[32] = "";
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *end;
	long value;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return -1;
	value = strtol(text, &end, 10);
	return end == text ? -1 : value;
}

bool tasd_machine_has_openat2(void)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
	cleanup_fd int root = open("/", O_PATH | O_CLOEXEC);
	cleanup_fd int fd =
		(int)syscall(SYS_openat2, root, ".", &how, sizeof(how));

	return fd >= 0;
}
