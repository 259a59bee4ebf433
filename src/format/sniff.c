/*
 * The things that people find under a checkpoint's name, by their first bytes.
 * Formats that another part of the program reads are in the formats table and
 * never get here.
 */
#include "sniff.h"
#include <base/json.h>
#include <base/utf8.h>
#include <stdbool.h>
#include <string.h>

struct magic {
	size_t offset;
	size_t len;
	const char *bytes;
	const char *what;
};

#define MAGIC(offset, bytes, what)                                             \
	{                                                                      \
		offset, sizeof(bytes) - 1, bytes, what                         \
	}

static const struct magic magics[] = {
	MAGIC(0, "version https://git-lfs.github.com/spec/v1",
		"a git-lfs pointer: the file itself was not downloaded "
		"(git lfs pull)"),
	MAGIC(0, "\x89PNG\r\n\x1a\n", "a PNG image"),
	MAGIC(0, "\xff\xd8\xff", "a JPEG image"),
	MAGIC(0, "GIF8", "a GIF image"),
	MAGIC(0, "%PDF-", "a PDF document"),
	MAGIC(0, "\x1f\x8b\x08", "gzip data: unpack it first"),
	MAGIC(0, "BZh", "bzip2 data: unpack it first"),
	MAGIC(0,
		"\xfd"
		"7zXZ\0",
		"xz data: unpack it first"),
	MAGIC(0, "\x28\xb5\x2f\xfd", "zstd data: unpack it first"),
	MAGIC(0, "PK\x03\x04",
		"a zip archive that does not begin as a checkpoint's does"),
	MAGIC(0, "PK\x05\x06", "an empty zip archive"),
	MAGIC(0, "GGUF", "a GGUF file: this format is not read yet"),
	MAGIC(0, "\x89HDF\r\n\x1a\n",
		"an HDF5 file: this format is not read yet"),
	MAGIC(0, "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
		"a PyTorch file of before 1.6: this format is not read yet"),
	MAGIC(0,
		"\x7f"
		"ELF",
		"an ELF program or library"),
	MAGIC(257, "ustar", "a tar archive, and not one that torch wrote"),
};

static bool is_pickle(const unsigned char *head, size_t len)
{
	/* PROTO n and an opcode that may follow it. */
	return len >= 3 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 &&
	       strchr("}](c\x8a\x95X", head[2]);
}

/* The first bytes behind white space, in either case. */
static bool begins(const char *text, size_t len, const char *with)
{
	size_t n = strlen(with);

	return len >= n && strncasecmp(text, with, n) == 0;
}

/* Text whose last character may be cut by the end of the head. */
static bool is_text(const char *text, size_t len)
{
	size_t valid = tasd_utf8_valid(text, len);

	if (valid < len && (len < TASD_PROBE_BYTES || len - valid > 3))
		return false;
	for (size_t i = 0; i < valid; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 && c != '\t' && c != '\n' && c != '\r' &&
			c != '\f')
			return false;
	}
	return true;
}

static const char *sniff_text(const char *text, size_t len)
{
	size_t at = 0;

	if (!is_text(text, len))
		return NULL;
	while (at < len && tasd_json_is_space((unsigned char)text[at]))
		at++;
	if (begins(text + at, len - at, "<!doctype html") ||
		begins(text + at, len - at, "<html"))
		return "an HTML page, perhaps an error page of a download";
	if (begins(text + at, len - at, "<?xml"))
		return "an XML text, perhaps an error of a download";
	if (at < len && (text[at] == '{' || text[at] == '['))
		return "a JSON text, and not the index of a checkpoint";
	return "a text";
}

const char *tasd_sniff(const struct tasd_probe *probe)
{
	const char *head = (const char *)probe->head;

	if (!head)
		return NULL;
	if (probe->size == 0)
		return "an empty file";
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		const struct magic *m = &magics[i];

		if (probe->head_len >= m->offset + m->len &&
			memcmp(head + m->offset, m->bytes, m->len) == 0)
			return m->what;
	}
	if (is_pickle(probe->head, probe->head_len))
		return "a Python pickle: this format is not read yet";
	return sniff_text(head, probe->head_len);
}
