/*
 * The list for .tasd/unsafe: a name a line, each once, in the order in which
 * the pickle first gives them.
 */
#include "torch_unsafe.h"

/* What would be imported by a loader that is not told what is safe. */
tasd_err tasd_torch_note_unsafe(
	struct tasd_container *ctr, const struct tasd_pickle *pickle)
{
	struct tasd_buf lines = TASD_BUF_EMPTY;
	char shown[256];
	tasd_err err;

	for (uint32_t i = 0; i < pickle->nglobals; i++) {
		const struct tasd_pkl_global *g = pickle->globals[i];

		if (g->safe)
			continue;
		tasd_buf_str(&lines, tasd_print_bytes(shown, sizeof(shown),
					     g->module, g->module_len));
		if (g->module_len)
			tasd_buf_char(&lines, '.');
		tasd_buf_str(&lines, tasd_print_bytes(shown, sizeof(shown),
					     g->name, g->name_len));
		tasd_buf_char(&lines, '\n');
		ctr->nunsafe++;
	}
	err = tasd_buf_err(&lines);
	if (!err && lines.len > UINT32_MAX)
		err = -E2BIG;
	if (!err && lines.len) {
		ctr->unsafe = tasd_arena_copy(
			tasd_statedict_arena(ctr->sd), lines.bytes, lines.len);
		ctr->unsafe_len = (uint32_t)lines.len;
		err = ctr->unsafe ? 0 : -E2BIG;
	}
	tasd_buf_free(&lines);
	return err;
}
