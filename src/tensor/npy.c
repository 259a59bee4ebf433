/*
 * The header is a Python dict literal behind a magic and a length.  Its text
 * is written twice, first into a counting buffer, since the length decides
 * the version and stands before it; the shape of a hostile tensor may have
 * millions of dimensions.
 */
#include <string.h>
#include <tensor/npy.h>

#define ALIGNMENT 64
#define V1_MAX    UINT16_MAX

static void add_dict(struct tasd_buf *buf, const char *descr,
	const uint64_t *shape, uint32_t ndim)
{
	const char *quote = strchr("[({", descr[0]) ? "" : "'";

	tasd_buf_str(buf, "{'descr': ");
	tasd_buf_str(buf, quote);
	tasd_buf_str(buf, descr);
	tasd_buf_str(buf, quote);
	tasd_buf_str(buf, ", 'fortran_order': False, 'shape': (");
	for (uint32_t i = 0; i < ndim; i++) {
		if (i > 0)
			tasd_buf_char(buf, ' ');
		tasd_buf_u64(buf, shape[i]);
		/* A tuple of one needs its comma. */
		if (i + 1 < ndim || ndim == 1)
			tasd_buf_char(buf, ',');
	}
	tasd_buf_str(buf, "), }");
}

static bool is_ascii(const char *text)
{
	while (*text && (unsigned char)*text < 0x80)
		text++;
	return *text == '\0';
}

static void add_le(struct tasd_buf *buf, uint64_t value, unsigned int width)
{
	for (unsigned int i = 0; i < width; i++)
		tasd_buf_char(buf, (char)(value >> 8 * i & 0xff));
}

void tasd_npy_header(struct tasd_buf *buf, const char *descr,
	const uint64_t *shape, uint32_t ndim)
{
	struct tasd_buf dict = tasd_buf_counting();
	size_t fixed = 6 + 2 + 2, total;
	bool utf8 = !is_ascii(descr), wide;

	add_dict(&dict, descr, shape, ndim);
	total = (fixed + dict.len + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	wide = utf8 || total - fixed > V1_MAX;
	if (wide) {
		fixed += 2;
		total = (fixed + dict.len + 1 + ALIGNMENT - 1) / ALIGNMENT *
			ALIGNMENT;
	}
	if (total - fixed > UINT32_MAX) {
		buf->err = buf->err ? buf->err : -EOVERFLOW;
		return;
	}
	tasd_buf_add(buf, "\x93NUMPY", 6);
	tasd_buf_char(buf, utf8 ? 3 : wide ? 2 : 1);
	tasd_buf_char(buf, 0);
	add_le(buf, total - fixed, wide ? 4 : 2);
	add_dict(buf, descr, shape, ndim);
	for (size_t i = fixed + dict.len + 1; i < total; i++)
		tasd_buf_char(buf, ' ');
	tasd_buf_char(buf, '\n');
}
