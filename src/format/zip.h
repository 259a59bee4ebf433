/*
 * The directory of a zip file, as PyTorch's reader (miniz) takes it: the last
 * end record in the file's tail, the central directory it leads to, and for
 * sizes, methods and flags nothing but that directory.  What the records look
 * like where they lie only decides whether they can be used.
 *
 * Troubles of the directory as a whole are refused.  A record that cannot be
 * trusted, or that miniz would not extract, is kept and has a trouble; so is
 * one that lies on another, since then a name would stand for bytes that are
 * not its own.
 *
 * One thread at a time; memory: 52 bytes a record and its name in the caller's
 * arena, and 16 to 64 bytes in the index of names, which count against the
 * arena's limit too.
 */
#ifndef TASD_FORMAT_ZIP_H
#define TASD_FORMAT_ZIP_H

#include <base/arena.h>
#include <base/map.h>
#include <source/source.h>
#include <stdbool.h>

enum tasd_zip_method {
	TASD_ZIP_STORED = 0,
	TASD_ZIP_DEFLATED = 8,
};

/* Why a record cannot be used. */
enum tasd_zip_trouble {
	TASD_ZIP_FINE,
	TASD_ZIP_OUTSIDE,   /* leaves the file, or reaches the directory */
	TASD_ZIP_OVERLAPS,  /* lies on another record */
	TASD_ZIP_ENCRYPTED, /* or masked, or a patch */
	TASD_ZIP_METHOD,    /* neither stored nor deflated */
	TASD_ZIP_SIZES,     /* its sizes contradict each other */
	TASD_ZIP_FOLDER,    /* marked as a folder, and has bytes */
	TASD_ZIP_DISK,      /* on another volume */
	TASD_ZIP_EXTRA,     /* its ZIP64 sizes are cut */
	TASD_ZIP_NO_HEADER, /* no local header where it should be */
	TASD_ZIP_NAME,      /* the local header is that of another name */
	TASD_ZIP_DISAGREES, /* the local header has another method */
};

struct tasd_zip_record {
	const char *name; /* as it stands there; terminated, may hold NUL */
	uint64_t csize;   /* bytes in the file */
	uint64_t usize;   /* bytes inflated */
	uint64_t header;  /* where the local header is */
	uint32_t crc;     /* of the inflated bytes; 0: perhaps not computed */
	uint32_t data;    /* bytes from the local header to the record's own;
			     0: not located yet */
	uint16_t name_len;
	uint16_t method;
	uint16_t flags;
	uint8_t trouble; /* enum tasd_zip_trouble */
};

struct tasd_zip {
	struct tasd_source *source;      /* owned reference */
	struct tasd_arena *arena;        /* borrowed */
	struct tasd_zip_record *records; /* in the directory's order */
	uint32_t *by_offset; /* nplaced of them that lie in the file */
	uint32_t *sorted;    /* by name, when names come twice; else NULL */
	uint32_t nrecords, nplaced;
	uint64_t directory; /* where the central directory begins */
	uint64_t nreads;    /* pieces read of the source so far */
	struct tasd_map map;
};

/*
 * -EINVAL: no zip, or a broken one; diag says why.  -E2BIG: the arena is full.
 * On success tasd_zip_close() it before the arena goes.
 */
tasd_err tasd_zip_open(struct tasd_source *source, struct tasd_arena *arena,
	struct tasd_zip *ret, struct tasd_diag *diag);
void tasd_zip_close(struct tasd_zip *zip);

/*
 * The record that miniz takes for that name, or NULL: the case of ASCII letters
 * does not matter, and of several it is whichever its search meets.
 */
struct tasd_zip_record *tasd_zip_find(
	const struct tasd_zip *zip, const char *name, size_t len);

/*
 * Read the local headers of these records, in as few reads as their places
 * allow, and find out where their bytes begin.  What is wrong with one becomes
 * its trouble.  Reorders records; NULLs and those located before are skipped.
 */
tasd_err tasd_zip_locate(
	struct tasd_zip *zip, struct tasd_zip_record **records, size_t n);

/* 0 when the record can be used, else -EINVAL and in diag why not. */
tasd_err tasd_zip_usable(
	const struct tasd_zip_record *record, struct tasd_diag *diag);

/* Where a located record's bytes begin in the zip's source. */
static inline uint64_t tasd_zip_data(const struct tasd_zip_record *record)
{
	return record->header + record->data;
}

/* A source of the bytes of a located, usable, deflated record. */
tasd_err tasd_zip_inflate(const struct tasd_zip *zip,
	const struct tasd_zip_record *record, struct tasd_source **ret);

/*
 * All bytes of a located, usable record (free() them), terminated by a NUL
 * that is not counted.  -E2BIG: more than max.
 */
tasd_err tasd_zip_read(const struct tasd_zip *zip,
	const struct tasd_zip_record *record, uint64_t max, char **ret_bytes,
	size_t *ret_len);

/* Does a file begin as a zip does, if perhaps an empty one? */
bool tasd_zip_plausible(const unsigned char *head, size_t len);

/*
 * The name in the local header at the file's start, borrowed from head; false
 * when there is none, or it is cut.
 */
bool tasd_zip_first_name(const unsigned char *head, size_t len,
	const char **ret_name, size_t *ret_len);

#endif
