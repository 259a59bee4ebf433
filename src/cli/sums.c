/*
 * Preorder makes a subtree one run of nodes, which ends at the first node that
 * is not below its top.
 */
#include "sums.h"
#include "print.h"
#include <string.h>

const struct tasd_node *tasd_next_below(
	const struct tasd_node *node, const struct tasd_node *top)
{
	const struct tasd_node *next = tasd_node_next(node);

	for (const struct tasd_node *up = next; up; up = up->parent)
		if (up == top)
			return next;
	return NULL;
}

static void add(struct tasd_sum *sum, uint64_t elements, uint64_t bytes)
{
	sum->tensors++;
	sum->parameters += elements;
	sum->bytes += bytes;
}

static void add_tensor(struct tasd_sums *sums, const struct tasd_tensor *t)
{
	bool known = *tasd_tensor_dtype(t) != '\0';
	unsigned int dtype = t->dtype;
	uint64_t elements = known ? tasd_tensor_elements(t) : 0;
	uint64_t bytes = known ? t->nbytes : 0;

	if (known && dtype == TASD_DTYPE_NONE)
		dtype = TASD_DTYPE_COUNT;
	if (t->data == TASD_DATA_BROKEN)
		sums->broken++;
	add(&sums->all, elements, bytes);
	add(&sums->by_dtype[dtype], elements, bytes);
}

void tasd_sums_of(const struct tasd_node *top, struct tasd_sums *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (const struct tasd_node *n = top; n; n = tasd_next_below(n, top)) {
		if (n != top)
			ret->nodes++;
		if (n->form != TASD_FORM_DIR)
			ret->leaves++;
		if (n->form == TASD_FORM_TENSOR)
			add_tensor(ret, n->tensor);
	}
}
