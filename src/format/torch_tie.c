/*
 * Ties: tensors that are the same bytes, seen in the same way, have one file
 * with a name for each.  Storages with one view, as most are, cost nothing.
 */
#include "torch_inner.h"
#include <string.h>

static bool same_numbers(const uint64_t *a, const uint64_t *b, uint32_t n)
{
	return a == b || (a && b && memcmp(a, b, n * sizeof(*a)) == 0);
}

/* The same bytes, seen in the same way. */
static bool tie_eq(const void *value, const void *key)
{
	static const struct tasd_tensor_extra nothing;
	const struct tasd_tensor *a = ((const struct tasd_node *)value)->tensor;
	const struct tasd_tensor *b = key;
	const struct tasd_tensor_extra *x = a->extra ? a->extra : &nothing;
	const struct tasd_tensor_extra *y = b->extra ? b->extra : &nothing;

	return a->dtype == b->dtype && a->data == b->data &&
	       a->ndim == b->ndim && a->nbytes == b->nbytes &&
	       a->extent.source == b->extent.source &&
	       a->extent.offset == b->extent.offset &&
	       a->extent.length == b->extent.length && x->start == y->start &&
	       x->nswaps == y->nswaps &&
	       (!a->ndim || same_numbers(a->shape, b->shape, a->ndim)) &&
	       (!a->ndim || same_numbers(x->stride, y->stride, a->ndim));
}

static uint64_t tie_hash(
	const struct tasd_map *ties, const struct tasd_tensor *tensor)
{
	const struct tasd_tensor_extra *extra = tensor->extra;
	uint64_t hash = tasd_map_hash(ties, tensor->shape,
		tensor->ndim * sizeof(*tensor->shape), tensor->dtype);

	hash = tasd_map_hash(ties, &tensor->extent.offset,
		sizeof(tensor->extent.offset), hash);
	if (!extra || tensor->data != TASD_DATA_STRIDED)
		return hash;
	hash = tasd_map_hash(ties, &extra->start, sizeof(extra->start), hash);
	return extra->stride
		       ? tasd_map_hash(ties, extra->stride,
				 tensor->ndim * sizeof(*extra->stride), hash)
		       : hash;
}

tasd_err tasd_torch_same(struct tasd_torch_map *map, struct tasd_node *node,
	struct tasd_node *first)
{
	struct tasd_node_extra *extra, *head;

	if (node->tensor->data == TASD_DATA_BROKEN ||
		node->tensor->data == TASD_DATA_PLACEHOLDER)
		return 0;
	if (first->extra && first->extra->tie)
		first = (struct tasd_node *)first->extra->tie;
	head = (struct tasd_node_extra *)first->extra;
	if (!head || !head->nties) {
		/* It may be shared with others of its class. */
		head = tasd_arena_alloc(map->arena, sizeof(*head));
		if (!head)
			return -E2BIG;
		if (first->extra)
			*head = *first->extra;
		head->nties = 1;
		first->extra = head;
	}
	extra = tasd_arena_alloc(map->arena, sizeof(*extra));
	if (!extra)
		return -E2BIG;
	if (node->extra)
		*extra = *node->extra;
	extra->nties = 0;
	extra->tie = first;
	node->extra = extra;
	head->nties++;
	return 0;
}

tasd_err tasd_torch_tie(struct tasd_torch_map *map, struct tasd_node *node,
	struct tasd_torch_storage *storage)
{
	const struct tasd_tensor *tensor = node->tensor;
	struct tasd_node *first;
	uint64_t hash;
	tasd_err err = 0;

	/* Of most storages there is one view, and nothing to remember. */
	if (!storage->first_node) {
		storage->first_node = node;
		return 0;
	}
	if (!storage->listed) {
		storage->listed = true;
		err = tasd_map_put(&map->ties,
			tie_hash(&map->ties, storage->first_node->tensor),
			storage->first_node);
	}
	if (err || !tensor->nbytes)
		return err;
	hash = tie_hash(&map->ties, tensor);
	first = tasd_map_find(&map->ties, hash, tie_eq, tensor);
	return first ? tasd_torch_same(map, node, first)
		     : tasd_map_put(&map->ties, hash, node);
}
