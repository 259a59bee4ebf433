/*
 * What each kind of object in a pickle becomes.  The pickles are of protocol 0,
 * which can be read; what comes out is compared as a listing: path, kind, and
 * what the file holds, is, or says.
 */
#include "pickle_unit.h"
#include "torch_value.h"
#include <inttypes.h>
#include <stdio.h>

#define LIMIT ((size_t)64 << 20)

/* Words that many of them have. */
#define T   "ctorch._utils\n_rebuild_tensor_v2\n"
#define OD  "ccollections\nOrderedDict\n(tR"
#define END "I00\n" OD "tR"
#define STORE(class, key, n)                                                   \
	"((Vstorage\nctorch\n" class "\nV" key "\nVcpu\nI" n "\ntQ"
/* A tensor of 2 x 3 floats on storage "0", which has six. */
#define W T STORE("FloatStorage", "0", "6") "I0\n(I2\nI3\nt(I3\nI1\nt" END

/* Storages: "0" 24 bytes at 100, "big" the same turned round, "64" 64 bytes at
 * 200; any other is missing. */
static tasd_err find(void *ctx, const struct tasd_torch_persid *persid,
	struct tasd_torch_place *ret)
{
	(void)ctx;
	*ret = (struct tasd_torch_place){.offset = 100, .length = 24};
	if (persid->key_len == 3 && memcmp(persid->key, "big", 3) == 0)
		ret->big_endian = true;
	else if (persid->key_len == 2 && memcmp(persid->key, "64", 2) == 0)
		*ret = (struct tasd_torch_place){.offset = 200, .length = 64};
	else if (persid->key_len != 1 || *persid->key != '0')
		ret->error = "no such storage";
	return 0;
}

static void numbers(struct tasd_buf *out, const char *what,
	const uint64_t *list, uint32_t n)
{
	tasd_buf_str(out, what);
	for (uint32_t i = 0; i < n; i++)
		tasd_buf_printf(out, "%s%" PRIu64, i ? "," : "", list[i]);
	tasd_buf_char(out, ']');
}

static void show_tensor(struct tasd_buf *out, const struct tasd_tensor *t)
{
	const struct tasd_tensor_extra *x = t->extra;

	tasd_buf_printf(out, " %s", tasd_tensor_dtype(t));
	numbers(out, "[", t->shape, t->ndim);
	if (t->data == TASD_DATA_PLAIN || t->data == TASD_DATA_STRIDED)
		tasd_buf_printf(out, " %" PRIu64 "+%" PRIu64, t->extent.offset,
			t->extent.length);
	if (t->data == TASD_DATA_PLACEHOLDER)
		tasd_buf_str(out, " placeholder");
	if (x && x->stride)
		numbers(out, t->data == TASD_DATA_STRIDED ? " gather[" : " [",
			x->stride, t->ndim);
	if (x && x->start)
		tasd_buf_printf(out, " from %" PRIu64, x->start);
	for (uint32_t i = 0; x && i < x->nswaps; i++)
		tasd_buf_printf(out, " swap %" PRIu64 "x%" PRIu32,
			x->swaps[i].count, x->swaps[i].unit);
	if (x && x->device)
		tasd_buf_printf(out, " on %s", x->device);
	if (x && x->storage)
		tasd_buf_printf(out, " s%" PRIu32, x->storage);
}

static void show_node(struct tasd_buf *out, const struct tasd_node *node)
{
	const struct tasd_node_extra *x = node->extra;

	tasd_node_path(out, node);
	tasd_buf_printf(out, " %s", tasd_kind_name(node->kind));
	if (node->form == TASD_FORM_LINK) {
		tasd_buf_str(out, " -> ");
		tasd_node_path(out, node->link);
	} else if (node->form == TASD_FORM_VALUE && !node->error) {
		uint64_t len = node->value.len;

		/* A newline at the end is a dot here. */
		tasd_buf_char(out, ' ');
		tasd_buf_add(out, node->value.bytes, (size_t)len);
		if (len && out->bytes[out->len - 1] == '\n')
			out->bytes[out->len - 1] = '.';
	} else if (node->form == TASD_FORM_TENSOR) {
		show_tensor(out, node->tensor);
	}
	if (node->requires_grad)
		tasd_buf_str(out, " grad");
	if (x && x->class)
		tasd_buf_printf(out, " <%s>", x->class);
	for (uint32_t i = 0; x && i < x->nfacts; i++)
		tasd_buf_printf(out, " %s=%.*s", x->facts[i].name,
			(int)x->facts[i].len, x->facts[i].value);
	if (x && x->tie) {
		tasd_buf_str(out, " = ");
		tasd_node_path(out, x->tie);
	}
	if (x && x->nties)
		tasd_buf_printf(out, " %" PRIu32 " names", x->nties);
	if (node->error)
		tasd_buf_printf(out, " ERROR %s", node->error);
	tasd_buf_char(out, '\n');
}

static struct tasd_container *map(
	const char *stream, size_t len, bool script, tasd_err *ret_err)
{
	struct tasd_container *ctr = calloc(1, sizeof(*ctr));
	char *file = calloc(1, 1000 + len);
	struct tasd_source *source = NULL;
	struct got g = read_ok(stream, len);
	struct tasd_diag diag = {""};
	struct tasd_torch torch = {.ctr = ctr,
		.pickle = g.pickle,
		.root = g.root,
		.stream = kept->bytes,
		.stream_len = len,
		.stream_offset = 1000,
		.stream_in_source = true,
		.find = find,
		.script = script};

	ck_assert(ctr && file);
	memcpy(file + 1000, stream, len);
	ck_assert_int_eq(
		tasd_source_memory(file, 1000 + len, "file", &source), 0);
	ck_assert_int_eq(tasd_container_add_source(ctr, source, NULL), 0);
	ck_assert_int_eq(tasd_statedict_new(0, LIMIT, &ctr->sd), 0);
	*ret_err = tasd_torch_map(&torch, &diag);
	if (!*ret_err)
		*ret_err = tasd_statedict_seal(ctr->sd, &diag);
	return ctr;
}

static void unmap(struct tasd_container *ctr)
{
	for (uint32_t i = 0; i < ctr->nsources; i++)
		tasd_source_put(ctr->sources[i]);
	free(ctr->sources);
	free(ctr->problems);
	tasd_statedict_free(ctr->sd);
	free(ctr);
}

static void check(const char *stream, size_t len, bool script, const char *want)
{
	struct tasd_buf out = TASD_BUF_EMPTY;
	tasd_err err;
	struct tasd_container *ctr = map(stream, len, script, &err);
	const struct tasd_node *node = tasd_statedict_root(ctr->sd);

	ck_assert_int_eq(err, 0);
	/* Of the root only what is special: most are dicts. */
	if (node->kind != TASD_KIND_DICT || node->extra)
		show_node(&out, node);
	while ((node = tasd_node_next(node)))
		show_node(&out, node);
	node = tasd_statedict_attrs(ctr->sd);
	while ((node = tasd_node_next(node)))
		if (!(node->flags & TASD_NODE_WAY)) {
			tasd_buf_str(&out, "attrs/");
			show_node(&out, node);
		}
	tasd_buf_char(&out, '\0');
	ck_assert_int_eq(tasd_buf_err(&out), 0);
	ck_assert_str_eq(out.bytes, want);
	tasd_buf_free(&out);
	unmap(ctr);
}
#define CHECK(stream, want) check(stream, sizeof(stream) - 1, false, want)
/* An item "x" of a dict. */
#define X(value, want) CHECK("(dVx\n" value "s.", want)

START_TEST(values)
{
	X("I1\n", "x int 1.\n");
	X("L123456789012345678901234567890L\n",
		"x int 123456789012345678901234567890.\n");
	X("F0.1\n", "x float 0.1.\n");
	X("I01\n", "x bool True.\n");
	X("N", "x none None.\n");
	X("Vte\\u00e9\n", "x str te\xc3\xa9\n");
	X("S'\\xff\\x01'\n", "x bytes \xff\x01\n");
	X("c__builtin__\ncomplex\n(F1.0\nF-2.5\ntR", "x complex (1-2.5j).\n");
	X("c__builtin__\ncomplex\n(F-0.0\nF2.0\ntR", "x complex (-0+2j).\n");
	X("c__builtin__\ncomplex\n(F0.0\nF1e20\ntR", "x complex 1e+20j.\n");
	X("c_codecs\nencode\n(Va\xe9\nVlatin1\ntR", "x bytes a\xe9\n");
	X("c__builtin__\nbytearray\n(c_codecs\nencode\n(Vxyz\nVlatin1\ntRtR",
		"x bytes xyz <builtins.bytearray>\n");
	X("c__builtin__\nbytes\n(tR", "x bytes \n");
}
END_TEST

START_TEST(lists)
{
	X("(I1\nF2.5\nNI01\nVa\"\n(I2\nt(ll",
		"x list [1, 2.5, null, true, \"a\\\"\", [2], []].\n");
	X("(Fnan\nF-inf\nS'\\xff'\nc__builtin__\ncomplex\n(F1.0\nF2.0\ntRt",
		"x tuple [NaN, -Infinity, {\"bytes\": \"ff\"}, "
		"{\"complex\": [1.0, 2.0]}].\n");
	X("c__builtin__\nset\n((I1\nI2\nltR", "x set [1, 2].\n");
	X("c__builtin__\nfrozenset\n((I1\nltR",
		"x set [1]. <builtins.frozenset>\n");
	X("(l", "x list [].\n");
	X("(I1\n" W "t",
		"x tuple\nx/0 int 1.\nx/1 tensor float32[2,3] 100+24\n");
	/* The root is a directory of them. */
	CHECK("(I1\n(I2\nll.", " list\n0 int 1.\n1 list [2].\n");
}
END_TEST

/* A list in two places is one file and a link; a tuple has no identity. */
START_TEST(shared)
{
	CHECK("(dVa\n(I1\nlp0\nsVb\ng0\nsVc\n(g0\nls.",
		"a list [1].\nb list -> a\nc list\nc/0 list -> a\n");
	CHECK("(dVa\n(I1\ntp0\nsVb\ng0\nsVc\n(g0\nls.",
		"a tuple [1].\nb tuple [1].\nc list [[1]].\n");
	CHECK("(dp0\nVself\ng0\nsVl\n(lp1\ng1\nas.",
		"self dict -> \nl list\nl/0 list -> l\n");
	CHECK("(dVa\nVtext\np0\nsVb\ng0\ns.", "a str text\nb str text\n");
	/* It stands where a reader meets it first. */
	CHECK("(dVa\n(dVin\n(dp0\nsVw\n" W "ssVb\ng0\ns.",
		"a dict\na/in dict\na/w tensor float32[2,3] 100+24\n"
		"b dict -> a/in\n");
}
END_TEST

/* Tuples that stand for 2^40 items. */
START_TEST(laughs)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	struct tasd_container *ctr;
	tasd_err err;

	tasd_buf_str(&buf, "I1\n");
	for (int i = 0; i < 40; i++)
		tasd_buf_str(&buf, "2\x86");
	tasd_buf_char(&buf, '.');
	ctr = map(buf.bytes, buf.len, false, &err);
	ck_assert_int_eq(err, 0);
	ck_assert_uint_lt(tasd_statedict_totals(ctr->sd).nodes, 100);
	ck_assert_uint_lt(tasd_statedict_arena(ctr->sd)->used, 40 << 20);
	unmap(ctr);
	tasd_buf_free(&buf);
}
END_TEST

static void check_deep(const char *open, const char *close, const char *leaf,
	uint64_t nodes, bool broken)
{
	enum { N = 5000 };
	struct tasd_buf buf = TASD_BUF_EMPTY;
	const struct tasd_node *node, *last = NULL;
	struct tasd_container *ctr;
	tasd_err err;

	for (int i = 0; i < N; i++)
		tasd_buf_str(&buf, open);
	tasd_buf_str(&buf, leaf);
	for (int i = 0; i < N; i++)
		tasd_buf_str(&buf, close);
	tasd_buf_char(&buf, '.');
	ctr = map(buf.bytes, buf.len, false, &err);
	ck_assert_int_eq(err, 0);
	ck_assert_uint_eq(tasd_statedict_totals(ctr->sd).nodes, nodes);
	for (node = tasd_statedict_root(ctr->sd); node;
		node = tasd_node_next(node))
		last = node;
	ck_assert_int_eq(last->error != NULL, broken);
	ck_assert_uint_eq(ctr->nproblems, broken);
	unmap(ctr);
	tasd_buf_free(&buf);
}

START_TEST(deep)
{
	check_deep("(dVk\n", "s", "N", 256, true);
	check_deep("(", "l", W, 256, true);
	/* Of plain values there is one text, however they nest. */
	check_deep("(", "l", "I1\n", 1, false);
}
END_TEST

START_TEST(keys)
{
	CHECK("(dI7\nI1\nsVa.b\nI2\nsNI3\nsI01\nI4\nsF1.5\nI5\nsS'\\xff'\nI6\n"
	      "s(I1\nVa\n(F2.0\nttI7\nsctorch\nfloat32\nI8\ns"
	      "cm\nn\n(tRI9\nsFnan\nI10\nsFnan\nI11\ns.",
		"7 int 1.\na group\na/b int 2.\nNone int 3.\nTrue int 4.\n"
		"1.5 int 5.\nb'\\xff' int 6.\n(1, 'a', (2.0,)) int 7.\n"
		"<torch.float32> int 8.\n<object 8> int 9.\nnan int 10.\n"
		"<float 10> int 11.\n");
}
END_TEST

START_TEST(objects)
{
	X("ccopy_reg\n_reconstructor\n(cm\nFoo\nc__builtin__\nobject\nNtR"
	  "(dVa\nI1\nsVb\n(I2\nlsb",
		"x object <m.Foo>\nx/a int 1.\nx/b list [2].\n");
	X("cm\nPoint\n(I1\nI2\ntR",
		"x object <m.Point>\nx/__args__ tuple [1, 2].\n");
	X("cm\nFoo\n(tR(N(dVs\nI1\nstb", "x object <m.Foo>\nx/s int 1.\n");
	X("cm\nFoo\n(tR(I5\nI6\ntb",
		"x object <m.Foo>\nx/__state__ tuple [5, 6].\n");
	/* Of attributes that are set again the last counts. */
	X("cm\nFoo\n(tR(dVa\nI1\nsb(dVa\nI2\nsb",
		"x object <m.Foo>\nx/a int 2.\n");
	X("(I1\nim\nFoo\n", "x object <m.Foo>\nx/__args__ tuple [1].\n");
	X("c__builtin__\ngetattr\n(cm\nOut\nVIn\ntR(tR",
		"x object <m.Out.In>\n");
	/* What is called is the outcome of a call. */
	X("cm\nf\n(tR(tR", "x object\nx/__class__ object <m.f>\n");
	X("cm\nf\n", "x global m.f.\n");
	X("(Vmodule\ncm\nNet\nVf.py\nVsource\ntQ(tR", "x object <m.Net>\n");
	X("Vmine\nQ", "x object\nx/__args__ str mine\n");
}
END_TEST

START_TEST(subclasses)
{
	X("cm\nMyList\n(tR(I1\nI2\nl0I1\naI2\na(dVe\nI3\nsb",
		"x list <m.MyList>\nx/0 int 1.\nx/1 int 2.\n"
		"attrs/x/e int 3.\n");
	X("cm\nMyDict\n(tRVk\nI1\ns", "x dict <m.MyDict>\nx/k int 1.\n");
	X("ccopy_reg\n_reconstructor\n(cm\nMyDict\nc__builtin__\ndict\n"
	  "(dVk\nI1\nstR",
		"x dict <m.MyDict>\nx/k int 1.\n");
	X(OD "Vk\nI1\ns(dV_metadata\n(dV\n(dVversion\nI1\nsssb",
		"x dict <collections.OrderedDict>\nx/k int 1.\n"
		"attrs/x/_metadata dict\nattrs/x/_metadata/% dict\n"
		"attrs/x/_metadata/%/version int 1.\n");
	/* Python 2 had the items as an argument. */
	X("ccollections\nOrderedDict\n((lp0\n(lp1\nVk\naI1\naatR",
		"x dict <collections.OrderedDict>\nx/k int 1.\n");
	X("ccollections\nCounter\n((dVa\nI2\nstR",
		"x dict <collections.Counter>\nx/a int 2.\n");
	X("ccollections\ndefaultdict\n(c__builtin__\nlist\ntRVk\nI1\ns",
		"x dict <collections.defaultdict>\nx/k int 1.\n"
		"attrs/x/default_factory global __builtin__.list.\n");
}
END_TEST

START_TEST(torch_texts)
{
	X("ctorch\nSize\n((I2\nI3\nttR", "x object torch.Size([2, 3]). "
					 "<torch.Size>\n");
	X("ctorch\ndevice\n(Vcuda\nI1\ntR",
		"x object cuda:1. <torch.device>\n");
	X("ctorch\nbfloat16\n", "x object torch.bfloat16. <torch.dtype>\n");
	X("ctorch\nper_tensor_affine\n", "x object torch.per_tensor_affine.\n");
	X("ctorch.serialization\n_get_layout\n(Vtorch.strided\ntR",
		"x object torch.strided. <torch.layout>\n");
}
END_TEST

START_TEST(tensors)
{
	X(W, "x tensor float32[2,3] 100+24\n");
	X(T STORE("HalfStorage", "0", "12") "I2\n(I3\nt(I1\nt" END,
		"x tensor float16[3] 104+6\n");
	X(T STORE("FloatStorage", "0", "6") "I5\n(t(t" END,
		"x tensor float32[] 120+4\n");
	X(T STORE("FloatStorage", "0", "6") "I0\n(I3\nI2\nt(I1\nI3\nt" END,
		"x tensor float32[3,2] 100+24 gather[1,3]\n");
	/* The stride of one index means nothing, but is told. */
	X(T STORE("FloatStorage", "0", "6") "I0\n(I1\nI6\nt(I9\nI1\nt" END,
		"x tensor float32[1,6] 100+24 [9,1]\n");
	X(T STORE("FloatStorage", "0", "6") "I99\n(I0\nI2\nt(I2\nI1\nt" END,
		"x tensor float32[0,2] 100+0\n");
	X("ctorch._utils\n_rebuild_tensor_v3\n" STORE("UntypedStorage", "0",
		  "24") "I1\n(I2\nt(I1\ntI01\n" OD "ctorch\nuint16\ntR",
		"x tensor uint16[2] 102+4 grad\n");
	X("ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat64\n"
	  "(I5\nt(I1\ntI00\ntR",
		"x tensor float64[5] placeholder on meta\n");
	X(T "((Vstorage\nctorch\nFloatStorage\nV0\nVcuda:1\nI6\ntQI0\n(I6\nt"
	    "(I1\nt" END,
		"x tensor float32[6] 100+24 on cuda:1\n");
	/* A bare one is a file of its own. */
	CHECK(W ".", "tensor tensor float32[2,3] 100+24\n");
	X("(Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI6\ntQ",
		"x storage float32[6] 100+24\n");
	X("(Vstorage\nctorch\nFloatStorage\nVkey\nVcpu\nI6\n(V0\nI1\nI2\nttQ",
		"x storage float32[6] ERROR no such storage\n");
	X("(Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI6\n(V1\nI1\nI2\nttQ",
		"x storage float32[2] 104+8\n");
}
END_TEST

START_TEST(big_endian)
{
	X(T STORE("FloatStorage", "big", "6") "I1\n(I2\nt(I1\nt" END,
		"x tensor float32[2] 100+24 gather[1] from 1 swap 1x4\n");
	X(T STORE("ComplexFloatStorage", "big", "3") "I0\n(I3\nt(I1\nt" END,
		"x tensor complex64[3] 100+24 gather[1] swap 2x4\n");
	X(T STORE("CharStorage", "big", "24") "I0\n(I24\nt(I1\nt" END,
		"x tensor int8[24] 100+24\n");
	X("ctorch._utils\n_rebuild_tensor_v3\n" STORE("UntypedStorage", "big",
		  "24") "I0\n(I2\nt(I1\ntI00\n" OD "ctorch\nuint16\ntR",
		"x tensor uint16[2] ERROR big-endian numbers in a storage of "
		"another type, which torch does not read right\n");
}
END_TEST

START_TEST(broken_tensors)
{
	static const struct {
		const char *args, *says;
	} rows[] = {
		{"I3\n(I4\nt(I1\nt", "float32[4] ERROR it goes past the end of "
				     "its storage of 24 bytes"},
		{"I0\n(I2\nI2\nt(I9\nI1\nt",
			"float32[2,2] [9,1] ERROR it goes past "
			"the end of its storage of 24 "
			"bytes"},
		{"I0\n(I2\nt(I4611686018427387904\nt",
			"float32[2] [4611686018427387904] ERROR it goes past "
			"the end of its storage "
			"of 24 bytes"},
		{"I4611686018427387904\n(I1\nt(I1\nt",
			"float32[1] ERROR it goes past the end of its storage "
			"of 24 bytes"},
		{"I-1\n(I1\nt(I1\nt",
			"[] ERROR its offset is no number, or negative"},
		{"I0\n(I-1\nt(I1\nt", "[] ERROR its size has a number that is "
				      "none or negative"},
		{"I0\n(I1\nt(I-1\nt", "[] ERROR its stride has a number that "
				      "is none or negative"},
		{"I0\n(I1\nI1\nt(I1\nt", "[] ERROR 2 sizes and 1 strides"},
		{"I0\n(I4611686018427387904\nI4\nt(I1\nI1\nt",
			"[] ERROR its size does not fit 63 bits"},
		{"I0\nN(t", "[] ERROR its size is no tuple"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char stream[512], want[512];
		int len = snprintf(stream, sizeof(stream),
			"(dVx\n" T STORE("FloatStorage", "0", "6") "%s" END
								   "s.",
			rows[i].args);

		snprintf(want, sizeof(want), "x tensor %s\n", rows[i].says);
		check(stream, (size_t)len, false, want);
	}
	X(T STORE("FloatStorage", "none", "6") "I0\n(I6\nt(I1\nt" END,
		"x tensor float32[6] ERROR no such storage\n");
	X(T STORE("FloatStorage", "0", "7") "I0\n(I6\nt(I1\nt" END,
		"x tensor float32[6] ERROR its storage has 24 bytes in the "
		"file, and 28 by the pickle\n");
	X(T STORE("OddStorage", "0", "6") "I0\n(I6\nt(I1\nt" END,
		"x tensor [] ERROR a storage of the unknown class "
		"OddStorage\n");
	X(T "(NI0\n(I6\nt(I1\nt" END,
		"x tensor [] ERROR its storage is None, not a storage\n");
	X(T "(tR", "x tensor [] ERROR its size is no tuple\n");
	X(T STORE("FloatStorage", "0", "6") "I0\n(I6\nt(I1\ntI00\n" OD
					    "(dVconj\nI01\nstR",
		"x tensor float32[6] ERROR a view that is conjugated or "
		"negated\n");
}
END_TEST

START_TEST(ties)
{
	CHECK("(dVa\n" W "sVb\n" W "sVrow\n" T STORE("FloatStorage", "0",
		      "6") "I3\n(I3\nt(I1\nt" END "sVother\n" T
			STORE("FloatStorage", "64",
				"16") "I0\n(I1\nt(I1\nt" END "sVc\n"
				      "ctorch._utils\n_rebuild_parameter\n(" W
				      "I01\n" OD "tRs.",
		"a tensor float32[2,3] 100+24 s1 3 names\n"
		"b tensor float32[2,3] 100+24 s1 = a\n"
		"row tensor float32[3] 112+12 s1\n"
		"other tensor float32[1] 200+4\n"
		"c tensor float32[2,3] 100+24 s1 grad "
		"<torch.nn.parameter.Parameter> = a\n");
	/* The same object twice. */
	CHECK("(dVa\n" W "p0\nsVb\ng0\ns.",
		"a tensor float32[2,3] 100+24 2 names\n"
		"b tensor float32[2,3] 100+24 = a\n");
}
END_TEST

START_TEST(wrapped)
{
	X("ctorch._utils\n_rebuild_parameter\n(" W "I01\n" OD "tR",
		"x tensor float32[2,3] 100+24 grad "
		"<torch.nn.parameter.Parameter>\n");
	X("ctorch._utils\n_rebuild_parameter_with_state\n(" W "I00\n" OD
	  "(dVtag\nI1\nstR",
		"x tensor float32[2,3] 100+24 <torch.nn.parameter.Parameter>\n"
		"attrs/x/tag int 1.\n");
	X("ctorch._tensor\n_rebuild_from_type_v2\n(" T "cm\nSub\n" STORE(
		  "FloatStorage", "0", "6") "I0\n(I6\nt(I1\ntI00\n" OD "t(d"
					    "Vtag\nVv\nstR",
		"x tensor float32[6] 100+24 <m.Sub>\nattrs/x/tag str v\n");
	X("ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n(" W
	  "ctorch\nfloat32\nVxla:0\nI00\ntR",
		"x tensor float32[2,3] 100+24 on xla:0\n");
	X("ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n(" W
	  "ctorch\nfloat16\nVxla:0\nI00\ntR",
		"x tensor float32[2,3] ERROR saved as another type than it has "
		"when loaded\n");
	/* torch 0.1: a class and a state. */
	X("ctorch\nFloatTensor\n(tR((Vstorage\nctorch\nFloatStorage\nV0\nVcpu\n"
	  "I6\ntQI0\n(I6\nt(I1\nttb",
		"x tensor float32[6] 100+24\n");
}
END_TEST

#define LAYOUT(name) "ctorch.serialization\n_get_layout\n(Vtorch." name "\ntR"

START_TEST(special)
{
	X("ctorch._utils\n_rebuild_sparse_tensor\n(" LAYOUT(
		  "sparse_coo") "(" W T STORE("FloatStorage", "0",
		  "6") "I0\n(I3\nt(I1\nt" END
		       "ctorch\nSize\n((I4\nI5\nttRI01\nttR",
		"x tensor layout=sparse_coo dtype=float32 shape=[4, 5] "
		"coalesced=true\n"
		"x/indices tensor float32[2,3] 100+24 s1\n"
		"x/values tensor float32[3] 100+12 s1\n");
	X("ctorch._utils\n_rebuild_sparse_tensor\n(" LAYOUT(
		  "sparse_odd") "(ttR",
		"x tensor ERROR a sparse tensor whose parts are not as they "
		"should be\n");
	X("ctorch._utils\n_rebuild_qtensor\n" STORE("QInt8Storage", "0",
		  "24") "I0\n(I24\nt(I1\nt(ctorch\nper_tensor_affine\nF0."
			"5\nI3\ntI00\n" OD "tR",
		"x tensor qint8[24] 100+24 qscheme=per_tensor_affine scale=0.5 "
		"zero_point=3\n");
	X("ctorch._utils\n_rebuild_qtensor\n" STORE("QInt8Storage", "0",
		  "24") "I0\n(I12\nI2\nt(I2\nI1\nt(ctorch\nper_channel_"
			"affine\n(F0.5\nF1.0\n"
			"l(I0\nI1\nlI1\ntI00\n" OD "tR",
		"x tensor qint8[12,2] 100+24 qscheme=per_channel_affine axis=1"
		"\nattrs/x/scales list [0.5, 1.0].\n"
		"attrs/x/zero_points list [0, 1].\n");
	X("ctorch._utils\n_rebuild_qtensor\n" STORE("QUInt4x2Storage", "0",
		  "24") "I0\n(I2\nI5\nt(I5\nI1\nt(ctorch\n"
			"per_tensor_affine\nF0.5\nI3\ntI00\n" OD "tR",
		"x tensor quint4x2[2,5] 100+6 qscheme=per_tensor_affine "
		"scale=0.5 zero_point=3\n");
	X("ctorch._utils\n_rebuild_nested_tensor\n(" W "Vs\nVt\nVo\ntR",
		"x tensor layout=nested dtype=float32\n"
		"x/buffer tensor float32[2,3] 100+24\nx/sizes str s\n"
		"x/strides str t\nx/storage_offsets str o\n");
	X("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n"
	  "_rebuild_wrapper_subclass\ncm\nDTensor\n(cm\nDTensor\nctorch\n"
	  "float32\n(I4\nI3\nt(I3\nI1\ntI0\n" LAYOUT(
		  "strided") "Vcuda:0\nI01\nt(dV_local_tensor\n" W
			     "sV_spec\nI1\nstR",
		"x tensor grad <m.DTensor> dtype=float32 shape=[4, 3] "
		"layout=strided device=cuda:0\n"
		"x/_local_tensor tensor float32[2,3] 100+24\n"
		"x/_spec int 1.\n");
}
END_TEST

#define ND(shape, dtype, fortran, data)                                        \
	"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntVb\n"   \
	"tR(I1\n" shape dtype fortran data "tb"
#define DT(name, order)                                                        \
	"cnumpy\ndtype\n(V" name "\nI0\nI1\ntR(I3\nV" order                    \
	"\nNNNI-1\nI-1\nI0\ntb"

START_TEST(arrays)
{
	/* The bytes stand in the stream, whose start is at 1000. */
	struct tasd_buf out = TASD_BUF_EMPTY;
	static const char stream[] =
		"(dVx\n" ND("(I2\nt", DT("i2", "<"), "I00\n", "S'abcd'\n") "s.";
	const char *at = strstr(stream, "abcd");

	tasd_buf_printf(
		&out, "x ndarray int16[2] %td+4\n", 1000 + (at - stream));
	tasd_buf_char(&out, '\0');
	CHECK(stream, out.bytes);
	tasd_buf_free(&out);
	/* What was escaped is in a source of its own. */
	X(ND("(I2\nI1\nt", DT("i2", ">"), "I01\n", "S'\\x00b\\x00d'\n"),
		"x ndarray int16[2,1] 0+4 swap 1x2\n");
	X("cnumpy.core.multiarray\nscalar\n(" DT(
		  "f4", "<") "S'\\x00\\x00\\x80?'\ntR",
		"x npscalar float32[] 0+4\n");
	X("cnumpy.core.multiarray\nscalar\n(" DT(
		  "U1", "<") "S'a\\x00\\x00\\x00'\ntR",
		"x npscalar <U1[] 0+4\n");
	X(ND("(I2\nt", DT("i2", "<"), "I00\n", "S'abc'\n"),
		"x ndarray [] ERROR it has more or fewer bytes than its shape "
		"needs\n");
	X(ND("(I2\nt", DT("Q9", "<"), "I00\n", "S'abc'\n"),
		"x ndarray [] ERROR its element type is not known\n");
	X(ND("(I2\nt", "cnumpy\ndtype\n(VO8\nI0\nI1\ntR", "I00\n",
		  "(I1\nVa\nl"),
		"x ndarray |O[2] ERROR an array of Python objects, which are "
		"in .tasd/attrs\nattrs/x/items list [1, \"a\"].\n");
	X(DT("f4", "<"), "x object float32. <numpy.dtype>\n");
}
END_TEST

/* ('a', '<i2') at 0, ('b', '>f4', (2,)) at 4, twelve bytes in all. */
START_TEST(structured)
{
	X(ND("(I1\nt",
		  "cnumpy\ndtype\n(VV12\nI0\nI1\ntR(I3\nV|\nN(Va\nVb\nt("
		  "dVa\n(" DT("i2",
			  "<") "I0\ntsVb\n("
			       "cnumpy\ndtype\n(VV8\nI0\nI1\ntR(I3\nV|\n(" DT(
				       "f4", ">") "(I2\nttNNI8\nI4\nI0\ntbI4\nt"
						  "sI12\nI4\nI16\ntb",
		  "I00\n", "S'\\x00bcdefghijkl'\n"),
		"x ndarray [('a', '<i2'), ('', '|V2'), ('b', '<f4', (2,))][1] "
		"0+12 swap 2x4\n");
}
END_TEST

/* A large array as protocol 2 has it is decoded where it stands. */
START_TEST(array_as_text)
{
	enum { N = 200000 };
	struct tasd_buf buf = TASD_BUF_EMPTY;
	const struct tasd_tensor *tensor;
	struct tasd_container *ctr;
	struct tasd_source *source;
	unsigned char got[70000];
	tasd_err err;

	tasd_buf_str(&buf, "cnumpy.core.multiarray\n_reconstruct\n"
			   "(cnumpy\nndarray\n(I0\ntVb\ntR(I1\n(I200000\nt");
	tasd_buf_str(&buf, DT("u1", "|") "I00\nc_codecs\nencode\n(X");
	/* Two of three bytes take two. */
	for (int i = 0; i < 4; i++)
		tasd_buf_char(&buf, (char)((N + N / 2) >> 8 * i));
	for (int i = 0; i < N; i++) {
		unsigned char c = (unsigned char)(i * 7 % 256);

		if (i % 2)
			c |= 0x80;
		else
			c &= 0x7f;
		if (c >= 0x80)
			tasd_buf_char(&buf, (char)(0xc0 | c >> 6));
		tasd_buf_char(&buf, (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c));
	}
	tasd_buf_str(&buf, "Vlatin1\ntRtb.");
	ctr = map(buf.bytes, buf.len, false, &err);
	ck_assert_int_eq(err, 0);
	tensor = tasd_statedict_whole(ctr->sd)->tensor;
	ck_assert_int_eq(tensor->data, TASD_DATA_PLAIN);
	source = ctr->sources[tensor->extent.source];
	ck_assert_uint_eq(source->size, N);
	for (uint64_t at = 0; at < N; at += 33333) {
		size_t n =
			N - at < sizeof(got) ? (size_t)(N - at) : sizeof(got);

		ck_assert_int_eq(tasd_source_pread(source, got, n, at), 0);
		for (size_t i = 0; i < n; i++) {
			unsigned char c = (unsigned char)((at + i) * 7 % 256);

			require_eq(got[i], (at + i) % 2 ? c | 0x80 : c & 0x7f);
		}
	}
	ck_assert_int_eq(tasd_source_pread(source, got, 2, N - 1), -EIO);
	unmap(ctr);
	tasd_buf_free(&buf);
}
END_TEST

START_TEST(script)
{
	static const char stream[] =
		"c__torch__.m\nNet\n(tR(dVw\n" W "sVtraining\nI00\nsVfc\n"
		"c__torch__.m\nLin\n(tR(dVweight\n" W "sVn\nI3\nsbsb.";

	check(stream, sizeof(stream) - 1, true,
		" dict <__torch__.m.Net>\n"
		"w tensor float32[2,3] 100+24 s1 2 names\n"
		"fc group\nfc/weight tensor float32[2,3] 100+24 s1 = w\n"
		"attrs/training bool False.\nattrs/fc.n int 3.\n");
}
END_TEST

/* Too much for the state dict: refused, not cut. */
START_TEST(too_much)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	struct tasd_container *ctr;
	tasd_err err;

	tasd_buf_str(&buf, "(");
	for (int i = 0; i < 1000000; i++)
		tasd_buf_str(&buf, "(d");
	tasd_buf_str(&buf, "l.");
	ctr = map(buf.bytes, buf.len, false, &err);
	ck_assert_int_eq(err, -E2BIG);
	unmap(ctr);
	tasd_buf_free(&buf);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {values, lists, shared, laughs, deep, keys,
		objects, subclasses, torch_texts, tensors, big_endian,
		broken_tensors, ties, wrapped, special, arrays, array_as_text,
		structured, script, too_much, NULL};

	return unit_run("torch-value", tests);
}
