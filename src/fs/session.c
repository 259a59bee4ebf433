/*
 * The FUSE session: what is negotiated, and the loop.
 *
 * libfuse before 3.17 cannot ask for passthrough or for mapping direct files.
 * Both are flags of the INIT reply, so the session's own I/O functions note the
 * INIT request and complete that one reply; every other message passes through
 * them untouched.
 */
#include "abi.h"
#include "fs.h"
#include "serve.h"
#include <base/cleanup.h>
#include <base/log.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define READAHEAD_KB "1024"

/* Magic numbers of statfs(2): file systems that are a layer themselves. */
#define MAGIC_OVERLAYFS 0x794c7630
#define MAGIC_FUSE      0x65735546

static ssize_t session_read(int fd, void *buf, size_t len, void *userdata)
{
	struct tasd_fs *fs = userdata;
	ssize_t n = read(fd, buf, len);
	const struct tasd_fuse_in_header *in = buf;
	const struct tasd_fuse_init_in *init;

	if (n < (ssize_t)sizeof(*in) || in->opcode != TASD_FUSE_OP_INIT)
		return n;
	/* The first message; no other thread reads yet. */
	init = (const struct tasd_fuse_init_in *)(in + 1);
	fs->init_unique = in->unique;
	fs->offered = 0;
	if (n >= (ssize_t)(sizeof(*in) + 16))
		fs->offered = init->flags;
	if ((fs->offered & TASD_INIT_EXT) && n >= (ssize_t)(sizeof(*in) + 20))
		fs->offered |= (uint64_t)init->flags2 << 32;
	return n;
}

/* A layer on top of a layer: overlayfs and FUSE as backing need depth 2. */
static uint32_t stack_depth(const struct tasd_fs *fs)
{
	struct statfs st;

	if (fstatfs(fs->place.dirfd, &st) == 0 &&
		((unsigned long)st.f_type == MAGIC_OVERLAYFS ||
			(unsigned long)st.f_type == MAGIC_FUSE))
		return 2;
	return 1;
}

static ssize_t write_init(struct tasd_fs *fs, int fd, const struct iovec *iov)
{
	struct tasd_fuse_out_header header;
	struct tasd_fuse_init_out out;
	uint64_t want = 0;
	struct iovec whole[2] = {
		{&header, sizeof(header)}, {&out, sizeof(out)}};

	memcpy(&header, iov[0].iov_base, sizeof(header));
	memset(&out, 0, sizeof(out));
	memcpy(&out, iov[1].iov_base,
		iov[1].iov_len < sizeof(out) ? iov[1].iov_len : sizeof(out));
	if (fs->offered & TASD_INIT_EXT) {
		want = TASD_INIT_EXT |
		       (fs->offered & (TASD_INIT_DIRECT_IO_ALLOW_MMAP |
					      TASD_INIT_HANDLE_KILLPRIV_V2));
		if (fs->options.mode == TASD_FS_MODE_AUTO)
			want |= fs->offered & TASD_INIT_PASSTHROUGH;
	}
	out.flags |= (uint32_t)want;
	out.flags2 |= (uint32_t)(want >> 32);
	if (want & TASD_INIT_PASSTHROUGH)
		out.max_stack_depth = stack_depth(fs);
	fs->can_map_direct = want & TASD_INIT_DIRECT_IO_ALLOW_MMAP;
	fs->can_passthrough = want & TASD_INIT_PASSTHROUGH;
	if (!fs->can_passthrough)
		fs->no_passthrough = fs->options.mode == TASD_FS_MODE_AUTO
					     ? "needs Linux 6.9"
					     : "switched off by mode=";
	header.len = sizeof(header) + sizeof(out);
	return writev(fd, whole, 2);
}

static ssize_t session_writev(
	int fd, struct iovec *iov, int count, void *userdata)
{
	struct tasd_fs *fs = userdata;
	const struct tasd_fuse_out_header *header = iov[0].iov_base;

	if (fs->init_unique && header->unique == fs->init_unique) {
		fs->init_unique = 0;
		if (count == 2 && header->error == 0)
			return write_init(fs, fd, iov);
	}
	return writev(fd, iov, count);
}

static const struct fuse_custom_io session_io = {
	.read = session_read, .writev = session_writev};

/* Is a field of mountinfo, where a few bytes are octal, that text? */
static bool field_is(const char *field, const char *text)
{
	while (*field && *text) {
		unsigned int byte = (unsigned char)*field;
		int used = 1;

		if (byte == '\\')
			sscanf(field, "\\%3o%n", &byte, &used);
		if ((unsigned char)*text++ != byte)
			return false;
		field += used;
	}
	return *field == *text;
}

/* Readahead is 128 KiB until someone who may says otherwise. */
static void set_readahead(const struct tasd_fs *fs)
{
	cleanup_free char *line = NULL;
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char path[64] = "", at[4 * PATH_MAX + 1];
	unsigned int major, minor;
	size_t room = 0;
	int fd;

	if (!mounts)
		return;
	/* The last mount at that place is the one on top. */
	while (getline(&line, &room, mounts) > 0)
		if (sscanf(line, "%*d %*d %u:%u %*s %16384s", &major, &minor,
			    at) == 3 &&
			field_is(at, fs->mountpoint))
			snprintf(path, sizeof(path),
				"/sys/class/bdi/%u:%u/read_ahead_kb", major,
				minor);
	fclose(mounts);
	if (!path[0])
		return;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, READAHEAD_KB, strlen(READAHEAD_KB)) < 0)
		tasd_log_info("readahead stays as it is: %s", strerror(errno));
	close(fd);
}

static void init(void *userdata, struct fuse_conn_info *conn)
{
	struct tasd_fs *fs = userdata;
	unsigned int want = FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO |
			    FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ATOMIC_O_TRUNC |
			    FUSE_CAP_IOCTL_DIR | FUSE_CAP_READDIRPLUS |
			    FUSE_CAP_EXPLICIT_INVAL_DATA;

	conn->want = want & conn->capable;
	conn->max_write = TASD_SERVE_MAX;
	conn->max_readahead = TASD_SERVE_MAX;
	conn->max_background = 64;
	conn->congestion_threshold = 48;
	set_readahead(fs);
	if (fs->options.ready)
		fs->options.ready(fs->options.ready_ctx);
}

static const struct fuse_lowlevel_ops ops = {
	.init = init,
	.lookup = tasd_ops_lookup,
	.forget = tasd_ops_forget,
	.forget_multi = tasd_ops_forget_multi,
	.getattr = tasd_ops_getattr,
	.readlink = tasd_ops_readlink,
	.statfs = tasd_ops_statfs,
	.open = tasd_ops_open,
	.read = tasd_ops_read,
	.flush = tasd_ops_flush,
	.fsync = tasd_ops_fsync,
	.release = tasd_ops_release,
	.opendir = tasd_ops_opendir,
	.readdir = tasd_ops_readdir,
	.readdirplus = tasd_ops_readdirplus,
	.releasedir = tasd_ops_releasedir,
	.getxattr = tasd_ops_getxattr,
	.listxattr = tasd_ops_listxattr,
};

/* Commas and backslashes in a value would read as more options. */
static void add_option(
	struct tasd_buf *list, const char *key, const char *value)
{
	tasd_buf_str(list, key);
	for (; *value; value++) {
		if (*value == ',' || *value == '\\')
			tasd_buf_char(list, '\\');
		tasd_buf_char(list, *value);
	}
}

static char *mount_options(const struct tasd_fs *fs)
{
	struct tasd_buf list = TASD_BUF_EMPTY;
	char *out;

	add_option(&list,
		"ro,nosuid,nodev,default_permissions,"
		"subtype=tasdfs,fsname=",
		fs->place.path);
	if (fs->options.allow_other)
		tasd_buf_str(&list, ",allow_other");
	out = tasd_buf_steal(&list, NULL);
	if (!out)
		tasd_buf_free(&list);
	return out;
}

tasd_err tasd_session_new(struct tasd_fs *fs, struct tasd_diag *diag)
{
	cleanup_free char *list = mount_options(fs);
	char *argv[] = {(char *)"tasdfs", (char *)"-o", list,
		fs->options.debug ? (char *)"-d" : NULL, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(fs->options.debug ? 4 : 3, argv);

	if (!list)
		return -ENOMEM;
	fs->session = fuse_session_new(&args, &ops, sizeof(ops), fs);
	fuse_opt_free_args(&args);
	if (!fs->session)
		return tasd_diag_set(
			diag, -EINVAL, "libfuse refuses to make a session");
	return 0;
}

tasd_err tasd_session_mount(struct tasd_fs *fs, struct tasd_diag *diag)
{
	int err;

	if (fuse_session_mount(fs->session, fs->mountpoint) != 0)
		return tasd_diag_set(diag, -EPERM,
			"%s: cannot be mounted here; `tasdfs doctor` tells "
			"what this machine allows",
			fs->mountpoint);
	fs->mounted = true;
	err = fuse_session_custom_io(
		fs->session, &session_io, fuse_session_fd(fs->session));
	if (err)
		return tasd_diag_set(diag, err < 0 ? err : -EINVAL,
			"libfuse refuses the session's own I/O");
	return 0;
}

tasd_err tasd_session_loop(struct tasd_fs *fs)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int threads = fs->options.threads;
	int rc;

	if (!config)
		return -ENOMEM;
	if (threads == 0)
		threads = cores > 2 ? (unsigned int)cores : 2;
		/* ThreadSanitizer sees what one thread hands to another through
		 * the kernel only when both use one descriptor. */
#ifdef __SANITIZE_THREAD__
	fuse_loop_cfg_set_clone_fd(config, 0);
#else
	fuse_loop_cfg_set_clone_fd(config, 1);
#endif
	fuse_loop_cfg_set_max_threads(config, threads);
	fuse_loop_cfg_set_idle_threads(config, threads);
	if (fuse_set_signal_handlers(fs->session) != 0) {
		fuse_loop_cfg_destroy(config);
		return -EINVAL;
	}
	rc = fuse_session_loop_mt(fs->session, config);
	fuse_remove_signal_handlers(fs->session);
	fuse_loop_cfg_destroy(config);
	/* A positive value is the signal that ended it. */
	return rc < 0 ? rc : 0;
}

void tasd_session_free(struct tasd_fs *fs)
{
	if (!fs->session)
		return;
	if (fs->mounted)
		fuse_session_unmount(fs->session);
	fuse_session_destroy(fs->session);
	fs->session = NULL;
}
