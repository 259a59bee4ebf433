/*
 * The index as JSON, as msgpack and as a table.
 */
#include "format_unit.h"
#include <base/json.h>
#include <format/index.h>
#include <msgpack.h>

static struct tasd_container *make(void)
{
	setup();
	put_st("a.st",
		"{\"l.0.w\":[\"BF16\",[3,2],[0,12]],\"s\":[\"F32\",[],[12,16]],"
		"\"caf\\u00e9 \\\"q\\\"\\n\":[\"U8\",[0],[16,16]],"
		"\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"}}",
		"0123456789abcdef", 16);
	put_text("model.safetensors.index.json",
		"{\"weight_map\":{\"l.0.w\":\"a.st\",\"gone\":\"b.st\","
		"\"s\":\"a.st\",\"caf\\u00e9 \\\"q\\\"\\n\":\"a.st\"}}");
	return opened(".");
}

START_TEST(test_json)
{
	static const char want[] =
		"{\"tasdfs_index\": 1, \"format\": \"safetensors-sharded\", "
		"\"tensors\": 4, \"bytes\": 16, \"meta\": {\"format\": "
		"\"pt\", \"x\": \"\"}, "
		"\"problems\": [\"shard b.st: No such file or directory; "
		"1 tensor cannot be read\"], \"nodes\": [\n"
		"{\"path\": \"l\", \"key\": [\"l\"], \"kind\": \"group\", "
		"\"order\": 0},\n"
		"{\"path\": \"l/0\", \"key\": [\"l.0\"], \"kind\": \"group\", "
		"\"order\": 0},\n"
		"{\"path\": \"l/0/w\", \"key\": [\"l.0.w\"], \"kind\": "
		"\"tensor\", \"order\": 0, \"dtype\": \"bfloat16\", \"shape\": "
		"[3, 2], \"nbytes\": 12, \"source\": {\"file\": \"a.st\", "
		"\"offset\": 139, \"length\": 12}},\n"
		"{\"path\": \"gone\", \"key\": [\"gone\"], \"kind\": "
		"\"tensor\", \"order\": 1, \"error\": \"shard b.st: No such "
		"file or directory\"},\n"
		"{\"path\": \"s\", \"key\": [\"s\"], \"kind\": \"tensor\", "
		"\"order\": 2, \"dtype\": \"float32\", \"shape\": [], "
		"\"nbytes\": 4, \"source\": {\"file\": \"a.st\", \"offset\": "
		"151, \"length\": 4}},\n"
		"{\"path\": \"caf\xc3\xa9 \\\"q\\\"%0A\", \"key\": "
		"[\"caf\xc3\xa9 \\\"q\\\"\\n\"], \"kind\": \"tensor\", "
		"\"order\": 3, \"dtype\": \"uint8\", \"shape\": [0], "
		"\"nbytes\": 0, \"source\": {\"file\": \"a.st\", \"offset\": "
		"155, \"length\": 0}}]}\n";
	struct tasd_container *ctr = make();
	struct tasd_buf text = TASD_BUF_EMPTY;
	struct tasd_buf count = tasd_buf_counting();

	tasd_index_json(&text, ctr);
	ck_assert_int_eq(tasd_buf_err(&text), 0);
	tasd_buf_char(&text, '\0');
	ck_assert_str_eq(text.bytes, want);
	tasd_index_json(&count, ctr);
	ck_assert_uint_eq(count.len, text.len - 1);
	tasd_buf_free(&text);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

/* Print an object as compact JSON, for comparing the two. */
static void print(struct tasd_buf *buf, const msgpack_object *o);

static void print_array(struct tasd_buf *buf, const msgpack_object_array *array)
{
	tasd_buf_char(buf, '[');
	for (uint32_t i = 0; i < array->size; i++) {
		tasd_buf_str(buf, i ? "," : "");
		print(buf, &array->ptr[i]);
	}
	tasd_buf_char(buf, ']');
}

static void print_map(struct tasd_buf *buf, const msgpack_object_map *map)
{
	tasd_buf_char(buf, '{');
	for (uint32_t i = 0; i < map->size; i++) {
		tasd_buf_str(buf, i ? "," : "");
		print(buf, &map->ptr[i].key);
		tasd_buf_char(buf, ':');
		print(buf, &map->ptr[i].val);
	}
	tasd_buf_char(buf, '}');
}

static void print(struct tasd_buf *buf, const msgpack_object *o)
{
	if (o->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
		tasd_buf_u64(buf, o->via.u64);
	else if (o->type == MSGPACK_OBJECT_STR)
		tasd_buf_json_str(buf, o->via.str.ptr, o->via.str.size);
	else if (o->type == MSGPACK_OBJECT_ARRAY)
		print_array(buf, &o->via.array);
	else if (o->type == MSGPACK_OBJECT_MAP)
		print_map(buf, &o->via.map);
	else
		ck_abort_msg("unexpected type %d", (int)o->type);
}

/* Take out the white space between tokens. */
static void compact(struct tasd_buf *json)
{
	bool in_string = false;
	size_t to = 0;

	for (size_t i = 0; i < json->len; i++) {
		char c = json->bytes[i];

		if (in_string && c == '\\')
			json->bytes[to++] = json->bytes[i++];
		else if (c == '"')
			in_string = !in_string;
		else if (!in_string && tasd_json_is_space((unsigned char)c))
			continue;
		json->bytes[to++] = json->bytes[i];
	}
	json->len = to;
}

static void same_as_json(const struct tasd_container *ctr)
{
	struct tasd_buf json = TASD_BUF_EMPTY, pack = TASD_BUF_EMPTY;
	struct tasd_buf back = TASD_BUF_EMPTY;
	msgpack_unpacked result;
	size_t at = 0;

	tasd_index_json(&json, ctr);
	tasd_index_msgpack(&pack, ctr);
	ck_assert_int_eq(tasd_buf_err(&pack), 0);
	msgpack_unpacked_init(&result);
	ck_assert_int_eq(
		msgpack_unpack_next(&result, pack.bytes, pack.len, &at),
		MSGPACK_UNPACK_SUCCESS);
	ck_assert_uint_eq(at, pack.len);
	print(&back, &result.data);
	tasd_buf_char(&back, '\0');
	compact(&json);
	tasd_buf_char(&json, '\0');
	ck_assert_str_eq(back.bytes, json.bytes);
	ck_assert_uint_eq(back.len, json.len);
	ck_assert_mem_eq(back.bytes, json.bytes, json.len);
	msgpack_unpacked_destroy(&result);
	tasd_buf_free(&json);
	tasd_buf_free(&pack);
	tasd_buf_free(&back);
}

START_TEST(test_msgpack)
{
	struct tasd_container *ctr = make();

	same_as_json(ctr);
	tasd_container_put(ctr);
	put_st("m", "{}", "", 0);
	ctr = opened("m");
	same_as_json(ctr);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(test_table)
{
	static const char want[] =
		"l/0/w        bfloat16         [3, 2]              12\n"
		"gone         broken                                0  "
		"shard b.st: No such file or directory\n"
		"s            float32          []                   4\n"
		"caf\xc3\xa9 \"q\"%0A  uint8            [0]                  0\n";
	struct tasd_container *ctr = make();
	struct tasd_buf text = TASD_BUF_EMPTY;

	tasd_index_table(&text, ctr);
	tasd_buf_char(&text, '\0');
	ck_assert_str_eq(text.bytes, want);
	tasd_buf_free(&text);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

/* Keys of the types that other formats have, in JSON and msgpack alike. */
START_TEST(test_key_types)
{
	static const struct tasd_key keys[] = {
		{"7", 1, TASD_KEY_INT},
		{"7", 1, TASD_KEY_STR},
		{"18446744073709551615", 20, TASD_KEY_INT},
		{"x", 1, TASD_KEY_ATTR},
		{"1.5", 3, TASD_KEY_FLOAT},
		{"\0\xff", 2, TASD_KEY_BYTES},
		{"(1, 'a')\0[1, \"a\", {\"tuple\":[]}]", 8, TASD_KEY_TUPLE},
	};
	struct tasd_container *ctr;
	struct tasd_container fake;
	struct tasd_node *node;

	setup();
	put_st("m", "{}", "", 0);
	ctr = opened("m");
	fake = *ctr;
	ck_assert_int_eq(tasd_statedict_new(0, 1 << 20, &fake.sd), 0);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		ck_assert_int_eq(
			tasd_statedict_add(fake.sd,
				tasd_statedict_root(fake.sd), keys[i], &node),
			0);
		ck_assert_int_eq(tasd_statedict_add(fake.sd, node,
					 tasd_key_str("in", 2), &node),
			0);
	}
	ck_assert_int_eq(tasd_statedict_seal(fake.sd, NULL), 0);
	same_as_json(&fake);
	tasd_statedict_free(fake.sd);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_json,
		test_msgpack,
		test_table,
		test_key_types,
		NULL,
	};

	return unit_run("format-index", tests);
}
