/*
 * A PyTorch checkpoint as torch.save has written it since 1.6: a zip whose
 * members lie in one folder, named by the first of them:
 *
 *	FOLDER/data.pkl		the pickle
 *	FOLDER/data/KEY		the bytes of storage KEY
 *	FOLDER/version		of the layout, as text
 *	FOLDER/byteorder	"little" or "big"; little when it is missing
 *	FOLDER/constants.pkl	makes it a TorchScript module
 *
 * Which member a name means is the zip reader's to say, as PyTorch's own does.
 * Members that no storage names are never looked at.  A storage whose member
 * cannot be used is the trouble of the tensors on it.
 *
 * Source of the layout: caffe2/serialize/inline_container.h of PyTorch.
 */
#include "formats.h"
#include "pickle.h"
#include "torch_unsafe.h"
#include "torch_value.h"
#include "zip.h"
#include <base/cleanup.h>
#include <base/text.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bounds of what reading needs for itself. */
#define SCRATCH    ((size_t)64 << 20)
#define PICKLE_MAX ((uint64_t)64 << 20)
/* The graph: 2 KiB for each value that the largest pickle could hold would be
 * more than there is; this is what the state dict may take as well. */
#define GRAPH_MAX TASD_CONTAINER_MEMORY
/* version and byteorder are a few letters. */
#define WORD_MAX 16

struct reading {
	struct tasd_container *ctr;
	struct tasd_arena scratch;
	struct tasd_zip zip;
	struct tasd_buf name; /* of the member at hand */
	size_t folder_len;    /* of FOLDER/ at the front of name */
	bool big_endian;
	struct tasd_zip_record **records; /* of the storages */
	size_t nrecords, room;
};

/* ---- probing ------------------------------------------------------------ */

/* Names that torch.save begins an archive with. */
static bool is_torch_name(const char *name, size_t len)
{
	return memchr(name, '/', len) &&
	       (tasd_text_ends_with(name, len, "/data.pkl") ||
		       tasd_text_ends_with(name, len, "/version") ||
		       tasd_text_ends_with(name, len, "/byteorder") ||
		       tasd_text_ends_with(name, len, "/.format_version") ||
		       tasd_text_ends_with(name, len, "/.storage_alignment") ||
		       tasd_text_ends_with(name, len, "/constants.pkl") ||
		       memmem(name, len, "/data/", 6));
}

/* Records may stand in any order: ask the directory. */
static bool has_pickle(const struct tasd_probe *probe)
{
	struct tasd_source *source = NULL;
	struct tasd_arena arena;
	struct tasd_zip zip;
	bool found = false;
	int fd = fcntl(probe->fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return false;
	if (tasd_source_file(fd, probe->name, &source)) {
		close(fd);
		return false;
	}
	tasd_arena_init(&arena, SCRATCH);
	if (tasd_zip_open(source, &arena, &zip, NULL) == 0) {
		for (uint32_t i = 0; i < zip.nrecords && !found; i++)
			found = tasd_text_ends_with(zip.records[i].name,
				zip.records[i].name_len, "/data.pkl");
		tasd_zip_close(&zip);
	}
	tasd_arena_free(&arena);
	tasd_source_put(source);
	return found;
}

static bool has_torch_suffix(const char *name)
{
	static const char *const suffixes[] = {".pt", ".pth", ".ckpt", ".bin"};

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (tasd_text_ends_with(name, strlen(name), suffixes[i]))
			return true;
	return false;
}

static enum tasd_verdict probe_torch(const struct tasd_probe *probe)
{
	const char *name;
	size_t len;

	if (!probe->head || !tasd_zip_plausible(probe->head, probe->head_len))
		return TASD_VERDICT_NO;
	if (tasd_zip_first_name(probe->head, probe->head_len, &name, &len) &&
		is_torch_name(name, len))
		return TASD_VERDICT_YES;
	return has_torch_suffix(probe->name) || has_pickle(probe)
		       ? TASD_VERDICT_YES
		       : TASD_VERDICT_NO;
}

/* ---- members ------------------------------------------------------------ */

/* The member that r->name says, or NULL. */
static struct tasd_zip_record *find_named(struct reading *r)
{
	if (tasd_buf_err(&r->name))
		return NULL;
	return tasd_zip_find(&r->zip, r->name.bytes, r->name.len);
}

/* The member FOLDER/part, or NULL. */
static struct tasd_zip_record *find_member(
	struct reading *r, const char *part, size_t len)
{
	r->name.len = r->folder_len;
	tasd_buf_add(&r->name, part, len);
	return find_named(r);
}

/* All members are in the folder of the first. */
static tasd_err find_folder(struct reading *r, struct tasd_diag *diag)
{
	const struct tasd_zip_record *first = r->zip.records;
	const char *slash = r->zip.nrecords
				    ? memchr(first->name, '/', first->name_len)
				    : NULL;
	char shown[100];

	if (!r->zip.nrecords)
		return tasd_diag_set(diag, -EINVAL, "the zip is empty");
	if (!slash)
		return tasd_diag_set(diag, -EINVAL,
			"its first member, %s, is in no folder: not as "
			"torch.save writes it",
			tasd_print_bytes(shown, sizeof(shown), first->name,
				first->name_len));
	r->folder_len = (size_t)(slash - first->name) + 1;
	tasd_buf_add(&r->name, first->name, r->folder_len);
	return tasd_buf_err(&r->name);
}

/* All bytes of a member (free() them); NULL in *ret_bytes when it is not
 * there. */
static tasd_err read_member(struct reading *r, const char *part, uint64_t max,
	char **ret_bytes, size_t *ret_len, struct tasd_diag *diag)
{
	struct tasd_zip_record *record = find_member(r, part, strlen(part));
	tasd_err err;

	*ret_bytes = NULL;
	if (!record)
		return tasd_buf_err(&r->name);
	err = tasd_zip_locate(&r->zip, &record, 1);
	if (!err)
		err = tasd_zip_usable(record, diag);
	if (!err)
		err = tasd_zip_read(&r->zip, record, max, ret_bytes, ret_len);
	if (err == -E2BIG)
		return tasd_diag_set(diag, err,
			"%s: %llu bytes, more than the %llu that are read",
			part, (unsigned long long)record->usize,
			(unsigned long long)max);
	return err ? tasd_diag_prefix(diag, err, "%s", part) : 0;
}

/* The layout's version must be there, as it must for torch. */
static tasd_err check_version(struct reading *r, struct tasd_diag *diag)
{
	if (find_member(r, "version", 7) || find_member(r, ".data/version", 13))
		return 0;
	return tasd_diag_set(diag, -EINVAL, "no member \"version\"");
}

static tasd_err read_byteorder(struct reading *r, struct tasd_diag *diag)
{
	cleanup_free char *word = NULL;
	char shown[40];
	size_t len = 0;
	tasd_err err = read_member(r, "byteorder", WORD_MAX, &word, &len, diag);

	if (err || !word || strcmp(word, "little") == 0)
		return err;
	r->big_endian = strcmp(word, "big") == 0;
	if (r->big_endian)
		return 0;
	return tasd_diag_set(diag, -EINVAL,
		"byteorder is \"%s\", expected little or big",
		tasd_print_bytes(shown, sizeof(shown), word, len));
}

/* ---- storages ----------------------------------------------------------- */

static struct tasd_zip_record *find_storage(
	struct reading *r, const struct tasd_torch_persid *persid)
{
	r->name.len = r->folder_len;
	tasd_buf_str(&r->name, "data/");
	tasd_buf_add(&r->name, persid->key, persid->key_len);
	return find_named(r);
}

/* Note the member of each storage, so that all headers are read in one go. */
static tasd_err note_storage(void *ctx, const struct tasd_pkl *value)
{
	struct reading *r = ctx;
	struct tasd_torch_persid persid;
	struct tasd_zip_record *record, **more;
	bool is = false;

	if (value->type != TASD_PKL_PERSID ||
		tasd_torch_persid(value, &is, &persid, NULL) || !is)
		return 0; /* what is wrong is said where it is used */
	record = find_storage(r, &persid);
	if (!record)
		return 0;
	if (r->nrecords == r->room) {
		size_t room = r->room ? 2 * r->room : 256;

		more = reallocarray(
			r->records, room, sizeof(struct tasd_zip_record *));
		if (!more)
			return -ENOMEM;
		r->records = more;
		r->room = room;
	}
	r->records[r->nrecords++] = record;
	return 0;
}

static tasd_err place_fails(struct reading *r, struct tasd_torch_place *place,
	const struct tasd_diag *diag)
{
	place->error = tasd_arena_copy(tasd_statedict_arena(r->ctr->sd),
		diag->text, strlen(diag->text));
	return place->error ? 0 : -E2BIG;
}

static tasd_err find_place(void *ctx, const struct tasd_torch_persid *persid,
	struct tasd_torch_place *ret)
{
	struct reading *r = ctx;
	struct tasd_zip_record *record = find_storage(r, persid);
	struct tasd_source *source = NULL;
	struct tasd_diag diag = {""};
	char shown[80];
	tasd_err err;

	*ret = (struct tasd_torch_place){.big_endian = r->big_endian};
	tasd_print_bytes(shown, sizeof(shown), persid->key, persid->key_len);
	if (!record) {
		tasd_diag_set(&diag, -ENOENT,
			"its storage data/%s is not in the file", shown);
		return place_fails(r, ret, &diag);
	}
	if (tasd_zip_usable(record, &diag)) {
		tasd_diag_prefix(&diag, -EINVAL, "data/%s", shown);
		return place_fails(r, ret, &diag);
	}
	ret->length = record->usize;
	if (record->method == TASD_ZIP_STORED) {
		ret->offset = tasd_zip_data(record);
		return 0;
	}
	err = tasd_zip_inflate(&r->zip, record, &source);
	return err ? err
		   : tasd_container_add_source(r->ctr, source, &ret->source);
}

/* ---- reading ------------------------------------------------------------ */

/* Where data.pkl lies when it is stored as it is. */
static void set_stream(struct reading *r, struct tasd_torch *torch)
{
	const struct tasd_zip_record *record = find_member(r, "data.pkl", 8);

	torch->stream_in_source = record && record->method == TASD_ZIP_STORED;
	if (torch->stream_in_source)
		torch->stream_offset = tasd_zip_data(record);
}

static tasd_err map_pickle(struct reading *r, const char *stream, size_t len,
	struct tasd_diag *diag)
{
	struct tasd_torch torch = {.ctr = r->ctr,
		.stream = stream,
		.stream_len = len,
		.find = find_place,
		.ctx = r,
		/* Only TorchScript has constants. */
		.script = find_member(r, "constants.pkl", 13)};
	struct tasd_pickle *pickle = NULL;
	uint64_t used = 0;
	tasd_err err =
		tasd_pickle_read(stream, len, GRAPH_MAX, &pickle, &used, diag);

	if (err)
		tasd_diag_prefix(diag, err, "data.pkl");
	if (!err)
		err = tasd_pkl_walk(pickle, pickle->root, note_storage, r);
	if (!err)
		err = tasd_zip_locate(&r->zip, r->records, r->nrecords);
	if (!err) {
		torch.pickle = pickle;
		torch.root = pickle->root;
		set_stream(r, &torch);
		err = tasd_torch_note_unsafe(r->ctr, pickle);
	}
	if (!err)
		err = tasd_torch_map(&torch, diag);
	tasd_pickle_free(pickle);
	return err;
}

static tasd_err read_archive(struct reading *r, struct tasd_diag *diag)
{
	cleanup_free char *stream = NULL;
	size_t len = 0;
	tasd_err err = find_folder(r, diag);

	if (!err)
		err = check_version(r, diag);
	if (!err)
		err = read_byteorder(r, diag);
	if (!err)
		err = read_member(
			r, "data.pkl", PICKLE_MAX, &stream, &len, diag);
	if (!err && !stream)
		err = tasd_diag_set(diag, -EINVAL, "no member \"data.pkl\"");
	return err ? err : map_pickle(r, stream, len, diag);
}

static tasd_err read_torch(struct tasd_container *ctr, struct tasd_diag *diag)
{
	struct reading r = {.ctr = ctr};
	tasd_err err;

	tasd_arena_init(&r.scratch, SCRATCH);
	err = tasd_zip_open(ctr->sources[0], &r.scratch, &r.zip, diag);
	if (!err) {
		err = read_archive(&r, diag);
		tasd_zip_close(&r.zip);
	}
	free(r.records);
	tasd_buf_free(&r.name);
	tasd_arena_free(&r.scratch);
	return err;
}

const struct tasd_format tasd_format_torch_zip = {
	.name = "torch",
	.probe = probe_torch,
	.read = read_torch,
};
