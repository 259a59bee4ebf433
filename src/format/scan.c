/*
 * Pickles are found where loaders look for them: the file itself, one behind
 * the other as the old PyTorch layout has them; the members of a zip or a tar;
 * what follows the header of a .npy file of objects.
 *
 * What must be a pickle, by its first bytes or its name, and cannot be read to
 * its end, is trouble: nothing is known of the rest.  Where something only may
 * be one, as the bytes behind a pickle may be weights, it is taken for one when
 * it can be read whole or when it named a global before it broke.
 */
#include "npy_header.h"
#include "pickle.h"
#include "sniff.h"
#include "zip.h"
#include <base/cleanup.h>
#include <base/le.h>
#include <base/text.h>
#include <ctype.h>
#include <fcntl.h>
#include <format/scan.h>
#include <source/fileio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a pickle that are read at most. */
#define FRONT_MAX ((uint64_t)64 << 20)
#define SCRATCH   ((size_t)64 << 20)

/* A stream of tiny pickles would be walked for hours otherwise. */
#define PICKLES_MAX 100000u

/* A block of a tar file. */
#define TAR_BLOCK 512u

enum must {
	MAY_BE,  /* told of when it is whole or names something */
	MUST_BE, /* trouble when it is not whole */
};

struct scanning {
	struct tasd_scan *scan;
	struct tasd_source *source;
	struct tasd_diag *diag;
	unsigned char head[TASD_PROBE_BYTES];
	size_t head_len;
};

static tasd_err trouble(struct scanning *s, const char *pickle, const char *why)
{
	return s->scan->trouble ? s->scan->trouble(s->scan->ctx, pickle, why)
				: 0;
}

/* PROTO 2 or later. */
static bool begins_pickle(const void *bytes, uint64_t len)
{
	const unsigned char *p = bytes;

	return len >= 2 && p[0] == 0x80 && p[1] >= 2 && p[1] <= 5;
}

static tasd_err tell(struct scanning *s, const char *name,
	const struct tasd_pickle *pickle)
{
	tasd_err err = 0;

	s->scan->npickles++;
	if (!s->scan->global)
		return 0;
	for (uint32_t i = 0; !err && i < pickle->nglobals; i++) {
		const struct tasd_pkl_global *g = pickle->globals[i];
		const struct tasd_scan_global global = {
			.pickle = name,
			.module = g->module,
			.name = g->name,
			.module_len = g->module_len,
			.name_len = g->name_len,
			.count = g->count,
			.safe = g->safe,
		};

		err = s->scan->global(s->scan->ctx, &global);
	}
	return err;
}

static bool is_identifier(const char *text, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (!isalnum(c) && c != '_' && c != '.' && c < 0x80)
			return false;
	}
	return len > 0;
}

/*
 * Does it name something that Python could import?  "class A(B):" begins as a
 * GLOBAL does, and a code of the extension registry is one byte in weights too.
 */
static bool names_any(const struct tasd_pickle *pickle)
{
	for (uint32_t i = 0; i < pickle->nglobals; i++) {
		const struct tasd_pkl_global *g = pickle->globals[i];

		if (!g->ext && is_identifier(g->module, g->module_len) &&
			is_identifier(g->name, g->name_len))
			return true;
	}
	return false;
}

/*
 * One pickle at the front of bytes.  *ret_used is 0 when none was read to its
 * end.  cut: the bytes were not read to their end.
 */
static tasd_err scan_one(struct scanning *s, const char *name,
	const char *bytes, uint64_t len, bool cut, enum must must,
	uint64_t *ret_used)
{
	struct tasd_pickle *pickle = NULL;
	struct tasd_diag diag = {""};
	tasd_err err, told = 0;

	*ret_used = 0;
	err = tasd_pickle_read(bytes, len, TASD_CONTAINER_MEMORY, &pickle,
		ret_used, &diag);
	if (!pickle)
		return -ENOMEM;
	if (!err || must == MUST_BE || names_any(pickle))
		told = tell(s, name, pickle);
	if (err) {
		*ret_used = 0;
		if (cut && pickle->cut)
			tasd_diag_prefix(&diag, err,
				"not looked into behind its first %llu MiB",
				(unsigned long long)(FRONT_MAX >> 20));
		if (!told && (must == MUST_BE || names_any(pickle)))
			told = trouble(s, name, tasd_diag_text(&diag, err));
	}
	tasd_pickle_free(pickle);
	return told;
}

/* Pickles that stand one behind the other. */
static tasd_err scan_pickles(struct scanning *s, const char *name,
	const char *bytes, uint64_t len, bool cut, enum must must)
{
	uint64_t at = 0, used = 1;

	for (uint32_t n = 0; used > 0 && at < len; n++) {
		tasd_err err;

		if (n == PICKLES_MAX)
			return trouble(s, name,
				"more pickles one behind the other than are "
				"looked into");
		err = scan_one(s, name, bytes + at, len - at, cut,
			n == 0 ? must : MAY_BE, &used);
		if (err)
			return err;
		at += used;
	}
	return 0;
}

/* The same with len bytes of the file from offset on. */
static tasd_err scan_range(struct scanning *s, const char *name,
	uint64_t offset, uint64_t len, enum must must)
{
	uint64_t take = len < FRONT_MAX ? len : FRONT_MAX;
	cleanup_free char *bytes = malloc(take + 1);
	tasd_err err;

	if (!bytes)
		return -ENOMEM;
	err = tasd_source_pread(s->source, bytes, take, offset);
	if (err)
		return tasd_diag_set(s->diag, err, "cannot read its bytes");
	return scan_pickles(s, name, bytes, take, take < len, must);
}

/* ---- .npy --------------------------------------------------------------- */

/* Can a dtype of that description hold objects?  Whatever else has an O in it
 * only costs a look. */
static bool mentions_objects(const void *text, size_t len)
{
	return memchr(text, 'O', len) || memmem(text, len, "object", 6);
}

/* Where the pickle of an array of objects begins; 0: there is none. */
static uint64_t npy_pickle(const void *at, uint64_t len)
{
	const unsigned char *bytes = at;
	uint64_t head, text;

	if (len < 12 || memcmp(bytes, TASD_NPY_MAGIC, TASD_NPY_MAGIC_LEN) != 0)
		return 0;
	head = bytes[TASD_NPY_MAGIC_LEN] == 1 ? 10 : 12;
	text = head == 10 ? tasd_le16(bytes + 8) : tasd_le32(bytes + 8);
	if (text >= len - head)
		return 0;
	return mentions_objects(bytes + head, text) ? head + text : 0;
}

/* The whole file. */
static tasd_err scan_npy(struct scanning *s)
{
	uint64_t take = s->source->size < FRONT_MAX ? s->source->size
						    : FRONT_MAX;
	cleanup_free char *bytes = NULL;
	uint64_t at;
	tasd_err err;

	/* Without objects the header is all that is looked at, and it is short:
	 * only a longer one is worth reading on. */
	at = npy_pickle(s->head, s->head_len);
	if (at == 0 && s->head_len >= 12) {
		uint64_t text = s->head[TASD_NPY_MAGIC_LEN] == 1
					? tasd_le16(s->head + 8)
					: tasd_le32(s->head + 8);

		if (text + 12 < s->head_len)
			return 0;
	}
	bytes = malloc(take + 1);
	if (!bytes)
		return -ENOMEM;
	err = tasd_source_pread(s->source, bytes, take, 0);
	if (err)
		return tasd_diag_set(s->diag, err, "cannot read its bytes");
	at = npy_pickle(bytes, take);
	if (at == 0)
		return 0;
	return scan_pickles(s, "", bytes + at, take - at,
		take < s->source->size, MAY_BE);
}

/* ---- archives ----------------------------------------------------------- */

/* A member of an archive, or the front of one. */
static tasd_err scan_member(struct scanning *s, const char *name,
	const char *bytes, uint64_t len, bool cut, bool must)
{
	uint64_t npy = npy_pickle(bytes, len);

	if (npy)
		return scan_pickles(
			s, name, bytes + npy, len - npy, cut, MAY_BE);
	if (must)
		return scan_pickles(s, name, bytes, len, cut, MUST_BE);
	if (begins_pickle(bytes, len))
		return scan_pickles(s, name, bytes, len, cut, MAY_BE);
	return 0;
}

static bool named_pickle(const char *name, size_t len)
{
	return tasd_text_ends_with(name, len, ".pkl") ||
	       tasd_text_ends_with(name, len, ".pickle");
}

static tasd_err scan_record(struct scanning *s, const struct tasd_zip *zip,
	const struct tasd_zip_record *r)
{
	bool must = named_pickle(r->name, r->name_len);
	struct tasd_source *inflated = NULL;
	struct tasd_diag diag = {""};
	cleanup_free char *bytes = NULL;
	uint64_t take;
	char first[TASD_NPY_MAGIC_LEN];
	char shown[256];
	tasd_err err;

	if (r->usize == 0)
		return 0;
	tasd_print_bytes(shown, sizeof(shown), r->name, r->name_len);
	err = tasd_zip_usable(r, &diag);
	if (err)
		return must ? trouble(s, shown, tasd_diag_text(&diag, err)) : 0;
	if (r->method == TASD_ZIP_DEFLATED) {
		err = tasd_zip_inflate(zip, r, &inflated);
		if (err)
			return err;
	}
	take = r->usize < sizeof(first) ? r->usize : sizeof(first);
	err = tasd_source_pread(inflated ? inflated : zip->source, first, take,
		inflated ? 0 : tasd_zip_data(r));
	/* Weights are not read further than that. */
	if (!err && (must || begins_pickle(first, take) ||
			    (take == sizeof(first) &&
				    memcmp(first, TASD_NPY_MAGIC, take) ==
					    0))) {
		take = r->usize < FRONT_MAX ? r->usize : FRONT_MAX;
		bytes = malloc(take + 1);
		err = !bytes ? -ENOMEM
			     : tasd_source_pread(
				       inflated ? inflated : zip->source, bytes,
				       take, inflated ? 0 : tasd_zip_data(r));
	}
	tasd_source_put(inflated);
	if (err == -ENOMEM)
		return err;
	if (err)
		return must ? trouble(s, shown, "its bytes cannot be read") : 0;
	return bytes ? scan_member(
			       s, shown, bytes, take, take < r->usize, must)
		     : 0;
}

static tasd_err scan_records(struct scanning *s, struct tasd_zip *zip)
{
	struct tasd_zip_record **all = tasd_arena_alloc(
		zip->arena, (zip->nrecords + 1) * sizeof(*all));
	tasd_err err;

	if (!all)
		return trouble(s, "", "its directory is too large");
	for (uint32_t i = 0; i < zip->nrecords; i++)
		all[i] = &zip->records[i];
	err = tasd_zip_locate(zip, all, zip->nrecords);
	for (uint32_t i = 0; !err && i < zip->nrecords; i++)
		err = scan_record(s, zip, all[i]);
	return err;
}

static tasd_err scan_zip(struct scanning *s)
{
	struct tasd_diag diag = {""};
	struct tasd_arena arena;
	struct tasd_zip zip;
	tasd_err err;

	tasd_arena_init(&arena, SCRATCH);
	err = tasd_zip_open(s->source, &arena, &zip, &diag);
	if (!err) {
		err = scan_records(s, &zip);
		tasd_zip_close(&zip);
	} else if (err == -EINVAL || err == -E2BIG) {
		err = trouble(s, "", tasd_diag_text(&diag, err));
	}
	tasd_arena_free(&arena);
	return err;
}

static bool is_tar(const unsigned char *head, size_t len)
{
	return len >= TAR_BLOCK && memcmp(head + 257, "ustar", 5) == 0;
}

/* The old torch layout is a tar of pickles; long names and the like are members
 * of their own, which name nothing. */
static tasd_err scan_tar(struct scanning *s)
{
	uint64_t at = 0;

	for (uint32_t n = 0; n < PICKLES_MAX; n++) {
		char block[TAR_BLOCK], name[101], octal[13], shown[256], *end;
		uint64_t len;
		tasd_err err;

		if (s->source->size - at < TAR_BLOCK)
			return 0;
		err = tasd_source_pread(s->source, block, sizeof(block), at);
		if (err)
			return tasd_diag_set(
				s->diag, err, "cannot read its bytes");
		if (block[0] == '\0')
			return 0;
		at += TAR_BLOCK;
		snprintf(name, sizeof(name), "%.100s", block);
		snprintf(octal, sizeof(octal), "%.12s", block + 124);
		len = strtoull(octal, &end, 8);
		tasd_print_bytes(shown, sizeof(shown), name, strlen(name));
		if (end == octal || (unsigned char)block[124] & 0x80 ||
			len > s->source->size - at)
			return trouble(s, shown, "its size in the tar is "
						 "absurd, so what follows was "
						 "not looked into");
		if (len > 0) {
			err = scan_range(s, shown, at, len,
				named_pickle(name, strlen(name)) ? MUST_BE
								 : MAY_BE);
			if (err)
				return err;
		}
		len += -len % TAR_BLOCK;
		if (len > s->source->size - at)
			return 0;
		at += len;
	}
	return trouble(s, "", "more members than are looked into");
}

/* ---- the file ----------------------------------------------------------- */

/* Loaders take a file of such a name for a pickle, whatever is in it. */
static bool named_checkpoint(const char *name)
{
	static const char *const suffixes[] = {".pkl", ".pickle", ".pt", ".pth",
		".ckpt", ".joblib", ".dill"};

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (tasd_text_has_suffix(name, suffixes[i]))
			return true;
	return strcmp(name, ".metadata") == 0 ||
	       tasd_text_has_suffix(name, ".metadata");
}

/* The same below what packs it, and packed folders. */
static bool named_packed(const char *name)
{
	static const char *const suffixes[] = {
		".gz", ".bz2", ".xz", ".zst", ".7z", ".rar"};
	static const char *const folders[] = {
		".tgz", ".tbz", ".txz", ".7z", ".rar"};
	cleanup_free char *inner = strdup(name);

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (tasd_text_has_suffix(name, folders[i]))
			return true;
	for (size_t i = 0; inner && i < sizeof(suffixes) / sizeof(suffixes[0]);
		i++)
		if (tasd_text_has_suffix(inner, suffixes[i])) {
			inner[strlen(inner) - strlen(suffixes[i])] = '\0';
			break;
		}
	return !inner || named_checkpoint(inner) ||
	       tasd_text_has_suffix(inner, ".tar");
}

/* Packed, so that nobody can say what is in it. */
static const char *packed(const unsigned char *head, size_t len)
{
	static const struct {
		const char *magic;
		uint8_t len;
		const char *why;
	} kinds[] = {
		{"\x1f\x8b\x08", 3, "gzip data: unpack it first"},
		{"BZh", 3, "bzip2 data: unpack it first"},
		{"\xfd"
		 "7zXZ\0",
			6, "xz data: unpack it first"},
		{"\x28\xb5\x2f\xfd", 4, "zstd data: unpack it first"},
		{"7z\xbc\xaf\x27\x1c", 6, "a 7z archive: unpack it first"},
		{"Rar!\x1a\x07", 6, "a rar archive: unpack it first"},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (len >= kinds[i].len &&
			memcmp(head, kinds[i].magic, kinds[i].len) == 0)
			return kinds[i].why;
	return NULL;
}

/*
 * The early protocols have no mark, so any file may be a pickle.  Weights and
 * texts break within a few bytes, which saves reading them.
 */
static bool may_be_pickle(const struct scanning *s)
{
	struct tasd_pickle *pickle = NULL;
	uint64_t used;
	bool may = !tasd_pickle_read(s->head, s->head_len,
			   TASD_CONTAINER_MEMORY, &pickle, &used, NULL) ||
		   !pickle || pickle->cut || names_any(pickle);

	tasd_pickle_free(pickle);
	return may;
}

static tasd_err scan_source(struct scanning *s, const char *name)
{
	const char *why = packed(s->head, s->head_len);
	const struct tasd_probe probe = {
		.head = s->head,
		.head_len = s->head_len,
		.size = s->source->size,
		.fd = -1,
		.name = name,
	};

	if (s->head_len == 0)
		return 0;
	if (why)
		return named_packed(name) ? trouble(s, "", why) : 0;
	if (tasd_zip_plausible(s->head, s->head_len))
		return scan_zip(s);
	if (is_tar(s->head, s->head_len))
		return scan_tar(s);
	if (s->head_len >= TASD_NPY_MAGIC_LEN &&
		memcmp(s->head, TASD_NPY_MAGIC, TASD_NPY_MAGIC_LEN) == 0)
		return scan_npy(s);
	if (begins_pickle(s->head, s->head_len))
		return scan_range(s, "", 0, s->source->size, MUST_BE);
	if (named_checkpoint(name)) {
		uint64_t before = s->scan->npickles;
		tasd_err err;

		/* Before the reason why it is none, what it is. */
		err = scan_range(s, "", 0, s->source->size, MAY_BE);
		if (err || s->scan->npickles > before)
			return err;
		why = tasd_sniff(&probe);
		/* Python's own path files have that suffix too. */
		if (why && strcmp(why, "a text") == 0 &&
			tasd_text_has_suffix(name, ".pth"))
			return 0;
		return trouble(s, "", why ? why : "not a pickle");
	}
	return may_be_pickle(s) ? scan_range(s, "", 0, s->source->size, MAY_BE)
				: 0;
}

tasd_err tasd_scan_file(int fd, const char *name, struct tasd_scan *scan,
	struct tasd_diag *diag)
{
	struct scanning *s = calloc(1, sizeof(*s));
	cleanup_fd int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	tasd_err err;

	scan->npickles = 0;
	if (!s || own < 0) {
		err = s ? -errno : -ENOMEM;
		free(s);
		return err;
	}
	s->scan = scan;
	s->diag = diag;
	err = tasd_source_file(own, name, &s->source);
	if (!err) {
		tasd_steal_fd(&own);
		err = tasd_fileio_pread(
			fd, s->head, sizeof(s->head), 0, &s->head_len);
	}
	if (!err)
		err = scan_source(s, name);
	tasd_source_put(s->source);
	free(s);
	return err;
}
