/*
 * An event of the JSON reader at a time moves a small state machine; nothing
 * recurses and nothing of the text is kept but the name at hand.
 *
 * The layout is checked once the header is read: sorted by (begin, end), every
 * tensor begins where the one before it ended and the last ends with the file,
 * so that no byte is without an owner and none has two.  Files written in
 * order (all that the library writes) need no sorting.
 */
#include "st_header.h"
#include <base/buf.h>
#include <base/checked.h>
#include <base/cleanup.h>
#include <base/cursor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What serde_json allows: the 128th open container is too deep. */
#define DEPTH_MAX 127

/* A name in a message is for recognising it. */
#define SHOWN_MAX 100

enum state {
	AT_START,    /* before the header's object */
	IN_HEADER,   /* a tensor's name or __metadata__ comes */
	AT_METADATA, /* the value of __metadata__ comes */
	IN_METADATA, /* a metadata name comes */
	AT_META,     /* a metadata value comes */
	AT_TENSOR,   /* a tensor's object, or array, comes */
	IN_TENSOR,   /* a field's name comes; in an array its value */
	AT_FIELD,    /* the value of a field comes */
	IN_SHAPE,    /* a dimension comes */
	IN_OFFSETS,  /* one of two offsets comes */
	IN_SKIPPED,  /* inside the value of an unknown field */
};

enum field { FIELD_DTYPE, FIELD_SHAPE, FIELD_OFFSETS, FIELD_COUNT, UNKNOWN };

static const char *const field_names[FIELD_COUNT] = {
	[FIELD_DTYPE] = "dtype",
	[FIELD_SHAPE] = "shape",
	[FIELD_OFFSETS] = "data_offsets",
};

struct entry {
	uint64_t begin, end;
	const char *name;
	uint32_t len;
};

struct reader {
	const struct tasd_st_sink *sink;
	struct tasd_diag *diag;
	enum state state;
	struct tasd_buf name; /* of the tensor or metadata pair at hand */
	bool has_metadata;

	/* The tensor at hand. */
	bool is_array; /* ["F32", [2], [0, 8]] */
	enum field field;
	bool seen[FIELD_COUNT];
	enum tasd_dtype dtype;
	uint64_t *shape; /* owned */
	uint32_t ndim, shape_room;
	uint64_t offsets[2];
	unsigned int noffsets;
	unsigned int skip_depth;

	/* All tensors so far. */
	struct entry *entries; /* owned */
	size_t nentries, entries_room;
	bool unordered;

	uint64_t data_start;
	uint32_t source_index;
};

static const struct {
	const char *name;
	enum tasd_dtype dtype;
} dtypes[] = {
	{"BOOL", TASD_DTYPE_BOOL},
	{"F4", TASD_DTYPE_F4_E2M1FN},
	{"F6_E2M3", TASD_DTYPE_F6_E2M3FN},
	{"F6_E3M2", TASD_DTYPE_F6_E3M2FN},
	{"U8", TASD_DTYPE_U8},
	{"I8", TASD_DTYPE_I8},
	{"F8_E5M2", TASD_DTYPE_F8_E5M2},
	{"F8_E4M3", TASD_DTYPE_F8_E4M3FN},
	{"F8_E8M0", TASD_DTYPE_F8_E8M0FNU},
	{"F8_E4M3FNUZ", TASD_DTYPE_F8_E4M3FNUZ},
	{"F8_E5M2FNUZ", TASD_DTYPE_F8_E5M2FNUZ},
	{"I16", TASD_DTYPE_I16},
	{"U16", TASD_DTYPE_U16},
	{"F16", TASD_DTYPE_F16},
	{"BF16", TASD_DTYPE_BF16},
	{"I32", TASD_DTYPE_I32},
	{"U32", TASD_DTYPE_U32},
	{"F32", TASD_DTYPE_F32},
	{"C64", TASD_DTYPE_C64},
	{"F64", TASD_DTYPE_F64},
	{"I64", TASD_DTYPE_I64},
	{"U64", TASD_DTYPE_U64},
};

const char *tasd_st_dtype_name(enum tasd_dtype dtype)
{
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (dtypes[i].dtype == dtype)
			return dtypes[i].name;
	return NULL;
}

const char *tasd_st_number(char out[TASD_ST_NUMBER_MAX], uint64_t value)
{
	char *at = out + TASD_ST_NUMBER_MAX - 1;
	unsigned int digits = 0;

	*at = '\0';
	do {
		if (digits > 0 && digits % 3 == 0)
			*--at = ',';
		*--at = (char)('0' + value % 10);
		digits++;
		value /= 10;
	} while (value);
	return at;
}

struct tasd_tensor *tasd_st_tensor_copy(
	struct tasd_arena *arena, const struct tasd_tensor *tensor)
{
	size_t size = tensor->ndim * sizeof(uint64_t);
	struct tasd_tensor *copy =
		tasd_arena_alloc(arena, sizeof(*copy) + size);

	if (!copy)
		return NULL;
	*copy = *tensor;
	copy->shape = NULL;
	if (size) {
		uint64_t *shape = (uint64_t *)(copy + 1);

		memcpy(shape, tensor->shape, size);
		copy->shape = shape;
	}
	return copy;
}

/* The name at hand, fit for a message. */
struct shown {
	char text[SHOWN_MAX];
};

static struct shown shown(const char *text, size_t len)
{
	struct shown out;

	tasd_print_bytes(out.text, sizeof(out.text), text, len);
	return out;
}

/* Refuse because of the tensor at hand. */
#define BAD(r, format, ...)                                                    \
	tasd_diag_set((r)->diag, -EINVAL, "tensor \"%s\": " format,            \
		shown((r)->name.bytes, (r)->name.len).text, ##__VA_ARGS__)

static tasd_err keep_name(struct reader *r, const struct tasd_json_event *e)
{
	if (e->len > UINT32_MAX)
		return -E2BIG;
	r->name.len = 0;
	tasd_buf_add(&r->name, e->text, e->len);
	return tasd_buf_err(&r->name);
}

static tasd_err at_start(struct reader *r, const struct tasd_json_event *e)
{
	if (e->type != TASD_JSON_MAP_BEGIN)
		return tasd_diag_set(r->diag, -EINVAL,
			"the header is %s, an object was expected",
			tasd_json_type_name(e->type));
	r->state = IN_HEADER;
	return 0;
}

static tasd_err in_header(struct reader *r, const struct tasd_json_event *e)
{
	static const char metadata[] = "__metadata__";

	if (e->type == TASD_JSON_MAP_END)
		return 0; /* the reader takes care that nothing follows */
	if (e->len == strlen(metadata) &&
		memcmp(e->text, metadata, e->len) == 0) {
		if (r->has_metadata)
			return tasd_diag_set(
				r->diag, -EINVAL, "__metadata__ stands twice");
		r->has_metadata = true;
		r->state = AT_METADATA;
		return 0;
	}
	r->state = AT_TENSOR;
	return keep_name(r, e);
}

static tasd_err at_metadata(struct reader *r, const struct tasd_json_event *e)
{
	if (e->type == TASD_JSON_NULL)
		r->state = IN_HEADER;
	else if (e->type == TASD_JSON_MAP_BEGIN)
		r->state = IN_METADATA;
	else
		return tasd_diag_set(r->diag, -EINVAL,
			"__metadata__ is %s, an object was expected",
			tasd_json_type_name(e->type));
	return 0;
}

static tasd_err in_metadata(struct reader *r, const struct tasd_json_event *e)
{
	if (e->type == TASD_JSON_MAP_END) {
		r->state = IN_HEADER;
		return 0;
	}
	r->state = AT_META;
	return keep_name(r, e);
}

static tasd_err at_meta(struct reader *r, const struct tasd_json_event *e)
{
	if (e->type != TASD_JSON_STRING)
		return tasd_diag_set(r->diag, -EINVAL,
			"metadata \"%s\" is %s, a string was expected",
			shown(r->name.bytes, r->name.len).text,
			tasd_json_type_name(e->type));
	if (e->len > UINT32_MAX)
		return -E2BIG;
	r->state = IN_METADATA;
	return r->sink->meta(r->sink->ctx, r->name.len ? r->name.bytes : "",
		(uint32_t)r->name.len, e->text, (uint32_t)e->len);
}

static tasd_err at_tensor(struct reader *r, const struct tasd_json_event *e)
{
	if (e->type != TASD_JSON_MAP_BEGIN && e->type != TASD_JSON_ARRAY_BEGIN)
		return BAD(r, "it is %s, an object was expected",
			tasd_json_type_name(e->type));
	r->is_array = e->type == TASD_JSON_ARRAY_BEGIN;
	r->field = FIELD_DTYPE;
	memset(r->seen, 0, sizeof(r->seen));
	r->ndim = 0;
	r->noffsets = 0;
	r->state = IN_TENSOR;
	return 0;
}

/* "[2, 3]", cut when it is long. */
static const char *print_shape(char *out, size_t size, const struct reader *r)
{
	size_t at = 1;

	out[0] = '[';
	for (uint32_t i = 0; i < r->ndim; i++) {
		if (at + sizeof("18446744073709551615, ...]") > size) {
			strcpy(out + at, "...");
			at += strlen("...");
			break;
		}
		at += (size_t)sprintf(out + at, "%s%llu", i > 0 ? ", " : "",
			(unsigned long long)r->shape[i]);
	}
	strcpy(out + at, "]");
	return out;
}

/* Its dtype and shape give its size: it must be that of its range. */
static tasd_err check_size(struct reader *r, uint64_t *ret_nbytes)
{
	const char *dtype = tasd_dtype_info(r->dtype)->name;
	char a[TASD_ST_NUMBER_MAX], b[TASD_ST_NUMBER_MAX];
	char shape[64];
	uint64_t begin = r->offsets[0], end = r->offsets[1];
	tasd_err err;

	if (end < begin)
		return BAD(r,
			"data_offsets end at %llu, before they begin "
			"at %llu",
			(unsigned long long)end, (unsigned long long)begin);
	err = tasd_dtype_nbytes(r->dtype, r->shape, r->ndim, ret_nbytes);
	if (err == -EOVERFLOW)
		return BAD(r, "its shape overflows 64 bits");
	if (err)
		return BAD(r,
			"%s elements of its shape do not fill whole bytes",
			dtype);
	if (*ret_nbytes != end - begin)
		return BAD(r, "%s %s takes %s bytes, data_offsets hold %s",
			dtype, print_shape(shape, sizeof(shape), r),
			tasd_st_number(a, *ret_nbytes),
			tasd_st_number(b, end - begin));
	return 0;
}

static tasd_err add_entry(struct reader *r, const char *name)
{
	uint64_t begin = r->offsets[0];
	const struct tasd_arena *budget = r->sink->budget;

	if (r->nentries == r->entries_room) {
		size_t room = r->entries_room ? 2 * r->entries_room : 64;
		struct entry *entries;

		if (room > (budget->limit - budget->used) / sizeof(*entries))
			return -E2BIG;
		entries = realloc(r->entries, room * sizeof(*entries));
		if (!entries)
			return -ENOMEM;
		r->entries = entries;
		r->entries_room = room;
	}
	if (begin != (r->nentries ? r->entries[r->nentries - 1].end : 0))
		r->unordered = true;
	r->entries[r->nentries++] = (struct entry){
		.begin = begin,
		.end = r->offsets[1],
		.name = name,
		.len = (uint32_t)r->name.len,
	};
	return 0;
}

static tasd_err end_tensor(struct reader *r)
{
	struct tasd_tensor tensor = {
		.shape = r->ndim ? r->shape : NULL,
		.ndim = r->ndim,
		.dtype = (uint8_t)r->dtype,
		.data = TASD_DATA_PLAIN,
		.nextents = 1,
	};
	const char *name = NULL;
	tasd_err err;

	for (int i = 0; i < FIELD_COUNT; i++) {
		if (!r->seen[i])
			return BAD(r, "no %s", field_names[i]);
	}
	err = check_size(r, &tensor.nbytes);
	if (err)
		return err;
	tensor.extent = (struct tasd_extent){
		.length = tensor.nbytes,
		.source = r->source_index,
	};
	if (!tasd_add_u64(r->data_start, r->offsets[0], &tensor.extent.offset))
		return BAD(r, "data_offsets lie past the end of any file");
	err = r->sink->tensor(r->sink->ctx, r->name.len ? r->name.bytes : "",
		(uint32_t)r->name.len, &tensor, &name);
	if (err == -EEXIST)
		return tasd_diag_set(r->diag, -EINVAL,
			"duplicate tensor name \"%s\"",
			shown(r->name.bytes, r->name.len).text);
	if (err)
		return err;
	r->state = IN_HEADER;
	return add_entry(r, name);
}

static tasd_err at_field(struct reader *r, const struct tasd_json_event *e);

static tasd_err in_tensor(struct reader *r, const struct tasd_json_event *e)
{
	if (e->type == TASD_JSON_MAP_END || e->type == TASD_JSON_ARRAY_END)
		return end_tensor(r);
	if (r->is_array) {
		if (r->field == FIELD_COUNT)
			return BAD(r, "more than 3 items");
		r->seen[r->field] = true;
		return at_field(r, e);
	}
	r->state = AT_FIELD;
	r->field = UNKNOWN;
	for (int i = 0; i < FIELD_COUNT; i++) {
		if (e->len != strlen(field_names[i]) ||
			memcmp(e->text, field_names[i], e->len) != 0)
			continue;
		if (r->seen[i])
			return BAD(r, "%s stands twice", field_names[i]);
		r->seen[i] = true;
		r->field = i;
	}
	return 0;
}

/* The value of a field is complete. */
static void end_field(struct reader *r)
{
	r->state = IN_TENSOR;
	if (r->is_array)
		r->field++;
}

static tasd_err take_dtype(struct reader *r, const struct tasd_json_event *e)
{
	if (e->type != TASD_JSON_STRING)
		return BAD(r, "dtype is %s, a string was expected",
			tasd_json_type_name(e->type));
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		if (e->len != strlen(dtypes[i].name) ||
			memcmp(e->text, dtypes[i].name, e->len) != 0)
			continue;
		r->dtype = dtypes[i].dtype;
		end_field(r);
		return 0;
	}
	return BAD(r, "unknown dtype \"%s\"", shown(e->text, e->len).text);
}

static tasd_err at_field(struct reader *r, const struct tasd_json_event *e)
{
	bool begins = e->type == TASD_JSON_MAP_BEGIN ||
		      e->type == TASD_JSON_ARRAY_BEGIN;

	switch (r->field) {
	case FIELD_DTYPE:
		return take_dtype(r, e);
	case FIELD_SHAPE:
	case FIELD_OFFSETS:
		if (e->type != TASD_JSON_ARRAY_BEGIN)
			return BAD(r, "%s is %s, an array was expected",
				field_names[r->field],
				tasd_json_type_name(e->type));
		r->state = r->field == FIELD_SHAPE ? IN_SHAPE : IN_OFFSETS;
		return 0;
	case FIELD_COUNT:
	case UNKNOWN:
	default:
		if (!begins) {
			end_field(r);
			return 0;
		}
		r->skip_depth = e->depth;
		r->state = IN_SKIPPED;
		return 0;
	}
}

static tasd_err take_number(
	struct reader *r, const struct tasd_json_event *e, uint64_t *ret)
{
	const char *what = field_names[r->field];

	if (e->type != TASD_JSON_NUMBER)
		return BAD(r, "%s holds %s, a number was expected", what,
			tasd_json_type_name(e->type));
	if (tasd_json_u64(e->text, e->len, ret))
		return BAD(r,
			"%s holds %s, an unsigned 64-bit integer was expected",
			what, shown(e->text, e->len).text);
	return 0;
}

static tasd_err in_shape(struct reader *r, const struct tasd_json_event *e)
{
	uint64_t count = 0;
	tasd_err err;

	if (e->type == TASD_JSON_ARRAY_END) {
		end_field(r);
		return 0;
	}
	err = take_number(r, e, &count);
	if (err)
		return err;
	if (r->ndim == TASD_ST_RANK_MAX)
		return BAD(r, "more than %u dimensions", TASD_ST_RANK_MAX);
	if (r->ndim == r->shape_room) {
		uint32_t room = r->shape_room ? 2 * r->shape_room : 8;
		uint64_t *shape = realloc(r->shape, room * sizeof(*shape));

		if (!shape)
			return -ENOMEM;
		r->shape = shape;
		r->shape_room = room;
	}
	r->shape[r->ndim++] = count;
	return 0;
}

static tasd_err in_offsets(struct reader *r, const struct tasd_json_event *e)
{
	uint64_t offset = 0;
	tasd_err err;

	if (e->type == TASD_JSON_ARRAY_END) {
		if (r->noffsets != 2)
			return BAD(r,
				"data_offsets has %u numbers, 2 were expected",
				r->noffsets);
		end_field(r);
		return 0;
	}
	err = take_number(r, e, &offset);
	if (err)
		return err;
	if (r->noffsets == 2)
		return BAD(r, "data_offsets has more than 2 numbers");
	r->offsets[r->noffsets++] = offset;
	return 0;
}

static tasd_err in_skipped(struct reader *r, const struct tasd_json_event *e)
{
	if (e->depth == r->skip_depth &&
		(e->type == TASD_JSON_MAP_END ||
			e->type == TASD_JSON_ARRAY_END))
		end_field(r);
	return 0;
}

static tasd_err on_event(void *ctx, const struct tasd_json_event *e)
{
	static tasd_err (*const steps[])(
		struct reader *, const struct tasd_json_event *) = {
		[AT_START] = at_start,
		[IN_HEADER] = in_header,
		[AT_METADATA] = at_metadata,
		[IN_METADATA] = in_metadata,
		[AT_META] = at_meta,
		[AT_TENSOR] = at_tensor,
		[IN_TENSOR] = in_tensor,
		[AT_FIELD] = at_field,
		[IN_SHAPE] = in_shape,
		[IN_OFFSETS] = in_offsets,
		[IN_SKIPPED] = in_skipped,
	};
	struct reader *r = ctx;

	return steps[r->state](r, e);
}

static int by_range(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	return 0;
}

/* size is that of the data behind the header. */
static tasd_err check_layout(struct reader *r, uint64_t size)
{
	char a[TASD_ST_NUMBER_MAX], b[TASD_ST_NUMBER_MAX];
	uint64_t at = 0;

	if (r->unordered)
		qsort(r->entries, r->nentries, sizeof(*r->entries), by_range);
	for (size_t i = 0; i < r->nentries; i++) {
		const struct entry *e = &r->entries[i];

		if (e->begin < at)
			return tasd_diag_set(r->diag, -EINVAL,
				"tensor \"%s\": begins at %s, inside the "
				"tensor before it, which ends at %s",
				shown(e->name, e->len).text,
				tasd_st_number(a, e->begin),
				tasd_st_number(b, at));
		if (e->begin > at)
			return tasd_diag_set(r->diag, -EINVAL,
				"tensor \"%s\": begins at %s, expected %s: the "
				"bytes between belong to no tensor",
				shown(e->name, e->len).text,
				tasd_st_number(a, e->begin),
				tasd_st_number(b, at));
		at = e->end;
	}
	if (at > size)
		return tasd_diag_set(r->diag, -EINVAL,
			"truncated: needs %s more bytes",
			tasd_st_number(a, at - size));
	if (at < size)
		return tasd_diag_set(r->diag, -EINVAL,
			"%s bytes after the last tensor",
			tasd_st_number(a, size - at));
	return 0;
}

/* The length in front, which must leave the header inside the file. */
static tasd_err read_length(
	struct tasd_source *source, uint64_t *ret_len, struct tasd_diag *diag)
{
	unsigned char bytes[8] = {0};
	struct tasd_cursor c = tasd_cursor_over(bytes, sizeof(bytes));
	char a[TASD_ST_NUMBER_MAX];
	tasd_err err;

	if (source->size < sizeof(bytes))
		return tasd_diag_set(diag, -EINVAL,
			"%llu bytes are too few for a safetensors header",
			(unsigned long long)source->size);
	err = tasd_source_pread(source, bytes, sizeof(bytes), 0);
	if (!err)
		err = tasd_cursor_u64le(&c, ret_len);
	if (err)
		return err;
	if (*ret_len > TASD_ST_HEADER_MAX)
		return tasd_diag_set(diag, -EINVAL,
			"header length %s is over 100,000,000",
			tasd_st_number(a, *ret_len));
	if (*ret_len > source->size - sizeof(bytes))
		return tasd_diag_set(diag, -EINVAL,
			"truncated: the header needs %s more bytes",
			tasd_st_number(
				a, *ret_len - (source->size - sizeof(bytes))));
	if (*ret_len == 0)
		return tasd_diag_set(diag, -EINVAL, "header length is 0");
	return 0;
}

tasd_err tasd_st_json_read(struct tasd_source *source, uint64_t from,
	uint64_t len, struct tasd_json *json, struct tasd_diag *diag)
{
	cleanup_free char *chunk = malloc(TASD_ST_CHUNK);

	if (!chunk)
		return -ENOMEM;
	tasd_json_starts_at(json, from);
	while (len > 0) {
		size_t n = len < TASD_ST_CHUNK ? (size_t)len : TASD_ST_CHUNK;
		tasd_err err = tasd_source_pread(source, chunk, n, from);

		if (!err)
			err = tasd_json_push(json, chunk, n, diag);
		if (err)
			return err;
		from += n;
		len -= n;
	}
	return tasd_json_end(json, diag);
}

tasd_err tasd_st_header_read(struct tasd_source *source, uint32_t source_index,
	const struct tasd_st_sink *sink, struct tasd_diag *diag)
{
	struct reader r = {
		.sink = sink,
		.diag = diag,
		.name = TASD_BUF_EMPTY,
		.source_index = source_index,
	};
	struct tasd_json *json = NULL;
	uint64_t len = 0;
	tasd_err err = read_length(source, &len, diag);

	if (err)
		return err;
	r.data_start = 8 + len;
	err = tasd_json_new(on_event, &r, DEPTH_MAX, &json);
	if (err)
		return err;
	err = tasd_st_json_read(source, 8, len, json, diag);
	if (!err)
		err = check_layout(&r, source->size - r.data_start);
	tasd_json_free(json);
	tasd_buf_free(&r.name);
	free(r.shape);
	free(r.entries);
	return err;
}

bool tasd_st_plausible(const unsigned char *head, size_t len)
{
	struct tasd_cursor c = tasd_cursor_over(head, len);
	uint64_t header = 0;
	uint8_t byte = 0;

	if (tasd_cursor_u64le(&c, &header) || header < 2 ||
		header > TASD_ST_HEADER_MAX)
		return false;
	while (tasd_cursor_u8(&c, &byte) == 0) {
		if (!tasd_json_is_space(byte))
			return byte == '{';
	}
	return false;
}
