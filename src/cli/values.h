/*
 * A tensor's numbers as text.
 */
#ifndef TASD_CLI_VALUES_H
#define TASD_CLI_VALUES_H

#include <format/content.h>

/*
 * Print the first count elements of content, opened in the raw view, of tensor
 * t, one a line as Python prints them.  where is what messages call it.
 * Returns an enum tasd_exit.
 */
int tasd_values_print(struct tasd_content *content, const struct tasd_tensor *t,
	uint64_t count, const char *where);

#endif
