/*
 * Little-endian integers at a place whose bytes were checked to be there: what
 * the cursor and the readers of fixed records share.
 */
#ifndef TASD_BASE_LE_H
#define TASD_BASE_LE_H

#include <stdint.h>

static inline uint16_t tasd_le16(const unsigned char *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t tasd_le32(const unsigned char *p)
{
	return tasd_le16(p) | (uint32_t)tasd_le16(p + 2) << 16;
}

static inline uint64_t tasd_le64(const unsigned char *p)
{
	return tasd_le32(p) | (uint64_t)tasd_le32(p + 4) << 32;
}

#endif
