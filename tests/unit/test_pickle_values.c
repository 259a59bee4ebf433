/*
 * Every opcode that pushes or builds, with the value it must give, and numbers
 * as Python prints them.
 */
#include "pickle_unit.h"
#include <math.h>
#include <stdio.h>

START_TEST(constants)
{
	ck_assert_uint_eq(READ("N.").root->type, TASD_PKL_NONE);
	ck_assert_uint_eq(READ("\x88.").root->type, TASD_PKL_TRUE);
	ck_assert_uint_eq(READ("\x89.").root->type, TASD_PKL_FALSE);
	ck_assert_uint_eq(READ("I01\n.").root->type, TASD_PKL_TRUE);
	ck_assert_uint_eq(READ("I00\n.").root->type, TASD_PKL_FALSE);
}
END_TEST

START_TEST(ints)
{
	is_int(READ("K\xff.").root, "255");
	is_int(READ("M\xff\xff.").root, "65535");
	is_int(READ("J\xff\xff\xff\xff.").root, "-1");
	is_int(READ("J\x00\x00\x00\x80.").root, "-2147483648");
	is_int(READ("I-7\n.").root, "-7");
	is_int(READ("I0\n.").root, "0");
	is_int(READ("L12345678901234567890L\n.").root, "12345678901234567890");
	is_int(READ("L-5\n.").root, "-5");
	is_int(READ("\x8a\x00.").root, "0");
	is_int(READ("\x8a\x01\xff.").root, "-1");
	is_int(READ("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.").root,
		"18446744073709551615");
	is_int(READ("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xff.").root,
		"-18446744073709551616");
	/* Wider than it needs to be, yet a small number. */
	is_int(READ("\x8a\x0a\x05\0\0\0\0\0\0\0\0\0.").root, "5");
	is_int(READ("\x8b\x02\x00\x00\x00\x00\x80.").root, "-32768");
	ck_assert_uint_eq(
		READ("\x8a\x08\0\0\0\0\0\0\0\x80.").root->type, TASD_PKL_INT);
	ck_assert_int_eq(
		READ("\x8a\x08\0\0\0\0\0\0\0\x80.").root->i, INT64_MIN);
}
END_TEST

/* 10^n and its neighbours, from text and back. */
START_TEST(long_ints)
{
	for (size_t n = 17; n <= TASD_PKL_INT_DIGITS; n += n < 60 ? 1 : 353) {
		char text[TASD_PKL_INT_DIGITS + 8], want[sizeof(text)];
		int len;

		memset(want, '9', n);
		want[0] = '-';
		want[1] = '7';
		want[n] = '\0';
		len = snprintf(text, sizeof(text), "L%sL\n.", want);
		is_int(read_ok(text, (size_t)len).root, want);
		memset(want, '0', n);
		want[0] = '1';
		len = snprintf(text, sizeof(text), "I%s\n.", want);
		is_int(read_ok(text, (size_t)len).root, want);
	}
}
END_TEST

START_TEST(too_long_to_print)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;
	unsigned char stream[5 + 5000 + 1] = {0x8b, 5000 & 0xff, 5000 >> 8};
	struct got g;

	memset(stream + 5, 0x11, 5000);
	stream[sizeof(stream) - 1] = '.';
	g = read_ok(stream, sizeof(stream));
	ck_assert_uint_eq(g.root->type, TASD_PKL_LONG);
	ck_assert_int_eq(tasd_pkl_int_text(&buf, g.root), -ERANGE);
	ck_assert_uint_eq(buf.len, 0);
	/* Just past it: 10^4300 has one digit more than is printed. */
	stream[1] = 1787 & 0xff;
	stream[2] = 1787 >> 8;
	memset(stream + 5, 0x7f, 1787);
	stream[5 + 1787] = '.';
	g = read_ok(stream, 5 + 1787 + 1);
	ck_assert_int_eq(tasd_pkl_int_text(&buf, g.root), -ERANGE);
	ck_assert_uint_eq(buf.len, 0);
}
END_TEST

static void prints(double f, const char *want)
{
	struct tasd_buf buf = TASD_BUF_EMPTY;

	tasd_pkl_float_text(&buf, f);
	tasd_buf_char(&buf, '\0');
	ck_assert_str_eq(buf.bytes, want);
	tasd_buf_free(&buf);
}

START_TEST(floats)
{
	ck_assert_double_eq(READ("G\x3f\xf8\0\0\0\0\0\0.").root->f, 1.5);
	ck_assert_double_eq(READ("F-1.5e3\n.").root->f, -1500);
	ck_assert_double_eq(READ("F.5\n.").root->f, 0.5);
	ck_assert_double_eq(READ("F2.\n.").root->f, 2);
	ck_assert(isnan(READ("Fnan\n.").root->f));
	ck_assert(isinf(READ("F-Infinity\n.").root->f));
	prints(0.1, "0.1");
	prints(-0.0, "-0.0");
	prints(1, "1.0");
	prints(1e15, "1000000000000000.0");
	prints(1e16, "1e+16");
	prints(123456789012345680.0, "1.2345678901234568e+17");
	prints(0.0001, "0.0001");
	prints(0.00001, "1e-05");
	prints(1.5e-7, "1.5e-07");
	prints(5e-324, "5e-324");
	prints(1.7976931348623157e308, "1.7976931348623157e+308");
	prints(2.2250738585072014e-308, "2.2250738585072014e-308");
	/* Sixteen digits, of which the nearest do not read back. */
	prints(0x1p-44, "5.684341886080802e-14");
	prints(9007199254740993.0, "9007199254740992.0");
	prints(100.25, "100.25");
	prints(INFINITY, "inf");
	prints(-INFINITY, "-inf");
	prints(NAN, "nan");
}
END_TEST

START_TEST(strings)
{
	IS_TEXT(READ("X\x02\0\0\0\xc3\xa9.").root, TASD_PKL_STR, "\xc3\xa9");
	IS_TEXT(READ("\x8c\x01"
		     "a.")
			.root,
		TASD_PKL_STR, "a");
	IS_TEXT(READ("\x8d\x01\0\0\0\0\0\0\0a.").root, TASD_PKL_STR, "a");
	/* As surrogatepass writes it. */
	IS_TEXT(READ("\x8c\x04"
		     "a\xed\xa0\x80.")
			.root,
		TASD_PKL_STR, "a\xed\xa0\x80");
	IS_TEXT(READ("Va\\u00e9\\U0001f600\\\\u0041\xe9\n.").root, TASD_PKL_STR,
		"a\xc3\xa9\xf0\x9f\x98\x80\\\\u0041\xc3\xa9");
	IS_TEXT(READ("V\\\n.").root, TASD_PKL_STR, "\\");
	IS_TEXT(READ("V\n.").root, TASD_PKL_STR, "");
	IS_TEXT(READ("X\x03\0\0\0a\0b.").root, TASD_PKL_STR, "a\0b");
}
END_TEST

START_TEST(python2)
{
	struct got g = READ("U\x02"
			    "ab.");

	IS_TEXT(g.root, TASD_PKL_STR, "ab");
	ck_assert_uint_eq(g.root->flags, TASD_PKL_PY2);
	g = READ("T\x02\0\0\0a\xff.");
	IS_TEXT(g.root, TASD_PKL_BYTES, "a\xff");
	ck_assert_uint_eq(g.root->flags, TASD_PKL_PY2);
	IS_TEXT(READ("S'a\\n\\x41\\101\\q\\'\\\\'\n.").root, TASD_PKL_STR,
		"a\nAA\\q'\\");
	IS_TEXT(READ("S\"a'b\"\n.").root, TASD_PKL_STR, "a'b");
	IS_TEXT(READ("S''\n.").root, TASD_PKL_STR, "");
	IS_TEXT(READ("S'\\377\\7z'\n.").root, TASD_PKL_BYTES, "\xff\007z");
}
END_TEST

START_TEST(bytes)
{
	IS_TEXT(READ("C\x02\0\xff.").root, TASD_PKL_BYTES, "\0\xff");
	IS_TEXT(READ("B\x01\0\0\0z.").root, TASD_PKL_BYTES, "z");
	IS_TEXT(READ("\x8e\x01\0\0\0\0\0\0\0z.").root, TASD_PKL_BYTES, "z");
	IS_TEXT(READ("\x96\x01\0\0\0\0\0\0\0z.").root, TASD_PKL_BYTEARRAY, "z");
}
END_TEST

static void is_seq(
	const struct tasd_pkl *value, enum tasd_pkl_type type, uint32_t n)
{
	ck_assert_uint_eq(value->type, type);
	ck_assert_uint_eq(value->seq.n, n);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_int_eq(value->seq.at[i]->i, i + 1);
}

START_TEST(sequences)
{
	is_seq(READ(").").root, TASD_PKL_TUPLE, 0);
	is_seq(READ("K\1\x85.").root, TASD_PKL_TUPLE, 1);
	is_seq(READ("K\1K\2\x86.").root, TASD_PKL_TUPLE, 2);
	is_seq(READ("K\1K\2K\3\x87.").root, TASD_PKL_TUPLE, 3);
	is_seq(READ("(K\1K\2t.").root, TASD_PKL_TUPLE, 2);
	is_seq(READ("(t.").root, TASD_PKL_TUPLE, 0);
	is_seq(READ("].").root, TASD_PKL_LIST, 0);
	is_seq(READ("(K\1K\2l.").root, TASD_PKL_LIST, 2);
	is_seq(READ("]K\1aK\2a.").root, TASD_PKL_LIST, 2);
	is_seq(READ("](K\1K\2e(e(K\3e.").root, TASD_PKL_LIST, 3);
	is_seq(READ("\x8f(K\1K\2K\1\x90(\x90.").root, TASD_PKL_SET, 2);
	is_seq(READ("(K\1K\2K\2\x91.").root, TASD_PKL_FROZENSET, 2);
}
END_TEST

START_TEST(stack)
{
	is_int(READ("K\1K\2"
		    "0.")
			.root,
		"1");
	is_int(READ("K\1(K\2K\3"
		    "1.")
			.root,
		"1");
	/* POP takes a MARK that is on top. */
	is_int(READ("K\1(0.").root, "1");
	ck_assert_uint_eq(READ("]2\x86.").root->seq.at[0]->type, TASD_PKL_LIST);
	/* What lies below what STOP takes does not matter. */
	is_int(READ("NNK\5.").root, "5");
}
END_TEST

START_TEST(objects)
{
	struct got g = READ("cm\nn\n)R.");

	ck_assert_uint_eq(g.root->type, TASD_PKL_OBJECT);
	ck_assert_uint_eq(g.root->how, TASD_PKL_REDUCE);
	ck_assert(tasd_pkl_is_global(g.root->object->callable, "m", "n"));
	ck_assert(!tasd_pkl_is_global(g.root->object->callable, "m", "nn"));
	ck_assert_uint_eq(g.root->object->args->seq.n, 0);
	ck_assert_ptr_null(g.root->object->more);
	g = READ("cm\nn\nK\1\x85\x81.");
	ck_assert_uint_eq(g.root->how, TASD_PKL_NEWOBJ);
	is_seq(g.root->object->args, TASD_PKL_TUPLE, 1);
	g = READ("cm\nn\nK\1\x85}\x8c\1kNs\x92.");
	ck_assert_uint_eq(g.root->how, TASD_PKL_NEWOBJ_EX);
	ck_assert_uint_eq(g.root->object->more->kwargs->map.n, 1);
	g = READ("(K\1K\2im\nn\n.");
	ck_assert_uint_eq(g.root->how, TASD_PKL_INST);
	is_seq(g.root->object->args, TASD_PKL_TUPLE, 2);
	g = READ("(cm\nn\nK\1o.");
	ck_assert_uint_eq(g.root->how, TASD_PKL_OBJ);
	is_seq(g.root->object->args, TASD_PKL_TUPLE, 1);
	/* An object may be what is called. */
	g = READ("cm\nn\n)R)R.");
	ck_assert_uint_eq(g.root->object->callable->type, TASD_PKL_OBJECT);
}
END_TEST

START_TEST(filled_objects)
{
	struct got g = READ("cm\nn\n)R}bK\1bK\1aK\2a(K\3e\x8c\1aNs(\x8c\1a\x88"
			    "\x8c\1bNu(K\4\x90.");
	const struct tasd_pkl_more *more;

	ck_assert_uint_eq(g.root->type, TASD_PKL_OBJECT);
	more = g.root->object->more;
	ck_assert_uint_eq(more->states.n, 2);
	ck_assert_uint_eq(more->states.at[0]->type, TASD_PKL_DICT);
	is_int(more->states.at[1], "1");
	ck_assert_uint_eq(more->items.n, 4);
	ck_assert_uint_eq(more->pairs.n, 2);
	ck_assert_uint_eq(more->pairs.at[0].value->type, TASD_PKL_TRUE);
	ck_assert_ptr_eq(
		tasd_pkl_get(&more->pairs, "b"), more->pairs.at[1].value);
	ck_assert_ptr_null(tasd_pkl_get(&more->pairs, "c"));
}
END_TEST

START_TEST(persistent)
{
	struct got g = READ("K\5Q.");

	ck_assert_uint_eq(g.root->type, TASD_PKL_PERSID);
	is_int(g.root->pid, "5");
	g = READ("Pabc\n.");
	IS_TEXT(g.root->pid, TASD_PKL_STR, "abc");
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {constants, ints, long_ints,
		too_long_to_print, floats, strings, python2, bytes, sequences,
		stack, objects, filled_objects, persistent, NULL};

	return unit_run("pickle-values", tests);
}
