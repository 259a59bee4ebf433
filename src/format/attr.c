/*
 * One table row per attribute: its name, and a function that appends its value
 * or says that this node has none.  Which attributes a node has follows from
 * that alone, so a listed name always has a value.
 *
 * Metadata names are the only ones that come from the file.  They get what the
 * list limit leaves; how many do not fit is the same for every caller.
 */
#include <base/checked.h>
#include <format/attr.h>
#include <format/content.h>
#include <format/format.h>
#include <statedict/name.h>
#include <string.h>

#define PREFIX_LEN    (sizeof("user.tasd.") - 1)
#define META_PREFIX   "meta."
#define META_NAME_MAX (255 - PREFIX_LEN - (sizeof(META_PREFIX) - 1))

/* Kept free in the list for the names in the table. */
#define TABLE_ROOM 1024

struct asked {
	const struct tasd_container *ctr;
	const struct tasd_node *node;
	bool with_source;
};

static bool is_root(const struct asked *a)
{
	return !a->node->parent;
}

static const struct tasd_tensor *tensor_of(const struct asked *a)
{
	return a->node->form == TASD_FORM_TENSOR ? a->node->tensor : NULL;
}

/* Its dtype and shape are known. */
static const struct tasd_tensor *known_tensor(const struct asked *a)
{
	const struct tasd_tensor *tensor = tensor_of(a);

	return tensor && tasd_tensor_dtype(tensor)[0] ? tensor : NULL;
}

/* Nothing is wrong with it. */
static const struct tasd_tensor *sound_tensor(const struct asked *a)
{
	const struct tasd_tensor *tensor = known_tensor(a);

	return tensor && tensor->data != TASD_DATA_BROKEN ? tensor : NULL;
}

/* What only this node has, by a name that is not in the table. */
static const struct tasd_node_fact *find_fact(
	const struct tasd_node *node, const char *name)
{
	for (uint32_t i = 0; node->extra && i < node->extra->nfacts; i++)
		if (strcmp(node->extra->facts[i].name, name) == 0)
			return &node->extra->facts[i];
	return NULL;
}

static bool get_kind(const struct asked *a, struct tasd_buf *value)
{
	tasd_buf_str(value, tasd_kind_name(a->node->kind));
	return true;
}

static bool get_key(const struct asked *a, struct tasd_buf *value)
{
	if (is_root(a) && tasd_statedict_whole(a->ctr->sd))
		return false;
	tasd_node_key_json(value, a->node);
	return true;
}

static bool get_order(const struct asked *a, struct tasd_buf *value)
{
	if (is_root(a))
		return false;
	tasd_buf_u64(value, a->node->order);
	return true;
}

static bool get_dtype(const struct asked *a, struct tasd_buf *value)
{
	const struct tasd_tensor *tensor = known_tensor(a);

	if (!tensor)
		return false;
	tasd_buf_str(value, tasd_tensor_dtype(tensor));
	return true;
}

static bool get_shape(const struct asked *a, struct tasd_buf *value)
{
	const struct tasd_tensor *tensor = known_tensor(a);

	if (!tensor)
		return false;
	tasd_buf_char(value, '[');
	for (uint32_t i = 0; i < tensor->ndim; i++) {
		if (i > 0)
			tasd_buf_str(value, ", ");
		tasd_buf_u64(value, tensor->shape[i]);
	}
	tasd_buf_char(value, ']');
	return true;
}

/* Row-major strides; as torch has it, an empty dimension counts as one. */
static bool add_row_major(
	const struct tasd_tensor *tensor, struct tasd_buf *value)
{
	uint64_t step = 1;

	for (uint32_t i = 0; i < tensor->ndim; i++) {
		uint64_t n = tensor->shape[i] ? tensor->shape[i] : 1;

		if (!tasd_mul_u64(step, n, &step))
			return false;
	}
	for (uint32_t i = 0; i < tensor->ndim; i++) {
		if (i > 0)
			tasd_buf_str(value, ", ");
		step /= tensor->shape[i] ? tensor->shape[i] : 1;
		tasd_buf_u64(value, step);
	}
	return true;
}

static bool get_stride(const struct asked *a, struct tasd_buf *value)
{
	const struct tasd_tensor *tensor = sound_tensor(a);
	const uint64_t *saved;

	if (!tensor)
		return false;
	tasd_buf_char(value, '[');
	saved = tensor->extra ? tensor->extra->stride : NULL;
	for (uint32_t i = 0; saved && i < tensor->ndim; i++) {
		if (i > 0)
			tasd_buf_str(value, ", ");
		tasd_buf_u64(value, saved[i]);
	}
	if (!saved && !add_row_major(tensor, value))
		return false;
	tasd_buf_char(value, ']');
	return true;
}

static bool get_device(const struct asked *a, struct tasd_buf *value)
{
	const struct tasd_tensor *tensor = sound_tensor(a);

	if (!tensor)
		return false;
	tasd_buf_str(value, tensor->extra && tensor->extra->device
				    ? tensor->extra->device
				    : "cpu");
	return true;
}

static bool get_requires_grad(const struct asked *a, struct tasd_buf *value)
{
	if (!sound_tensor(a))
		return false;
	tasd_buf_str(value, a->node->requires_grad ? "true" : "false");
	return true;
}

static bool get_layout(const struct asked *a, struct tasd_buf *value)
{
	/* A format that knows better says so itself. */
	if (!sound_tensor(a) || find_fact(a->node, "layout"))
		return false;
	tasd_buf_str(value, "strided");
	return true;
}

static bool get_class(const struct asked *a, struct tasd_buf *value)
{
	if (!a->node->extra || !a->node->extra->class)
		return false;
	tasd_buf_str(value, a->node->extra->class);
	return true;
}

/* Which other tensors look at the same bytes. */
static bool get_storage(const struct asked *a, struct tasd_buf *value)
{
	const struct tasd_tensor *tensor = tensor_of(a);

	if (!tensor || !tensor->extra || !tensor->extra->storage)
		return false;
	tasd_buf_u64(value, tensor->extra->storage);
	return true;
}

/* Symlinks have no attributes of their own: {name: key}. */
static bool get_links(const struct asked *a, struct tasd_buf *value)
{
	const struct tasd_node *dir = a->node;
	bool any = false;

	for (uint32_t i = 0;
		dir->form == TASD_FORM_DIR && i < dir->dir.nchildren; i++) {
		const struct tasd_node *child = dir->dir.children[i];

		if (child->form != TASD_FORM_LINK)
			continue;
		tasd_buf_str(value, any ? ", " : "{");
		tasd_buf_json_str(value, child->name, child->name_len);
		tasd_buf_str(value, ": ");
		tasd_node_key_json(value, child);
		any = true;
	}
	if (any)
		tasd_buf_char(value, '}');
	return any;
}

static bool get_unsafe(const struct asked *a, struct tasd_buf *value)
{
	if (!is_root(a))
		return false;
	tasd_buf_u64(value, a->ctr->nunsafe);
	return true;
}

static bool get_nbytes(const struct asked *a, struct tasd_buf *value)
{
	const struct tasd_tensor *tensor = known_tensor(a);

	if (!tensor)
		return false;
	tasd_buf_u64(value, tensor->nbytes);
	return true;
}

static bool get_state(const struct asked *a, struct tasd_buf *value)
{
	const struct tasd_tensor *tensor = sound_tensor(a);

	if (!tensor)
		return false;
	tasd_buf_str(value, tensor->data == TASD_DATA_PLACEHOLDER
				    ? "placeholder"
				    : "popped");
	return true;
}

static bool get_source(const struct asked *a, struct tasd_buf *value)
{
	struct tasd_source *source;
	uint64_t offset;

	if (!a->with_source || !tasd_content_window(a->ctr, a->node,
				       TASD_VIEW_RAW, &source, &offset))
		return false;
	tasd_buf_str(value, "{\"file\": ");
	tasd_buf_json_str(value, source->name, strlen(source->name));
	tasd_buf_str(value, ", \"offset\": ");
	tasd_buf_u64(value, offset);
	tasd_buf_str(value, ", \"length\": ");
	tasd_buf_u64(value, a->node->tensor->nbytes);
	tasd_buf_char(value, '}');
	return true;
}

/* What fits of several lines, whole lines unless there is only one. */
static size_t cut(const char *text, size_t len)
{
	if (len <= TASD_ATTR_VALUE_MAX)
		return len;
	len = TASD_ATTR_VALUE_MAX;
	while (len > 0 && text[len] != '\n')
		len--;
	if (len)
		return len;
	len = TASD_ATTR_VALUE_MAX;
	while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	return len;
}

static bool get_error(const struct asked *a, struct tasd_buf *value)
{
	const struct tasd_container *ctr = a->ctr;
	const char *error = a->node->error;

	if (is_root(a) && ctr->problems)
		tasd_buf_add(value, ctr->problems,
			cut(ctr->problems, ctr->problems_len));
	else if (error)
		tasd_buf_add(value, error, cut(error, strlen(error)));
	else
		return false;
	return true;
}

static bool get_format(const struct asked *a, struct tasd_buf *value)
{
	if (!is_root(a))
		return false;
	tasd_buf_str(value, a->ctr->format->name);
	return true;
}

static bool get_tensors(const struct asked *a, struct tasd_buf *value)
{
	if (!is_root(a))
		return false;
	tasd_buf_u64(value, tasd_statedict_totals(a->ctr->sd).tensors);
	return true;
}

static bool get_bytes(const struct asked *a, struct tasd_buf *value)
{
	if (!is_root(a))
		return false;
	tasd_buf_u64(value, tasd_statedict_totals(a->ctr->sd).bytes);
	return true;
}

/* Nothing is ever inserted or changed in a container that is only read. */
static bool root_says(
	const struct asked *a, struct tasd_buf *value, const char *text)
{
	if (!is_root(a))
		return false;
	tasd_buf_str(value, text);
	return true;
}

static bool get_true(const struct asked *a, struct tasd_buf *value)
{
	return root_says(a, value, "true");
}

static bool get_zero(const struct asked *a, struct tasd_buf *value)
{
	return root_says(a, value, "0");
}

static bool get_one(const struct asked *a, struct tasd_buf *value)
{
	return root_says(a, value, "1");
}

static bool get_meta_omitted(const struct asked *a, struct tasd_buf *value);

static const struct {
	const char *name;
	bool (*get)(const struct asked *a, struct tasd_buf *value);
} table[] = {
	{"kind", get_kind},
	{"key", get_key},
	{"order", get_order},
	{"dtype", get_dtype},
	{"shape", get_shape},
	{"stride", get_stride},
	{"device", get_device},
	{"requires_grad", get_requires_grad},
	{"layout", get_layout},
	{"nbytes", get_nbytes},
	{"state", get_state},
	{"source", get_source},
	{"class", get_class},
	{"storage", get_storage},
	{"links", get_links},
	{"error", get_error},
	{"format", get_format},
	{"is_hollow", get_true},
	{"inserted", get_zero},
	{"resident_bytes", get_zero},
	{"tensors", get_tensors},
	{"bytes", get_bytes},
	{"generation", get_one},
	{"committed", get_true},
	{"unsafe", get_unsafe},
	{"meta_omitted", get_meta_omitted},
};

#define TABLE_ROWS (sizeof(table) / sizeof(table[0]))

void tasd_attr_meta_name(
	struct tasd_buf *buf, const struct tasd_meta *meta, size_t max)
{
	tasd_name_escape(buf, meta->name, meta->name_len, max);
}

/*
 * Call fn (may be NULL) for each metadata pair that is listed; returns how many
 * are not.
 */
static uint64_t walk_meta(const struct tasd_container *ctr,
	void (*fn)(void *ctx, const char *name), void *ctx)
{
	size_t room = TASD_ATTR_LIST_MAX - TABLE_ROOM;
	struct tasd_buf name = TASD_BUF_EMPTY;
	uint64_t omitted = 0;

	for (uint32_t i = 0; i < ctr->nmeta; i++) {
		const struct tasd_meta *meta = &ctr->meta[i];
		size_t need;

		if (meta->value_len > TASD_ATTR_VALUE_MAX || room == 0) {
			omitted++;
			continue;
		}
		name.len = 0;
		tasd_buf_str(&name, META_PREFIX);
		tasd_attr_meta_name(&name, meta, META_NAME_MAX);
		tasd_buf_char(&name, '\0');
		need = PREFIX_LEN + name.len;
		if (tasd_buf_err(&name) || need > room) {
			/* The first that does not fit ends the list, so that
			 * a hundred thousand others cost nothing. */
			room = 0;
			omitted++;
			continue;
		}
		room -= need;
		if (fn)
			fn(ctx, name.bytes);
	}
	tasd_buf_free(&name);
	return omitted;
}

static bool get_meta_omitted(const struct asked *a, struct tasd_buf *value)
{
	uint64_t omitted = is_root(a) ? walk_meta(a->ctr, NULL, NULL) : 0;

	if (!omitted)
		return false;
	tasd_buf_u64(value, omitted);
	return true;
}

/* The metadata pair whose escaped name is `name`. */
static const struct tasd_meta *find_meta(
	const struct tasd_container *ctr, const char *name)
{
	struct tasd_buf escaped = TASD_BUF_EMPTY;
	const struct tasd_meta *found = NULL;
	size_t len = strlen(name);

	for (uint32_t i = 0; i < ctr->nmeta && !found; i++) {
		const struct tasd_meta *meta = &ctr->meta[i];

		/* Escaping and cutting show in the name; most have neither. */
		if (meta->name_len == len &&
			memcmp(meta->name, name, len) == 0 &&
			len <= META_NAME_MAX &&
			tasd_name_is_plain(meta->name, len)) {
			found = meta;
			break;
		}
		if (!strchr(name, '%'))
			continue;
		escaped.len = 0;
		tasd_attr_meta_name(&escaped, meta, META_NAME_MAX);
		if (escaped.len == len && memcmp(escaped.bytes, name, len) == 0)
			found = meta;
	}
	tasd_buf_free(&escaped);
	return found;
}

static bool get_meta(
	const struct asked *a, const char *name, struct tasd_buf *value)
{
	const struct tasd_meta *meta =
		is_root(a) ? find_meta(a->ctr, name) : NULL;

	if (!meta || meta->value_len > TASD_ATTR_VALUE_MAX)
		return false;
	tasd_buf_add(value, meta->value, meta->value_len);
	return true;
}

tasd_err tasd_attr_get(const struct tasd_container *ctr,
	const struct tasd_node *node, const char *name, bool with_source,
	struct tasd_buf *value, bool *ret_found)
{
	const struct asked asked = {
		.ctr = ctr,
		.node = node,
		.with_source = with_source,
	};
	const struct tasd_node_fact *fact;
	size_t before = value->len;

	*ret_found = false;
	if (strncmp(name, META_PREFIX, strlen(META_PREFIX)) == 0) {
		*ret_found =
			get_meta(&asked, name + strlen(META_PREFIX), value);
		return tasd_buf_err(value);
	}
	for (size_t i = 0; i < TABLE_ROWS; i++) {
		if (strcmp(table[i].name, name) != 0)
			continue;
		*ret_found = table[i].get(&asked, value);
		break;
	}
	fact = *ret_found ? NULL : find_fact(node, name);
	if (fact) {
		tasd_buf_add(value, fact->value, fact->len);
		*ret_found = true;
	}
	if (value->len - before > TASD_ATTR_VALUE_MAX &&
		strcmp(name, "key") != 0)
		*ret_found = false;
	if (!*ret_found)
		value->len = before;
	return tasd_buf_err(value);
}

void tasd_attr_list(const struct tasd_container *ctr,
	const struct tasd_node *node, bool with_source,
	void (*fn)(void *ctx, const char *name), void *ctx)
{
	for (size_t i = 0; i < TABLE_ROWS; i++) {
		struct tasd_buf value = tasd_buf_counting();
		bool found = false;

		if (tasd_attr_get(ctr, node, table[i].name, with_source, &value,
			    &found) == 0 &&
			found)
			fn(ctx, table[i].name);
	}
	if (!node->parent)
		walk_meta(ctr, fn, ctx);
}
