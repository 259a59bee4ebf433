/*
 * A sharded set.  The input is the index's text up to the first NUL byte, then
 * the bytes of shard b.safetensors.  Beside it lie a good shard, links to it
 * and out of the folder, a folder and a FIFO.  Whatever the index says, no byte
 * comes from outside.
 */
#include "fuzz.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Two tensors, a and b, of 8 and 4 bytes. */
static const char good[] =
	"\x70\0\0\0\0\0\0\0"
	"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
	"\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,12]}}"
	"     abcdefghijkl";

struct place {
	int top; /* holds secret.safetensors and set/ */
	int set;
	ino_t secret;
};

static struct place make_place(void)
{
	struct place p = {.top = fuzz_folder()};
	struct stat st;

	fuzz_write(p.top, "secret.safetensors", good, sizeof(good) - 1);
	fuzz_check(fstatat(p.top, "secret.safetensors", &st, 0) == 0);
	p.secret = st.st_ino;
	fuzz_check(mkdirat(p.top, "set", 0700) == 0);
	p.set = openat(p.top, "set", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fuzz_check(p.set >= 0);
	fuzz_write(p.set, "a.safetensors", good, sizeof(good) - 1);
	fuzz_check(symlinkat("a.safetensors", p.set, "l") == 0);
	fuzz_check(symlinkat("../secret.safetensors", p.set, "o") == 0);
	fuzz_check(symlinkat("n", p.set, "n") == 0);
	fuzz_check(mkdirat(p.set, "d", 0700) == 0);
	fuzz_check(mkfifoat(p.set, "f", 0600) == 0);
	return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char index_name[] = "model.safetensors.index.json";
	static struct place p = {.set = -1};
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	size_t text = nul ? (size_t)(nul - data) : size;
	struct tasd_container *ctr;
	struct tasd_diag diag;
	tasd_err err;

	if (p.set < 0)
		p = make_place();
	fuzz_write(p.set, index_name, data, text);
	fuzz_write(p.set, "b.safetensors", nul ? nul + 1 : data,
		nul ? size - text - 1 : 0);
	err = tasd_container_open(
		p.set, size & 1 ? index_name : ".", 0, &ctr, &diag);
	if (err) {
		fuzz_check_refusal(err, &diag);
		return 0;
	}
	for (uint32_t i = 0; i < ctr->nsources; i++) {
		fuzz_check(ctr->sources[i]->stamp.ino != p.secret);
		for (uint32_t j = 0; j < i; j++)
			fuzz_check(ctr->sources[i]->stamp.ino !=
				   ctr->sources[j]->stamp.ino);
	}
	fuzz_check_container(ctr);
	tasd_container_put(ctr);
	return 0;
}
