/*
 * A sharded safetensors set: a folder with model.safetensors.index.json (or a
 * single other *.safetensors.index.json), or that file by itself.  The index
 * decides which tensors there are and in which order; st_index.c reads it,
 * st_shards.c reads the shards.
 */
#include "formats.h"
#include "st_index.h"
#include <base/json.h>
#include <base/text.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <source/beneath.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usual_name[] = "model.safetensors.index.json";
static const char suffix[] = ".safetensors.index.json";

/* A file, or a link that may lead to one. */
static bool may_be_file(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode));
}

/* The one index of a folder; false when there is none, or several. */
static bool find_index(int dirfd, char out[NAME_MAX + 1])
{
	unsigned int found = 0;
	struct dirent *entry;
	DIR *dir;
	int fd;

	if (may_be_file(dirfd, usual_name)) {
		strcpy(out, usual_name);
		return true;
	}
	fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return false;
	}
	while (found < 2 && (entry = readdir(dir))) {
		if (!tasd_text_has_suffix(entry->d_name, suffix) ||
			!may_be_file(dirfd, entry->d_name))
			continue;
		found++;
		strcpy(out, entry->d_name);
	}
	closedir(dir);
	return found == 1;
}

/* Stops at the outermost object's "weight_map". */
static tasd_err look_for_map(void *ctx, const struct tasd_json_event *event)
{
	static const char key[] = "weight_map";
	bool *found = ctx;

	if (event->type != TASD_JSON_KEY || event->depth != 1 ||
		event->len != strlen(key) ||
		memcmp(event->text, key, event->len) != 0)
		return 0;
	*found = true;
	return -ECANCELED;
}

/* Other JSON files may hold an index somewhere within; an index is one. */
static bool has_map(const unsigned char *head, size_t len)
{
	struct tasd_json *json = NULL;
	bool found = false;

	if (tasd_json_new(look_for_map, &found, 64, &json) == 0)
		tasd_json_push(json, (const char *)head, len, NULL);
	tasd_json_free(json);
	return found;
}

static enum tasd_verdict probe_index(const struct tasd_probe *probe)
{
	char name[NAME_MAX + 1];
	size_t at = 0;

	if (!probe->head)
		return find_index(probe->fd, name) ? TASD_VERDICT_YES
						   : TASD_VERDICT_NO;
	while (at < probe->head_len && tasd_json_is_space(probe->head[at]))
		at++;
	if (at == probe->head_len || probe->head[at] != '{')
		return tasd_text_has_suffix(probe->name, suffix)
			       ? TASD_VERDICT_MAYBE
			       : TASD_VERDICT_NO;
	if (tasd_text_has_suffix(probe->name, suffix) ||
		has_map(probe->head, probe->head_len))
		return TASD_VERDICT_YES;
	return TASD_VERDICT_NO;
}

/* For a folder: its index becomes source 0. */
static tasd_err open_index(struct tasd_container *ctr, struct tasd_diag *diag)
{
	char name[NAME_MAX + 1];
	struct tasd_source *source;
	tasd_err err;
	int fd;

	if (!find_index(ctr->dirfd, name))
		return -ENOENT; /* gone since it was probed */
	err = tasd_beneath_open(ctr->dirfd, name, &fd, diag);
	if (err)
		return tasd_diag_prefix(diag, err, "%s", name);
	err = tasd_source_file(fd, name, &source);
	if (err) {
		close(fd);
		return err;
	}
	ctr->stamp = source->stamp;
	return tasd_container_add_source(ctr, source, NULL);
}

static tasd_err read_index(struct tasd_container *ctr, struct tasd_diag *diag)
{
	struct tasd_st_index index = {.ctr = ctr};
	tasd_err err = ctr->nsources ? 0 : open_index(ctr, diag);

	if (err)
		return err;
	tasd_metaset_init(&index.metas, ctr);
	tasd_map_init(&index.wants);
	tasd_map_init(&index.shards);
	err = tasd_st_index_parse(&index, ctr->sources[0], diag);
	if (err && diag->text[0])
		tasd_diag_prefix(diag, err, "%s", ctr->sources[0]->name);
	if (!err)
		err = tasd_st_shards_read(&index);
	tasd_map_free(&index.shards);
	tasd_map_free(&index.wants);
	tasd_metaset_free(&index.metas);
	return err;
}

const struct tasd_format tasd_format_safetensors_index = {
	.name = "safetensors-sharded",
	.probe = probe_index,
	.read = read_index,
};
