/*
 * The formats table.  The first that is sure wins; one that goes by the name
 * only is asked when none is.
 */
#include "formats.h"

const struct tasd_format *const tasd_formats[] = {
	&tasd_format_safetensors,
	&tasd_format_safetensors_index,
	&tasd_format_npy,
	&tasd_format_npz,
	&tasd_format_torch_zip,
	&tasd_format_torch_tar,
	&tasd_format_torch_legacy,
	NULL,
};
