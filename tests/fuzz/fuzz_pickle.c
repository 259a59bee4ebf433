/*
 * The pickle machine.  Beyond not crashing: a stream that is read ends where
 * the machine says, so that no shorter one is whole, and every value that is
 * reached was counted.
 */
#include "fuzz.h"
#include "pickle.h"

#define LIMIT ((size_t)16 << 20)

struct look {
	struct tasd_buf buf;
	uint32_t count;
};

static tasd_err look(void *ctx, const struct tasd_pkl *value)
{
	struct look *l = ctx;
	tasd_err err;

	l->count++;
	l->buf.len = 0;
	if (value->type == TASD_PKL_INT || value->type == TASD_PKL_LONG) {
		err = tasd_pkl_int_text(&l->buf, value);
		fuzz_check(err == -ERANGE || l->buf.len > 0);
	} else if (value->type == TASD_PKL_FLOAT) {
		tasd_pkl_float_text(&l->buf, value->f);
		fuzz_check(l->buf.len > 2 && l->buf.len < 32);
	}
	return 0;
}

static tasd_err read_one(const uint8_t *data, size_t size, uint64_t *ret_used)
{
	struct look l = {.buf = TASD_BUF_EMPTY};
	struct tasd_pickle *pickle = NULL;
	struct tasd_diag diag = {""};
	tasd_err err =
		tasd_pickle_read(data, size, LIMIT, &pickle, ret_used, &diag);

	fuzz_check(pickle && !pickle->root == !!err && *ret_used <= size);
	if (err)
		fuzz_check_refusal(err, &diag);
	fuzz_check(pickle->arena.used <= LIMIT);
	fuzz_check(pickle->nunsafe <= pickle->nglobals);
	if (!err) {
		fuzz_check(tasd_pkl_walk(pickle, pickle->root, look, &l) == 0);
		fuzz_check(l.count >= 1 && l.count <= pickle->nvalues);
	}
	tasd_buf_free(&l.buf);
	tasd_pickle_free(pickle);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t used = 0, cut = 0;

	/* As a file of the old kind has them: one behind the other. */
	for (int i = 0; i < 8 && size; i++) {
		if (read_one(data, size, &used))
			break;
		fuzz_check(used > 0 && read_one(data, used, &cut) == 0);
		fuzz_check(cut == used && read_one(data, used - 1, &cut) != 0);
		data += used;
		size -= used;
	}
	return 0;
}
