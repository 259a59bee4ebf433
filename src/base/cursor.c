/*
 * Everything is a bounds check followed by pointer arithmetic on what was
 * checked; a failed call moves nothing.
 */
#include <base/cursor.h>

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

static tasd_err take_le(
	struct tasd_cursor *c, unsigned int width, uint64_t *ret)
{
	const unsigned char *p = NULL;
	tasd_err err = tasd_cursor_take(c, width, &p);

	if (err)
		return err;
	*ret = 0;
	for (unsigned int i = 0; i < width; i++)
		*ret |= (uint64_t)p[i] << (8 * i);
	return 0;
}

tasd_err tasd_cursor_u8(struct tasd_cursor *c, uint8_t *ret)
{
	uint64_t v = 0;
	tasd_err err = take_le(c, 1, &v);

	if (!err)
		*ret = (uint8_t)v;
	return err;
}

tasd_err tasd_cursor_u16le(struct tasd_cursor *c, uint16_t *ret)
{
	uint64_t v = 0;
	tasd_err err = take_le(c, 2, &v);

	if (!err)
		*ret = (uint16_t)v;
	return err;
}

tasd_err tasd_cursor_u32le(struct tasd_cursor *c, uint32_t *ret)
{
	uint64_t v = 0;
	tasd_err err = take_le(c, 4, &v);

	if (!err)
		*ret = (uint32_t)v;
	return err;
}

tasd_err tasd_cursor_u64le(struct tasd_cursor *c, uint64_t *ret)
{
	return take_le(c, 8, ret);
}
