/*
 * Headers as numpy and others write them, and headers that are none: what each
 * means, or that it is refused and why.
 */
#include "npy_header.h"
#include "unit.h"
#include <base/buf.h>
#include <stdio.h>
#include <string.h>

#define LIMIT ((size_t)64 << 20)

static struct tasd_arena arena;
static struct tasd_diag diag;

static tasd_err parse(const char *text, bool latin1, struct tasd_npy *npy)
{
	tasd_arena_free(&arena);
	tasd_arena_init(&arena, LIMIT);
	diag.text[0] = '\0';
	return tasd_npy_parse(text, strlen(text), latin1, &arena, npy, &diag);
}

/* With that type, and two elements. */
static tasd_err parse_type(const char *type, struct tasd_npy *npy)
{
	char text[4096];

	snprintf(text, sizeof(text),
		"{'descr': %s, 'fortran_order': False, 'shape': (2,), }", type);
	return parse(text, false, npy);
}

START_TEST(types)
{
	static const struct {
		const char *type;
		enum tasd_dtype dtype;
		const char *descr;
		uint64_t item;
		uint32_t unit; /* of its swap; 0: none */
	} rows[] = {
		{"'<f4'", TASD_DTYPE_F32, NULL, 4, 0},
		{"'>f4'", TASD_DTYPE_F32, NULL, 4, 4},
		{"'=f4'", TASD_DTYPE_F32, NULL, 4, 0},
		{"'f4'", TASD_DTYPE_F32, NULL, 4, 0},
		{"\"<f4\"", TASD_DTYPE_F32, NULL, 4, 0},
		{"u'<f4'", TASD_DTYPE_F32, NULL, 4, 0},
		{"'float32'", TASD_DTYPE_F32, NULL, 4, 0},
		{"'\\x3cf4'", TASD_DTYPE_F32, NULL, 4, 0},
		{"'|b1'", TASD_DTYPE_BOOL, NULL, 1, 0},
		{"'?'", TASD_DTYPE_BOOL, NULL, 1, 0},
		{"'>u1'", TASD_DTYPE_U8, NULL, 1, 0},
		{"'|i1'", TASD_DTYPE_I8, NULL, 1, 0},
		{"'>i2'", TASD_DTYPE_I16, NULL, 2, 2},
		{"'<u2'", TASD_DTYPE_U16, NULL, 2, 0},
		{"'<i4'", TASD_DTYPE_I32, NULL, 4, 0},
		{"'<u4'", TASD_DTYPE_U32, NULL, 4, 0},
		{"'<i8'", TASD_DTYPE_I64, NULL, 8, 0},
		{"'>u8'", TASD_DTYPE_U64, NULL, 8, 8},
		{"'<f2'", TASD_DTYPE_F16, NULL, 2, 0},
		{"'<f8'", TASD_DTYPE_F64, NULL, 8, 0},
		{"'>c8'", TASD_DTYPE_C64, NULL, 8, 4},
		{"'<c16'", TASD_DTYPE_C128, NULL, 16, 0},
		{"'<f16'", TASD_DTYPE_NONE, "<f16", 16, 0},
		{"'>f16'", TASD_DTYPE_NONE, "<f16", 16, 16},
		{"'>c32'", TASD_DTYPE_NONE, "<c32", 32, 16},
		{"'|V2'", TASD_DTYPE_NONE, "|V2", 2, 0},
		{"'<V2'", TASD_DTYPE_NONE, "|V2", 2, 0},
		{"'|S10'", TASD_DTYPE_NONE, "|S10", 10, 0},
		{"'|S0'", TASD_DTYPE_NONE, "|S0", 0, 0},
		{"'|a3'", TASD_DTYPE_NONE, "|S3", 3, 0},
		{"'<U5'", TASD_DTYPE_NONE, "<U5", 20, 0},
		{"'>U5'", TASD_DTYPE_NONE, "<U5", 20, 4},
		{"'>U0'", TASD_DTYPE_NONE, "<U0", 0, 0},
		{"'<M8[ns]'", TASD_DTYPE_NONE, "<M8[ns]", 8, 0},
		{"'>m8[25s]'", TASD_DTYPE_NONE, "<m8[25s]", 8, 8},
		{"'<m8'", TASD_DTYPE_NONE, "<m8", 8, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tasd_npy npy;

		ck_assert_msg(parse_type(rows[i].type, &npy) == 0, "%s: %s",
			rows[i].type, diag.text);
		ck_assert_int_eq(npy.dtype, rows[i].dtype);
		if (rows[i].descr)
			ck_assert_str_eq(npy.descr, rows[i].descr);
		else
			ck_assert_ptr_null(npy.descr);
		ck_assert_uint_eq(npy.item, rows[i].item);
		ck_assert_uint_eq(npy.nbytes, 2 * rows[i].item);
		ck_assert_uint_eq(npy.nswaps, rows[i].unit ? 1 : 0);
		if (rows[i].unit) {
			ck_assert_uint_eq(npy.swaps[0].unit, rows[i].unit);
			ck_assert_uint_eq(npy.swaps[0].offset, 0);
			ck_assert_uint_eq(
				npy.swaps[0].unit * npy.swaps[0].count,
				rows[i].item);
		}
	}
}
END_TEST

/* What is printed is what numpy would, little-endian; swaps as "o:u*n". */
START_TEST(structures)
{
	static const struct {
		const char *type, *descr, *swaps;
		uint64_t item;
	} rows[] = {
		{"[('id', '<i4'), ('v', '<f8'), ('s', '|S2')]",
			"[('id', '<i4'), ('v', '<f8'), ('s', '|S2')]", "", 14},
		{"[(\"id\",'>i4'),('v','>f8',),]",
			"[('id', '<i4'), ('v', '<f8')]", "0:4*1 4:8*1 ", 12},
		{"[('a', '>i4'), ('b', '>i4')]", "[('a', '<i4'), ('b', '<i4')]",
			"0:4*2 ", 8},
		{"[('m', '>f4', (2, 3))]", "[('m', '<f4', (2, 3))]", "0:4*6 ",
			24},
		{"[('m', '>f4', (3,))]", "[('m', '<f4', (3,))]", "0:4*3 ", 12},
		{"[('m', '>f4', 3)]", "[('m', '<f4', (3,))]", "0:4*3 ", 12},
		{"[('m', '>f4', (0, 7))]", "[('m', '<f4', (0, 7))]", "", 0},
		{"[('m', '>f4', ())]", "[('m', '<f4', ())]", "0:4*1 ", 4},
		{"[('a', [('x', '>i2'), ('y', '|S1')], (3,)), ('z', '>i2')]",
			"[('a', [('x', '<i2'), ('y', '|S1')], (3,)), "
			"('z', '<i2')]",
			"0:2*1 3:2*1 6:2*1 9:2*1 ", 11},
		{"[('a', [('x', '>i2'), ('y', '|S1'), ('w', '>i2')], (2,))]",
			"[('a', [('x', '<i2'), ('y', '|S1'), ('w', '<i2')], "
			"(2,))]",
			"0:2*1 3:2*2 8:2*1 ", 10},
		{"[(('title', 'n'), '<i4'), ('', '|V4')]",
			"[(('title', 'n'), '<i4'), ('', '|V4')]", "", 8},
		{"[('s', (('>i2', (2,)), (3,)))]",
			"[('s', (('<i2', (2,)), (3,)))]", "0:2*6 ", 12},
		{"[(\"it's\", '<i4'), ('\\\\', '<i4'), ('\\n\\x01', '<i4')]",
			"[(\"it's\", '<i4'), ('\\\\', '<i4'), "
			"('\\n\\x01', '<i4')]",
			"", 12},
		{"[('\xcf\x80', '<f4')]", "[('\xcf\x80', '<f4')]", "", 4},
		{"[('\\u03c0', '<f4')]", "[('\xcf\x80', '<f4')]", "", 4},
		{"[]", "[]", "", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tasd_npy npy;
		char swaps[200] = "";

		ck_assert_msg(parse_type(rows[i].type, &npy) == 0, "%s: %s",
			rows[i].type, diag.text);
		for (uint32_t k = 0; k < npy.nswaps; k++)
			snprintf(swaps + strlen(swaps),
				sizeof(swaps) - strlen(swaps), "%llu:%u*%llu ",
				(unsigned long long)npy.swaps[k].offset,
				npy.swaps[k].unit,
				(unsigned long long)npy.swaps[k].count);
		ck_assert_str_eq(npy.descr, rows[i].descr);
		ck_assert_str_eq(swaps, rows[i].swaps);
		ck_assert_uint_eq(npy.item, rows[i].item);
		ck_assert_int_eq(npy.dtype, TASD_DTYPE_NONE);
	}
}
END_TEST

START_TEST(dicts)
{
	static const char *const good[] = {
		"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }",
		"{'shape':(3,4),'fortran_order':True,'descr':'<f4'}",
		"  {\"shape\" :(3L , 4L,) , u'fortran_order':\tTrue,\n"
		" 'descr'\n:'<f4'}  \n\n",
	};
	struct tasd_npy npy;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_msg(parse(good[i], true, &npy) == 0, "%s: %s",
			good[i], diag.text);
		ck_assert_uint_eq(npy.ndim, 2);
		ck_assert_uint_eq(npy.shape[0], 3);
		ck_assert_uint_eq(npy.shape[1], 4);
		ck_assert(npy.fortran_order);
		ck_assert_uint_eq(npy.nbytes, 48);
	}
	ck_assert_int_eq(parse("{'descr': '<f4', 'fortran_order': False, "
			       "'shape': ()}",
				 true, &npy),
		0);
	ck_assert_uint_eq(npy.ndim, 0);
	ck_assert_uint_eq(npy.nbytes, 4);
	/* Latin-1 names become UTF-8; the same bytes are no UTF-8. */
	ck_assert_int_eq(parse("{'descr': [('\xe9', '<f4')], "
			       "'fortran_order': False, 'shape': ()}",
				 true, &npy),
		0);
	ck_assert_str_eq(npy.descr, "[('\xc3\xa9', '<f4')]");
	ck_assert_int_eq(parse("{'descr': [('\xe9', '<f4')], "
			       "'fortran_order': False, 'shape': ()}",
				 false, &npy),
		-EINVAL);
}
END_TEST

#define WITH_SHAPE(s) "{'descr': '<f8', 'fortran_order': False, 'shape': " s "}"
#define WITH_TYPE(t)  "{'descr': " t ", 'fortran_order': False, 'shape': ()}"
#define WITH_ORDER(o) "{'descr': '<f8', 'fortran_order': " o ", 'shape': ()}"

START_TEST(refused)
{
	static const struct {
		const char *text, *why;
		tasd_err err;
	} rows[] = {
		{"", "a dict", 0},
		{"{", "name", 0},
		{"{}", "not all are there", 0},
		{"[]", "a dict", 0},
		{"{'descr': '<f8', 'shape': ()}", "not all", 0},
		{"{'descr': '<f8', 'fortran_order': False}", "not all", 0},
		{"{'shape': (), 'fortran_order': False}", "not all", 0},
		{WITH_SHAPE("()") "x", "follows the dict", 0},
		{WITH_SHAPE("()") "{}", "follows the dict", 0},
		{"{'descr': '<f8', 'fortran_order': False, 'shape': (), "
		 "'more': 1}",
			"\"more\" is none", 0},
		{"{'shape': (), 'descr': '<f8', 'fortran_order': False, "
		 "'shape': ()}",
			"stands twice", 0},
		{"{'descr' '<f8', 'fortran_order': False, 'shape': ()}",
			"no value", 0},
		{"{'descr': '<f8' 'fortran_order': False, 'shape': ()}",
			"comma", 0},
		{"{b'descr': '<f8', 'fortran_order': False, 'shape': ()}",
			"names was expected", 0},
		{WITH_ORDER("0"), "True or False", 0},
		{WITH_ORDER("None"), "True or False", 0},
		{WITH_ORDER("'True'"), "True or False", 0},
		{WITH_ORDER("Truely"), "True or False", 0},
		{WITH_SHAPE("3"), "tuple", 0},
		{WITH_SHAPE("(3)"), "this is a number", 0},
		{WITH_SHAPE("[3]"), "tuple", 0},
		{WITH_SHAPE("(-1,)"), "whole numbers", 0},
		{WITH_SHAPE("(1.0,)"), "whole numbers", 0},
		{WITH_SHAPE("(1e3,)"), "whole numbers", 0},
		{WITH_SHAPE("(0x10,)"), "whole numbers", 0},
		{WITH_SHAPE("(01,)"), "whole numbers", 0},
		{WITH_SHAPE("(True,)"), "whole numbers", 0},
		{WITH_SHAPE("(1,,)"), "whole numbers", 0},
		{WITH_SHAPE("(,)"), "whole numbers", 0},
		{WITH_SHAPE("(1 2)"), "whole numbers", 0},
		{WITH_SHAPE("(18446744073709551616,)"), "whole numbers", 0},
		{WITH_SHAPE("(1,"), "whole numbers", 0},
		{WITH_SHAPE("(4611686018427387904, 16)"), "63 bits", 0},
		{WITH_SHAPE("(2305843009213693952,)"), "63 bits", 0},
		{WITH_SHAPE("(0, 4611686018427387904, 16)"), "63 bits", 0},
		{WITH_TYPE("__import__('os').getcwd()"), "a type", 0},
		{WITH_TYPE("'<f4' + '8'"), "comma", 0},
		{WITH_TYPE("'<f' '4'"), "unknown type", 0},
		{WITH_TYPE("b'<f4'"), "a type", 0},
		{WITH_TYPE("None"), "a type", 0},
		{WITH_TYPE("4"), "a type", 0},
		{WITH_TYPE("\"<f4"), "a type", 0},
		{WITH_TYPE("'<f4\n'"), "a type", 0},
		{WITH_TYPE("'\\q'"), "a type", 0},
		{WITH_TYPE("'\\xg0'"), "a type", 0},
		{WITH_TYPE("'\\ud800'"), "a type", 0},
		{WITH_TYPE("'\\U00110000'"), "a type", 0},
		{WITH_TYPE("'<f4\\x00'"), "NUL", 0},
		{WITH_TYPE("''"), "unknown type", 0},
		{WITH_TYPE("'<'"), "unknown type", 0},
		{WITH_TYPE("'<f3'"), "unknown type", 0},
		{WITH_TYPE("'<f4x'"), "unknown type", 0},
		{WITH_TYPE("'<<f4'"), "unknown type", 0},
		{WITH_TYPE("'<i16'"), "unknown type", 0},
		{WITH_TYPE("'<b4'"), "unknown type", 0},
		{WITH_TYPE("'<f99999999999999999999999'"), "unknown type", 0},
		{WITH_TYPE("'|S99999999999999999999999'"), "2 GiB", 0},
		{WITH_TYPE("'<U1000000000'"), "2 GiB", 0},
		{WITH_TYPE("'<M8[ns'"), "unknown type", 0},
		{WITH_TYPE("'<M8[;]'"), "unknown type", 0},
		{WITH_TYPE("'<M4'"), "unknown type", 0},
		{WITH_TYPE("'|O'"), "Python objects", -ENOTSUP},
		{WITH_TYPE("'O8'"), "Python objects", -ENOTSUP},
		{WITH_TYPE("[('a', '<f4'), ('b', '|O')]"), "Python objects",
			-ENOTSUP},
		{WITH_TYPE("('<f4', (2,))"), "this is a tuple", 0},
		{WITH_TYPE("[('a',)]"), "a type", 0},
		{WITH_TYPE("[('a')]"), "no type", 0},
		{WITH_TYPE("['a']"), "a field", 0},
		{WITH_TYPE("[('a', '<f4') ('b', '<f4')]"), "a field", 0},
		{WITH_TYPE("[('a', '<f4', (2,), 3)]"), "a shape", 0},
		{WITH_TYPE("[('a', ('<f4',))]"), "a shape", 0},
		{WITH_TYPE("[(3, '<f4')]"), "a field's name", 0},
		{WITH_TYPE("[(('a',), '<f4')]"), "a field's name", 0},
		{WITH_TYPE("[('a', '<f4', (2000000000, 2000000000))]"), "2 GiB",
			0},
		{WITH_TYPE("[('a', '<f4', (9223372036854775807, 3))]"),
			"too large", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tasd_npy npy;
		tasd_err err = parse(rows[i].text, false, &npy);

		ck_assert_msg(err == (rows[i].err ? rows[i].err : -EINVAL),
			"%s: %d", rows[i].text, err);
		ck_assert_msg(strstr(diag.text, rows[i].why), "%s: %s",
			rows[i].text, diag.text);
	}
}
END_TEST

static char *repeat(const char *what, size_t times, const char *end)
{
	struct tasd_buf text = TASD_BUF_EMPTY;
	char *out;

	tasd_buf_str(&text, "{'descr': ");
	for (size_t i = 0; i < times; i++)
		tasd_buf_str(&text, what);
	tasd_buf_str(&text, end);
	out = tasd_buf_steal(&text, NULL);
	ck_assert_ptr_nonnull(out);
	return out;
}

/* tail: the numbers of a shape, and the end of the dict. */
static tasd_err parse_shape(const char *tail, struct tasd_npy *npy)
{
	char text[1024];

	snprintf(text, sizeof(text),
		"{'descr': '<f4', 'fortran_order': False, 'shape': (%s", tail);
	return parse(text, false, npy);
}

/* Nesting, dimensions and parts have their bounds. */
START_TEST(bounds)
{
	struct tasd_npy npy;
	char *text;

	text = repeat("[('a', ", 100000, "");
	ck_assert_int_eq(parse(text, false, &npy), -EINVAL);
	ck_assert_ptr_nonnull(strstr(diag.text, "deep"));
	free(text);
	text = repeat("[('a', (", 100000, "");
	ck_assert_int_eq(parse(text, false, &npy), -EINVAL);
	ck_assert_ptr_nonnull(strstr(diag.text, "deep"));
	free(text);
	text = repeat("(", 100000, "");
	ck_assert_int_eq(parse(text, false, &npy), -EINVAL);
	free(text);
	for (size_t n = 64; n <= 65; n++) {
		text = repeat("1,", n, ")}");
		memmove(text, text + strlen("{'descr': "),
			strlen(text + strlen("{'descr': ")) + 1);
		ck_assert_int_eq(parse_shape(text, &npy),
			n > TASD_NPY_NDIM_MAX ? -EINVAL : 0);
		if (n > TASD_NPY_NDIM_MAX)
			ck_assert_ptr_nonnull(
				strstr(diag.text, "64 dimensions"));
		free(text);
	}
	/* A sub-array multiplies what is to be reversed, within bounds. */
	ck_assert_int_eq(parse_type("[('a', [('x', '>i2'), ('y', '>i4')], "
				    "(30000,))]",
				 &npy),
		0);
	ck_assert_uint_eq(npy.nswaps, 60000);
	ck_assert_int_eq(parse_type("[('a', [('x', '>i2'), ('y', '>i4')], "
				    "(300000000,))]",
				 &npy),
		-EINVAL);
	ck_assert_ptr_nonnull(strstr(diag.text, "too many parts"));
	/* And needs nothing when there is nothing to be reversed. */
	ck_assert_int_eq(parse_type("[('a', [('x', '<i2'), ('y', '<i4')], "
				    "(300000000,))]",
				 &npy),
		0);
}
END_TEST

static tasd_err read_file(
	const void *bytes, size_t len, size_t size, struct tasd_npy *npy)
{
	char *copy = malloc(size + 20);
	struct tasd_source *source = NULL;
	tasd_err err;

	memset(copy, '#', size + 20);
	memcpy(copy + 10, bytes, len < size ? len : size);
	ck_assert_int_eq(tasd_source_memory(copy, size + 20, "m", &source), 0);
	tasd_arena_free(&arena);
	tasd_arena_init(&arena, LIMIT);
	diag.text[0] = '\0';
	err = tasd_npy_read(source, 10, size, &arena, npy, &diag);
	tasd_source_put(source);
	return err;
}

/* A file inside a larger one, of every length. */
START_TEST(files)
{
	static const char text[] =
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
	unsigned char file[200] = "\x93NUMPY\x01\x00";
	size_t header = 10 + sizeof(text) - 1;
	struct tasd_npy npy;

	file[8] = sizeof(text) - 1;
	memcpy(file + 10, text, sizeof(text) - 1);
	for (size_t size = 0; size < header + 8; size++) {
		ck_assert_int_eq(
			read_file(file, sizeof(file), size, &npy), -EINVAL);
		if (size >= 10)
			ck_assert_ptr_nonnull(strstr(diag.text, "truncated"));
	}
	ck_assert_int_eq(read_file(file, sizeof(file), header + 8, &npy), 0);
	ck_assert_uint_eq(npy.header_len, header);
	ck_assert_uint_eq(npy.nbytes, 8);
	/* Bytes behind the data are let be. */
	ck_assert_int_eq(read_file(file, sizeof(file), header + 9, &npy), 0);
	file[6] = 2;
	memmove(file + 12, file + 10, 150);
	file[9] = file[10] = file[11] = 0;
	ck_assert_int_eq(read_file(file, sizeof(file), header + 10, &npy), 0);
	ck_assert_uint_eq(npy.header_len, header + 2);
	file[6] = 3;
	ck_assert_int_eq(read_file(file, sizeof(file), header + 10, &npy), 0);
	file[6] = 4;
	ck_assert_int_eq(
		read_file(file, sizeof(file), header + 10, &npy), -EINVAL);
	file[6] = 0;
	ck_assert_int_eq(
		read_file(file, sizeof(file), header + 10, &npy), -EINVAL);
	file[6] = 2;
	file[7] = 1;
	ck_assert_int_eq(
		read_file(file, sizeof(file), header + 10, &npy), -EINVAL);
	file[7] = 0;
	/* A length that is a lie. */
	memset(file + 8, 0xff, 4);
	ck_assert_int_eq(
		read_file(file, sizeof(file), header + 10, &npy), -EINVAL);
	ck_assert_ptr_nonnull(strstr(diag.text, "more bytes"));
}
END_TEST

/* Longer than what is read at first; longer than what is read at all. */
START_TEST(long_headers)
{
	static const char text[] =
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
	size_t len = 100000, size = 12 + len + 8;
	unsigned char *file = malloc(6 << 20);
	struct tasd_npy npy;

	memset(file, ' ', 6 << 20);
	memcpy(file, "\x93NUMPY\x02\x00\xa0\x86\x01\x00", 12);
	memcpy(file + 12, text, sizeof(text) - 1);
	ck_assert_int_eq(read_file(file, size, size, &npy), 0);
	ck_assert_uint_eq(npy.header_len, 12 + len);
	file[11] = 1;
	file[10] = 0x41;
	ck_assert_int_eq(read_file(file, 6 << 20, 6 << 20, &npy), -EINVAL);
	file[11] = 0;
	ck_assert_int_eq(read_file(file, 6 << 20, 6 << 20, &npy), -EINVAL);
	ck_assert_ptr_nonnull(strstr(diag.text, "is over"));
	free(file);
}
END_TEST

START_TEST(tensors)
{
	const struct tasd_tensor *t;
	struct tasd_npy npy;

	ck_assert_int_eq(parse("{'descr': '<f4', 'fortran_order': True, "
			       "'shape': (3, 4, 5)}",
				 true, &npy),
		0);
	t = tasd_npy_tensor(&npy, 7, 128, &arena);
	ck_assert_int_eq(t->data, TASD_DATA_STRIDED);
	ck_assert_uint_eq(t->extra->stride[0], 1);
	ck_assert_uint_eq(t->extra->stride[1], 3);
	ck_assert_uint_eq(t->extra->stride[2], 12);
	ck_assert_uint_eq(t->extent.offset, 128);
	ck_assert_uint_eq(t->extent.length, 240);
	ck_assert_uint_eq(t->extent.source, 7);
	/* Where both orders are one it is a plain range. */
	ck_assert_int_eq(parse("{'descr': '<f4', 'fortran_order': True, "
			       "'shape': (1, 4, 1)}",
				 true, &npy),
		0);
	t = tasd_npy_tensor(&npy, 0, 0, &arena);
	ck_assert_int_eq(t->data, TASD_DATA_PLAIN);
	ck_assert_ptr_null(t->extra);
	ck_assert_int_eq(parse("{'descr': '<f4', 'fortran_order': True, "
			       "'shape': (0, 4, 2)}",
				 true, &npy),
		0);
	t = tasd_npy_tensor(&npy, 0, 0, &arena);
	ck_assert_int_eq(t->data, TASD_DATA_PLAIN);
	ck_assert_int_eq(parse_type("'>f4'", &npy), 0);
	t = tasd_npy_tensor(&npy, 0, 0, &arena);
	ck_assert_int_eq(t->data, TASD_DATA_STRIDED);
	ck_assert_ptr_null(t->extra->stride);
	ck_assert_str_eq(tasd_tensor_dtype(t), "float32");
	ck_assert_int_eq(parse_type("'>U3'", &npy), 0);
	t = tasd_npy_tensor(&npy, 0, 0, &arena);
	ck_assert_str_eq(tasd_tensor_dtype(t), "<U3");
	ck_assert_str_eq(tasd_tensor_descr(t), "<U3");
	ck_assert_uint_eq(tasd_tensor_item(t), 12);
}
END_TEST

START_TEST(small_arena)
{
	struct tasd_npy npy;
	tasd_err err = 0;

	/* Every limit gives -E2BIG or all of it. */
	for (size_t limit = 0; limit < 8192; limit += 16) {
		static const char text[] =
			"{'descr': [('a', '>i2'), ('b', '>i4')], "
			"'fortran_order': True, 'shape': (3, 4)}";

		tasd_arena_free(&arena);
		tasd_arena_init(&arena, limit);
		err = tasd_npy_parse(
			text, strlen(text), true, &arena, &npy, &diag);
		if (err == 0 && !tasd_npy_tensor(&npy, 0, 0, &arena))
			err = -E2BIG;
		ck_assert(err == 0 || err == -E2BIG);
		if (limit == 0)
			ck_assert_int_eq(err, -E2BIG);
	}
	ck_assert_int_eq(err, 0);
	tasd_arena_free(&arena);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		types,
		structures,
		dicts,
		refused,
		bounds,
		files,
		long_headers,
		tensors,
		small_arena,
		NULL,
	};

	return unit_run("npy-header", tests);
}
