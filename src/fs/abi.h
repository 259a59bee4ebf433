/*
 * What the kernel speaks on /dev/fuse since 6.9 and the headers of the oldest
 * system we build on do not declare.  Layouts and numbers are facts of the
 * kernel ABI (linux/fuse.h, version 7.40 and later).
 */
#ifndef TASD_FS_ABI_H
#define TASD_FS_ABI_H

#include <stdint.h>
#include <sys/ioctl.h>

#define TASD_FUSE_OP_INIT 26

/* 64-bit INIT flags: the low half travels in flags, the high in flags2. */
#define TASD_INIT_HANDLE_KILLPRIV_V2   (UINT64_C(1) << 28)
#define TASD_INIT_EXT                  (UINT64_C(1) << 30)
#define TASD_INIT_DIRECT_IO_ALLOW_MMAP (UINT64_C(1) << 36)
#define TASD_INIT_PASSTHROUGH          (UINT64_C(1) << 37)

#define TASD_FOPEN_PASSTHROUGH (1u << 7)

/* All names the kernel knows must be looked up again; since version 7.44. */
#define TASD_FUSE_NOTIFY_INC_EPOCH 8

struct tasd_fuse_in_header {
	uint32_t len, opcode;
	uint64_t unique, nodeid;
	uint32_t uid, gid, pid;
	uint16_t total_extlen, padding;
};

struct tasd_fuse_out_header {
	uint32_t len;
	int32_t error;
	uint64_t unique;
};

struct tasd_fuse_init_in {
	uint32_t major, minor, max_readahead, flags, flags2, unused[11];
};

struct tasd_fuse_init_out {
	uint32_t major, minor, max_readahead, flags;
	uint16_t max_background, congestion_threshold;
	uint32_t max_write, time_gran;
	uint16_t max_pages, map_alignment;
	uint32_t flags2, max_stack_depth;
	uint16_t request_timeout, unused[11];
};

struct tasd_fuse_open_out {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id;
};

struct tasd_fuse_backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};

#define TASD_FUSE_BACKING_OPEN  _IOW(229, 1, struct tasd_fuse_backing_map)
#define TASD_FUSE_BACKING_CLOSE _IOW(229, 2, uint32_t)

_Static_assert(sizeof(struct tasd_fuse_in_header) == 40, "ABI");
_Static_assert(sizeof(struct tasd_fuse_out_header) == 16, "ABI");
_Static_assert(sizeof(struct tasd_fuse_init_in) == 64, "ABI");
_Static_assert(sizeof(struct tasd_fuse_init_out) == 64, "ABI");
_Static_assert(sizeof(struct tasd_fuse_open_out) == 16, "ABI");
_Static_assert(sizeof(struct tasd_fuse_backing_map) == 16, "ABI");

#endif
