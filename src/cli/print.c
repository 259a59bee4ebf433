/*
 * What is printed is gathered in a struct tasd_buf and written with write(2)
 * in one place, so that every command meets a full disk or a reader that has
 * gone in the same way.
 */
#include "print.h"
#include "cli.h"
#include <base/checked.h>
#include <base/cleanup.h>
#include <base/utf8.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *tasd_print_size(char out[TASD_NUMBER_TEXT], uint64_t bytes)
{
	static const char units[] = "KMGTPE";
	uint64_t tenths;
	unsigned int unit = 0;

	if (bytes < 1024) {
		snprintf(out, TASD_NUMBER_TEXT, "%" PRIu64 " B", bytes);
		return out;
	}
	while (unit + 1 < sizeof(units) - 1 && bytes >> (10 * (unit + 2)))
		unit++;
	/* Tenths of the unit, rounded: bytes * 10 could overflow. */
	tenths = bytes >> (10 * (unit + 1));
	tenths = tenths * 10 +
		 (((bytes >> (10 * unit)) & 1023) * 10 + 512) / 1024;
	if (tenths >= 10240 && unit + 1 < sizeof(units) - 1) {
		tenths = 10;
		unit++;
	}
	snprintf(out, TASD_NUMBER_TEXT, "%" PRIu64 ".%" PRIu64 " %ciB",
		tenths / 10, tenths % 10, units[unit]);
	return out;
}

const char *tasd_print_count(char out[TASD_NUMBER_TEXT], uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
	char *to = out;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return out;
}

const char *tasd_print_plural(
	char out[TASD_NUMBER_TEXT + 32], uint64_t n, const char *noun)
{
	char count[TASD_NUMBER_TEXT];

	snprintf(out, TASD_NUMBER_TEXT + 32, "%s %s%s",
		tasd_print_count(count, n), noun, n == 1 ? "" : "s");
	return out;
}

void tasd_print_shape(struct tasd_buf *buf, const struct tasd_tensor *tensor)
{
	tasd_buf_char(buf, '[');
	for (uint32_t i = 0; i < tensor->ndim; i++) {
		if (i)
			tasd_buf_str(buf, ", ");
		tasd_buf_u64(buf, tensor->shape[i]);
	}
	tasd_buf_char(buf, ']');
}

uint64_t tasd_tensor_elements(const struct tasd_tensor *tensor)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < tensor->ndim; i++)
		if (tensor->shape[i] == 0)
			return 0;
	for (uint32_t i = 0; i < tensor->ndim; i++)
		if (!tasd_mul_u64(n, tensor->shape[i], &n))
			return UINT64_MAX;
	return n;
}

bool tasd_print_has_control(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c == 0x7f)
			return true;
		/* U+0080..U+009F: control characters in two bytes. */
		if (c == 0xc2 && i + 1 < len &&
			(unsigned char)text[i + 1] < 0xa0)
			return true;
	}
	return false;
}

void tasd_print_cut(
	struct tasd_buf *buf, const char *text, size_t len, size_t max)
{
	cleanup_free char *out = NULL;
	/* Four bytes for each, and what "..." would take. */
	size_t room = (len < max / 4 ? 4 * len : max) + sizeof("...");

	out = malloc(room);
	if (!out) {
		buf->err = -ENOMEM;
		return;
	}
	tasd_buf_str(buf, tasd_print_bytes(out, room, text, len));
}

void tasd_print_name(struct tasd_buf *buf, const char *name, size_t len)
{
	bool escape = tasd_print_has_control(name, len);

	if (!escape && isatty(STDOUT_FILENO))
		escape = tasd_utf8_valid(name, len) != len;
	if (!escape)
		tasd_buf_add(buf, name, len);
	else
		tasd_print_cut(buf, name, len, 4 * len);
}

void tasd_print_pad(struct tasd_buf *buf, size_t from, size_t width)
{
	size_t have = 0;

	/* Characters, not bytes: continuation bytes take no room. */
	for (size_t i = from; i < buf->len && buf->bytes; i++)
		have += ((unsigned char)buf->bytes[i] & 0xc0) != 0x80;
	for (; have < width; have++)
		tasd_buf_char(buf, ' ');
}

void tasd_json_pair(struct tasd_buf *buf, const char *name, const char *text)
{
	tasd_buf_json_str(buf, name, strlen(name));
	tasd_buf_str(buf, ": ");
	tasd_buf_json_str(buf, text, strlen(text));
}

tasd_err tasd_write_out(const void *bytes, size_t len)
{
	const char *from = bytes;

	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, from, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		from += n;
		len -= (size_t)n;
	}
	return 0;
}

int tasd_write_failed(tasd_err err)
{
	if (err == -EPIPE)
		return TASD_EXIT_FAIL;
	return tasd_cli_fail("standard output: %s", strerror(-err));
}

int tasd_print_json(struct tasd_buf *buf)
{
	struct tasd_buf shown = TASD_BUF_EMPTY;

	if (!isatty(STDOUT_FILENO) || tasd_buf_err(buf))
		return tasd_print_out(buf);
	for (size_t i = 0; i < buf->len; i++) {
		unsigned char c = (unsigned char)buf->bytes[i];

		/* U+0080..U+009F, two bytes; they stand in strings only. */
		if (c == 0xc2 && i + 1 < buf->len &&
			(unsigned char)buf->bytes[i + 1] < 0xa0)
			tasd_buf_printf(&shown, "\\u%04x",
				(unsigned char)buf->bytes[++i]);
		else if (c == 0x7f)
			tasd_buf_str(&shown, "\\u007f");
		else
			tasd_buf_char(&shown, (char)c);
	}
	tasd_buf_free(buf);
	return tasd_print_out(&shown);
}

int tasd_print_lines(struct tasd_buf *buf)
{
	struct tasd_buf shown = TASD_BUF_EMPTY;

	if (!isatty(STDOUT_FILENO) || tasd_buf_err(buf))
		return tasd_print_out(buf);
	for (size_t at = 0; at < buf->len;) {
		const char *line = buf->bytes + at;
		const char *stop = memchr(line, '\n', buf->len - at);
		size_t len = stop ? (size_t)(stop - line) : buf->len - at;

		tasd_print_name(&shown, line, len);
		tasd_buf_char(&shown, '\n');
		at += len + 1;
	}
	tasd_buf_free(buf);
	return tasd_print_out(&shown);
}

int tasd_print_out(struct tasd_buf *buf)
{
	tasd_err err = tasd_buf_err(buf);
	int rc = TASD_EXIT_OK;

	if (err) {
		rc = tasd_cli_fail("%s", strerror(-err));
	} else {
		err = tasd_write_out(buf->bytes, buf->len);
		if (err)
			rc = tasd_write_failed(err);
	}
	tasd_buf_free(buf);
	return rc;
}
