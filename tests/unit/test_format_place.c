/*
 * What a path on the command line is.
 */
#include "format_unit.h"
#include <format/place.h>

static struct tasd_place place;

static void is(const char *path, const char *format, const char *name)
{
	struct tasd_diag diag = {""};
	tasd_err err = tasd_place_open(path, &place, &diag);
	struct tasd_container *ctr;

	ck_assert_msg(err == 0, "%s: %d %s", path, err, diag.text);
	ck_assert_str_eq(place.name, name);
	ck_assert_int_eq(place.path[0], '/');
	if (!format) {
		ck_assert_ptr_null(place.format);
		return;
	}
	ck_assert_str_eq(place.format->name, format);
	ck_assert_int_eq(
		tasd_container_open(place.dirfd, place.name, 0, &ctr, &diag),
		0);
	tasd_container_put(ctr);
}

static void is_none(const char *path, tasd_err want, const char *why)
{
	struct tasd_diag diag = {""};

	ck_assert_int_eq(tasd_place_open(path, &place, &diag), want);
	ck_assert_msg(strstr(diag.text, why), "%s: %s", path, diag.text);
}

static void make(void)
{
	setup();
	ck_assert_int_eq(fchdir(topfd), 0);
	ck_assert_int_eq(mkdirat(topfd, "set", 0700), 0);
	ck_assert_int_eq(mkdirat(topfd, "lib", 0700), 0);
	put_st("lib/a.st", "{\"a\":[\"U8\",[],[0,1]]}", "x", 1);
	put_st("set/a.st", "{\"a\":[\"U8\",[],[0,1]]}", "x", 1);
	put_text("set/model.safetensors.index.json",
		"{\"weight_map\":{\"a\":\"a.st\"}}");
}

START_TEST(test_places)
{
	char path[128], want[128];

	make();
	is("lib/a.st", "safetensors", "a.st");
	snprintf(want, sizeof(want), "%s/lib/a.st", top);
	ck_assert_str_eq(place.path, want);
	tasd_place_close(&place);
	is("./lib/../lib//a.st", "safetensors", "a.st");
	ck_assert_str_eq(place.path, want);
	tasd_place_close(&place);
	snprintf(path, sizeof(path), "%s/lib/a.st", top);
	is(path, "safetensors", "a.st");
	tasd_place_close(&place);
	is("set", "safetensors-sharded", ".");
	snprintf(want, sizeof(want), "%s/set", top);
	ck_assert_str_eq(place.path, want);
	tasd_place_close(&place);
	is("set/", "safetensors-sharded", ".");
	tasd_place_close(&place);
	is("set/model.safetensors.index.json", "safetensors-sharded",
		"model.safetensors.index.json");
	tasd_place_close(&place);
	is("lib", NULL, ".");
	tasd_place_close(&place);
	is(".", NULL, ".");
	tasd_place_close(&place);
	is("/", NULL, ".");
	ck_assert_str_eq(place.path, "/");
	tasd_place_close(&place);
	ck_assert_int_eq(fchdir(topfd), 0);
	ck_assert_int_eq(chdir("lib"), 0);
	is("a.st", "safetensors", "a.st");
	tasd_place_close(&place);
	teardown();
}
END_TEST

/* The user's own links go anywhere. */
START_TEST(test_links)
{
	char want[128];

	make();
	ck_assert_int_eq(symlinkat("../set/a.st", topfd, "lib/out"), 0);
	ck_assert_int_eq(symlinkat("a.st", topfd, "lib/in"), 0);
	ck_assert_int_eq(symlinkat("../set/model.safetensors.index.json", topfd,
				 "lib/index"),
		0);
	ck_assert_int_eq(symlinkat("set", topfd, "folder"), 0);
	is("lib/in", "safetensors", "in");
	tasd_place_close(&place);
	is("lib/out", "safetensors", "a.st");
	snprintf(want, sizeof(want), "%s/set/a.st", top);
	ck_assert_str_eq(place.path, want);
	tasd_place_close(&place);
	is("lib/index", "safetensors-sharded", "model.safetensors.index.json");
	tasd_place_close(&place);
	is("folder", "safetensors-sharded", ".");
	tasd_place_close(&place);
	is("folder/a.st", "safetensors", "a.st");
	tasd_place_close(&place);
	teardown();
}
END_TEST

/* A snapshot's link keeps its folder: that is where its shards are. */
START_TEST(test_hub)
{
	static const char snapshot[] = "models--m/snapshots/r";
	char path[128];

	make();
	ck_assert_int_eq(mkdirat(topfd, "models--m", 0700), 0);
	ck_assert_int_eq(mkdirat(topfd, "models--m/snapshots", 0700), 0);
	ck_assert_int_eq(mkdirat(topfd, snapshot, 0700), 0);
	ck_assert_int_eq(renameat(topfd, "set", topfd, "models--m/blobs"), 0);
	snprintf(path, sizeof(path), "%s/model.safetensors.index.json",
		snapshot);
	ck_assert_int_eq(symlinkat("../../blobs/model.safetensors.index.json",
				 topfd, path),
		0);
	is(path, "safetensors-sharded", "model.safetensors.index.json");
	ck_assert_ptr_nonnull(strstr(place.path, snapshot));
	tasd_place_close(&place);
	is(snapshot, "safetensors-sharded", ".");
	tasd_place_close(&place);
	teardown();
}
END_TEST

START_TEST(test_none)
{
	make();
	put_text("text", "hello\n");
	ck_assert_int_eq(mkfifoat(topfd, "fifo", 0600), 0);
	ck_assert_int_eq(symlinkat("loop", topfd, "loop"), 0);
	is_none("text", -ENOTSUP, "a text");
	is_none("nothing", -ENOENT, "No such file");
	is_none("text/x", -ENOTDIR, "Not a directory");
	is_none("fifo", -ENOTSUP, "neither a regular file nor a folder");
	is_none("loop", -ELOOP, "symbolic links");
	is_none("", -ENOENT, "No such file");
	teardown();
}
END_TEST

START_TEST(test_faces)
{
	size_t len = 0;

	ck_assert(tasd_place_is_face("model.safetensors.tasd", 22, &len));
	ck_assert_uint_eq(len, 17);
	ck_assert(tasd_place_is_face("a.tasd", 6, &len));
	ck_assert_uint_eq(len, 1);
	ck_assert(!tasd_place_is_face(".tasd", 5, &len));
	ck_assert(!tasd_place_is_face("a.tas", 5, &len));
	ck_assert(!tasd_place_is_face("atasd", 5, &len));
	ck_assert(!tasd_place_is_face("", 0, &len));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_places,
		test_links,
		test_hub,
		test_none,
		test_faces,
		NULL,
	};

	return unit_run("format-place", tests);
}
