/*
 * Attributes: their values, which nodes have which, and the limits of Linux.
 */
#include "format_unit.h"
#include <format/attr.h>

struct listing {
	char names[4096][256];
	unsigned int count;
	size_t bytes;
};

static struct listing listing;

static void take(void *ctx, const char *name)
{
	struct listing *l = ctx;

	require(l->count < 4096 && strlen(name) < 256);
	strcpy(l->names[l->count++], name);
	l->bytes += strlen("user.tasd.") + strlen(name) + 1;
}

static void list(
	const struct tasd_container *ctr, const char *path, bool source)
{
	listing.count = 0;
	listing.bytes = 0;
	tasd_attr_list(ctr, node_at(ctr, path), source, take, &listing);
}

static bool listed(const char *name)
{
	for (unsigned int i = 0; i < listing.count; i++)
		if (strcmp(listing.names[i], name) == 0)
			return true;
	return false;
}

static void is(const struct tasd_container *ctr, const char *path,
	const char *name, const char *want)
{
	struct tasd_buf value = TASD_BUF_EMPTY;
	bool found = false;

	tasd_buf_char(&value, '!'); /* what was there stays */
	ck_assert_int_eq(tasd_attr_get(ctr, node_at(ctr, path), name, true,
				 &value, &found),
		0);
	ck_assert_msg(found, "%s of %s", name, path);
	tasd_buf_char(&value, '\0');
	ck_assert_str_eq(value.bytes + 1, want);
	tasd_buf_free(&value);
}

static void is_not(const struct tasd_container *ctr, const char *path,
	const char *name, bool with_source)
{
	struct tasd_buf value = TASD_BUF_EMPTY;
	bool found = true;

	ck_assert_int_eq(tasd_attr_get(ctr, node_at(ctr, path), name,
				 with_source, &value, &found),
		0);
	ck_assert_msg(!found, "%s of %s", name, path);
	ck_assert_uint_eq(value.len, 0);
	tasd_buf_free(&value);
}

START_TEST(test_values)
{
	struct tasd_container *ctr;

	setup();
	put_st("m.st",
		"{\"x.y.w\":[\"BF16\",[4,0,3,2],[0,0]],"
		"\"s\":[\"F4\",[2,3,4],[0,12]],\"z\":[\"F32\",[],[12,16]],"
		"\"__metadata__\":{\"format\":\"pt\"}}",
		"0123456789abcdef", 16);
	ctr = opened("m.st");
	is(ctr, "x/y/w", "kind", "tensor");
	is(ctr, "x/y/w", "key", "[\"x.y.w\"]");
	is(ctr, "x/y/w", "order", "0");
	is(ctr, "x/y/w", "dtype", "bfloat16");
	is(ctr, "x/y/w", "shape", "[4, 0, 3, 2]");
	is(ctr, "x/y/w", "stride", "[6, 6, 2, 1]");
	is(ctr, "x/y/w", "device", "cpu");
	is(ctr, "x/y/w", "requires_grad", "false");
	is(ctr, "x/y/w", "layout", "strided");
	is(ctr, "x/y/w", "nbytes", "0");
	is(ctr, "x/y/w", "state", "popped");
	is(ctr, "s", "dtype", "float4_e2m1fn");
	is(ctr, "s", "nbytes", "12");
	is(ctr, "s", "stride", "[12, 4, 1]");
	is(ctr, "s", "order", "1");
	is(ctr, "z", "shape", "[]");
	is(ctr, "z", "stride", "[]");
	is(ctr, "z", "source",
		"{\"file\": \"m.st\", \"offset\": 134, \"length\": 4}");
	is_not(ctr, "z", "source", false);
	is_not(ctr, "z", "error", true);
	is_not(ctr, "z", "class", true);
	is_not(ctr, "z", "format", true);
	is_not(ctr, "z", "meta.format", true);
	is_not(ctr, "z", "", true);
	is(ctr, "x", "kind", "group");
	is(ctr, "x/y", "key", "[\"x.y\"]");
	is_not(ctr, "x", "dtype", true);
	is(ctr, "", "kind", "dict");
	is(ctr, "", "key", "[]");
	is_not(ctr, "", "order", true);
	is(ctr, "", "format", "safetensors");
	is(ctr, "", "is_hollow", "true");
	is(ctr, "", "inserted", "0");
	is(ctr, "", "resident_bytes", "0");
	is(ctr, "", "tensors", "3");
	is(ctr, "", "bytes", "16");
	is(ctr, "", "generation", "1");
	is(ctr, "", "committed", "true");
	is(ctr, "", "unsafe", "0");
	is(ctr, "", "meta.format", "pt");
	is_not(ctr, "", "meta.nothing", true);
	is_not(ctr, "", "meta_omitted", true);
	is_not(ctr, "", "error", true);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(test_lists)
{
	static const char *const of_tensor[] = {"kind", "key", "order", "dtype",
		"shape", "stride", "device", "requires_grad", "layout",
		"nbytes", "state"};
	static const char *const of_root[] = {"kind", "key", "format",
		"is_hollow", "inserted", "resident_bytes", "tensors", "bytes",
		"generation", "committed", "unsafe", "meta.k"};
	struct tasd_container *ctr;

	setup();
	put_st("m", "{\"a\":[\"U8\",[],[0,1]],\"__metadata__\":{\"k\":\"v\"}}",
		"x", 1);
	ctr = opened("m");
	list(ctr, "a", false);
	ck_assert_uint_eq(
		listing.count, sizeof(of_tensor) / sizeof(of_tensor[0]));
	for (unsigned int i = 0; i < listing.count; i++)
		ck_assert_str_eq(listing.names[i], of_tensor[i]);
	list(ctr, "a", true);
	ck_assert(listed("source"));
	list(ctr, "", true);
	ck_assert_uint_eq(listing.count, sizeof(of_root) / sizeof(of_root[0]));
	for (unsigned int i = 0; i < listing.count; i++)
		ck_assert_str_eq(listing.names[i], of_root[i]);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(test_broken)
{
	struct tasd_container *ctr;

	setup();
	put_text("model.safetensors.index.json",
		"{\"weight_map\":{\"a\":\"gone\"}}");
	ctr = opened(".");
	is(ctr, "a", "kind", "tensor");
	is(ctr, "a", "error", "shard gone: No such file or directory");
	is(ctr, "", "error",
		"shard gone: No such file or directory; 1 tensor cannot be "
		"read");
	list(ctr, "a", true);
	ck_assert_uint_eq(listing.count, 4); /* kind, key, order, error */
	ck_assert(!listed("state") && !listed("dtype") && !listed("nbytes"));
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(test_long_values)
{
	struct tasd_buf header = TASD_BUF_EMPTY;
	struct tasd_container *ctr;
	char path[300];

	setup();
	tasd_buf_str(&header, "{\"__metadata__\":{\"fits\":\"");
	for (int i = 0; i < 4096; i++)
		tasd_buf_char(&header, 'v');
	tasd_buf_str(&header, "\",\"over\":\"");
	for (int i = 0; i < 4097; i++)
		tasd_buf_char(&header, 'v');
	tasd_buf_str(&header, "\"},\"");
	for (int i = 0; i < 5000; i++)
		tasd_buf_char(&header, 'n');
	tasd_buf_str(&header, "\":[\"U8\",[1");
	for (int i = 0; i < 2000; i++)
		tasd_buf_str(&header, ",1");
	tasd_buf_str(&header, "],[0,1]]}");
	tasd_buf_char(&header, '\0');
	put_st("m", header.bytes, "x", 1);
	ctr = opened("m");
	list(ctr, "", true);
	ck_assert(listed("meta.fits") && !listed("meta.over"));
	ck_assert(listed("meta_omitted"));
	is(ctr, "", "meta_omitted", "1");
	is_not(ctr, "", "meta.over", true);
	snprintf(path, sizeof(path), "%.*s",
		tasd_statedict_root(ctr->sd)->dir.children[0]->name_len,
		tasd_statedict_root(ctr->sd)->dir.children[0]->name);
	list(ctr, path, true);
	ck_assert(listed("key")); /* however long */
	ck_assert(!listed("shape") && !listed("stride"));
	is_not(ctr, path, "shape", true);
	tasd_container_put(ctr);
	tasd_buf_free(&header);
	teardown();
}
END_TEST

START_TEST(test_meta_names)
{
	struct tasd_buf header = TASD_BUF_EMPTY, text = TASD_BUF_EMPTY;
	struct tasd_container *ctr;
	const char *name;

	setup();
	tasd_buf_str(&header, "{\"__metadata__\":{\"\":\"empty\",\"a/b\":\"s\","
			      "\"%\":\"p\",\"\\u0000\":\"n\",\"\xe3\x82\xad\":"
			      "\"k\",\"..\":\"d\",\"");
	for (int i = 0; i < 400; i++)
		tasd_buf_char(&header, 'm');
	tasd_buf_str(&header, "\":\"long\"}}");
	tasd_buf_char(&header, '\0');
	put_st("m", header.bytes, "", 0);
	ctr = opened("m");
	is(ctr, "", "meta.%", "empty");
	is(ctr, "", "meta.a%2Fb", "s");
	is(ctr, "", "meta.%25", "p");
	is(ctr, "", "meta.%00", "n");
	is(ctr, "", "meta.\xe3\x82\xad", "k");
	is(ctr, "", "meta.%2E%2E", "d");
	is_not(ctr, "", "meta.a/b", true);
	is_not(ctr, "", "meta.", true);
	list(ctr, "", false);
	name = listing.names[listing.count - 1];
	ck_assert(strncmp(name, "meta.mmm", 8) == 0);
	ck_assert_uint_le(strlen("user.tasd.") + strlen(name), 255);
	is(ctr, "", name, "long");
	tasd_attr_meta_name(&text, &ctr->meta[6], 255);
	ck_assert_uint_le(text.len, 255);
	tasd_buf_free(&text);
	tasd_container_put(ctr);
	tasd_buf_free(&header);
	teardown();
}
END_TEST

/* The list stays under its limit, and the rest is counted. */
START_TEST(test_many_metas)
{
	enum { METAS = 3000 };
	struct tasd_buf header = TASD_BUF_EMPTY;
	struct tasd_container *ctr;
	unsigned int shown = 0;
	char omitted[16];

	setup();
	tasd_buf_str(&header, "{\"__metadata__\":{");
	for (int i = 0; i < METAS; i++)
		tasd_buf_printf(
			&header, "%s\"%060d\":\"%d\"", i ? "," : "", i, i);
	tasd_buf_str(&header, "}}");
	tasd_buf_char(&header, '\0');
	put_st("m", header.bytes, "", 0);
	ctr = opened("m");
	list(ctr, "", true);
	ck_assert_uint_le(listing.bytes, TASD_ATTR_LIST_MAX);
	ck_assert_uint_gt(listing.bytes, TASD_ATTR_LIST_MAX / 10 * 9);
	for (unsigned int i = 0; i < listing.count; i++)
		shown += strncmp(listing.names[i], "meta.", 5) == 0;
	snprintf(omitted, sizeof(omitted), "%u", METAS - shown);
	is(ctr, "", "meta_omitted", omitted);
	tasd_container_put(ctr);
	tasd_buf_free(&header);
	teardown();
}
END_TEST

/* Many problems: whole lines, up to the limit. */
START_TEST(test_many_problems)
{
	struct tasd_buf index = TASD_BUF_EMPTY, value = TASD_BUF_EMPTY;
	struct tasd_container *ctr;
	bool found = false;

	setup();
	tasd_buf_str(&index, "{\"weight_map\":{");
	for (int i = 0; i < 1500; i++)
		tasd_buf_printf(&index, "%s\"%d\":%d", i ? "," : "", i, i);
	tasd_buf_str(&index, "}}");
	put("model.safetensors.index.json", index.bytes, index.len);
	ctr = opened(".");
	ck_assert_uint_eq(ctr->nproblems, 1500);
	ck_assert_int_eq(tasd_attr_get(ctr, tasd_statedict_root(ctr->sd),
				 "error", true, &value, &found),
		0);
	ck_assert(found);
	ck_assert_uint_le(value.len, TASD_ATTR_VALUE_MAX);
	ck_assert_uint_gt(value.len, TASD_ATTR_VALUE_MAX - 200);
	ck_assert_int_eq(ctr->problems[value.len], '\n');
	list(ctr, "", true);
	ck_assert(listed("error"));
	tasd_buf_free(&value);
	tasd_container_put(ctr);
	tasd_buf_free(&index);
	teardown();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_values,
		test_lists,
		test_broken,
		test_long_values,
		test_meta_names,
		test_many_metas,
		test_many_problems,
		NULL,
	};

	return unit_run("format-attr", tests);
}
