/*
 * PyTorch's tar files, made here field by field: what torch loads is shown, and
 * what it does not is refused with a line that says what and where.
 */
#include "format_unit.h"
#include "tar.h"
#include <base/buf.h>
#include <format/content.h>

static struct tasd_buf file, part;

static void text(struct tasd_buf *buf, const char *literal, size_t len)
{
	tasd_buf_add(buf, literal, len);
}
#define TEXT(literal) text(&part, literal, sizeof(literal) - 1)

static void le(uint64_t value, unsigned int width)
{
	for (unsigned int i = 0; i < width; i++)
		tasd_buf_char(&part, (char)(value >> 8 * i));
}

/* A header: `size` as it stands there, or NULL for what is in part. */
static void header(const char *name, char type, const char *size)
{
	char block[512] = "";
	unsigned int sum = 0;

	snprintf(block, 100, "%s", name);
	block[156] = type;
	if (size)
		memcpy(block + 124, size, 12);
	else
		snprintf(block + 124, 12, "%011zo", part.len);
	memset(block + 148, ' ', 8);
	memcpy(block + 257, "ustar", 6);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += (unsigned char)block[i];
	snprintf(block + 148, 8, "%06o", sum);
	tasd_buf_add(&file, block, sizeof(block));
}

/* What is in part, to whole blocks. */
static void body(void)
{
	tasd_buf_add(&file, part.bytes, part.len);
	while (file.len % 512)
		tasd_buf_char(&file, '\0');
	part.len = 0;
}

static void member(const char *name)
{
	header(name, '0', NULL);
	body();
}

static void end(void)
{
	for (int i = 0; i < 1024; i++)
		tasd_buf_char(&file, '\0');
}

static void save(const char *name)
{
	put(name, file.bytes, file.len);
	file.len = 0;
}

#define COUNT(n) TEXT("\x80\2K" n ".")
/* (key, "cpu", class) of a storage, its number of elements, their bytes. */
#define STORAGE(key, class, n, bytes)                                          \
	do {                                                                   \
		TEXT("\x80\2K" key "U\3cpuctorch\n" class "\n\x87.");          \
		le(n, 8);                                                      \
		TEXT(bytes);                                                   \
	} while (0)
#define NO_PARTS TEXT("\x80\2].")
/* (key, storage, class) of a tensor and its rank. */
#define TENSOR(key, storage, rank)                                             \
	do {                                                                   \
		TEXT("\x80\2K" key "K" storage "ctorch\nFloatTensor\n\x87.");  \
		le(rank, 4);                                                   \
		le(0xdddddddd, 4);                                             \
	} while (0)
#define FLOATS "\0\0\0\0\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@"

static void storages(void)
{
	COUNT("\1");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	NO_PARTS;
	member("storages");
}

static void tensors(void)
{
	COUNT("\1");
	TENSOR("\1", "\12", 2);
	le(2, 8);
	le(3, 8);
	le(3, 8);
	le(1, 8);
	le(0, 8);
	member("tensors");
}

/* {"w": the tensor 1} */
static void object(void)
{
	TEXT("\x80\2}U\1wU\0011Qs.");
	member("pickle");
}

static void whole(const char *name)
{
	end();
	save(name);
}

static const struct tasd_node *open_as(
	const char *path, const char *key, struct tasd_container **ret)
{
	*ret = opened(path);
	ck_assert_str_eq((*ret)->format->name, "torch-tar");
	return node_at(*ret, key);
}

static void holds(
	const char *path, const char *key, const void *want, size_t len)
{
	struct tasd_container *ctr;
	const struct tasd_node *node = open_as(path, key, &ctr);
	struct tasd_content content;
	char got[64];
	size_t n = 0;

	ck_assert_int_eq(
		tasd_content_open(ctr, node, TASD_VIEW_RAW, &content), 0);
	ck_assert_uint_eq(content.size, len);
	ck_assert_int_eq(
		tasd_content_pread(&content, got, sizeof(got), 0, &n), 0);
	ck_assert_uint_eq(n, len);
	ck_assert_mem_eq(got, want, len);
	tasd_content_close(&content);
	tasd_container_put(ctr);
}

START_TEST(as_written)
{
	struct tasd_container *ctr;
	const struct tasd_node *node;

	setup();
	TEXT("}.");
	member("sys_info");
	object();
	tensors();
	storages();
	whole("a.pt");
	node = open_as("a.pt", "w", &ctr);
	ck_assert_int_eq(node->kind, TASD_KIND_TENSOR);
	ck_assert_uint_eq(node->tensor->dtype, TASD_DTYPE_F32);
	ck_assert_uint_eq(node->tensor->ndim, 2);
	ck_assert_uint_eq(node->tensor->shape[0], 2);
	ck_assert_uint_eq(node->tensor->shape[1], 3);
	tasd_container_put(ctr);
	holds("a.pt", "w", FLOATS, 24);
	/* By content, whatever it is called. */
	storages();
	tensors();
	object();
	whole("a");
	holds("a", "w", FLOATS, 24);
	teardown();
}
END_TEST

/* Transposed, in a part of a part; storages by themselves; one element. */
START_TEST(views)
{
	setup();
	COUNT("\2");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	STORAGE("\13", "ShortStorage", 2, "\1\0\2\0");
	/* The last five elements of the first, the last four of those. */
	TEXT("\x80\2]((K\14K\12K\1K\5t(K\15K\14K\1K\4te.");
	member("storages");
	COUNT("\2");
	TENSOR("\1", "\15", 2);
	le(2, 8);
	le(2, 8);
	le(1, 8);
	le(2, 8);
	le(0, 8);
	TENSOR("\2", "\13", 0);
	le(1, 8);
	member("tensors");
	TEXT("\x80\2}(U\1wU\0011QU\1sU\00213QU\1hU\00211QU\1zU\0012QU"
	     "\1vU\0011Qu.");
	member("pickle");
	whole("v.pt");
	holds("v.pt", "w", "\0\0\0@\0\0\x80@\0\0@@\0\0\xa0@", 16);
	holds("v.pt", "v", "\0\0\0@\0\0\x80@\0\0@@\0\0\xa0@", 16);
	holds("v.pt", "s", "\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@", 16);
	holds("v.pt", "h", "\1\0\2\0", 4);
	holds("v.pt", "z", "\2\0", 2);
	teardown();
}
END_TEST

/* How parameters were pickled then; and a class with its source. */
START_TEST(parameters)
{
	struct tasd_container *ctr;
	const struct tasd_node *node;

	setup();
	storages();
	tensors();
	TEXT("\x80\2}(U\1pctorch.nn.parameter\nParameter\n(U\0011QtR"
	     "(\x88\x89}tb"
	     "U\1vctorch.autograd.variable\nVariable\n(U\0011QtR(\x88\x89}tb"
	     "U\1fctorch.autograd.variable\nVariable\n)R"
	     "(U\0011QN}\x89\x89tb"
	     "U\1m(cm\nNet\nU\3f.pU\1stQ)R}U\1xK\7sbu.");
	member("pickle");
	whole("p.pt");
	holds("p.pt", "p", FLOATS, 24);
	holds("p.pt", "v", FLOATS, 24);
	holds("p.pt", "f", FLOATS, 24);
	holds("p.pt", "m/x", "7\n", 2);
	node = open_as("p.pt", "p", &ctr);
	ck_assert(node->requires_grad);
	ck_assert_str_eq(node->extra->class, "torch.nn.parameter.Parameter");
	ck_assert(node_at(ctr, "v")->requires_grad);
	ck_assert(!node_at(ctr, "f")->requires_grad);
	/* The flags are said; they are no attribute beside. */
	ck_assert_ptr_null(tasd_node_next(tasd_statedict_attrs(ctr->sd)));
	tasd_container_put(ctr);
	teardown();
}
END_TEST

/* pax records, GNU's long names and large numbers, old headers. */
START_TEST(tars)
{
	setup();
	storages();
	tensors();
	/* The later of two counts. */
	TEXT("K\5.");
	member("pickle");
	TEXT("19 mtime=1500000.5\n15 path=pickle\n11 size=12\n");
	header("././@PaxHeader", 'x', NULL);
	body();
	TEXT("\x80\2}U\1wU\0011Qs.");
	header("something", '0', "00000000001\0");
	body();
	whole("x.pt");
	holds("x.pt", "w", FLOATS, 24);

	storages();
	tensors();
	TEXT("pickle");
	header("././@LongLink", 'L', NULL);
	body();
	TEXT("\x80\2}U\1wU\0011Qs.");
	header("cut", '\0', "\x80\0\0\0\0\0\0\0\0\0\0\14");
	body();
	whole("l.pt");
	holds("l.pt", "w", FLOATS, 24);

	/* No end: tarfile takes the end of the file. */
	storages();
	tensors();
	object();
	save("e.pt");
	holds("e.pt", "w", FLOATS, 24);
	teardown();
}
END_TEST

static void broken_tar(const char *why)
{
	save("b.pt");
	refused("b.pt", -EINVAL, why);
}

START_TEST(tars_refused)
{
	setup();
	storages();
	tensors();
	object();
	header("storages/", '5', "00000000000\0");
	broken_tar("the member \"storages\" is no file");
	storages();
	tensors();
	object();
	header("pickle", '2', "00000000000\0");
	broken_tar("the member \"pickle\" is no file");
	tensors();
	object();
	header("storages", 'S', NULL);
	broken_tar("a file with holes");
	storages();
	TEXT("22 GNU.sparse.major=1\n");
	header("p", 'x', NULL);
	body();
	tensors();
	object();
	broken_tar("what it says about the next member is not understood");
	storages();
	TEXT("10 size=4\n");
	header("g", 'g', NULL);
	body();
	tensors();
	object();
	broken_tar("what it says about the next member is not understood");
	storages();
	TEXT("99 path=x\n");
	header("p", 'x', NULL);
	body();
	object();
	broken_tar("what it says about the next member is not understood");
	storages();
	header("p", 'x', "00000400001\0");
	for (int i = 0; i < 140000; i++)
		tasd_buf_char(&part, 'x');
	body();
	broken_tar("131073 bytes about the next member");
	storages();
	tensors();
	object();
	file.bytes[file.len - 900] ^= 1;
	broken_tar("no header, or a broken one");
	object();
	tensors();
	storages();
	file.len -= 512;
	broken_tar("truncated: what begins at byte 2048 needs 1024 bytes, "
		   "512 are left");
	object();
	tensors();
	storages();
	file.len -= 600;
	broken_tar("truncated: what begins at byte 2048 needs 512 bytes, "
		   "424 are left");
	object();
	header("storages", '0',
		"\x80\377\377\377\377\377\377\377\377\377\377\0");
	broken_tar("no header, or a broken one");
	object();
	header("storages", '0', "\x80\0\0\0\177\377\377\377\377\377\377\377");
	broken_tar("truncated");
	object();
	for (int i = 0; i < 70; i++)
		header("a", '1', "00000000000\0");
	broken_tar("more than 63 headers");
	teardown();
}
END_TEST

/* Tars of other things. */
START_TEST(no_checkpoint)
{
	setup();
	TEXT("x");
	member("readme");
	whole("n.tar");
	refused("n.tar", -ENOTSUP, "a tar archive, and not one that torch");
	storages();
	tensors();
	whole("n.pt");
	refused("n.pt", -ENOTSUP, "a tar archive, and not one that torch");
	teardown();
}
END_TEST

/* What is in `part` as one of the members, and the rest as it should be. */
static void broken_member(const char *name, const char *why)
{
	member(name);
	if (strcmp(name, "storages") != 0)
		storages();
	if (strcmp(name, "tensors") != 0)
		tensors();
	if (strcmp(name, "pickle") != 0)
		object();
	whole("b.pt");
	refused("b.pt", -EINVAL, why);
}

START_TEST(storages_refused)
{
	setup();
	TEXT("\x80\2U\1x.");
	broken_member("storages", "storages, byte 6: their number is none");
	TEXT("\x80\2J\377\377\377\377.");
	broken_member("storages", "their number is none");
	COUNT("\2");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	NO_PARTS;
	broken_member("storages", "expected a storage's (key, location");
	COUNT("\2");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	broken_member("storages", "ends at byte 0 without STOP");
	COUNT("\1");
	STORAGE("\12", "FooStorage", 6, FLOATS);
	broken_member("storages", "a storage of an unknown class");
	COUNT("\1");
	STORAGE("\12", "UntypedStorage", 24, FLOATS);
	broken_member("storages", "a storage of an unknown class");
	COUNT("\1");
	TEXT("\x80\2K\12K\1ctorch\nFloatStorage\n\x87.");
	broken_member("storages", "a storage's location is no text");
	COUNT("\1");
	STORAGE("\12", "FloatStorage", 7, FLOATS);
	broken_member("storages", "truncated: a storage goes past its end");
	COUNT("\1");
	STORAGE("\12", "FloatStorage", -1, FLOATS);
	broken_member("storages", "a storage of absurd size");
	COUNT("\1");
	STORAGE("\12", "FloatStorage", (uint64_t)1 << 61, FLOATS);
	broken_member("storages", "a storage of absurd size");
	COUNT("\1");
	TEXT("\x80\2K\12U\3cpuctorch\nFloatStorage\n\x87.");
	le(0, 7);
	broken_member("storages", "truncated: it ends here");
	COUNT("\1");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	TEXT("K\1.");
	broken_member("storages", "expected the list of parts");
	COUNT("\1");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	TEXT("](K\13K\12K\1\x87"
	     "e.");
	broken_member("storages", "expected a part of a storage");
	COUNT("\1");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	TEXT("](K\13K\15K\1K\1ta.");
	broken_member("storages", "a part of a storage that is not there");
	COUNT("\1");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	TEXT("](K\13K\12K\1K\6ta.");
	broken_member("storages", "a part of a storage is not in it");
	COUNT("\1");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	TEXT("](K\13K\12J\377\377\377\377K\6ta.");
	broken_member("storages", "expected a part of a storage");
	teardown();
}
END_TEST

static void tensor_refused(uint64_t rank, uint64_t size, uint64_t stride,
	uint64_t start, const char *why)
{
	COUNT("\1");
	TENSOR("\1", "\12", rank);
	le(size, 8);
	le(stride, 8);
	le(start, 8);
	broken_member("tensors", why);
}

START_TEST(tensors_refused)
{
	struct tasd_container *ctr;
	const struct tasd_node *node;

	setup();
	TEXT("N.");
	broken_member("tensors", "tensors, byte 2: their number is none");
	COUNT("\1");
	TENSOR("\1", "\11", 0);
	broken_member("tensors", "a tensor on no storage of the file");
	COUNT("\1");
	TEXT("K\1.");
	broken_member("tensors", "expected a tensor's (key, storage, class)");
	COUNT("\1");
	TENSOR("\1", "\12", 1);
	broken_member("tensors", "truncated: it ends here");
	/* A tensor is no storage. */
	COUNT("\2");
	TENSOR("\1", "\12", 0);
	le(0, 8);
	TENSOR("\2", "\1", 0);
	le(0, 8);
	broken_member("tensors", "a tensor on no storage of the file");
	tensor_refused(1, -1, 1, 0, "a size is negative");
	tensor_refused(1, 1, -1, 0, "a stride is negative");
	tensor_refused(1, 1, 1, -1, "an offset is negative");
	tensor_refused(65, 1, 1, 0, "a tensor of absurd rank");
	tensor_refused(UINT32_MAX, 1, 1, 0, "a tensor of absurd rank");
	/* torch would give it bytes that nobody wrote. */
	COUNT("\1");
	TENSOR("\1", "\12", 1);
	le(7, 8);
	le(1, 8);
	le(0, 8);
	member("tensors");
	storages();
	object();
	whole("o.pt");
	node = open_as("o.pt", "w", &ctr);
	ck_assert_uint_eq(node->tensor->data, TASD_DATA_BROKEN);
	ck_assert_str_eq(
		node->error, "it goes past the end of its storage of 24 bytes");
	tasd_container_put(ctr);
	teardown();
}
END_TEST

START_TEST(object_refused)
{
	setup();
	TEXT("\x80\2}U\1wU\0019Qs.");
	broken_member(
		"pickle", "pickle: the tensor or storage 9 is not in the file");
	TEXT("\x80\2}U\1wU\00511111Qs.");
	broken_member("pickle", "the tensor or storage 11111 is not");
	TEXT("\x80\2}U\1wU\2-1Qs.");
	broken_member("pickle", "the tensor or storage -1 is not");
	TEXT("\x80\2}U\1wU\02499999999999999999999Qs.");
	broken_member("pickle", "the tensor or storage 9999999999");
	TEXT("\x80\2}U\1wNQs.");
	broken_member("pickle", "the tensor or storage None is not");
	TEXT("\x80\2}U\1wU\0011Qs");
	broken_member("pickle", "pickle: pickle: ends at byte 11 without STOP");
	teardown();
}
END_TEST

/* Ids as later files have them are none of this file's storages. */
START_TEST(other_ids)
{
	struct tasd_container *ctr;
	const struct tasd_node *node;

	setup();
	storages();
	tensors();
	TEXT("\x80\2}U\1wctorch._utils\n_rebuild_tensor\n((U\7storage"
	     "ctorch\nFloatStorage\nU\10\x35\2\0\0\0\0\0\0U\3cpuK\7tQ"
	     "K\0K\1\x85K\1\x85tRs.");
	member("pickle");
	whole("i.pt");
	node = open_as("i.pt", "w", &ctr);
	ck_assert_uint_eq(node->tensor->data, TASD_DATA_BROKEN);
	tasd_container_put(ctr);
	teardown();
}
END_TEST

/* A storage whose pickle is far larger than one is read at a time. */
START_TEST(long_pickles)
{
	setup();
	COUNT("\1");
	STORAGE("\12", "FloatStorage", 6, FLOATS);
	TEXT("\x80\2](");
	for (int i = 0; i < 2000; i++)
		TEXT("(K\13K\12K\1K\1t");
	TEXT("e.");
	member("storages");
	tensors();
	object();
	whole("g.pt");
	holds("g.pt", "w", FLOATS, 24);
	teardown();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		as_written,
		views,
		parameters,
		tars,
		tars_refused,
		no_checkpoint,
		storages_refused,
		tensors_refused,
		object_refused,
		other_ids,
		long_pickles,
		NULL,
	};

	return unit_run("torch-tar", tests);
}
