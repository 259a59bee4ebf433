/*
 * One safetensors file: what is taken, what is refused and with which words.
 */
#include "format_unit.h"

/* Refuse a header of this text with 8 bytes of data. */
static void bad(const char *header, const char *why)
{
	put_st("m.safetensors", header, "01234567", 8);
	refused("m.safetensors", -EINVAL, why);
}

static struct tasd_container *good(const char *header)
{
	put_st("m.safetensors", header, "01234567", 8);
	return opened("m.safetensors");
}

#define INFO(shape, offsets)                                                   \
	"{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

START_TEST(test_good)
{
	struct tasd_container *ctr;
	const struct tasd_node *node;

	setup();
	ctr = good(" {\"b.w\":" INFO(
		"[1]", "[4,8]") ",\"__metadata__\":"
				"{\"k\":\"1\",\"z\":\"v\",\"k\":\"2\"},"
				"\"a\":" INFO("[]", "[0,4]") ",\"e\":" INFO(
					"[3,0]", "[4,4]") "}  ");
	ck_assert_str_eq(ctr->format->name, "safetensors");
	ck_assert_str_eq(ctr->name, "m.safetensors");
	ck_assert_uint_eq(ctr->nsources, 1);
	ck_assert_ptr_null(ctr->problems);
	ck_assert_uint_eq(tasd_statedict_totals(ctr->sd).tensors, 3);
	ck_assert_uint_eq(tasd_statedict_totals(ctr->sd).bytes, 8);
	node = node_at(ctr, "b/w");
	ck_assert_int_eq(node->kind, TASD_KIND_TENSOR);
	ck_assert_uint_eq(node->order, 0);
	ck_assert_uint_eq(node->tensor->ndim, 1);
	ck_assert_uint_eq(node->tensor->shape[0], 1);
	ck_assert_uint_eq(node->tensor->nextents, 1);
	ck_assert_uint_eq(node->tensor->extent.length, 4);
	ck_assert_uint_eq(
		node->tensor->extent.offset, ctr->sources[0]->size - 4);
	node = node_at(ctr, "a");
	ck_assert_uint_eq(node->order, 1);
	ck_assert_uint_eq(node->tensor->ndim, 0);
	ck_assert_uint_eq(node->tensor->nbytes, 4);
	node = node_at(ctr, "e");
	ck_assert_uint_eq(node->tensor->nbytes, 0);
	ck_assert_uint_eq(ctr->nmeta, 2);
	ck_assert_str_eq(ctr->meta[0].name, "k");
	ck_assert_str_eq(ctr->meta[0].value, "2");
	ck_assert_str_eq(ctr->meta[1].name, "z");
	tasd_container_put(ctr);
	teardown();
}
END_TEST

/* What the library takes and one might not expect. */
START_TEST(test_odd_but_good)
{
	setup();
	tasd_container_put(
		good("{\"a\":[\"F32\",[2],[0,8]],\"__metadata__\":null}"));
	tasd_container_put(good("{\"a\":{\"x\":[1,{\"y\":[]}],\"shape\":[2],"
				"\"data_offsets\":[0,8],\"dtype\":\"F32\","
				"\"w\":{}}}"));
	tasd_container_put(good("{\"a\\u0000b\":" INFO("[2]", "[0,8]") "}"));
	tasd_container_put(
		good("{\"\":[\"F4\",[2,2],[0,2]],\"6\":[\"F6_E3M2\",[8],"
		     "[2,8]]}"));
	put_st("m.safetensors", "{}", "", 0);
	tasd_container_put(opened("m.safetensors"));
	teardown();
}
END_TEST

START_TEST(test_bad_tensors)
{
	setup();
	bad("{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}",
		"tensor \"a\": no dtype");
	bad("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "no shape");
	bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "no data_offsets");
	bad("{\"a\":7}",
		"tensor \"a\": it is a number, an object was expected");
	bad("{\"a\":[\"F32\",[2]]}", "no data_offsets");
	bad("{\"a\":[\"F32\",[2],[0,8],1]}", "more than 3 items");
	bad("{\"a\":{\"dtype\":\"Q7\",\"shape\":[2],\"data_offsets\":[0,8]}}",
		"unknown dtype \"Q7\"");
	bad("{\"a\":{\"dtype\":null}}", "dtype is null, a string");
	bad("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}",
		"dtype stands twice");
	bad("{\"a\":" INFO("[2]", "[0,8,9]") "}", "more than 2 numbers");
	bad("{\"a\":" INFO("[2]", "[8]") "}", "has 1 numbers");
	bad("{\"a\":" INFO("[2]", "7") "}",
		"data_offsets is a number, an array");
	bad("{\"a\":" INFO("[2.0]", "[0,8]") "}",
		"shape holds 2.0, an unsigned");
	bad("{\"a\":" INFO("[-2]", "[0,8]") "}", "shape holds -2, an unsigned");
	bad("{\"a\":" INFO("[\"2\"]", "[0,8]") "}", "holds a string, a number");
	bad("{\"a\":" INFO("[2]", "[8,0]") "}",
		"data_offsets end at 0, before they begin at 8");
	bad("{\"a\":" INFO("[3]", "[0,8]") "}",
		"tensor \"a\": float32 [3] takes 12 bytes, data_offsets hold "
		"8");
	bad("{\"a\":" INFO("[4611686018427387904,4]", "[0,8]") "}",
		"overflows 64 bits");
	bad("{\"a\":[\"F4\",[3],[0,8]]}", "do not fill whole bytes");
	teardown();
}
END_TEST

START_TEST(test_bad_layout)
{
	setup();
	bad("{\"a\":" INFO("[1]", "[0,4]") ",\"b\":" INFO("[1]", "[0,4]") "}",
		"tensor \"b\": begins at 0, inside the tensor before it, which "
		"ends at 4");
	bad("{\"a\":" INFO("[1]", "[4,8]") "}",
		"tensor \"a\": begins at 4, expected 0");
	bad("{\"a\":" INFO("[1]", "[0,4]") "}",
		"4 bytes after the last tensor");
	bad("{\"a\":" INFO("[2050]", "[0,8200]") "}",
		"truncated: needs 8,192 more bytes");
	bad("{\"a\":" INFO(
		    "[2]", "[18446744073709551608,18446744073709551615]") "}",
		"tensor \"a\"");
	bad("{}", "8 bytes after the last tensor");
	/* An empty tensor must stand where one ends. */
	bad("{\"a\":" INFO("[2]", "[0,8]") ",\"e\":" INFO("[0]", "[4,4]") "}",
		"tensor \"e\": begins at 4, inside");
	teardown();
}
END_TEST

START_TEST(test_bad_headers)
{
	setup();
	bad("{\"a\":" INFO("[1]", "[0,4]") ",\"a\":" INFO("[1]", "[4,8]") "}",
		"duplicate tensor name \"a\"");
	bad("{\"a\":" INFO("[2]", "[0,8]") ",\"\\u0061\":" INFO(
		    "[2]", "[0,8]") "}",
		"duplicate tensor name \"a\"");
	bad("{\"__metadata__\":{},\"__metadata__\":{}}",
		"__metadata__ stands twice");
	bad("{\"__metadata__\":[]}", "__metadata__ is an array, an object");
	bad("{\"__metadata__\":{\"k\":1}}", "metadata \"k\" is a number");
	bad("[]", "the header is an array, an object was expected");
	bad("{},\"x\":1}", "invalid JSON at byte 10: trailing garbage");
	bad("{\"a\":\n\"\\ud800\"}", "invalid JSON at byte 21: lone high");
	bad("", "header length is 0");
	put("m.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
	refused("m.safetensors", -EINVAL,
		"header length 18,446,744,073,709,551,615 is over 100,000,000");
	put("m.safetensors", "\0\x10\0\0\0\0\0\0{}", 10);
	refused("m.safetensors", -EINVAL,
		"truncated: the header needs 4,094 more bytes");
	put("m.safetensors", "\0\x10", 2);
	refused("m.safetensors", -EINVAL, "2 bytes are too few");
	teardown();
}
END_TEST

/* A header longer than a chunk, with a name across the boundary. */
START_TEST(test_long_header)
{
	struct tasd_buf header = TASD_BUF_EMPTY;
	struct tasd_container *ctr;

	setup();
	tasd_buf_str(&header, "{\"__metadata__\":{\"pad\":\"");
	while (header.len < (256 << 10) - 10)
		tasd_buf_char(&header, 'x');
	tasd_buf_str(&header, "\"},\"");
	for (int i = 0; i < 30; i++)
		tasd_buf_str(&header, "\\u00e9");
	tasd_buf_str(&header, "\":" INFO("[2]", "[0,8]") "}");
	tasd_buf_char(&header, '\0');
	ctr = good(header.bytes);
	ck_assert_uint_eq(ctr->meta[0].value_len, (256 << 10) - 10 - 24);
	ck_assert_uint_eq(
		tasd_statedict_root(ctr->sd)->dir.children[0]->key.len, 60);
	tasd_container_put(ctr);
	tasd_buf_free(&header);
	teardown();
}
END_TEST

/* Content decides, not the name. */
START_TEST(test_probe)
{
	const struct tasd_format *format = NULL;
	struct tasd_diag diag;

	setup();
	put_st("a.bin", "{}", "", 0);
	ck_assert_int_eq(
		tasd_container_probe(topfd, "a.bin", &format, &diag), 0);
	ck_assert_ptr_nonnull(format);
	ck_assert_str_eq(format->name, "safetensors");
	put_text("m.safetensors",
		"version https://git-lfs.github.com/spec/v1\noid sha256:00\n");
	refused("m.safetensors", -ENOTSUP, "a git-lfs pointer");
	put_text("m.safetensors", "<!DOCTYPE html><html></html>");
	refused("m.safetensors", -ENOTSUP, "an HTML page");
	put_text("m.safetensors", "hello");
	refused("m.safetensors", -ENOTSUP, "a text");
	put_text("m.safetensors", "");
	refused("m.safetensors", -ENOTSUP, "an empty file");
	put("m.safetensors", "\x89PNG\r\n\x1a\n\0\0\0\0\0\0\0\0", 16);
	refused("m.safetensors", -ENOTSUP, "a PNG image");
	put_text("config.json", "{\"a\": 1}");
	refused("config.json", -ENOTSUP, "a JSON text");
	put("noise", "\1\2\3\4\5\6\7\10\11\12", 10);
	refused("noise", -ENOTSUP, "not a checkpoint of a known format");
	refused(".", -ENOTSUP, "a folder that is no checkpoint");
	refused("nothing", -ENOENT, "No such file");
	ck_assert_int_eq(mkfifoat(topfd, "fifo", 0600), 0);
	refused("fifo", -EINVAL, "not a regular file");
	teardown();
}
END_TEST

START_TEST(test_check)
{
	struct tasd_container *ctr, *other;
	const struct tasd_node *node;
	static const char header[] = "{\"a\":" INFO("[2]", "[0,8]") "}";

	setup();
	ctr = good(header);
	node = node_at(ctr, "a");
	ck_assert_int_eq(tasd_container_check(ctr, NULL), 0);
	ck_assert_int_eq(tasd_container_check(ctr, node), 0);
	put_st("new", header, "abcdefgh", 8);
	ck_assert_int_eq(renameat(topfd, "new", topfd, "m.safetensors"), 0);
	ck_assert_int_eq(tasd_container_check(ctr, NULL), -ESTALE);
	other = opened("m.safetensors");
	ck_assert_int_eq(unlinkat(topfd, "m.safetensors", 0), 0);
	ck_assert_int_eq(tasd_container_check(other, NULL), -ESTALE);
	ck_assert_int_eq(tasd_container_check(other, node), -ESTALE);
	tasd_container_put(other);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(test_nosplit)
{
	struct tasd_container *ctr = NULL;

	setup();
	put_st("m", "{\"a.b\":" INFO("[2]", "[0,8]") "}", "01234567", 8);
	ck_assert_int_eq(tasd_container_open(topfd, "m", TASD_CONTAINER_NOSPLIT,
				 &ctr, NULL),
		0);
	node_at(ctr, "a.b");
	tasd_container_put(ctr);
	ck_assert_int_eq(
		tasd_container_open(topfd, "m", 1 << 7, &ctr, NULL), -EINVAL);
	teardown();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_good,
		test_odd_but_good,
		test_bad_tensors,
		test_bad_layout,
		test_bad_headers,
		test_long_header,
		test_probe,
		test_check,
		test_nosplit,
		NULL,
	};

	return unit_run("format-safetensors", tests);
}
