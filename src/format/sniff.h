/*
 * What a file is when it is not the container it was taken for.
 */
#ifndef TASD_FORMAT_SNIFF_H
#define TASD_FORMAT_SNIFF_H

#include <format/format.h>

/*
 * A line for people ("a git-lfs pointer: ..."), or NULL when the first bytes
 * do not tell.
 */
const char *tasd_sniff(const struct tasd_probe *probe);

#endif
