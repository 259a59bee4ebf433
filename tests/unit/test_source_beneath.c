/*
 * The policy of names and links: what stays beneath the folder opens, a hub
 * snapshot's link to a blob of the same model opens, nothing else does.
 */
#include "unit.h"
#include <fcntl.h>
#include <source/beneath.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64];
static int topfd;

static void put(const char *path, const char *text)
{
	int fd = openat(topfd, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_msg(fd >= 0, "%s", path);
	ck_assert_int_eq(write(fd, text, strlen(text)), (int)strlen(text));
	close(fd);
}

static void dir(const char *path)
{
	ck_assert_msg(mkdirat(topfd, path, 0700) == 0, "%s", path);
}

static void ln(const char *target, const char *path)
{
	ck_assert_msg(symlinkat(target, topfd, path) == 0, "%s", path);
}

static int opened(const char *path)
{
	int fd = openat(topfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ck_assert_msg(fd >= 0, "%s", path);
	return fd;
}

static void setup(void)
{
	strcpy(top, "/tmp/tasd-beneath-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	topfd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put("secret", "secret");
	dir("lib");
	dir("lib/sub");
	put("lib/plain", "plain");
	put("lib/sub/deep", "deep");
}

static void teardown(void)
{
	char command[96];

	close(topfd);
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	ck_assert_int_eq(system(command), 0);
}

/* Expect text from path beneath folder. */
static void takes(const char *folder, const char *path, const char *text)
{
	int dirfd = opened(folder), fd = -1;
	struct tasd_diag diag = {""};
	tasd_err err = tasd_beneath_open(dirfd, path, &fd, &diag);
	char got[16] = "";

	ck_assert_msg(err == 0, "%s: %d %s", path, err, diag.text);
	ck_assert_int_eq(read(fd, got, sizeof(got) - 1), (int)strlen(text));
	ck_assert_str_eq(got, text);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
	close(dirfd);
}

static void refuses(const char *folder, const char *path, tasd_err want)
{
	int dirfd = opened(folder), fd = -1;
	struct tasd_diag diag = {""};
	tasd_err err = tasd_beneath_open(dirfd, path, &fd, &diag);

	ck_assert_msg(err == want, "%s: %d, not %d", path, err, want);
	ck_assert_int_eq(fd, -1);
	ck_assert(diag.text[0]);
	close(dirfd);
}

START_TEST(test_names)
{
	setup();
	takes("lib", "plain", "plain");
	takes("lib", "sub/deep", "deep");
	takes("lib", "./sub/../plain", "plain");
	takes("lib/sub", "deep", "deep");
	refuses("lib", "", -EINVAL);
	refuses("lib", "/etc/hostname", -EINVAL);
	refuses("lib", "../secret", -EPERM);
	refuses("lib", "sub/../../secret", -EPERM);
	refuses("lib", "nothere/../../secret", -EPERM);
	refuses("lib", "..", -EPERM);
	refuses("lib", "nothing", -ENOENT);
	refuses("lib", "plain/x", -ENOTDIR);
	teardown();
}
END_TEST

START_TEST(test_not_regular)
{
	setup();
	ck_assert_int_eq(mkfifoat(topfd, "lib/fifo", 0600), 0);
	refuses("lib", "fifo", -EINVAL);
	refuses("lib", "sub", -EINVAL);
	refuses("lib", ".", -EINVAL);
	teardown();
}
END_TEST

START_TEST(test_links)
{
	char absolute[128];

	setup();
	ln("plain", "lib/link");
	ln("sub/../link", "lib/chain");
	ln("../plain", "lib/sub/up");
	ln("../secret", "lib/out");
	ln("out", "lib/outchain");
	ln("/etc/hostname", "lib/absolute");
	snprintf(absolute, sizeof(absolute), "%s/lib/plain", top);
	ln(absolute, "lib/absolute-inside");
	ln("loop", "lib/loop");
	ln("..", "lib/updir");
	ln("/dev/zero", "lib/dev");
	ln("/proc/self/exe", "lib/magic");
	takes("lib", "link", "plain");
	takes("lib", "chain", "plain");
	takes("lib", "sub/up", "plain");
	refuses("lib/sub", "up", -EPERM);
	refuses("lib", "out", -EPERM);
	refuses("lib", "outchain", -EPERM);
	refuses("lib", "absolute", -EPERM);
	refuses("lib", "absolute-inside", -EPERM);
	refuses("lib", "loop", -ELOOP);
	refuses("lib", "updir/secret", -EPERM);
	refuses("lib", "dev", -EPERM);
	refuses("lib", "magic", -EPERM);
	teardown();
}
END_TEST

static void make_hub(void)
{
	dir("models--a--b");
	dir("models--a--b/blobs");
	dir("models--a--b/snapshots");
	dir("models--a--b/snapshots/rev");
	dir("models--a--b/snapshots/rev/sub");
	dir("models--other");
	dir("models--other/blobs");
	put("models--a--b/blobs/hash", "blob");
	put("models--other/blobs/hash", "other");
	put("models--a--b/loose", "loose");
}

START_TEST(test_hub)
{
	static const char snapshot[] = "models--a--b/snapshots/rev";
	char absolute[128];

	setup();
	make_hub();
	ln("../../blobs/hash", "models--a--b/snapshots/rev/good");
	ln("../../../blobs/hash", "models--a--b/snapshots/rev/sub/good");
	snprintf(absolute, sizeof(absolute), "%s/models--a--b/blobs/hash", top);
	ln(absolute, "models--a--b/snapshots/rev/absolute");
	ln("../../../models--other/blobs/hash",
		"models--a--b/snapshots/rev/other");
	ln("../../loose", "models--a--b/snapshots/rev/loose");
	ln("../../blobs", "models--a--b/snapshots/rev/folder");
	ln("../../blobs/gone", "models--a--b/snapshots/rev/gone");
	ln("../../blobs/../loose", "models--a--b/snapshots/rev/sly");
	ln("../../blobs/out", "models--a--b/snapshots/rev/out");
	ln("../../secret", "models--a--b/blobs/out");
	ln("../../blobs/inside", "models--a--b/snapshots/rev/twice");
	ln("hash", "models--a--b/blobs/inside");
	takes(snapshot, "good", "blob");
	takes(snapshot, "sub/good", "blob");
	takes("models--a--b/snapshots/rev/sub", "good", "blob");
	takes(snapshot, "absolute", "blob");
	takes(".", "models--a--b/snapshots/rev/good", "blob");
	refuses(snapshot, "other", -EPERM);
	refuses(snapshot, "loose", -EPERM);
	refuses(snapshot, "folder", -EPERM);
	refuses(snapshot, "gone", -ENOENT);
	refuses(snapshot, "sly", -EPERM);
	refuses(snapshot, "out", -EPERM);
	refuses(snapshot, "twice", -EPERM);
	teardown();
}
END_TEST

/* The same link text elsewhere gets no such leave. */
START_TEST(test_hub_shape)
{
	setup();
	make_hub();
	dir("blobs");
	put("blobs/hash", "blob");
	dir("snapshots");
	dir("snapshots/rev");
	ln("../../blobs/hash", "snapshots/rev/link");
	refuses("snapshots/rev", "link", -EPERM);
	ln("../blobs/hash", "models--a--b/snapshots/link");
	refuses("models--a--b/snapshots", "link", -EPERM);
	ln("../../../models--a--b/blobs/hash", "lib/sub/link");
	refuses("lib", "sub/link", -EPERM);
	teardown();
}
END_TEST

static bool is_hub(const char *root, const char *folder, const char *name)
{
	int rootfd = opened(root), dirfd = opened(folder);
	bool is = tasd_beneath_is_hub_link(rootfd, dirfd, name);

	close(rootfd);
	close(dirfd);
	return is;
}

START_TEST(test_is_hub_link)
{
	static const char rev[] = "models--a--b/snapshots/rev";
	static const char sub[] = "models--a--b/snapshots/rev/sub";

	setup();
	make_hub();
	ln("../../blobs/hash", "models--a--b/snapshots/rev/good");
	ln("../../../blobs/hash", "models--a--b/snapshots/rev/sub/good");
	ln("../../blobs/gone", "models--a--b/snapshots/rev/gone");
	ln("../../blobs", "models--a--b/snapshots/rev/folder");
	ln("sub/good", "models--a--b/snapshots/rev/inside");
	put("models--a--b/snapshots/rev/file", "x");
	ck_assert(is_hub(rev, rev, "good"));
	ck_assert(is_hub(rev, sub, "good"));
	ck_assert(is_hub("models--a--b/snapshots", rev, "good"));
	ck_assert(!is_hub("models--a--b", rev, "good"));
	ck_assert(!is_hub(".", rev, "good"));
	ck_assert(!is_hub(rev, rev, "gone"));
	ck_assert(!is_hub(rev, rev, "folder"));
	ck_assert(!is_hub(rev, rev, "inside"));
	ck_assert(!is_hub(rev, rev, "file"));
	ck_assert(!is_hub(rev, rev, "nothing"));
	teardown();
}
END_TEST

START_TEST(test_opendir)
{
	int dirfd, fd = -1;
	struct stat a, b;
	struct tasd_diag diag;

	setup();
	dirfd = opened("lib");
	ln("..", "lib/updir");
	ln("sub", "lib/subdir");
	ck_assert_int_eq(tasd_beneath_opendir(dirfd, ".", &fd, &diag), 0);
	ck_assert_int_eq(fstat(dirfd, &a), 0);
	ck_assert_int_eq(fstat(fd, &b), 0);
	ck_assert_uint_eq(a.st_ino, b.st_ino);
	close(fd);
	ck_assert_int_eq(tasd_beneath_opendir(dirfd, "subdir", &fd, &diag), 0);
	close(fd);
	ck_assert_int_eq(
		tasd_beneath_opendir(dirfd, "updir", &fd, &diag), -EPERM);
	ck_assert_int_eq(tasd_beneath_opendir(dirfd, "..", &fd, &diag), -EPERM);
	ck_assert_int_eq(
		tasd_beneath_opendir(dirfd, "plain", &fd, &diag), -ENOTDIR);
	ck_assert_int_eq(tasd_beneath_opendir(dirfd, "/", &fd, &diag), -EINVAL);
	close(dirfd);
	teardown();
}
END_TEST

START_TEST(test_stat)
{
	struct stat st, blob;
	int dirfd;

	setup();
	make_hub();
	ln("../../blobs/hash", "models--a--b/snapshots/rev/good");
	ln("../secret", "lib/out");
	dirfd = opened("lib");
	ck_assert_int_eq(tasd_beneath_stat(dirfd, "plain", &st), 0);
	ck_assert_int_eq(st.st_size, 5);
	ck_assert_int_eq(tasd_beneath_stat(dirfd, "sub", &st), 0);
	ck_assert(S_ISDIR(st.st_mode));
	ck_assert_int_eq(tasd_beneath_stat(dirfd, ".", &st), 0);
	ck_assert_int_eq(tasd_beneath_stat(dirfd, "out", &st), -EPERM);
	ck_assert_int_eq(tasd_beneath_stat(dirfd, "../secret", &st), -EPERM);
	ck_assert_int_eq(tasd_beneath_stat(dirfd, "nothing", &st), -ENOENT);
	close(dirfd);
	dirfd = opened("models--a--b/snapshots/rev");
	ck_assert_int_eq(tasd_beneath_stat(dirfd, "good", &st), 0);
	ck_assert_int_eq(
		fstatat(topfd, "models--a--b/blobs/hash", &blob, 0), 0);
	ck_assert_uint_eq(st.st_ino, blob.st_ino);
	close(dirfd);
	teardown();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_names,
		test_not_regular,
		test_links,
		test_hub,
		test_hub_shape,
		test_is_hub_link,
		test_opendir,
		test_stat,
		NULL,
	};

	return unit_run("source-beneath", tests);
}
