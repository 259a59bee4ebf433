/*
 * One pass over the text writes down what it means: the shape, the type's text
 * made canonical (little-endian, as numpy prints it), its size, and which of
 * its bytes have to be reversed.  Nothing of the literal is kept, and nothing
 * is evaluated.
 *
 * Only structured types nest, and each level is one recursion, of which there
 * are no more than TASD_NPY_DEPTH_MAX.
 */
#include "npy_header.h"
#include "npy_literal.h"
#include <base/checked.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* numpy keeps an element's size in a C int. */
#define ITEM_MAX ((uint64_t)INT32_MAX)

struct parser {
	struct tasd_literal in;
	struct tasd_diag *diag;
	struct tasd_buf descr;   /* the canonical text so far */
	struct tasd_buf text;    /* a string at hand */
	struct tasd_swap *swaps; /* owned */
	uint32_t nswaps, room;
};

/* What was found out about one type. */
struct type {
	uint64_t item;
	enum tasd_dtype dtype;
};

#define BAD(p, format, ...)                                                    \
	tasd_diag_set((p)->diag, -EINVAL, ".npy header, byte %zu: " format,    \
		(p)->in.at, ##__VA_ARGS__)

static const struct {
	const char *name;
	enum tasd_dtype dtype;
} dtypes[] = {
	{"b1", TASD_DTYPE_BOOL},
	{"u1", TASD_DTYPE_U8},
	{"i1", TASD_DTYPE_I8},
	{"u2", TASD_DTYPE_U16},
	{"i2", TASD_DTYPE_I16},
	{"u4", TASD_DTYPE_U32},
	{"i4", TASD_DTYPE_I32},
	{"u8", TASD_DTYPE_U64},
	{"i8", TASD_DTYPE_I64},
	{"f2", TASD_DTYPE_F16},
	{"f4", TASD_DTYPE_F32},
	{"f8", TASD_DTYPE_F64},
	{"c8", TASD_DTYPE_C64},
	{"c16", TASD_DTYPE_C128},
};

/* Names that numpy takes for some of these, and other writers write. */
static const struct {
	const char *name, *means;
} aliases[] = {
	{"?", "b1"},
	{"bool", "b1"},
	{"uint8", "u1"},
	{"int8", "i1"},
	{"uint16", "u2"},
	{"int16", "i2"},
	{"uint32", "u4"},
	{"int32", "i4"},
	{"uint64", "u8"},
	{"int64", "i8"},
	{"float16", "f2"},
	{"float32", "f4"},
	{"float64", "f8"},
	{"complex64", "c8"},
	{"complex128", "c16"},
};

static enum tasd_dtype find_dtype(const char *name)
{
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (strcmp(dtypes[i].name, name) == 0)
			return dtypes[i].dtype;
	return TASD_DTYPE_NONE;
}

static tasd_err add_swap(struct parser *p, struct tasd_swap swap)
{
	if (p->nswaps == p->room) {
		uint32_t room = p->room ? 2 * p->room : 8;
		struct tasd_swap *swaps;

		if (room > TASD_NPY_SWAPS_MAX)
			return BAD(p, "the type has too many parts");
		swaps = realloc(p->swaps, room * sizeof(*swaps));
		if (!swaps)
			return -ENOMEM;
		p->swaps = swaps;
		p->room = room;
	}
	p->swaps[p->nswaps++] = swap;
	return 0;
}

/* Join the swaps that go on where the one before ends. */
static void join_swaps(struct parser *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->nswaps; i++) {
		struct tasd_swap s = p->swaps[i];
		struct tasd_swap *last = n ? &p->swaps[n - 1] : NULL;

		if (last && last->unit == s.unit &&
			last->offset + last->count * last->unit == s.offset)
			last->count += s.count;
		else
			p->swaps[n++] = s;
	}
	p->nswaps = n;
}

/* The bytes of one number in a type of that letter; 0: there is none so. */
static uint32_t unit_of(char kind, uint64_t size)
{
	switch (kind) {
	case 'b':
		return size == 1;
	case 'i':
	case 'u':
		return size == 1 || size == 2 || size == 4 || size == 8
			       ? (uint32_t)size
			       : 0;
	case 'f':
		return size == 2 || size == 4 || size == 8 || size == 12 ||
				       size == 16
			       ? (uint32_t)size
			       : 0;
	case 'c':
		return size == 8 || size == 16 || size == 24 || size == 32
			       ? (uint32_t)size / 2
			       : 0;
	case 'm':
	case 'M':
		return size == 8 ? 8 : 0;
	case 'U':
		return 4;
	case 'S':
	case 'a':
	case 'V':
		return 1;
	default:
		return 0;
	}
}

/* "[ns]", "[25s]": what may follow a time type. */
static bool is_time_unit(const char *text)
{
	size_t len = strlen(text);

	if (len == 0)
		return true;
	if (len < 3 || len > 24 || text[0] != '[' || text[len - 1] != ']')
		return false;
	for (size_t i = 1; i + 1 < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (!strchr("/0123456789", c) && (c < 'A' || c > 'Z') &&
			(c < 'a' || c > 'z') && c < 0x80)
			return false;
	}
	return true;
}

/* A type's short name in p->text, terminated: "<f4", "|S10", ">M8[ns]". */
static tasd_err read_plain_type(
	struct parser *p, uint64_t offset, bool quoted, struct type *ret)
{
	const char *text = p->text.bytes, *rest;
	char order = '<', kind, name[40];
	uint64_t size, count;
	uint32_t unit;

	if (*text && strchr("<>=|", *text))
		order = *text++;
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (strcmp(aliases[i].name, text) == 0)
			text = aliases[i].means;
	kind = *text ? *text++ : '?';
	if (kind == 'O')
		return tasd_diag_set(p->diag, -ENOTSUP,
			"an array of Python objects, which are pickled: it is "
			"not read");
	for (rest = text, size = 0; *rest >= '0' && *rest <= '9'; rest++)
		size = size > ITEM_MAX ? size
				       : size * 10 + (uint64_t)(*rest - '0');
	unit = rest > text ? unit_of(kind, size) : 0;
	if (!unit || (kind == 'm' || kind == 'M' ? !is_time_unit(rest)
						 : *rest != '\0')) {
		tasd_print_bytes(
			name, sizeof(name), p->text.bytes, p->text.len);
		return BAD(p, "unknown type '%s'", name);
	}
	if (kind == 'a')
		kind = 'S';
	ret->item = kind == 'U' ? 4 * size : size;
	if (ret->item > ITEM_MAX)
		return BAD(p, "a type of more than 2 GiB");
	snprintf(name, sizeof(name), "%c%llu", kind, (unsigned long long)size);
	ret->dtype = find_dtype(name);
	if (quoted)
		tasd_buf_char(&p->descr, '\'');
	tasd_buf_char(&p->descr, unit > 1 ? '<' : '|');
	tasd_buf_str(&p->descr, name);
	tasd_buf_str(&p->descr, rest);
	if (quoted)
		tasd_buf_char(&p->descr, '\'');
	count = ret->item / unit;
	if (order != '>' || unit == 1 || count == 0)
		return 0;
	return add_swap(
		p, (struct tasd_swap){
			   .offset = offset, .count = count, .unit = unit});
}

/* (2, 3), or 3 where `or_int`; at most max numbers. */
static tasd_err read_tuple(struct parser *p, bool or_int, uint64_t *dims,
	uint32_t max, uint32_t *ret_n)
{
	bool comma = true;

	*ret_n = 0;
	if (or_int && tasd_literal_peek(&p->in) != '(') {
		*ret_n = 1;
		return tasd_literal_u64(&p->in, &dims[0])
			       ? BAD(p, "a shape was expected")
			       : 0;
	}
	if (!tasd_literal_take(&p->in, '('))
		return BAD(p, "a tuple was expected");
	while (!tasd_literal_take(&p->in, ')')) {
		if (*ret_n == max)
			return BAD(p, "more than %u dimensions", max);
		if (!comma || tasd_literal_u64(&p->in, &dims[*ret_n]))
			return BAD(p, "a tuple of whole numbers was expected");
		++*ret_n;
		comma = tasd_literal_take(&p->in, ',');
	}
	if (*ret_n == 1 && !comma)
		return BAD(p, "a tuple was expected, this is a number");
	return 0;
}

static void add_tuple(struct tasd_buf *buf, const uint64_t *dims, uint32_t n)
{
	tasd_buf_char(buf, '(');
	for (uint32_t i = 0; i < n; i++) {
		if (i > 0)
			tasd_buf_str(buf, ", ");
		tasd_buf_u64(buf, dims[i]);
	}
	tasd_buf_str(buf, n == 1 ? ",)" : ")");
}

/* A type was read whose swaps begin at `first`: make it `count` of it. */
static tasd_err repeat_type(
	struct parser *p, uint32_t first, uint64_t count, struct type *type)
{
	uint32_t end = p->nswaps;
	uint64_t item = type->item;
	tasd_err err = 0;

	type->dtype = TASD_DTYPE_NONE;
	if (!tasd_mul_u64(item, count, &type->item) || type->item > ITEM_MAX)
		return BAD(p, "a type of more than 2 GiB");
	if (type->item == 0)
		p->nswaps = first;
	else if (end == first + 1 &&
		 p->swaps[first].count * p->swaps[first].unit == item)
		p->swaps[first].count *= count;
	else if (end > first)
		for (uint64_t k = 1; k < count && !err; k++)
			for (uint32_t i = first; i < end && !err; i++) {
				struct tasd_swap s = p->swaps[i];

				s.offset += k * item;
				err = add_swap(p, s);
			}
	return err;
}

static tasd_err read_string(struct parser *p, const char *what)
{
	p->text.len = 0;
	if (tasd_literal_string(&p->in, &p->text) || tasd_buf_err(&p->text))
		return tasd_buf_err(&p->text)
			       ? tasd_buf_err(&p->text)
			       : BAD(p, "%s was expected, as a string", what);
	tasd_buf_char(&p->text, '\0'); /* terminated, and not counted */
	if (tasd_buf_err(&p->text))
		return tasd_buf_err(&p->text);
	p->text.len--;
	if (strlen(p->text.bytes) != p->text.len)
		return BAD(p, "a NUL in %s", what);
	return 0;
}

static tasd_err read_type(struct parser *p, unsigned int depth, uint64_t offset,
	bool quoted, struct type *ret);

/* The name of a field, or (title, name). */
static tasd_err read_field_name(struct parser *p)
{
	bool titled = tasd_literal_take(&p->in, '(');
	tasd_err err;

	if (titled)
		tasd_buf_char(&p->descr, '(');
	err = read_string(p, "a field's name");
	if (!err)
		tasd_literal_print(&p->descr, p->text.bytes, p->text.len);
	if (err || !titled)
		return err;
	if (!tasd_literal_take(&p->in, ','))
		return BAD(p, "a title and a name were expected");
	err = read_string(p, "a field's name");
	if (err)
		return err;
	tasd_buf_str(&p->descr, ", ");
	tasd_literal_print(&p->descr, p->text.bytes, p->text.len);
	tasd_buf_char(&p->descr, ')');
	(void)tasd_literal_take(&p->in, ',');
	return tasd_literal_take(&p->in, ')')
		       ? 0
		       : BAD(p, "a title and a name were expected");
}

/* What stands in parentheses: the rest of a field, or of (type, shape). */
static tasd_err read_shaped_type(struct parser *p, unsigned int depth,
	uint64_t offset, bool must, struct type *ret)
{
	uint64_t dims[TASD_NPY_NDIM_MAX], count = 1;
	uint32_t first = p->nswaps, n = 0;
	tasd_err err = read_type(p, depth, offset, true, ret);
	bool comma = !err && tasd_literal_take(&p->in, ',');

	if (!err && comma && tasd_literal_peek(&p->in) != ')') {
		err = read_tuple(p, true, dims, TASD_NPY_NDIM_MAX, &n);
		for (uint32_t i = 0; i < n && !err; i++)
			if (!tasd_mul_u64(count, dims[i], &count))
				err = BAD(p, "a shape that is too large");
		if (!err)
			err = repeat_type(p, first, count, ret);
		tasd_buf_str(&p->descr, ", ");
		add_tuple(&p->descr, dims, n);
		must = false;
		(void)tasd_literal_take(&p->in, ',');
	}
	if (err)
		return err;
	if (must || !tasd_literal_take(&p->in, ')'))
		return BAD(p, "a type and a shape were expected");
	return 0;
}

/* [('a', '<f4'), ('b', '<i4', (2, 3))] behind its bracket. */
static tasd_err read_fields(
	struct parser *p, unsigned int depth, uint64_t offset, struct type *ret)
{
	bool comma = true, first = true;

	*ret = (struct type){.dtype = TASD_DTYPE_NONE};
	tasd_buf_char(&p->descr, '[');
	while (!tasd_literal_take(&p->in, ']')) {
		struct type field;
		tasd_err err;

		if (!comma || !tasd_literal_take(&p->in, '('))
			return BAD(p, "a field was expected");
		tasd_buf_str(&p->descr, first ? "(" : ", (");
		first = false;
		err = read_field_name(p);
		if (err)
			return err;
		if (!tasd_literal_take(&p->in, ','))
			return BAD(p, "a field has no type");
		tasd_buf_str(&p->descr, ", ");
		err = read_shaped_type(
			p, depth, offset + ret->item, false, &field);
		if (err)
			return err;
		tasd_buf_char(&p->descr, ')');
		ret->item += field.item;
		if (ret->item > ITEM_MAX)
			return BAD(p, "a type of more than 2 GiB");
		comma = tasd_literal_take(&p->in, ',');
	}
	tasd_buf_char(&p->descr, ']');
	return 0;
}

/* depth: of the structured types that may follow. */
static tasd_err read_type(struct parser *p, unsigned int depth, uint64_t offset,
	bool quoted, struct type *ret)
{
	tasd_err err;

	if (tasd_literal_peek(&p->in) != '[' &&
		tasd_literal_peek(&p->in) != '(') {
		err = read_string(p, "a type");
		return err ? err : read_plain_type(p, offset, quoted, ret);
	}
	if (depth == 0)
		return BAD(p, "types are nested more than %u deep",
			TASD_NPY_DEPTH_MAX);
	if (tasd_literal_take(&p->in, '['))
		return read_fields(p, depth - 1, offset, ret);
	/* numpy has no array of a sub-array type itself, only fields. */
	if (!quoted)
		return BAD(p, "a type was expected, this is a tuple");
	(void)tasd_literal_take(&p->in, '(');
	tasd_buf_char(&p->descr, '(');
	err = read_shaped_type(p, depth - 1, offset, true, ret);
	tasd_buf_char(&p->descr, ')');
	return err;
}

/* The three entries, each once. */
enum entry { DESCR, ORDER, SHAPE, ENTRIES };

static tasd_err read_entry(struct parser *p, struct tasd_npy *npy,
	uint64_t *dims, unsigned int *seen)
{
	static const char *const names[ENTRIES] = {
		"descr", "fortran_order", "shape"};
	struct type type;
	unsigned int which = 0;
	tasd_err err = read_string(p, "one of the header's names");

	if (err)
		return err;
	while (which < ENTRIES && strcmp(p->text.bytes, names[which]) != 0)
		which++;
	if (which == ENTRIES) {
		char name[40];

		tasd_print_bytes(
			name, sizeof(name), p->text.bytes, p->text.len);
		return BAD(p, "\"%s\" is none of its three names", name);
	}
	if (*seen & 1u << which)
		return BAD(p, "%s stands twice", names[which]);
	*seen |= 1u << which;
	if (!tasd_literal_take(&p->in, ':'))
		return BAD(p, "%s has no value", names[which]);
	switch ((enum entry)which) {
	case DESCR:
		err = read_type(p, TASD_NPY_DEPTH_MAX, 0, false, &type);
		npy->item = err ? 0 : type.item;
		npy->dtype = err ? TASD_DTYPE_NONE : type.dtype;
		return err;
	case ORDER:
		if (tasd_literal_word(&p->in, "True"))
			npy->fortran_order = true;
		else if (!tasd_literal_word(&p->in, "False"))
			return BAD(p, "fortran_order is not True or False");
		return 0;
	case SHAPE:
		return read_tuple(
			p, false, dims, TASD_NPY_NDIM_MAX, &npy->ndim);
	case ENTRIES:
		break;
	}
	return -EINVAL;
}

static tasd_err read_dict(
	struct parser *p, struct tasd_npy *npy, uint64_t *dims)
{
	unsigned int seen = 0;
	bool comma = true;

	if (!tasd_literal_take(&p->in, '{'))
		return BAD(p, "a dict was expected");
	while (!tasd_literal_take(&p->in, '}')) {
		tasd_err err = comma ? read_entry(p, npy, dims, &seen)
				     : BAD(p, "a comma was expected");

		if (err)
			return err;
		comma = tasd_literal_take(&p->in, ',');
	}
	if (!tasd_literal_ended(&p->in))
		return BAD(p, "something follows the dict");
	if (seen != (1u << ENTRIES) - 1)
		return BAD(p, "descr, fortran_order and shape were expected, "
			      "not all are there");
	return 0;
}

/* Bytes of all elements; a zero does not excuse the other dimensions. */
static tasd_err measure(
	struct parser *p, const uint64_t *dims, struct tasd_npy *npy)
{
	uint64_t bytes = npy->item ? npy->item : 1;
	bool empty = npy->item == 0;

	for (uint32_t i = 0; i < npy->ndim; i++) {
		if (dims[i] == 0)
			empty = true;
		else if (!tasd_mul_u64(bytes, dims[i], &bytes) ||
			 bytes > INT64_MAX)
			return tasd_diag_set(p->diag, -EINVAL,
				"the shape has more bytes than 63 bits count");
	}
	npy->nbytes = empty ? 0 : bytes;
	return 0;
}

/* What lasts goes into the arena. */
static tasd_err keep(struct parser *p, const uint64_t *dims,
	struct tasd_arena *arena, struct tasd_npy *npy)
{
	uint64_t *shape;
	struct tasd_swap *swaps;

	if (tasd_buf_err(&p->descr))
		return tasd_buf_err(&p->descr);
	join_swaps(p);
	shape = tasd_arena_alloc(arena, npy->ndim * sizeof(*shape));
	swaps = tasd_arena_alloc(arena, p->nswaps * sizeof(*swaps));
	if (!shape || !swaps)
		return -E2BIG;
	memcpy(shape, dims, npy->ndim * sizeof(*shape));
	if (p->nswaps)
		memcpy(swaps, p->swaps, p->nswaps * sizeof(*swaps));
	npy->shape = shape;
	npy->swaps = swaps;
	npy->nswaps = p->nswaps;
	if (npy->dtype)
		return 0;
	npy->descr = tasd_arena_copy(arena, p->descr.bytes, p->descr.len);
	return npy->descr ? 0 : -E2BIG;
}

tasd_err tasd_npy_parse(const char *text, size_t len, bool latin1,
	struct tasd_arena *arena, struct tasd_npy *ret, struct tasd_diag *diag)
{
	struct parser p = {
		.in = {.text = text, .len = len, .latin1 = latin1},
		.diag = diag,
		.descr = TASD_BUF_EMPTY,
		.text = TASD_BUF_EMPTY,
	};
	uint64_t dims[TASD_NPY_NDIM_MAX] = {0};
	tasd_err err;

	*ret = (struct tasd_npy){.dtype = TASD_DTYPE_NONE};
	err = read_dict(&p, ret, dims);
	if (!err)
		err = measure(&p, dims, ret);
	if (!err)
		err = keep(&p, dims, arena, ret);
	tasd_buf_free(&p.descr);
	tasd_buf_free(&p.text);
	free(p.swaps);
	return err;
}

/* The magic and the length in front of the text. */
static tasd_err read_length(const unsigned char *head, size_t have,
	uint64_t size, uint64_t *ret_at, uint64_t *ret_len,
	struct tasd_diag *diag)
{
	unsigned int wide;

	if (have < 10 || memcmp(head, TASD_NPY_MAGIC, TASD_NPY_MAGIC_LEN) != 0)
		return tasd_diag_set(diag, -EINVAL, "not a .npy file");
	if (head[6] < 1 || head[6] > 3 || head[7] != 0)
		return tasd_diag_set(diag, -EINVAL,
			".npy format %u.%u is not known", head[6], head[7]);
	wide = head[6] == 1 ? 2 : 4;
	*ret_at = 8 + wide;
	if (have < *ret_at)
		return tasd_diag_set(
			diag, -EINVAL, "truncated: the .npy header is cut");
	*ret_len = 0;
	for (unsigned int i = wide; i-- > 0;)
		*ret_len = *ret_len << 8 | head[8 + i];
	if (*ret_len > size - *ret_at)
		return tasd_diag_set(diag, -EINVAL,
			"truncated: the .npy header needs %llu more bytes",
			(unsigned long long)(*ret_len - (size - *ret_at)));
	if (*ret_len > TASD_NPY_HEADER_MAX)
		return tasd_diag_set(diag, -EINVAL,
			"a .npy header of %llu bytes is over %llu",
			(unsigned long long)*ret_len,
			(unsigned long long)TASD_NPY_HEADER_MAX);
	return 0;
}

#define HEAD ((size_t)1024) /* most headers are shorter: one read */

tasd_err tasd_npy_read(struct tasd_source *source, uint64_t offset,
	uint64_t size, struct tasd_arena *arena, struct tasd_npy *ret,
	struct tasd_diag *diag)
{
	unsigned char head[HEAD];
	size_t have = size < HEAD ? (size_t)size : HEAD;
	char *text = NULL;
	uint64_t at = 0, len = 0;
	tasd_err err;

	err = tasd_source_pread(source, head, have, offset);
	if (!err)
		err = read_length(head, have, size, &at, &len, diag);
	if (!err && at + len > have) {
		text = malloc((size_t)len);
		err = text ? tasd_source_pread(
				     source, text, (size_t)len, offset + at)
			   : -ENOMEM;
	}
	if (!err)
		err = tasd_npy_parse(text ? text : (const char *)head + at,
			(size_t)len, head[6] < 3, arena, ret, diag);
	free(text);
	if (err)
		return err;
	ret->header_len = at + len;
	if (ret->nbytes > size - ret->header_len)
		return tasd_diag_set(diag, -EINVAL,
			"truncated: needs %llu more bytes",
			(unsigned long long)(ret->nbytes -
					     (size - ret->header_len)));
	return 0;
}

/* Column-major strides, when they differ from row-major ones. */
static tasd_err add_stride(const struct tasd_npy *npy, struct tasd_arena *arena,
	struct tasd_tensor_extra *extra)
{
	uint64_t *stride, step = 1;
	unsigned int wide = 0;

	for (uint32_t i = 0; i < npy->ndim; i++)
		wide += npy->shape[i] > 1;
	if (!npy->fortran_order || wide < 2 || npy->nbytes == 0)
		return 0;
	stride = tasd_arena_alloc(arena, npy->ndim * sizeof(*stride));
	if (!stride)
		return -E2BIG;
	for (uint32_t i = 0; i < npy->ndim; i++) {
		stride[i] = step;
		step *= npy->shape[i];
	}
	extra->stride = stride;
	return 0;
}

struct tasd_tensor *tasd_npy_tensor(const struct tasd_npy *npy, uint32_t source,
	uint64_t offset, struct tasd_arena *arena)
{
	struct tasd_tensor *tensor = tasd_arena_alloc(arena, sizeof(*tensor));
	struct tasd_tensor_extra extra = {
		.descr = npy->descr,
		.item = npy->descr ? npy->item : 0,
		.swaps = npy->swaps,
		.nswaps = npy->nswaps,
	};
	struct tasd_tensor_extra *kept = NULL;

	if (!tensor || add_stride(npy, arena, &extra))
		return NULL;
	*tensor = (struct tasd_tensor){
		.shape = npy->ndim ? npy->shape : NULL,
		.ndim = npy->ndim,
		.nbytes = npy->nbytes,
		.dtype = (uint8_t)npy->dtype,
		.data = TASD_DATA_PLAIN,
		.nextents = 1,
		.extent = {.offset = offset,
			.length = npy->nbytes,
			.source = source},
	};
	if (npy->nbytes > 0 && (extra.stride || extra.nswaps))
		tensor->data = TASD_DATA_STRIDED;
	if (tensor->data == TASD_DATA_STRIDED || extra.descr) {
		kept = tasd_arena_alloc(arena, sizeof(*kept));
		if (!kept)
			return NULL;
		*kept = extra;
		tensor->extra = kept;
	}
	return tensor;
}
