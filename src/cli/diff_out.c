/*
 * A line is what, key, and in what they differ; trouble goes to standard
 * error, and into the JSON too.
 */
#include "cli.h"
#include "diff.h"
#include "print.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_SHOWN 48
#define REAL_TEXT   40

static const char *const list_names[TASD_DIFF_LISTS] = {
	[TASD_DIFF_ONLY_A] = "only_in_a",
	[TASD_DIFF_ONLY_B] = "only_in_b",
	[TASD_DIFF_DIFFERS] = "different",
	[TASD_DIFF_TROUBLES] = "trouble",
};

static void print_line(struct tasd_diff_out *out, struct tasd_buf *line)
{
	tasd_buf_char(line, '\n');
	if (out->rc)
		tasd_buf_free(line);
	else
		out->rc = tasd_print_lines(line);
}

/* Begin an object of that list, with its key. */
static struct tasd_buf *begin_object(struct tasd_diff_out *out,
	enum tasd_diff_list list, const struct tasd_leaf *leaf)
{
	struct tasd_buf *json = &out->lists[list];

	tasd_buf_str(json, out->counts[list] > 1 ? ",\n  {" : "\n  {");
	tasd_buf_str(json, "\"key\": ");
	tasd_buf_json_str(json, leaf->key, leaf->len);
	return json;
}

static const char *kind_of(const struct tasd_node *node)
{
	return node->form == TASD_FORM_LINK
		       ? "link"
		       : tasd_kind_name((enum tasd_kind)node->kind);
}

/* "float32 [2, 3]", "int 7", "str of 1,200 bytes", "dict". */
static void describe(struct tasd_buf *buf, const struct tasd_node *node)
{
	char number[TASD_NUMBER_TEXT + 32];
	uint64_t len;

	if (node->form == TASD_FORM_TENSOR) {
		const char *dtype = tasd_tensor_dtype(node->tensor);

		tasd_print_name(buf, dtype, strlen(dtype));
		tasd_buf_char(buf, ' ');
		tasd_print_shape(buf, node->tensor);
		return;
	}
	tasd_buf_str(buf, kind_of(node));
	if (tasd_leaf_is_compound(node))
		tasd_buf_str(buf, " of several");
	else if (node->form == TASD_FORM_DIR)
		tasd_buf_str(buf, " of nothing");
	if (node->form != TASD_FORM_VALUE)
		return;
	len = node->value.len;
	/* The newline of what Python prints. */
	if (len && node->kind != TASD_KIND_STR &&
		node->kind != TASD_KIND_BYTES &&
		node->value.bytes[len - 1] == '\n')
		len--;
	if (len > VALUE_SHOWN) {
		tasd_buf_printf(
			buf, " of %s", tasd_print_plural(number, len, "byte"));
		return;
	}
	tasd_buf_char(buf, ' ');
	tasd_print_key(buf, node->value.bytes, len);
}

static void describe_json(
	struct tasd_buf *json, const char *name, const struct tasd_node *node)
{
	tasd_buf_printf(json, ", \"%s\": {", name);
	tasd_json_pair(json, "kind", kind_of(node));
	if (node->form == TASD_FORM_TENSOR) {
		tasd_buf_str(json, ", ");
		tasd_json_pair(json, "dtype", tasd_tensor_dtype(node->tensor));
		tasd_buf_str(json, ", \"shape\": ");
		tasd_print_shape(json, node->tensor);
	}
	tasd_buf_char(json, '}');
}

void tasd_diff_only(
	struct tasd_diff_out *out, const struct tasd_leaf *leaf, int side)
{
	enum tasd_diff_list list = side ? TASD_DIFF_ONLY_B : TASD_DIFF_ONLY_A;
	struct tasd_buf line = TASD_BUF_EMPTY, *json;

	out->counts[list]++;
	if (out->json) {
		json = begin_object(out, list, leaf);
		describe_json(json, side ? "b" : "a", leaf->node);
		tasd_buf_char(json, '}');
		return;
	}
	tasd_buf_str(&line, side ? "only in B: " : "only in A: ");
	tasd_print_key(&line, leaf->key, leaf->len);
	tasd_buf_str(&line, ": ");
	describe(&line, leaf->node);
	print_line(out, &line);
}

static void side_of(struct tasd_buf *line, const struct tasd_node *node,
	const char *what, const char *side)
{
	const struct tasd_node_extra *extra = node->extra;
	const struct tasd_node_fact *fact = NULL;

	for (uint32_t i = 0; extra && i < extra->nfacts; i++)
		if (strcmp(extra->facts[i].name, what) == 0)
			fact = &extra->facts[i];
	if (strcmp(what, "link") == 0) {
		tasd_buf_str(line, "link to ");
		tasd_node_dotted(line, node->link);
	} else if (strcmp(what, "state") == 0) {
		tasd_buf_str(line, node->tensor->data == TASD_DATA_PLACEHOLDER
					   ? "a placeholder"
					   : "with data");
	} else if (fact) {
		tasd_buf_printf(line, "%s ", what);
		tasd_print_cut(line, fact->value, fact->len, VALUE_SHOWN);
	} else {
		describe(line, node);
	}
	tasd_buf_printf(line, " in %s", side);
}

void tasd_diff_headers(struct tasd_diff_out *out, const struct tasd_leaf *a,
	const struct tasd_leaf *b, const char *what)
{
	struct tasd_buf line = TASD_BUF_EMPTY, *json;

	out->counts[TASD_DIFF_DIFFERS]++;
	if (out->json) {
		json = begin_object(out, TASD_DIFF_DIFFERS, a);
		tasd_buf_str(json, ", ");
		tasd_json_pair(json, "what", what);
		describe_json(json, "a", a->node);
		describe_json(json, "b", b->node);
		tasd_buf_char(json, '}');
		return;
	}
	tasd_buf_str(&line, "differs: ");
	tasd_print_key(&line, a->key, a->len);
	tasd_buf_str(&line, ": ");
	side_of(&line, a->node, what, "A");
	tasd_buf_str(&line, ", ");
	side_of(&line, b->node, what, "B");
	print_line(out, &line);
}

/* As few digits as give the number back; Python's json reads Infinity. */
static const char *real_text(char out[REAL_TEXT], double value)
{
	if (isinf(value))
		return "Infinity";
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(out, REAL_TEXT, "%.*g", digits, value);
		if (strtod(out, NULL) == value)
			break;
	}
	return out;
}

/* Where the element is: its index, or its number when it has none. */
static void add_place(struct tasd_buf *buf, const struct tasd_tensor *t,
	const struct tasd_comparison *c)
{
	uint64_t weight = 1, rest = c->at;

	if (t->ndim == 0 || c->elements != tasd_tensor_elements(t)) {
		tasd_buf_char(buf, '[');
		if (t->ndim)
			tasd_buf_u64(buf, c->at);
		tasd_buf_char(buf, ']');
		return;
	}
	/* An element was found, so no dimension is 0 and nothing overflows. */
	for (uint32_t i = 0; i < t->ndim; i++)
		weight *= t->shape[i];
	for (uint32_t i = 0; i < t->ndim; i++) {
		tasd_buf_str(buf, i ? ", " : "[");
		weight /= t->shape[i];
		tasd_buf_u64(buf, rest / weight);
		rest %= weight;
	}
	tasd_buf_char(buf, ']');
}

static void values_json(struct tasd_buf *json, const struct tasd_tensor *t,
	const struct tasd_comparison *c)
{
	char text[REAL_TEXT];

	tasd_buf_str(json, ", ");
	tasd_json_pair(json, "what", "values");
	tasd_buf_str(json, ", \"elements\": ");
	tasd_buf_u64(json, c->elements);
	tasd_buf_str(json, ", \"different\": ");
	tasd_buf_u64(json, c->different);
	if (c->measure == TASD_MEASURE_REAL) {
		tasd_buf_str(json, ", \"nan_in_one\": ");
		tasd_buf_u64(json, c->nan);
	}
	if (c->has_largest) {
		tasd_buf_str(json, ", \"largest\": ");
		if (c->measure == TASD_MEASURE_WHOLE)
			tasd_buf_u64(json, c->whole);
		else
			tasd_buf_str(json, real_text(text, c->real));
		tasd_buf_str(json, ", \"at\": ");
		add_place(json, t, c);
	}
	tasd_buf_char(json, '}');
}

static void values_text(struct tasd_buf *line, const struct tasd_tensor *t,
	const struct tasd_comparison *c)
{
	char number[TASD_NUMBER_TEXT], of[TASD_NUMBER_TEXT + 32];
	bool bytes = c->measure == TASD_MEASURE_NONE && !tasd_tensor_item(t);

	tasd_buf_printf(line, "%s of %s",
		tasd_print_count(number, c->different),
		tasd_print_plural(of, c->elements, bytes ? "byte" : "element"));
	if (c->nan)
		tasd_buf_printf(line, ", %s NaN in one only",
			tasd_print_count(number, c->nan));
	if (!c->has_largest)
		return;
	tasd_buf_str(line, ", largest difference ");
	if (c->measure == TASD_MEASURE_WHOLE)
		tasd_buf_str(line, tasd_print_count(number, c->whole));
	else if (isinf(c->real))
		tasd_buf_str(line, "inf");
	else
		tasd_buf_printf(line, "%.6g", c->real);
	if (t->ndim == 0)
		return;
	tasd_buf_str(line, " at ");
	add_place(line, t, c);
}

void tasd_diff_values(struct tasd_diff_out *out, const struct tasd_leaf *a,
	const struct tasd_leaf *b, const struct tasd_comparison *c)
{
	struct tasd_buf line = TASD_BUF_EMPTY, *json;

	out->counts[TASD_DIFF_DIFFERS]++;
	if (out->json) {
		json = begin_object(out, TASD_DIFF_DIFFERS, a);
		describe_json(json, "a", a->node);
		describe_json(json, "b", b->node);
		values_json(json, a->node->tensor, c);
		return;
	}
	tasd_buf_str(&line, "differs: ");
	tasd_print_key(&line, a->key, a->len);
	tasd_buf_str(&line, ": ");
	values_text(&line, a->node->tensor, c);
	print_line(out, &line);
}

void tasd_diff_trouble(struct tasd_diff_out *out, const struct tasd_leaf *leaf,
	const char *where, const char *reason)
{
	struct tasd_buf key = TASD_BUF_EMPTY, *json;

	if (!reason)
		reason = "cannot be read";
	out->counts[TASD_DIFF_TROUBLES]++;
	tasd_print_key(&key, leaf->key, leaf->len);
	tasd_buf_char(&key, '\0');
	if (!tasd_buf_err(&key))
		tasd_cli_fail("%s: %s: %s", where, key.bytes, reason);
	tasd_buf_free(&key);
	if (!out->json)
		return;
	json = begin_object(out, TASD_DIFF_TROUBLES, leaf);
	tasd_buf_str(json, ", ");
	tasd_json_pair(json, "source", where);
	tasd_buf_str(json, ", ");
	tasd_json_pair(json, "error", reason);
	tasd_buf_char(json, '}');
}

static int verdict(const struct tasd_diff_out *out)
{
	if (out->counts[TASD_DIFF_TROUBLES])
		return TASD_DIFF_TROUBLE;
	for (int list = 0; list < TASD_DIFF_TROUBLES; list++)
		if (out->counts[list])
			return TASD_DIFF_DIFFERENT;
	return TASD_DIFF_EQUAL;
}

static int end_json(struct tasd_diff_out *out, int rc)
{
	struct tasd_buf json = TASD_BUF_EMPTY;

	tasd_buf_printf(&json, "{\"equal\": %s,\n",
		rc == TASD_DIFF_EQUAL ? "true" : "false");
	tasd_buf_printf(&json,
		" \"equal_tensors\": %" PRIu64 ", \"equal_values\": %" PRIu64
		", \"equal_keys\": %" PRIu64,
		out->equal_tensors, out->equal_values,
		out->equal_keys + out->equal_tensors + out->equal_values);
	for (int list = 0; list < TASD_DIFF_LISTS; list++) {
		struct tasd_buf *of = &out->lists[list];

		if (tasd_buf_err(of))
			json.err = tasd_buf_err(of);
		tasd_buf_printf(&json, ",\n \"%s\": [", list_names[list]);
		tasd_buf_add(&json, of->bytes, of->len);
		tasd_buf_char(&json, ']');
	}
	tasd_buf_str(&json, "}\n");
	return tasd_print_json(&json) ? TASD_DIFF_TROUBLE : rc;
}

/* "3 differ", after a comma unless it is the first. */
static void part(struct tasd_buf *line, bool *any, uint64_t n, const char *what)
{
	char text[TASD_NUMBER_TEXT];

	if (!n)
		return;
	tasd_buf_printf(line, "%s%s %s", *any ? ", " : "",
		tasd_print_count(text, n), what);
	*any = true;
}

static void parts(struct tasd_buf *line, const struct tasd_diff_out *out)
{
	const uint64_t *counts = out->counts;
	bool any = false;

	part(line, &any, counts[TASD_DIFF_ONLY_A], "only in A");
	part(line, &any, counts[TASD_DIFF_ONLY_B], "only in B");
	part(line, &any, counts[TASD_DIFF_DIFFERS],
		counts[TASD_DIFF_DIFFERS] == 1 ? "differs" : "differ");
	part(line, &any, counts[TASD_DIFF_TROUBLES], "in trouble");
	if (any)
		tasd_buf_str(line, "; ");
	any = false;
	tasd_buf_str(line, "equal: ");
	part(line, &any, out->equal_tensors,
		out->equal_tensors == 1 ? "tensor" : "tensors");
	part(line, &any, out->equal_values,
		out->equal_values == 1 ? "value" : "values");
	part(line, &any, out->equal_keys,
		out->equal_keys == 1 ? "key" : "keys");
	if (!any)
		tasd_buf_str(line, "nothing");
}

int tasd_diff_end(struct tasd_diff_out *out)
{
	struct tasd_buf line = TASD_BUF_EMPTY;
	int rc = verdict(out);

	if (out->rc)
		return TASD_DIFF_TROUBLE;
	if (out->json)
		return end_json(out, rc);
	parts(&line, out);
	print_line(out, &line);
	return out->rc ? TASD_DIFF_TROUBLE : rc;
}

void tasd_diff_free(struct tasd_diff_out *out)
{
	for (int list = 0; list < TASD_DIFF_LISTS; list++)
		tasd_buf_free(&out->lists[list]);
}
