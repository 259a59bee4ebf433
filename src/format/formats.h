/* The formats, one line each; a new one is added here and in formats.c. */
#ifndef TASD_FORMAT_FORMATS_H
#define TASD_FORMAT_FORMATS_H

#include <format/format.h>

extern const struct tasd_format tasd_format_safetensors;
extern const struct tasd_format tasd_format_safetensors_index;
extern const struct tasd_format tasd_format_npy;
extern const struct tasd_format tasd_format_npz;
extern const struct tasd_format tasd_format_torch_zip;
extern const struct tasd_format tasd_format_torch_tar;
extern const struct tasd_format tasd_format_torch_legacy;

#endif
