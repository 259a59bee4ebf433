/*
 * Keys become names: where a str key is split, and how a piece becomes one
 * path component (DESIGN section 2.1).  Pure functions of text.
 */
#ifndef TASD_STATEDICT_NAME_H
#define TASD_STATEDICT_NAME_H

#include <base/buf.h>
#include <stdbool.h>

#define TASD_NAME_MAX 255
#define TASD_NAME_MIN 64 /* holds whatever may follow what is cut */

/*
 * A key longer than this, in bytes, or that would split into more components,
 * stays in one piece: its path could be longer than PATH_MAX or deeper than
 * programs walk.
 */
#define TASD_SPLIT_KEY_MAX       1024
#define TASD_SPLIT_COMPONENT_MAX 128

/*
 * The next dot of key (len bytes) at or after from at which it may be split: a
 * dot with a byte other than a dot on both sides.  Returns its offset, or len
 * when there is none or the key is too long or deep to be split at all.  The
 * components are counted when from is 0; later calls go on from a dot that an
 * earlier one found, so that a key is walked once.
 * Whether the prefix is itself a key is the caller's to know.
 */
size_t tasd_name_split_at(const char *key, size_t len, size_t from);

/*
 * Append the path component for one piece of text: '%' -> %25, '/' -> %2F, NUL
 * and control bytes (0x01-0x1f, 0x7f) -> %XX, "" -> "%", "." -> "%2E", ".." ->
 * "%2E%2E", ".tasd" -> "%2Etasd".  max is the longest name allowed
 * (TASD_NAME_MAX, or less where a suffix follows, but at least TASD_NAME_MIN);
 * a longer one is cut at a character and ends in "%~" and 32 hex digits of the
 * XXH3-128 of the piece.
 * Reversible unless cut: "%~" never comes from escaping, nor does the "%:"
 * with which a state dict tells apart keys that print alike (`7%:str`).
 */
void tasd_name_escape(
	struct tasd_buf *buf, const char *piece, size_t len, size_t max);

/*
 * Append a name that is escaped already, cut to max bytes in the same way when
 * it is longer: the result is what escaping its piece with that max gives, and
 * the suffix of a key that prints like another stays.
 */
void tasd_name_cut(
	struct tasd_buf *buf, const char *name, size_t len, size_t max);

/* Is the piece its own name of at most TASD_NAME_MAX? (Then it needs no copy.)
 */
bool tasd_name_is_plain(const char *piece, size_t len);

#endif
