/*
 * How numbers, names and texts look on standard output.
 *
 * Names come from files that are not to be trusted: control bytes never reach
 * a terminal, and never break a line in a pipe either.
 */
#ifndef TASD_CLI_PRINT_H
#define TASD_CLI_PRINT_H

#include <base/buf.h>
#include <stdbool.h>
#include <stdint.h>
#include <tensor/tensor.h>

#define TASD_NUMBER_TEXT 40

/* "512 B", "52.3 KiB", "1.0 TiB". */
const char *tasd_print_size(char out[TASD_NUMBER_TEXT], uint64_t bytes);

/* "22,713,216". */
const char *tasd_print_count(char out[TASD_NUMBER_TEXT], uint64_t n);

/* "1 tensor", "21 tensors". */
const char *tasd_print_plural(
	char out[TASD_NUMBER_TEXT + 32], uint64_t n, const char *noun);

/* "[4096, 11008]". */
void tasd_print_shape(struct tasd_buf *buf, const struct tasd_tensor *tensor);

/* Elements in the shape; UINT64_MAX when there are more. */
uint64_t tasd_tensor_elements(const struct tasd_tensor *tensor);

/*
 * Append a name or a one-line text.  Control bytes become \xNN; on a terminal
 * invalid UTF-8 does too.
 */
void tasd_print_name(struct tasd_buf *buf, const char *name, size_t len);

/* The same, cut to about max bytes. */
void tasd_print_cut(
	struct tasd_buf *buf, const char *text, size_t len, size_t max);

/* Pad what was appended since `from` with spaces to width characters. */
void tasd_print_pad(struct tasd_buf *buf, size_t from, size_t width);

/* "name": and a JSON string, for objects written by hand. */
void tasd_json_pair(struct tasd_buf *buf, const char *name, const char *text);

/*
 * Write buf to standard output, free it, and say what failed.  Returns an
 * enum tasd_exit; a reader that has gone is a quiet failure.
 */
int tasd_print_out(struct tasd_buf *buf);

/* The same for JSON: on a terminal the rest of the control characters, which
 * JSON lets stand, are escaped too. */
int tasd_print_json(struct tasd_buf *buf);

/* The same for lines that hold names: on a terminal each is printed as a name
 * is. */
int tasd_print_lines(struct tasd_buf *buf);

/* Write all bytes to standard output: 0 or -errno. */
tasd_err tasd_write_out(const void *bytes, size_t len);

/* Say that standard output failed with err; quiet on EPIPE. */
int tasd_write_failed(tasd_err err);

/* Does text hold bytes that would steer a terminal? */
bool tasd_print_has_control(const char *text, size_t len);

#endif
