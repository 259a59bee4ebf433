/*
 * What the parts of the zip reader share: zip.c reads the directory,
 * zip_find.c looks names up in it, zip_local.c goes to where the records lie.
 */
#ifndef TASD_FORMAT_ZIP_INNER_H
#define TASD_FORMAT_ZIP_INNER_H

#include "zip.h"
#include <base/le.h>

#define TASD_ZIP_LOCAL_SIG   0x04034b50u
#define TASD_ZIP_CENTRAL_SIG 0x02014b50u
#define TASD_ZIP_END_SIG     0x06054b50u
#define TASD_ZIP_END64_SIG   0x06064b50u
#define TASD_ZIP_LOCATOR_SIG 0x07064b50u

#define TASD_ZIP_LOCAL_LEN   30u
#define TASD_ZIP_CENTRAL_LEN 46u
#define TASD_ZIP_CENTRAL_MAX (TASD_ZIP_CENTRAL_LEN + 3u * UINT16_MAX)

#define TASD_ZIP_FLAG_ENCRYPTED 0x0001u
/* Encrypted, a patch, strongly encrypted, masked: miniz extracts none. */
#define TASD_ZIP_FLAGS_REFUSED                                                 \
	(TASD_ZIP_FLAG_ENCRYPTED | 0x20u | 0x40u | 0x2000u)

#define TASD_ZIP_FOLDER_BIT 0x10u /* in the attributes, as DOS has it */

/* Make the index of names, once all records are there. */
tasd_err tasd_zip_index(struct tasd_zip *zip);

#endif
