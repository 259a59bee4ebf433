/*
 * Sharded sets: the index decides, every disagreement is told, and what is
 * whole stays readable.
 */
#include "format_unit.h"
#include <format/content.h>
#include <sys/resource.h>

#define INFO(dtype, shape, offsets)                                            \
	"{\"dtype\":\"" dtype "\",\"shape\":" shape                            \
	",\"data_offsets\":" offsets "}"

static const char index_name[] = "set/model.safetensors.index.json";

/* set/a.st: a, b and c; set/s/d.st: d. */
static void make_set(void)
{
	setup();
	ck_assert_int_eq(mkdirat(topfd, "set", 0700), 0);
	ck_assert_int_eq(mkdirat(topfd, "set/s", 0700), 0);
	put_st("set/a.st",
		"{\"a\":" INFO("U8", "[2]", "[0,2]") ",\"b\":" INFO(
			"U8", "[2]", "[2,4]") ",\"c\":" INFO("U8", "[0]",
			"[4,4]") ",\"__metadata__\":{\"format\":\"pt\","
				 "\"x\":\"1\"}}",
		"aabb", 4);
	put_st("set/s/d.st",
		"{\"d\":" INFO("BF16", "[1]",
			"[0,2]") ",\"__metadata__\":{\"format\":\"np\","
				 "\"y\":\"2\"}}",
		"dd", 2);
}

/* The set with this index. */
static struct tasd_container *set_with(const char *index)
{
	make_set();
	put_text(index_name, index);
	return opened("set");
}

static void bytes_are(
	struct tasd_container *ctr, const char *path, const char *want)
{
	struct tasd_content content;
	char got[16];
	size_t len = 0;

	ck_assert_int_eq(tasd_content_open(ctr, node_at(ctr, path),
				 TASD_VIEW_RAW, &content),
		0);
	ck_assert_int_eq(
		tasd_content_pread(&content, got, sizeof(got), 0, &len), 0);
	ck_assert_uint_eq(len, strlen(want));
	ck_assert_mem_eq(got, want, len);
	tasd_content_close(&content);
}

/* Listed, not readable, and it says why. */
static void broken(
	struct tasd_container *ctr, const char *path, const char *why)
{
	const struct tasd_node *node = node_at(ctr, path);
	struct tasd_content content;

	ck_assert_int_eq(node->form, TASD_FORM_TENSOR);
	ck_assert_int_eq(node->tensor->data, TASD_DATA_BROKEN);
	ck_assert_ptr_nonnull(node->error);
	ck_assert_msg(strstr(node->error, why), "%s: %s", path, node->error);
	ck_assert_uint_eq(tasd_content_size(node, TASD_VIEW_RAW), 0);
	ck_assert_int_eq(
		tasd_content_open(ctr, node, TASD_VIEW_RAW, &content), -EIO);
}

static void problem(
	const struct tasd_container *ctr, uint32_t count, const char *why)
{
	ck_assert_uint_eq(ctr->nproblems, count);
	ck_assert_msg(strstr(ctr->problems, why), "%s", ctr->problems);
}

static void done(struct tasd_container *ctr)
{
	tasd_container_put(ctr);
	teardown();
}

START_TEST(test_whole)
{
	struct tasd_container *ctr =
		set_with("{\"metadata\":{\"total_size\":6,\"n\":1.5,\"t\":true,"
			 "\"l\":[1,{}],\"z\":null,\"x\":\"0\"},\"other\":[[]],"
			 "\"weight_map\":{\"d\":\"s/d.st\",\"c\":\"a.st\","
			 "\"a\":\"a.st\",\"b\":\"a.st\"}}");
	static const char *const meta[][2] = {{"total_size", "6"}, {"n", "1.5"},
		{"t", "true"}, {"z", "null"}, {"x", "0"}, {"format", "np"},
		{"y", "2"}};

	ck_assert_str_eq(ctr->format->name, "safetensors-sharded");
	ck_assert_ptr_null(ctr->problems);
	ck_assert_ptr_null(ctr->name);
	ck_assert_uint_eq(ctr->nsources, 3);
	ck_assert_str_eq(ctr->sources[0]->name, "model.safetensors.index.json");
	ck_assert_str_eq(ctr->sources[1]->name, "s/d.st");
	ck_assert_uint_eq(node_at(ctr, "d")->order, 0);
	ck_assert_uint_eq(node_at(ctr, "b")->order, 3);
	ck_assert_uint_eq(node_at(ctr, "d")->tensor->extent.source, 1);
	ck_assert_uint_eq(node_at(ctr, "b")->tensor->extent.source, 2);
	bytes_are(ctr, "a", "aa");
	bytes_are(ctr, "b", "bb");
	bytes_are(ctr, "c", "");
	bytes_are(ctr, "d", "dd");
	ck_assert_uint_eq(ctr->nmeta, sizeof(meta) / sizeof(meta[0]));
	for (uint32_t i = 0; i < ctr->nmeta; i++) {
		ck_assert_str_eq(ctr->meta[i].name, meta[i][0]);
		ck_assert_str_eq(ctr->meta[i].value, meta[i][1]);
	}
	done(ctr);
}
END_TEST

/* The index file by itself is the same set. */
START_TEST(test_index_file)
{
	struct tasd_container *ctr = set_with(
		"{\"weight_map\":{\"a\":\"a.st\",\"b\":\"a.st\",\"c\":\"a.st\","
		"\"d\":\"s/d.st\"}}");

	tasd_container_put(ctr);
	ctr = opened(index_name);
	ck_assert_str_eq(ctr->name, "model.safetensors.index.json");
	ck_assert_ptr_null(ctr->problems);
	bytes_are(ctr, "d", "dd");
	ck_assert_int_eq(tasd_container_check(ctr, NULL), 0);
	done(ctr);
}
END_TEST

START_TEST(test_folder_names)
{
	static const char index[] = "{\"weight_map\":{\"a\":\"a.st\",\"b\":\"a."
				    "st\",\"c\":\"a.st\"}}";

	make_set();
	refused("set", -ENOTSUP, "a folder that is no checkpoint");
	put_text("set/fp16.safetensors.index.json", index);
	tasd_container_put(opened("set"));
	put_text("set/fp32.safetensors.index.json", index);
	refused("set", -ENOTSUP, "a folder that is no checkpoint");
	put_text("set/model.safetensors.index.json", index);
	tasd_container_put(opened("set"));
	teardown();
}
END_TEST

START_TEST(test_missing_shard)
{
	struct tasd_container *ctr =
		set_with("{\"metadata\":{\"total_size\":99},\"weight_map\":{"
			 "\"a\":\"a.st\",\"b\":\"a.st\",\"c\":\"a.st\","
			 "\"x\":\"gone.st\",\"y\":\"gone.st\"}}");

	problem(ctr, 1, "shard gone.st: No such file or directory; 2 tensors");
	broken(ctr, "x", "shard gone.st: No such file");
	broken(ctr, "y", "shard gone.st: No such file");
	bytes_are(ctr, "b", "bb");
	/* It comes: the set has changed. */
	ck_assert_int_eq(tasd_container_check(ctr, NULL), 0);
	put_st("set/gone.st", "{}", "", 0);
	ck_assert_int_eq(tasd_container_check(ctr, NULL), -ESTALE);
	done(ctr);
}
END_TEST

START_TEST(test_broken_shard)
{
	struct tasd_container *ctr;

	make_set();
	put_st("set/bad.st",
		"{\"x\":" INFO("U8", "[1]", "[0,1]") ",\"y\":" INFO(
			"", "[]", "[1,1]") ",\"__metadata__\":{\"q\":\"1\"}}",
		"x", 1);
	put_text(index_name,
		"{\"weight_map\":{\"x\":\"bad.st\",\"y\":\"bad.st\","
		"\"a\":\"a.st\",\"b\":\"a.st\",\"c\":\"a.st\"}}");
	ctr = opened("set");
	problem(ctr, 1, "shard bad.st: tensor \"y\": unknown dtype \"\"");
	/* What came before the fault in the same header does not count. */
	broken(ctr, "x", "unknown dtype");
	broken(ctr, "y", "unknown dtype");
	bytes_are(ctr, "a", "aa");
	for (uint32_t i = 0; i < ctr->nmeta; i++)
		ck_assert_str_ne(ctr->meta[i].name, "q");
	done(ctr);
}
END_TEST

START_TEST(test_cut_shard)
{
	struct tasd_container *ctr;

	make_set();
	put_st("set/cut.st", "{\"x\":" INFO("U8", "[9]", "[0,9]") "}", "x", 1);
	put_text(index_name, "{\"weight_map\":{\"x\":\"cut.st\"}}");
	ctr = opened("set");
	broken(ctr, "x", "shard cut.st: truncated: needs 8 more bytes");
	done(ctr);
}
END_TEST

START_TEST(test_wrong_types)
{
	struct tasd_container *ctr = set_with(
		"{\"weight_map\":{\"n\":5,\"l\":[\"a.st\",{}],\"o\":{\"a\":1},"
		"\"z\":null,\"a\":\"a.st\",\"b\":\"a.st\",\"c\":\"a.st\"}}");

	problem(ctr, 4,
		"tensor \"n\": its shard is named by a number, a string was "
		"expected");
	broken(ctr, "n", "a number");
	broken(ctr, "l", "an array");
	broken(ctr, "o", "an object");
	broken(ctr, "z", "null");
	bytes_are(ctr, "a", "aa");
	done(ctr);
}
END_TEST

START_TEST(test_names_that_lead_out)
{
	struct tasd_container *ctr;

	make_set();
	put_st("out.st", "{\"x\":" INFO("U8", "[1]", "[0,1]") "}", "x", 1);
	ck_assert_int_eq(symlinkat("../out.st", topfd, "set/link"), 0);
	ck_assert_int_eq(symlinkat("loop", topfd, "set/loop"), 0);
	ck_assert_int_eq(mkfifoat(topfd, "set/fifo", 0600), 0);
	put_text(index_name,
		"{\"weight_map\":{\"1\":\"../out.st\",\"2\":\"s/../../out.st\","
		"\"3\":\"/dev/zero\",\"4\":\"link\",\"5\":\"a.st\\u0000x\","
		"\"6\":\"\",\"7\":\"loop\",\"8\":\"fifo\",\"9\":\"s\"}}");
	ctr = opened("set");
	ck_assert_uint_eq(ctr->nproblems, 9);
	ck_assert_uint_eq(ctr->nsources, 1);
	broken(ctr, "1", "leads out of the folder");
	broken(ctr, "2", "leads out of the folder");
	broken(ctr, "3", "an absolute file name is not followed");
	broken(ctr, "4", "leads out of the folder");
	broken(ctr, "5", "a.st\\x00x: a NUL byte in a file name");
	broken(ctr, "6", "empty file name");
	broken(ctr, "7", "Too many levels of symbolic links");
	broken(ctr, "8", "not a regular file");
	broken(ctr, "9", "not a regular file");
	done(ctr);
}
END_TEST

/* Two names of one file are one source, and each tensor may use either. */
START_TEST(test_links_inside)
{
	struct tasd_container *ctr;

	make_set();
	ck_assert_int_eq(symlinkat("a.st", topfd, "set/same"), 0);
	ck_assert_int_eq(linkat(topfd, "set/a.st", topfd, "set/hard", 0), 0);
	put_text(index_name, "{\"weight_map\":{\"a\":\"same\",\"b\":\"a.st\","
			     "\"c\":\"hard\"}}");
	ctr = opened("set");
	ck_assert_ptr_null(ctr->problems);
	ck_assert_uint_eq(ctr->nsources, 2);
	bytes_are(ctr, "a", "aa");
	bytes_are(ctr, "b", "bb");
	done(ctr);
}
END_TEST

START_TEST(test_disagreements)
{
	struct tasd_container *ctr =
		set_with("{\"metadata\":{\"total_size\":2},\"weight_map\":{"
			 "\"a\":\"a.st\",\"nope\":\"a.st\",\"d\":\"a.st\"}}");

	ck_assert_uint_eq(ctr->nproblems, 3);
	problem(ctr, 3,
		"shard a.st: holds 2 tensors that the index does not take "
		"from it, the first is \"b\"");
	problem(ctr, 3, "tensor \"nope\": not in shard a.st");
	broken(ctr, "nope", "not in shard a.st");
	broken(ctr, "d", "not in shard a.st");
	ck_assert_ptr_null(tasd_statedict_lookup(ctr->sd, "b"));
	bytes_are(ctr, "a", "aa");
	done(ctr);
}
END_TEST

START_TEST(test_total_size)
{
	struct tasd_container *ctr =
		set_with("{\"metadata\":{\"total_size\":5},\"weight_map\":{"
			 "\"a\":\"a.st\",\"b\":\"a.st\",\"c\":\"a.st\"}}");

	problem(ctr, 1, "metadata.total_size is 5, its tensors have 4 bytes");
	tasd_container_put(ctr);
	put_text(index_name,
		"{\"metadata\":{\"total_size\":\"4\"},\"weight_map\":{"
		"\"a\":\"a.st\",\"b\":\"a.st\",\"c\":\"a.st\"}}");
	ctr = opened("set");
	problem(ctr, 1, "total_size is no unsigned integer");
	done(ctr);
}
END_TEST

static void refuse_index(const char *index, const char *why)
{
	put_text(index_name, index);
	refused("set", -EINVAL, why);
}

START_TEST(test_refused)
{
	make_set();
	refuse_index("{\"metadata\":{}}", "the index has no weight_map");
	refuse_index("{\"weight_map\":[]}",
		"model.safetensors.index.json: weight_map is an array, an "
		"object was expected");
	refuse_index("{\"weight_map\":{},\"weight_map\":{}}",
		"weight_map stands twice");
	refuse_index("{\"weight_map\":{\"a\":\"a.st\",\"\\u0061\":\"a.st\"}}",
		"duplicate tensor name \"a\" in weight_map");
	refuse_index("[]", "the index is an array, an object was expected");
	refuse_index("{\"weight_map\":{\"a\":\"a.st\"", "premature EOF");
	refuse_index("", "premature EOF");
	teardown();
}
END_TEST

START_TEST(test_check)
{
	struct tasd_container *ctr = set_with(
		"{\"weight_map\":{\"a\":\"a.st\",\"b\":\"a.st\",\"c\":\"a.st\","
		"\"d\":\"s/d.st\"}}");
	const struct tasd_node *a = node_at(ctr, "a"), *d = node_at(ctr, "d");

	ck_assert_int_eq(tasd_container_check(ctr, NULL), 0);
	put_st("set/new", "{\"d\":" INFO("U8", "[1]", "[0,1]") "}", "d", 1);
	ck_assert_int_eq(tasd_container_check(ctr, NULL), 0);
	ck_assert_int_eq(renameat(topfd, "set/new", topfd, "set/s/d.st"), 0);
	ck_assert_int_eq(tasd_container_check(ctr, a), 0);
	ck_assert_int_eq(tasd_container_check(ctr, d), -ESTALE);
	ck_assert_int_eq(tasd_container_check(ctr, NULL), -ESTALE);
	/* The old file is still open, with the old bytes. */
	bytes_are(ctr, "d", "dd");
	put_text(index_name, "{\"weight_map\":{}}");
	ck_assert_int_eq(tasd_container_check(ctr, a), -ESTALE);
	done(ctr);
}
END_TEST

/* The hub's cache: the snapshot's files are links to blobs. */
START_TEST(test_hub)
{
	struct tasd_container *ctr;

	make_set();
	ck_assert_int_eq(mkdirat(topfd, "models--m", 0700), 0);
	ck_assert_int_eq(mkdirat(topfd, "models--m/blobs", 0700), 0);
	ck_assert_int_eq(mkdirat(topfd, "models--m/snapshots", 0700), 0);
	ck_assert_int_eq(mkdirat(topfd, "models--m/snapshots/r", 0700), 0);
	put_text("models--m/blobs/1",
		"{\"weight_map\":{\"a\":\"a.safetensors\",\"b\":"
		"\"a.safetensors\",\"c\":\"a.safetensors\"}}");
	ck_assert_int_eq(
		renameat(topfd, "set/a.st", topfd, "models--m/blobs/2"), 0);
	ck_assert_int_eq(symlinkat("../../blobs/1", topfd,
				 "models--m/snapshots/r/"
				 "model.safetensors.index.json"),
		0);
	ck_assert_int_eq(symlinkat("../../blobs/2", topfd,
				 "models--m/snapshots/r/a.safetensors"),
		0);
	ctr = opened("models--m/snapshots/r");
	ck_assert_ptr_null(ctr->problems);
	bytes_are(ctr, "b", "bb");
	ck_assert_int_eq(tasd_container_check(ctr, node_at(ctr, "a")), 0);
	done(ctr);
}
END_TEST

START_TEST(test_many_shards)
{
	enum { SHARDS = 3000 };
	struct tasd_buf index = TASD_BUF_EMPTY;
	struct tasd_container *ctr;
	struct rlimit files;

	setup();
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	ck_assert_int_eq(mkdirat(topfd, "set", 0700), 0);
	tasd_buf_str(&index, "{\"weight_map\":{");
	for (int i = 0; i < SHARDS; i++) {
		char name[64], header[128];

		snprintf(name, sizeof(name), "set/%d.st", i);
		snprintf(header, sizeof(header),
			"{\"t.%d\":[\"U8\",[1],[0,1]]}", i);
		put_st(name, header, "x", 1);
		tasd_buf_printf(
			&index, "%s\"t.%d\":\"%d.st\"", i ? "," : "", i, i);
	}
	tasd_buf_str(&index, "}}");
	put(index_name, index.bytes, index.len);
	tasd_buf_free(&index);
	if (files.rlim_cur < SHARDS + 64) {
		/* Those that could be opened can be read, and no more. */
		ctr = opened("set");
		ck_assert_ptr_nonnull(ctr->problems);
	} else {
		ctr = opened("set");
		ck_assert_ptr_null(ctr->problems);
		ck_assert_uint_eq(ctr->nsources, SHARDS + 1);
		bytes_are(ctr, "t/2999", "x");
	}
	bytes_are(ctr, "t/0", "x");
	done(ctr);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_whole,
		test_index_file,
		test_folder_names,
		test_missing_shard,
		test_broken_shard,
		test_cut_shard,
		test_wrong_types,
		test_names_that_lead_out,
		test_links_inside,
		test_disagreements,
		test_total_size,
		test_refused,
		test_check,
		test_hub,
		test_many_shards,
		NULL,
	};

	return unit_run("format-sharded", tests);
}
