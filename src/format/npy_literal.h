/*
 * The pieces of a Python literal: brackets, strings, whole numbers, words.
 * Each call skips white space, takes what it is asked for and nothing else, or
 * leaves the text where it was.
 */
#ifndef TASD_FORMAT_NPY_LITERAL_H
#define TASD_FORMAT_NPY_LITERAL_H

#include <base/buf.h>

struct tasd_literal {
	const char *text; /* borrowed */
	size_t len, at;
	bool latin1; /* what it is written in, or else UTF-8 */
};

/* The next character that is no white space; 0 at the end. */
char tasd_literal_peek(struct tasd_literal *in);
bool tasd_literal_take(struct tasd_literal *in, char c);
bool tasd_literal_word(struct tasd_literal *in, const char *word);
bool tasd_literal_ended(struct tasd_literal *in);

/* Decimal, with the L that Python 2 wrote.  -EINVAL, -ERANGE. */
tasd_err tasd_literal_u64(struct tasd_literal *in, uint64_t *ret);

/* Append what a string means, in UTF-8.  -EINVAL: no string, not valid. */
tasd_err tasd_literal_string(struct tasd_literal *in, struct tasd_buf *out);

/* Append a string as Python prints it, with its quotes. */
void tasd_literal_print(struct tasd_buf *buf, const char *text, size_t len);

#endif
