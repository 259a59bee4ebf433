/*
 * Zips made here, right and wrong in every field that is looked at.  Which of
 * several equal names is found was measured with PyTorch's own reader.
 */
#include "unit.h"
#include "zip.h"
#include <base/buf.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define LIMIT ((size_t)64 << 20)

/* One member: what is written, and what the directory says instead. */
struct member {
	const char *name;
	const char *data;
	size_t len;
	bool deflate, descriptor;
	uint16_t align;
	/* Said instead of the truth when not 0; ZERO says 0. */
	const char *local_name;
	uint32_t cd_csize, cd_usize, cd_offset;
	uint16_t flags, local_flags, method, local_method, local_extra;
	uint32_t attributes;
	size_t name_len;
};

#define ZERO UINT32_MAX
#define SAY(value, truth)                                                      \
	((value) ? (value) == ZERO ? 0 : (value) : (uint32_t)(truth))

struct zip_file {
	struct tasd_buf bytes, directory;
	uint32_t count;
	uint64_t directory_at;
};

static void le(struct tasd_buf *buf, uint64_t value, unsigned int width)
{
	for (unsigned int i = 0; i < width; i++)
		tasd_buf_char(buf, i < 8 ? (char)(value >> 8 * i) : 0);
}

static char *deflated(const char *data, size_t len, size_t *ret_len)
{
	char *out = malloc(len + 1000);
	z_stream z = {.zalloc = NULL};

	ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, -15, 8, 0), Z_OK);
	z.next_in = (unsigned char *)(uintptr_t)data;
	z.avail_in = (unsigned int)len;
	z.next_out = (unsigned char *)out;
	z.avail_out = (unsigned int)len + 1000;
	ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	*ret_len = z.total_out;
	deflateEnd(&z);
	return out;
}

static void add(struct zip_file *f, struct member m)
{
	size_t at = f->bytes.len, len = m.len, pad = 0;
	size_t name_len = m.name_len ? m.name_len : strlen(m.name);
	const char *local = m.local_name ? m.local_name : m.name;
	size_t local_len = m.local_name ? strlen(local) : name_len;
	uint32_t crc = (uint32_t)crc32(0, (const void *)m.data, (unsigned)len);
	uint16_t method = m.method ? m.method : m.deflate ? 8 : 0;
	uint16_t flags = (uint16_t)(m.flags | (m.descriptor ? 8 : 0));
	char *packed = m.deflate ? deflated(m.data, m.len, &len) : NULL;

	if (m.align)
		pad = (m.align - (at + 34 + local_len) % m.align) % m.align;
	le(&f->bytes, 0x04034b50, 4);
	le(&f->bytes, 20, 2);
	le(&f->bytes, m.local_flags ? m.local_flags : flags, 2);
	le(&f->bytes, m.local_method ? m.local_method : method, 2);
	le(&f->bytes, 0x210000, 4);
	le(&f->bytes, m.descriptor ? 0 : crc, 4);
	le(&f->bytes, m.descriptor ? 0 : len, 4);
	le(&f->bytes, m.descriptor ? 0 : m.len, 4);
	le(&f->bytes, local_len, 2);
	le(&f->bytes, m.local_extra ? m.local_extra : m.align ? pad + 4 : 0, 2);
	tasd_buf_add(&f->bytes, local, local_len);
	if (m.align) {
		le(&f->bytes, 0x4246, 2);
		le(&f->bytes, pad, 2);
		for (size_t i = 0; i < pad; i++)
			tasd_buf_char(&f->bytes, 'Z');
	}
	tasd_buf_add(&f->bytes, packed ? packed : m.data, len);
	if (m.descriptor) {
		le(&f->bytes, 0x08074b50, 4);
		le(&f->bytes, crc, 4);
		le(&f->bytes, len, 4);
		le(&f->bytes, m.len, 4);
	}
	free(packed);
	le(&f->directory, 0x02014b50, 4);
	le(&f->directory, 0x140014, 4);
	le(&f->directory, flags, 2);
	le(&f->directory, method, 2);
	le(&f->directory, 0x210000, 4);
	le(&f->directory, crc, 4);
	le(&f->directory, SAY(m.cd_csize, len), 4);
	le(&f->directory, SAY(m.cd_usize, m.len), 4);
	le(&f->directory, name_len, 2);
	le(&f->directory, 0, 8);
	le(&f->directory, m.attributes, 4);
	le(&f->directory, SAY(m.cd_offset, at), 4);
	tasd_buf_add(&f->directory, m.name, name_len);
	f->count++;
}

static void add_text(struct zip_file *f, const char *name, const char *text)
{
	add(f, (struct member){
		       .name = name, .data = text, .len = strlen(text)});
}

static void end(struct zip_file *f)
{
	f->directory_at = f->bytes.len;
	tasd_buf_add(&f->bytes, f->directory.bytes, f->directory.len);
	le(&f->bytes, 0x06054b50, 4);
	le(&f->bytes, 0, 4);
	le(&f->bytes, f->count, 2);
	le(&f->bytes, f->count, 2);
	le(&f->bytes, f->directory.len, 4);
	le(&f->bytes, f->directory_at, 4);
	le(&f->bytes, 0, 2);
	tasd_buf_free(&f->directory);
}

struct opened {
	struct tasd_arena arena;
	struct tasd_zip zip;
	struct tasd_diag diag;
	tasd_err err;
};

static struct opened *open_bytes(const void *bytes, size_t len, size_t limit)
{
	struct opened *o = calloc(1, sizeof(*o));
	struct tasd_source *source;
	char *copy = malloc(len + 1);

	memcpy(copy, bytes, len);
	ck_assert_int_eq(tasd_source_memory(copy, len, "f.zip", &source), 0);
	tasd_arena_init(&o->arena, limit);
	o->err = tasd_zip_open(source, &o->arena, &o->zip, &o->diag);
	tasd_source_put(source);
	return o;
}

static struct opened *open_zip(const struct zip_file *f)
{
	return open_bytes(f->bytes.bytes, f->bytes.len, LIMIT);
}

static void done(struct opened *o)
{
	if (!o->err)
		tasd_zip_close(&o->zip);
	tasd_arena_free(&o->arena);
	free(o);
}

static struct tasd_zip_record *locate(struct opened *o, const char *name)
{
	struct tasd_zip_record *r = tasd_zip_find(&o->zip, name, strlen(name));
	struct tasd_zip_record *list[] = {r};

	ck_assert_msg(r != NULL, "%s is not found", name);
	ck_assert_int_eq(tasd_zip_locate(&o->zip, list, 1), 0);
	return r;
}

static void expect(struct opened *o, const char *name, const char *text)
{
	struct tasd_zip_record *r = locate(o, name);
	char *bytes;
	size_t len;

	ck_assert_msg(tasd_zip_usable(r, &o->diag) == 0, "%s", o->diag.text);
	ck_assert_int_eq(tasd_zip_read(&o->zip, r, 1 << 20, &bytes, &len), 0);
	ck_assert_uint_eq(len, strlen(text));
	ck_assert_str_eq(bytes, text);
	free(bytes);
}

static void expect_trouble(
	struct opened *o, const char *name, enum tasd_zip_trouble trouble)
{
	struct tasd_zip_record *r = locate(o, name);

	ck_assert_msg(r->trouble == trouble, "%s: %d", name, r->trouble);
	ck_assert_int_eq(tasd_zip_usable(r, &o->diag), -EINVAL);
	ck_assert_ptr_nonnull(strstr(o->diag.text, "record \""));
}

#define LONG "a long text, a long text, a long text, a long text, a long text"

START_TEST(members)
{
	struct zip_file f = {.count = 0};
	struct opened *o;
	struct tasd_zip_record *r;
	char *bytes;
	size_t len;

	add_text(&f, "archive/data.pkl", "pickle");
	add(&f, (struct member){.name = "archive/data/0",
			.data = LONG,
			.len = sizeof(LONG) - 1,
			.align = 64,
			.descriptor = true});
	add(&f, (struct member){.name = "archive/code",
			.data = LONG,
			.len = sizeof(LONG) - 1,
			.deflate = true,
			.descriptor = true});
	add(&f, (struct member){.name = "archive/empty", .data = ""});
	add(&f, (struct member){.name = "archive/folder/", .data = ""});
	end(&f);
	o = open_zip(&f);
	ck_assert_msg(o->err == 0, "%s", o->diag.text);
	ck_assert_uint_eq(o->zip.nrecords, 5);
	expect(o, "archive/data.pkl", "pickle");
	expect(o, "archive/data/0", LONG);
	expect(o, "archive/code", LONG);
	expect(o, "archive/empty", "");
	expect(o, "archive/folder/", "");
	r = locate(o, "archive/data/0");
	ck_assert_uint_eq(tasd_zip_data(r) % 64, 0);
	ck_assert_int_eq(tasd_zip_read(&o->zip, r, 10, &bytes, &len), -E2BIG);
	/* The case of a name does not matter, its length does. */
	ck_assert_ptr_eq(tasd_zip_find(&o->zip, "ARCHIVE/Data/0", 14), r);
	ck_assert_ptr_null(tasd_zip_find(&o->zip, "archive/data/", 13));
	ck_assert_ptr_null(tasd_zip_find(&o->zip, "archive/data/00", 15));
	ck_assert_ptr_null(tasd_zip_find(&o->zip, "", 0));
	done(o);
	tasd_buf_free(&f.bytes);
}
END_TEST

/* Cut anywhere it is no zip; nothing is read past the end. */
START_TEST(cut)
{
	struct zip_file f = {.count = 0};

	for (int i = 0; i < 20; i++) {
		char name[40];

		sprintf(name, "archive/data/%d", i);
		add_text(&f, name, LONG);
	}
	end(&f);
	for (size_t len = 0; len < f.bytes.len; len++) {
		struct opened *o = open_bytes(f.bytes.bytes, len, LIMIT);

		ck_assert_int_eq(o->err, -EINVAL);
		ck_assert(strstr(o->diag.text, "truncated") || len < 22);
		done(o);
	}
	/* Zeros where the tail was. */
	memset(f.bytes.bytes + f.bytes.len / 2, 0,
		f.bytes.len - f.bytes.len / 2);
	for (int i = 0; i < 2; i++) {
		struct opened *o = open_zip(&f);

		ck_assert_int_eq(o->err, -EINVAL);
		done(o);
	}
	tasd_buf_free(&f.bytes);
}
END_TEST

static struct zip_file two(void)
{
	struct zip_file f = {.count = 0};

	add_text(&f, "archive/a", "first");
	add_text(&f, "archive/b", "second");
	end(&f);
	return f;
}

static tasd_err open_with_tail(size_t body, size_t tail)
{
	struct zip_file f = {.count = 0};
	char *zeros = calloc(body + tail + 1, 1);
	struct opened *o;
	tasd_err err;

	add(&f, (struct member){.name = "a/a", .data = zeros, .len = body});
	end(&f);
	tasd_buf_add(&f.bytes, zeros, tail);
	o = open_zip(&f);
	err = o->err;
	done(o);
	tasd_buf_free(&f.bytes);
	free(zeros);
	return err;
}

START_TEST(end_records)
{
	struct zip_file f = two();
	struct opened *o;
	char copy[22];

	/* A comment, right or not, and bytes behind it. */
	tasd_buf_str(&f.bytes, "hello");
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	expect(o, "archive/b", "second");
	done(o);
	f.bytes.len -= 5;
	/* A second end record: the last one counts. */
	memcpy(copy, f.bytes.bytes + f.bytes.len - 22, 22);
	tasd_buf_add(&f.bytes, copy, 22);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	expect(o, "archive/a", "first");
	done(o);
	memset(f.bytes.bytes + f.bytes.len - 14, 0, 12);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	ck_assert_uint_eq(o->zip.nrecords, 0);
	done(o);
	/* Its signature alone, too close to the end for a record. */
	f.bytes.len -= 22;
	tasd_buf_add(&f.bytes, "PK\5\6xxxxxxxxxxxx", 16);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	expect(o, "archive/b", "second");
	done(o);
	tasd_buf_free(&f.bytes);
	/* Something in front: places are counted from the file's start. */
	f = two();
	tasd_buf_add(&f.bytes, "", 0);
	{
		struct tasd_buf junk = TASD_BUF_EMPTY;

		tasd_buf_str(&junk, "JUNKJUNKJUNKJUNK");
		tasd_buf_add(&junk, f.bytes.bytes, f.bytes.len);
		o = open_bytes(junk.bytes, junk.len, LIMIT);
		ck_assert_int_eq(o->err, -EINVAL);
		done(o);
		tasd_buf_free(&junk);
	}
	tasd_buf_free(&f.bytes);
	/* How far back is looked, as measured with miniz. */
	ck_assert_int_eq(open_with_tail(200000, 69562), 0);
	ck_assert_int_eq(open_with_tail(200000, 69563), -EINVAL);
	ck_assert_int_eq(open_with_tail(0, 4074), 0);
	ck_assert_int_eq(open_with_tail(0, 4075), -EINVAL);
}
END_TEST

static tasd_err open_patched(
	size_t from_end, unsigned int width, uint64_t value)
{
	struct zip_file f = two();
	struct opened *o;
	tasd_err err;

	for (unsigned int i = 0; i < width; i++)
		f.bytes.bytes[f.bytes.len - from_end + i] =
			(char)(value >> 8 * i);
	o = open_zip(&f);
	err = o->err;
	done(o);
	tasd_buf_free(&f.bytes);
	return err;
}

START_TEST(end_record_fields)
{
	ck_assert_int_eq(open_patched(2, 2, 0), 0);
	/* Volumes: 0 and 0, or 1 and 1. */
	ck_assert_int_eq(open_patched(18, 2, 1), -EINVAL);
	ck_assert_int_eq(open_patched(16, 2, 1), -EINVAL);
	ck_assert_int_eq(open_patched(18, 4, 0x00020002), -EINVAL);
	ck_assert_int_eq(open_patched(18, 4, 0x00010001), 0);
	/* Counts: on this volume and in all. */
	ck_assert_int_eq(open_patched(14, 2, 1), -EINVAL);
	ck_assert_int_eq(open_patched(14, 4, 0x00030003), -EINVAL);
	ck_assert_int_eq(open_patched(14, 4, 0xffffffff), -EINVAL);
	ck_assert_int_eq(open_patched(14, 4, 0x00010001), 0);
	/* Size and place of the directory. */
	ck_assert_int_eq(open_patched(10, 4, 0x7fffffff), -EINVAL);
	ck_assert_int_eq(open_patched(10, 4, 91), -EINVAL);
	ck_assert_int_eq(open_patched(6, 4, 0x7ffffff0), -EINVAL);
	ck_assert_int_eq(open_patched(6, 4, 0), -EINVAL);
	ck_assert_int_eq(open_patched(6, 4, 0xffffffff), -EINVAL);
	/* A record of the directory: its signature, its lengths. */
	ck_assert_int_eq(open_patched(22 + 55, 1, 'x'), -EINVAL);
	ck_assert_int_eq(open_patched(22 + 55 - 28, 2, 1000), -EINVAL);
	ck_assert_int_eq(open_patched(22 + 55 - 30, 2, 1000), -EINVAL);
	ck_assert_int_eq(open_patched(22 + 55 - 32, 2, 1000), -EINVAL);
}
END_TEST

/* Sizes, places and counts in ZIP64's fields, in a file that needs none. */
static struct zip_file zip64(
	uint64_t csize, uint64_t offset, uint16_t field_len)
{
	struct zip_file f = {.count = 0};
	uint64_t at;

	add_text(&f, "archive/a", "first");
	f.directory.len = 0;
	le(&f.directory, 0x02014b50, 4);
	le(&f.directory, 0x2d002d, 4);
	le(&f.directory, 0, 8);
	le(&f.directory, 0, 4);
	le(&f.directory, UINT32_MAX, 4);
	le(&f.directory, UINT32_MAX, 4);
	le(&f.directory, 9, 2);
	le(&f.directory, 6 + 4 + 24, 2);
	le(&f.directory, 0, 10);
	le(&f.directory, UINT32_MAX, 4);
	tasd_buf_str(&f.directory, "archive/a");
	/* Another field first. */
	le(&f.directory, 0x4246, 2);
	le(&f.directory, 2, 2);
	le(&f.directory, 0, 2);
	le(&f.directory, 1, 2);
	le(&f.directory, field_len, 2);
	le(&f.directory, csize, 8);
	le(&f.directory, csize, 8);
	le(&f.directory, offset, 8);
	f.directory_at = f.bytes.len;
	tasd_buf_add(&f.bytes, f.directory.bytes, f.directory.len);
	at = f.bytes.len;
	le(&f.bytes, 0x06064b50, 4);
	le(&f.bytes, 44, 8);
	le(&f.bytes, 0x2d002d, 4);
	le(&f.bytes, 0, 8);
	le(&f.bytes, 1, 8);
	le(&f.bytes, 1, 8);
	le(&f.bytes, f.directory.len, 8);
	le(&f.bytes, f.directory_at, 8);
	le(&f.bytes, 0x07064b50, 4);
	le(&f.bytes, 0, 4);
	le(&f.bytes, at, 8);
	le(&f.bytes, 1, 4);
	le(&f.bytes, 0x06054b50, 4);
	le(&f.bytes, 0, 4);
	le(&f.bytes, UINT32_MAX, 4);
	le(&f.bytes, UINT32_MAX, 4);
	le(&f.bytes, UINT32_MAX, 4);
	le(&f.bytes, 0, 2);
	tasd_buf_free(&f.directory);
	return f;
}

static tasd_err open_zip64_with(size_t from_end, uint8_t value)
{
	struct zip_file f = zip64(5, 0, 24);
	struct opened *o;
	tasd_err err;

	f.bytes.bytes[f.bytes.len - from_end] = (char)value;
	o = open_zip(&f);
	err = o->err;
	done(o);
	tasd_buf_free(&f.bytes);
	return err;
}

START_TEST(large_fields)
{
	struct zip_file f = zip64(5, 0, 24);
	struct opened *o = open_zip(&f);

	ck_assert_msg(o->err == 0, "%s", o->diag.text);
	expect(o, "archive/a", "first");
	done(o);
	tasd_buf_free(&f.bytes);
	f = zip64((uint64_t)1 << 40, 0, 24);
	o = open_zip(&f);
	expect_trouble(o, "archive/a", TASD_ZIP_OUTSIDE);
	done(o);
	tasd_buf_free(&f.bytes);
	f = zip64(5, UINT64_MAX - 3, 24);
	o = open_zip(&f);
	expect_trouble(o, "archive/a", TASD_ZIP_OUTSIDE);
	done(o);
	tasd_buf_free(&f.bytes);
	f = zip64(UINT64_MAX - 20, 0, 24);
	o = open_zip(&f);
	expect_trouble(o, "archive/a", TASD_ZIP_OUTSIDE);
	done(o);
	tasd_buf_free(&f.bytes);
	/* The field ends too soon for the place; then within a field. */
	f = zip64(5, 0, 16);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	expect_trouble(o, "archive/a", TASD_ZIP_EXTRA);
	done(o);
	tasd_buf_free(&f.bytes);
	f = zip64(5, 0, 25);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, -EINVAL);
	done(o);
	tasd_buf_free(&f.bytes);
	/* The record and its locator: from the end 22 + 20 + 56. */
	ck_assert_int_eq(open_zip64_with(22 + 20 + 56 - 4, 43), -EINVAL);
	ck_assert_int_eq(open_zip64_with(22 + 20 + 56 - 4, 45), 0);
	ck_assert_int_eq(open_zip64_with(22 + 4, 2), -EINVAL);
	ck_assert_int_eq(open_zip64_with(22 + 12 - 5, 1), -EINVAL);
	ck_assert_int_eq(open_zip64_with(22 + 20 + 56 - 32 - 5, 1), -EINVAL);
	ck_assert_int_eq(open_zip64_with(22 + 20 + 56 - 40 - 5, 1), -EINVAL);
	ck_assert_int_eq(open_zip64_with(22 + 20 + 56 - 48 - 7, 1), -EINVAL);
	/* Not a locator, not a record: then the old record counts. */
	ck_assert_int_eq(open_zip64_with(22 + 20, 0), -EINVAL);
	ck_assert_int_eq(open_zip64_with(22 + 20 + 56, 0), -EINVAL);
}
END_TEST

START_TEST(troubles)
{
	static const char text[] = "some text that is not so short";
	const size_t n = sizeof(text) - 1;
	const struct {
		struct member m;
		enum tasd_zip_trouble trouble;
	} rows[] = {
		{{.cd_csize = ZERO - 1, .cd_usize = ZERO - 1},
			TASD_ZIP_OUTSIDE},
		{{.cd_csize = 0x7fffffff, .cd_usize = 0x7fffffff},
			TASD_ZIP_OUTSIDE},
		{{.cd_offset = 0x7ffffff0}, TASD_ZIP_OUTSIDE},
		{{.local_extra = 0xffff}, TASD_ZIP_OUTSIDE},
		{{.cd_csize = 10}, TASD_ZIP_SIZES},
		{{.cd_usize = 10}, TASD_ZIP_SIZES},
		{{.deflate = true, .cd_csize = ZERO}, TASD_ZIP_SIZES},
		{{.deflate = true, .cd_usize = 1 << 20}, TASD_ZIP_SIZES},
		{{.flags = 1}, TASD_ZIP_ENCRYPTED},
		{{.flags = 1, .local_flags = 8}, TASD_ZIP_ENCRYPTED},
		{{.flags = 0x20}, TASD_ZIP_ENCRYPTED},
		{{.flags = 0x40}, TASD_ZIP_ENCRYPTED},
		{{.flags = 0x2000}, TASD_ZIP_ENCRYPTED},
		{{.method = 99}, TASD_ZIP_METHOD},
		{{.method = 12}, TASD_ZIP_METHOD},
		{{.local_method = 8}, TASD_ZIP_DISAGREES},
		{{.local_flags = 1}, TASD_ZIP_DISAGREES},
		{{.local_name = "archive/data/9"}, TASD_ZIP_NAME},
		{{.local_name = "archive/data/00"}, TASD_ZIP_NAME},
		{{.attributes = 0x10}, TASD_ZIP_FOLDER},
		{{.cd_offset = 40}, TASD_ZIP_OVERLAPS},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct zip_file f = {.count = 0};
		struct member m = rows[i].m;
		struct opened *o;

		add_text(&f, "archive/version", "3\n");
		m.name = "archive/data/0";
		m.data = text;
		m.len = n;
		add(&f, m);
		add_text(&f, "archive/last", "last");
		end(&f);
		o = open_zip(&f);
		ck_assert_msg(o->err == 0, "%zu: %s", i, o->diag.text);
		expect_trouble(o, "archive/data/0", rows[i].trouble);
		/* What it does not lie on is as good as before. */
		expect(o, "archive/last", "last");
		if (rows[i].trouble != TASD_ZIP_OVERLAPS)
			expect(o, "archive/version", "3\n");
		done(o);
		tasd_buf_free(&f.bytes);
	}
}
END_TEST

/* A name that leads into what another name stands for. */
START_TEST(crafted_places)
{
	static const uint32_t offsets[] = {ZERO, 1, 30, 46, 60, 100};

	for (size_t i = 0; i < 6; i++) {
		struct zip_file f = {.count = 0};
		struct opened *o;

		add_text(&f, "archive/data.pkl", LONG LONG);
		add(&f, (struct member){.name = "archive/data/0",
				.data = "weights",
				.len = 7,
				.cd_offset = offsets[i]});
		end(&f);
		o = open_zip(&f);
		ck_assert_int_eq(o->err, 0);
		expect_trouble(o, "archive/data/0", TASD_ZIP_OVERLAPS);
		expect_trouble(o, "archive/data.pkl", TASD_ZIP_OVERLAPS);
		done(o);
		tasd_buf_free(&f.bytes);
	}
}
END_TEST

/* A record that is long enough to lie on several. */
START_TEST(long_overlap)
{
	struct zip_file f = {.count = 0};
	struct opened *o;

	add_text(&f, "a/0", "zero");
	add(&f, (struct member){.name = "a/1",
			.data = "one",
			.len = 3,
			.cd_csize = 100,
			.cd_usize = 100});
	add_text(&f, "a/2", "two");
	add_text(&f, "a/3", "three");
	add_text(&f, "a/4", LONG LONG);
	add_text(&f, "a/5", "five");
	end(&f);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	expect(o, "a/0", "zero");
	expect_trouble(o, "a/1", TASD_ZIP_OVERLAPS);
	expect_trouble(o, "a/2", TASD_ZIP_OVERLAPS);
	expect_trouble(o, "a/3", TASD_ZIP_OVERLAPS);
	expect_trouble(o, "a/4", TASD_ZIP_OVERLAPS);
	expect(o, "a/5", "five");
	done(o);
	tasd_buf_free(&f.bytes);
}
END_TEST

/* n records of one name, then `version`, then others: which is found. */
static void expect_found(int n, int others, const char *text)
{
	struct zip_file f = {.count = 0};
	struct opened *o;
	char name[40], data[16];

	for (int i = 0; i < n; i++) {
		sprintf(data, "%d", i);
		add_text(&f, "archive/data.pkl", data);
	}
	add_text(&f, "archive/version", "3\n");
	for (int i = 0; i < others; i++) {
		sprintf(name, "archive/data/%d", i);
		add_text(&f, name, "x");
	}
	end(&f);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	expect(o, "archive/data.pkl", text);
	expect(o, "archive/version", "3\n");
	for (int i = 0; i < others; i++) {
		sprintf(name, "archive/data/%d", i);
		expect(o, name, "x");
	}
	ck_assert_ptr_null(tasd_zip_find(&o->zip, "archive/none", 12));
	done(o);
	tasd_buf_free(&f.bytes);
}

START_TEST(names_twice)
{
	static const char *const alone[] = {"0", "2", "3", "3", "4", "4", "5"};
	static const char *const more[] = {"0", "2", "2", "3", "2", "3", "7"};
	struct zip_file f = {.count = 0};
	struct opened *o;

	for (int n = 2; n <= 8; n++) {
		expect_found(n, 0, alone[n - 2]);
		expect_found(n, 5, more[n - 2]);
	}
	/* Names that differ by their case are one. */
	add_text(&f, "archive/DATA.PKL", "upper");
	add_text(&f, "archive/data.pkl", "lower");
	add_text(&f, "archive/version", "3\n");
	end(&f);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	expect(o, "archive/data.pkl", "upper");
	done(o);
	tasd_buf_free(&f.bytes);
}
END_TEST

START_TEST(odd_names)
{
	static const char nul[] = "archive/data.pkl\0x";
	struct zip_file f = {.count = 0};
	struct opened *o;
	char *name = malloc(65536);

	add(&f, (struct member){.name = nul,
			.name_len = sizeof(nul) - 1,
			.data = "nul",
			.len = 3});
	add_text(&f, "archive/data.pkl", "good");
	add_text(&f, "\xff\xfe", "bytes");
	memset(name, 'n', 65535);
	name[65535] = '\0';
	add_text(&f, name, "long");
	name[300] = 'N';
	name[301] = 'm';
	add_text(&f, name, "other");
	end(&f);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	expect(o, "archive/data.pkl", "good");
	expect(o, "\xff\xfe", "bytes");
	expect(o, name, "other");
	name[301] = 'n';
	expect(o, name, "long");
	ck_assert_ptr_eq(
		tasd_zip_find(&o->zip, nul, sizeof(nul) - 1), o->zip.records);
	done(o);
	tasd_buf_free(&f.bytes);
	free(name);
}
END_TEST

/* Many records: few reads, little memory, any order. */
START_TEST(many)
{
	const uint32_t n = 50000;
	struct zip_file f = {.count = 0};
	struct tasd_zip_record **all = malloc(n * sizeof(*all));
	struct opened *o;
	uint64_t reads;
	char name[40];

	for (uint32_t i = 0; i < n; i++) {
		sprintf(name, "archive/data/%u", i);
		add_text(&f, name, "12345678");
	}
	end(&f);
	/* More than 65535 would need ZIP64. */
	o = open_zip(&f);
	ck_assert_msg(o->err == 0, "%s", o->diag.text);
	ck_assert_uint_eq(o->zip.nrecords, n);
	ck_assert_uint_le(o->zip.nreads, 6);
	ck_assert_uint_le(o->arena.used, n * 90);
	for (uint32_t i = 0; i < n; i++) {
		sprintf(name, "archive/data/%u", (i * 7919u) % n);
		all[i] = tasd_zip_find(&o->zip, name, strlen(name));
		ck_assert_ptr_nonnull(all[i]);
	}
	reads = o->zip.nreads;
	ck_assert_int_eq(tasd_zip_locate(&o->zip, all, n), 0);
	ck_assert_uint_le(o->zip.nreads - reads, 20);
	for (uint32_t i = 0; i < n; i++) {
		struct tasd_zip_record *r = &o->zip.records[i];

		if (r->trouble || memcmp(f.bytes.bytes + tasd_zip_data(r),
					  "12345678", 8) != 0)
			ck_abort_msg("record %u", i);
	}
	/* Again: nothing is left to do. */
	reads = o->zip.nreads;
	ck_assert_int_eq(tasd_zip_locate(&o->zip, all, n), 0);
	ck_assert_uint_eq(o->zip.nreads, reads);
	done(o);
	/* The arena's limit holds. */
	for (size_t limit = 0; limit < ((size_t)8 << 20); limit += 300000) {
		o = open_bytes(f.bytes.bytes, f.bytes.len, limit);
		ck_assert(o->err == 0 || o->err == -E2BIG);
		if (limit < n * 60)
			ck_assert_int_eq(o->err, -E2BIG);
		done(o);
	}
	tasd_buf_free(&f.bytes);
	free(all);
}
END_TEST

/* Records far apart: a read each, of their headers alone. */
START_TEST(far_apart)
{
	const size_t size = 100000;
	struct zip_file f = {.count = 0};
	struct tasd_zip_record *all[301];
	char *data = calloc(size, 1), name[40];
	struct opened *o;
	uint64_t reads;

	for (int i = 0; i < 300; i++) {
		sprintf(name, "archive/data/%d", i);
		add(&f, (struct member){.name = name,
				.data = data,
				.len = size,
				.align = 64});
	}
	end(&f);
	o = open_zip(&f);
	ck_assert_int_eq(o->err, 0);
	for (int i = 0; i < 300; i++)
		all[i] = &o->zip.records[299 - i];
	all[300] = NULL;
	reads = o->zip.nreads;
	ck_assert_int_eq(tasd_zip_locate(&o->zip, all, 301), 0);
	ck_assert_uint_eq(o->zip.nreads - reads, 300);
	for (int i = 0; i < 300; i++) {
		ck_assert_int_eq(o->zip.records[i].trouble, 0);
		ck_assert_uint_eq(tasd_zip_data(&o->zip.records[i]) % 64, 0);
	}
	done(o);
	tasd_buf_free(&f.bytes);
	free(data);
}
END_TEST

START_TEST(heads)
{
	struct zip_file f = two();
	const unsigned char *head = (const unsigned char *)f.bytes.bytes;
	const char *name;
	size_t len;

	ck_assert(tasd_zip_plausible(head, 100));
	ck_assert(!tasd_zip_plausible(head, 3));
	ck_assert(tasd_zip_plausible(head + f.bytes.len - 22, 22));
	ck_assert(!tasd_zip_plausible(head + 1, 100));
	ck_assert(tasd_zip_first_name(head, 39, &name, &len));
	ck_assert_uint_eq(len, 9);
	ck_assert_mem_eq(name, "archive/a", 9);
	ck_assert(!tasd_zip_first_name(head, 38, &name, &len));
	ck_assert(!tasd_zip_first_name(head, 29, &name, &len));
	ck_assert(!tasd_zip_first_name(head + 1, 100, &name, &len));
	tasd_buf_free(&f.bytes);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		members,
		cut,
		end_records,
		end_record_fields,
		large_fields,
		troubles,
		crafted_places,
		long_overlap,
		names_twice,
		odd_names,
		many,
		far_apart,
		heads,
		NULL,
	};

	return unit_run("zip", tests);
}
