/*
 * What a checkpoint's pickle would have a careless loader import.
 */
#ifndef TASD_FORMAT_TORCH_UNSAFE_H
#define TASD_FORMAT_TORCH_UNSAFE_H

#include "pickle.h"
#include <format/container.h>

/* Put the globals that torch's own safe loader does not allow into
 * ctr->unsafe. */
tasd_err tasd_torch_note_unsafe(
	struct tasd_container *ctr, const struct tasd_pickle *pickle);

#endif
