/*
 * Says what each file is, for scripts that compare us with other readers.
 * Paths come one a line on standard input; for each there is one line out:
 * "OK " and the index as JSON, or "ERR " and the reason.
 */
#include <format/index.h>
#include <format/place.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tasd_err describe(
	const char *path, struct tasd_buf *out, struct tasd_diag *diag)
{
	struct tasd_container *ctr = NULL;
	struct tasd_place place;
	tasd_err err = tasd_place_open(path, &place, diag);

	if (err)
		return err;
	err = tasd_container_open(place.dirfd, place.name, 0, &ctr, diag);
	tasd_place_close(&place);
	if (err)
		return err;
	tasd_index_json(out, ctr);
	tasd_container_put(ctr);
	return tasd_buf_err(out);
}

int main(void)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t len;

	while ((len = getline(&line, &room, stdin)) > 0) {
		struct tasd_buf out = TASD_BUF_EMPTY;
		struct tasd_diag diag = {""};
		tasd_err err;

		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		err = describe(line, &out, &diag);
		if (err) {
			printf("ERR %s\n", tasd_diag_text(&diag, err));
		} else {
			for (size_t i = 0; i < out.len; i++) {
				if (out.bytes[i] == '\n')
					out.bytes[i] = ' ';
			}
			printf("OK %.*s\n", (int)out.len, out.bytes);
		}
		tasd_buf_free(&out);
	}
	free(line);
	return 0;
}
