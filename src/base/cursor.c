/*
 * Everything is a bounds check followed by pointer arithmetic on what was
 * checked; a failed call moves nothing.
 */
#include <base/cursor.h>
#include <base/le.h>

tasd_err tasd_cursor_take(
	struct tasd_cursor *c, uint64_t n, const unsigned char **ret_bytes)
{
	if (n > tasd_cursor_left(c))
		return -ENODATA;
	*ret_bytes = c->base + c->at;
	c->at += n;
	return 0;
}

tasd_err tasd_cursor_skip(struct tasd_cursor *c, uint64_t n)
{
	const unsigned char *ignored;

	return tasd_cursor_take(c, n, &ignored);
}

tasd_err tasd_cursor_u8(struct tasd_cursor *c, uint8_t *ret)
{
	const unsigned char *p = NULL;
	tasd_err err = tasd_cursor_take(c, 1, &p);

	if (!err)
		*ret = p[0];
	return err;
}

tasd_err tasd_cursor_u16le(struct tasd_cursor *c, uint16_t *ret)
{
	const unsigned char *p = NULL;
	tasd_err err = tasd_cursor_take(c, 2, &p);

	if (!err)
		*ret = tasd_le16(p);
	return err;
}

tasd_err tasd_cursor_u32le(struct tasd_cursor *c, uint32_t *ret)
{
	const unsigned char *p = NULL;
	tasd_err err = tasd_cursor_take(c, 4, &p);

	if (!err)
		*ret = tasd_le32(p);
	return err;
}

tasd_err tasd_cursor_u64le(struct tasd_cursor *c, uint64_t *ret)
{
	const unsigned char *p = NULL;
	tasd_err err = tasd_cursor_take(c, 8, &p);

	if (!err)
		*ret = tasd_le64(p);
	return err;
}
