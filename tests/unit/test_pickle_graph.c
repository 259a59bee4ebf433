/*
 * What values have in common: keys that are equal, the memo, shared and
 * recursive values, globals, depth, limits; and what is no pickle.
 */
#include "pickle_safe.h"
#include "pickle_unit.h"
#include <pthread.h>

/* Keys are equal as in Python; the first one stays, the last value counts. */
START_TEST(equal_keys)
{
	struct got g = READ("}(K\1N\x88\x88G\x3f\xf0\0\0\0\0\0\0K\7u.");

	ck_assert_uint_eq(g.root->map.n, 1);
	ck_assert_uint_eq(g.root->map.at[0].key->type, TASD_PKL_INT);
	is_int(g.root->map.at[0].value, "7");
	g = READ("}(\x8c\1aK\1\x8c\1bK\2\x8c\1aK\3u\x8c\1bK\4s.");
	ck_assert_uint_eq(g.root->map.n, 2);
	is_int(g.root->map.at[0].value, "3");
	is_int(g.root->map.at[1].value, "4");
	/* str and bytes differ, 2**64 and its float do not, nor do -0.0 and 0;
	 * a tuple is its items. */
	g = READ("}(\x8c\1aNC\1aN"
		 "\x8a\x09\0\0\0\0\0\0\0\0\1NGC\xf0\0\0\0\0\0\0N"
		 "\x8a\x09\0\0\0\0\0\0\0\0\xffNG\xc3\xf0\0\0\0\0\0\0N"
		 "K\0NG\x80\0\0\0\0\0\0\0N"
		 "K\1\x85NG\x3f\xf0\0\0\0\0\0\0\x85N"
		 "K\1K\2\x86\x85N\x88K\2\x86\x85NK\2K\1\x86\x85N"
		 "(K\1K\2\x91N(K\2K\1\x91N)Nu.");
	ck_assert_uint_eq(g.root->map.n, 10);
	/* A NaN is itself and no other. */
	g = READ("}(G\x7f\xf8\0\0\0\0\0\0q\0Nh\0NG\x7f\xf8\0\0\0\0\0\0Nu.");
	ck_assert_uint_eq(g.root->map.n, 2);
	g = READ("}(cm\nn\nNcm\nn\nNcm\nx\nNu.");
	ck_assert_uint_eq(g.root->map.n, 2);
}
END_TEST

/* Past the size at which they are found through the table. */
START_TEST(large_dict)
{
	enum { N = 20000 };
	struct tasd_buf buf = TASD_BUF_EMPTY;
	struct got g;

	tasd_buf_str(&buf, "}(");
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < N; i++)
			tasd_buf_printf(&buf, "I%d\nI%d\nL%dL\n\x85Vk%d\n",
				i * 7, round, i, i);
	tasd_buf_str(&buf, "u.");
	g = read_ok(buf.bytes, buf.len);
	ck_assert_uint_eq(g.root->map.n, 2 * N);
	for (int i = 0; i < N; i++) {
		require_eq(g.root->map.at[2 * i].key->i, i * 7);
		require(g.root->map.at[2 * i].value->i == 1 ||
			g.root->map.at[2 * i].value->type == TASD_PKL_TRUE);
		require_eq(g.root->map.at[2 * i + 1].key->type, TASD_PKL_TUPLE);
	}
	tasd_pickle_free(g.pickle);
	tasd_buf_free(&buf);
}
END_TEST

/* Long texts and numbers that are equal and stand in the stream apart, in a
 * small dict and in a large one. */
START_TEST(long_keys)
{
	for (int others = 0; others <= 20; others += 20) {
		struct tasd_buf buf = TASD_BUF_EMPTY;
		char text[300];
		struct got g;

		memset(text, 'x', sizeof(text));
		tasd_buf_str(&buf, "}(");
		for (int i = 0; i < others; i++)
			tasd_buf_printf(&buf, "I%d\nN", i + 5);
		for (int copy = 0; copy < 3; copy++) {
			tasd_buf_printf(&buf, "V%.*s\nI1%d\nS'%.*sy'\nN",
				(int)sizeof(text), text, copy,
				(int)sizeof(text) - 1, text);
			tasd_buf_add(&buf, "\x8a\xc8", 2);
			tasd_buf_add(&buf, text, 200);
			tasd_buf_add(&buf, "N\x8a\xc9", 3);
			tasd_buf_add(&buf, text, 200);
			tasd_buf_add(&buf, "\0N", 2);
		}
		tasd_buf_str(&buf, "u.");
		g = read_ok(buf.bytes, buf.len);
		ck_assert_uint_eq(g.root->map.n, 3 + (uint32_t)others);
		is_int(g.root->map.at[others].value, "12");
		tasd_buf_free(&buf);
	}
	ck_assert_int_eq(read_bytes("\x8c\1mX\1\x10\0\0", 8).err, -EINVAL);
}
END_TEST

/* A tuple of 2^40 leaves as a key, twice, made separately. */
START_TEST(laughing_keys)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	struct got g;

	tasd_buf_char(&buf, '}');
	for (int copy = 0; copy < 2; copy++) {
		tasd_buf_add(&buf, "K\1", 2);
		for (int i = 0; i < 40; i++)
			tasd_buf_str(&buf, "2\x86");
		tasd_buf_str(&buf, "Ns");
	}
	tasd_buf_char(&buf, '.');
	g = read_ok(buf.bytes, buf.len);
	ck_assert_uint_eq(g.root->map.n, 1);
	tasd_buf_free(&buf);
}
END_TEST

/* MEMOIZE counts what is in the memo, whoever put it there. */
START_TEST(memo)
{
	struct got g = READ("\x80\4\x8c\2osq\0\x8c\6getcwdq\1\x8c\1t\x94"
			    "\x8c\1r\x94"
			    "0000h\0h\1\x93.");

	ck_assert(tasd_pkl_is_global(g.root, "os", "getcwd"));
	ck_assert_uint_eq(g.pickle->nglobals, 1);
	/* An index far out costs no table, and MEMOIZE is not led astray. */
	g = READ("}r\xff\xff\xff\xff\x94"
		 "0j\xff\xff\xff\xffh\1\x86.");
	ck_assert_ptr_eq(g.root->seq.at[0], g.root->seq.at[1]);
	g = READ("K\1r\xff\xff\xff\xff"
		 "0K\2r\xff\xff\xff\xff"
		 "0j\xff\xff\xff\xff.");
	is_int(g.root, "2");
	g = READ("K\1p123456789012345678\n0g123456789012345678\n.");
	is_int(g.root, "1");
}
END_TEST

/* Many indices out of order: each is found again. */
START_TEST(sparse_memo)
{
	enum { N = 5000 };
	struct tasd_buf buf = TASD_BUF_EMPTY;
	struct got g;

	for (uint32_t i = 0; i < N; i++)
		tasd_buf_printf(&buf, "I%u\np%u\n0", i + 1000,
			i * 2654435761u % 100000);
	for (uint32_t i = 0; i < 64; i++)
		tasd_buf_printf(&buf, "N\x94"
				      "0");
	tasd_buf_str(&buf, "(");
	for (uint32_t i = 0; i < N; i++)
		tasd_buf_printf(&buf, "g%u\n", i * 2654435761u % 100000);
	tasd_buf_str(&buf, "l.");
	g = read_ok(buf.bytes, buf.len);
	ck_assert_uint_eq(g.root->seq.n, N);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t last = i;

		/* Some index may have been used again later, or MEMOIZED. */
		if (g.root->seq.at[i]->type == TASD_PKL_NONE)
			continue;
		for (uint32_t j = i + 1; j < N; j++)
			if (j * 2654435761u % 100000 ==
				i * 2654435761u % 100000)
				last = j;
		require_eq(g.root->seq.at[i]->i, last + 1000);
	}
	tasd_buf_free(&buf);
}
END_TEST

static tasd_err count_one(void *ctx, const struct tasd_pkl *value)
{
	(void)value;
	++*(unsigned int *)ctx;
	return 0;
}

START_TEST(graph)
{
	struct got g = READ("}q\0\x8c\4selfh\0s\x8c\1l]q\1h\1as\x8c\1mh\1s.");
	unsigned int n = 0;
	enum tasd_pkl_role role;

	ck_assert_ptr_eq(g.root->map.at[0].value, g.root);
	ck_assert_ptr_eq(g.root->map.at[1].value, g.root->map.at[2].value);
	ck_assert_int_eq(tasd_pkl_walk(g.pickle, g.root, count_one, &n), 0);
	ck_assert_uint_eq(n, 5);
	ck_assert_ptr_eq(
		tasd_pkl_part(g.root, 0, &role), g.root->map.at[0].key);
	ck_assert_uint_eq(role, TASD_PKL_KEY);
	ck_assert_ptr_eq(
		tasd_pkl_part(g.root, 3, &role), g.root->map.at[1].value);
	ck_assert_uint_eq(role, TASD_PKL_VALUE);
	ck_assert_ptr_null(tasd_pkl_part(g.root, 6, &role));
}
END_TEST

START_TEST(parts)
{
	static const enum tasd_pkl_role roles[] = {TASD_PKL_CALLABLE,
		TASD_PKL_ARGS, TASD_PKL_KWARGS, TASD_PKL_STATE, TASD_PKL_STATE,
		TASD_PKL_ITEM, TASD_PKL_KEY, TASD_PKL_VALUE};
	struct got g = READ("cm\nn\n)}\x92NbNbNaNNs.");
	enum tasd_pkl_role role;

	for (uint64_t i = 0; i < sizeof(roles) / sizeof(*roles); i++) {
		ck_assert_ptr_nonnull(tasd_pkl_part(g.root, i, &role));
		ck_assert_uint_eq(role, roles[i]);
	}
	ck_assert_ptr_null(tasd_pkl_part(g.root, 8, NULL));
	g = READ("NQ.");
	ck_assert_ptr_eq(tasd_pkl_part(g.root, 0, &role), g.root->pid);
	ck_assert_uint_eq(role, TASD_PKL_PID);
	ck_assert_ptr_null(tasd_pkl_part(g.root, 1, &role));
}
END_TEST

START_TEST(globals)
{
	static const char stream[] =
		"\x80\2ctorch._utils\n_rebuild_tensor_v2\n0cos\nsystem\n0"
		"\x8c\2os\x8c\6system\x93"
		"0(ios\npopen\n0\x82\5"
		"0\x83\5\0"
		"0c__builtin__\nset\n0ctorch\n_utils._rebuild_tensor\n0"
		"(cbuiltins\neval\no.";
	static const struct {
		const char *module, *name;
		unsigned int count;
		bool safe;
	} want[] = {
		{"torch._utils", "_rebuild_tensor_v2", 1, true},
		{"os", "system", 2, false},
		{"os", "popen", 1, false},
		{"", "extension 5", 2, false},
		{"__builtin__", "set", 1, true},
		{"torch", "_utils._rebuild_tensor", 1, true},
		{"builtins", "eval", 1, false},
	};
	struct got g = READ(stream);

	ck_assert_uint_eq(g.pickle->nglobals, 7);
	ck_assert_uint_eq(g.pickle->nunsafe, 4);
	for (size_t i = 0; i < 7; i++) {
		const struct tasd_pkl_global *have = g.pickle->globals[i];

		ck_assert_uint_eq(have->module_len, strlen(want[i].module));
		ck_assert_mem_eq(
			have->module, want[i].module, have->module_len);
		ck_assert_uint_eq(have->name_len, strlen(want[i].name));
		ck_assert_mem_eq(have->name, want[i].name, have->name_len);
		ck_assert_uint_eq(have->count, want[i].count);
		ck_assert_int_eq(have->safe, want[i].safe);
	}
	/* A stream that breaks later has named them all the same. */
	for (size_t cut = 60; cut < sizeof(stream) - 1; cut++) {
		g = read_bytes(stream, cut);
		ck_assert_int_eq(g.err, -EINVAL);
		ck_assert_uint_ge(g.pickle->nglobals, 2);
		tasd_pickle_free(g.pickle);
	}
}
END_TEST

START_TEST(safe_names)
{
	ck_assert(tasd_pickle_safe("torch", 5, "Size", 4));
	ck_assert(tasd_pickle_safe("_codecs", 7, "encode", 6));
	ck_assert(tasd_pickle_safe(
		"torch._tensor", 13, "_rebuild_from_type_v2", 21));
	ck_assert(!tasd_pickle_safe("torch", 5, "Siz", 3));
	ck_assert(!tasd_pickle_safe("torch", 5, "Size\0", 5));
	ck_assert(!tasd_pickle_safe("builtins", 8, "eval", 4));
	ck_assert(!tasd_pickle_safe("", 0, "torch.Size", 10));
	ck_assert(!tasd_pickle_safe("torch.Size", 10, "", 0));
	for (uint32_t i = 1; tasd_pickle_safe_name(i); i++)
		ck_assert_int_lt(strcmp(tasd_pickle_safe_name(i - 1),
					 tasd_pickle_safe_name(i)),
			0);
}
END_TEST

/* Nests as deep as the stream is long; on a stack of 64 KiB nothing recurses.
 */
static void *deep(void *arg)
{
	enum { N = 200000 };
	char *stream = malloc(4 * N);
	unsigned int n = 0;
	struct got g;

	(void)arg;
	memset(stream, ']', N);
	memset(stream + N, 'a', N - 1);
	stream[2 * N - 1] = '.';
	g = read_ok(stream, 2 * N);
	ck_assert_int_eq(tasd_pkl_walk(g.pickle, g.root, count_one, &n), 0);
	ck_assert_uint_eq(n, N);
	tasd_pickle_free(g.pickle);
	/* A tuple as deep, as a key. */
	stream[0] = '}';
	stream[1] = ')';
	memset(stream + 2, 0x85, N);
	memcpy(stream + N + 2, "Ns.", 3);
	g = read_ok(stream, N + 5);
	n = 0;
	ck_assert_int_eq(tasd_pkl_walk(g.pickle, g.root, count_one, &n), 0);
	ck_assert_uint_eq(n, N + 3);
	tasd_pickle_free(g.pickle);
	memset(stream, '(', N);
	memset(stream + N, 't', N);
	stream[2 * N] = '.';
	g = read_ok(stream, 2 * N + 1);
	tasd_pickle_free(g.pickle);
	free(stream);
	return NULL;
}

START_TEST(depth)
{
	pthread_attr_t attr;
	pthread_t thread;

	ck_assert_int_eq(pthread_attr_init(&attr), 0);
	ck_assert_int_eq(pthread_attr_setstacksize(&attr, 64 << 10), 0);
	ck_assert_int_eq(pthread_create(&thread, &attr, deep, NULL), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
}
END_TEST

/* Whatever grows is counted. */
START_TEST(limits)
{
	enum { N = 1 << 20 };
	static const char *const loops[] = {"N", "(", "]", "]0", "K\1K\1\x86",
		"N\x94", "Np77777777777\n", "\x8f", "cm\nn\n", "}NNs", "Na"};

	for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
		size_t len = strlen(loops[i]), n = 0;
		char *stream = malloc(N + 8);
		struct got g;

		stream[n++] = ']';
		for (; n + len < N; n += len)
			memcpy(stream + n, loops[i], len);
		stream[n++] = '.';
		g = read_room(stream, n, (size_t)256 << 10);
		ck_assert_msg(g.err == -E2BIG, "%s: %d", loops[i], g.err);
		ck_assert_uint_le(g.pickle->arena.used, 256 << 10);
		tasd_pickle_free(g.pickle);
		free(stream);
	}
	ck_assert_int_eq(read_room("N.", 2, 16).err, -E2BIG);
}
END_TEST

START_TEST(one_after_the_other)
{
	static const char stream[] = "\x80\2K\1.\x80\2K\2.N";
	struct got g = read_ok(stream, sizeof(stream) - 1);

	ck_assert_uint_eq(g.used, 5);
	is_int(g.root, "1");
	g = read_ok(stream + g.used, sizeof(stream) - 1 - g.used);
	ck_assert_uint_eq(g.used, 5);
	is_int(g.root, "2");
}
END_TEST

static const struct {
	const char *stream;
	size_t len;
	const char *says; /* in the message */
} broken[] = {
#define BAD(stream, says)                                                      \
	{                                                                      \
		stream, sizeof(stream) - 1, says                               \
	}
	BAD("", "ends at byte 0 without STOP"),
	BAD("N", "ends at byte 1 without STOP"),
	BAD(".", "byte 0, STOP: needs 1 value"),
	BAD("(.", "byte 1, STOP: needs 1 value"),
	BAD("N(.", "byte 2, STOP: needs 1 value"),
	BAD("NN\xf0.", "byte 2, opcode 0xf0: no such opcode"),
	BAD("\x80\6N.", "byte 0, PROTO: protocol 6"),
	BAD("\x80", "PROTO: needs 1 bytes, 0 are left"),
	BAD("h\5.", "BINGET: nothing is in the memo at 5"),
	BAD("g-1\n.", "GET: not a memo index"),
	BAD("g1234567890123456789\n.", "GET: not a memo index"),
	BAD("q\0.", "BINPUT: needs 1 value"),
	BAD("\x94.", "MEMOIZE: needs 1 value"),
	BAD("Nt.", "TUPLE: no MARK"),
	BAD("\x85.", "TUPLE1: needs 1 value"),
	BAD("N(\x85.", "TUPLE1: needs 1 value"),
	BAD("NN\x87.", "TUPLE3: needs 3 values on the stack, 2 are there"),
	BAD("0.", "POP: needs 1 value"),
	BAD("1.", "POP_MARK: no MARK"),
	BAD("2.", "DUP: needs 1 value"),
	BAD("R.", "REDUCE: needs 2 values"),
	BAD("K\1)R.", "REDUCE: an int is no class"),
	BAD("cm\nn\nNR.", "REDUCE: its arguments are None, not a tuple"),
	BAD("cm\nn\n]\x81.", "NEWOBJ: its arguments are a list"),
	BAD("cm\nn\n)N\x92.", "NEWOBJ_EX: its keyword arguments"),
	BAD("cm\nn\n)}K\1Ns\x92.", "NEWOBJ_EX: its keyword arguments"),
	BAD("(o.", "OBJ: no class above its MARK"),
	BAD("(K\1o.", "OBJ: an int is no class"),
	BAD("K\1Nb.", "BUILD: an int takes no state"),
	BAD("b.", "BUILD: needs 2 values"),
	BAD("K\1Na.", "APPEND: an int has no append"),
	BAD("}K\1a.", "APPEND: a dict has no append"),
	BAD("K\1(Ne.", "APPENDS: an int has no append"),
	BAD("(Ne.", "APPENDS: nothing below its MARK"),
	BAD("K\1(K\1K\2u.", "SETITEMS: an int takes no keys"),
	BAD("K\1s.", "SETITEM: needs 3 values"),
	BAD("}(K\1u.", "SETITEMS: a key without a value"),
	BAD("(K\1d.", "DICT: a key without a value"),
	BAD("}]Ns.", "SETITEM: a list cannot be a key"),
	BAD("}]\x85\x85Ns.", "SETITEM: a tuple cannot be a key"),
	BAD("\x8f(}\x90.", "ADDITEMS: a dict cannot be in a set"),
	BAD("](N\x90.", "ADDITEMS: a list has no add"),
	BAD("X\2\0\0\0\xff\xfe.", "BINUNICODE: a str that is not UTF-8: 0xff"),
	BAD("\x8c\3\xed\xa0z.", "SHORT_BINUNICODE: a str that is not UTF-8"),
	BAD("X\xff\xff\xff\xffz.", "BINUNICODE: needs 4294967295 bytes, 2"),
	BAD("\x8e\xff\xff\xff\xff\xff\xff\xff\x7fz.",
		"BINBYTES8: needs 9223372036854775807 bytes, 2 are left"),
	BAD("\x8b\xff\xff\xff\xff.", "LONG4: a negative length"),
	BAD("T\xff\xff\xff\xff.", "BINSTRING: a negative length"),
	BAD("G\0\0", "BINFLOAT: needs 8 bytes, 2 are left"),
	BAD("J\0\0\0", "BININT: needs 4 bytes"),
	BAD("I12", "INT: the line it needs has no end"),
	BAD("I0x10\n.", "INT: not a decimal number"),
	BAD("I010\n.", "INT: not a decimal number"),
	BAD("I\n.", "INT: not a decimal number"),
	BAD("L-\n.", "LONG: not a decimal number"),
	BAD("F1.5x\n.", "FLOAT: not a number"),
	BAD("F.\n.", "FLOAT: not a number"),
	BAD("F1e\n.", "FLOAT: not a number"),
	BAD("F0x1p3\n.", "FLOAT: not a number"),
	BAD("F1e999\n.", "FLOAT: a number too large"),
	BAD("Sabc\n.", "STRING: its text is not in quotes"),
	BAD("S'\n.", "STRING: its text is not in quotes"),
	BAD("S'a\\'\n.", "STRING: a broken escape"),
	BAD("S'\\xg0'\n.", "STRING: a broken escape"),
	BAD("V\\u12\n.", "UNICODE: a broken escape"),
	BAD("V\\U00110000\n.", "UNICODE: a broken escape"),
	BAD("c\nn\n.", "GLOBAL: an empty name"),
	BAD("cm\n\xff\n.", "GLOBAL: a name that is not UTF-8"),
	BAD("(im\n\xc3\xa9\n.", "INST: a name that is not ASCII"),
	BAD("im\nn\n.", "INST: no MARK"),
	BAD("P\xc3\xa9\n.", "PERSID: an id that is not ASCII"),
	BAD("Q.", "BINPERSID: needs 1 value"),
	BAD("K\1\x8c\1a\x93.", "STACK_GLOBAL: its name is a str in an int"),
	BAD("\x82\0.", "EXT1: an extension code below 1"),
	BAD("\x84\xff\xff\xff\xff.", "EXT4: an extension code below 1"),
	BAD("\x97.", "NEXT_BUFFER: its data is not in the file"),
	BAD("N\x98.", "READONLY_BUFFER: its data is not in the file"),
	BAD("\x95\xff\xff\xff\xff\xff\xff\xff\xff}.", "FRAME: a frame of"),
	BAD("\x95\3\0\0\0\0\0\0\0J\1\0\0\0.", "BININT: its frame ends inside"),
	BAD("\x95\x0c\0\0\0\0\0\0\0N\x95\0\0\0\0\0\0\0\0N.",
		"FRAME: a frame inside another"),
	BAD("\x95\3\0\0\0\0\0\0\0N.N", "STOP: before the end of its frame"),
#undef BAD
};

START_TEST(what_is_no_pickle)
{
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
		struct got g = read_bytes(broken[i].stream, broken[i].len);

		ck_assert_msg(g.err == -EINVAL, "%zu (%s): %d", i,
			broken[i].says, g.err);
		ck_assert_msg(strstr(g.diag.text, broken[i].says) != NULL,
			"want \"%s\", got \"%s\"", broken[i].says, g.diag.text);
		ck_assert_uint_eq(g.used, 0);
	}
	is_int(READ("\x95\3\0\0\0\0\0\0\0K\1..").root, "1");
}
END_TEST

/* Every cut of a stream is refused, and none is taken for a whole one. */
START_TEST(cuts)
{
	static const char stream[] =
		"\x80\4\x95\x2a\0\0\0\0\0\0\0}(\x8c\1a]\x94(K\1M\1\1J\1\0\0\0e"
		"\x8c\1bG\x3f\xf0\0\0\0\0\0\0h\0\x8c\1c\x86Nu."
		"";
	size_t len = sizeof(stream) - 1;

	for (size_t cut = 0; cut < len; cut++) {
		struct got g = read_bytes(stream, cut);

		ck_assert_int_eq(g.err, -EINVAL);
		tasd_pickle_free(g.pickle);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {equal_keys, long_keys, large_dict,
		laughing_keys, memo, sparse_memo, graph, parts, globals,
		safe_names, depth, limits, one_after_the_other,
		what_is_no_pickle, cuts, NULL};

	return unit_run("pickle-graph", tests);
}
