/*
 * Which globals torch's own safe loader (weights_only) allows, as of torch
 * 2.15: its fixed table, and what torch adds to it itself when the parts that
 * write such files (DTensor) are imported.  It looks names up by
 * "module.name", after Python 2's __builtin__ was renamed; so does this.
 */
#ifndef TASD_FORMAT_PICKLE_SAFE_H
#define TASD_FORMAT_PICKLE_SAFE_H

#include <stdbool.h>
#include <stdint.h>

bool tasd_pickle_safe(const char *module, uint32_t module_len, const char *name,
	uint32_t name_len);

/* The table's entry number n ("torch.Size"), NULL past the last. */
const char *tasd_pickle_safe_name(uint32_t n);

#endif
