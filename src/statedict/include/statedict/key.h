/*
 * One component of a path in a state dict, with its exact type and text.
 */
#ifndef TASD_STATEDICT_KEY_H
#define TASD_STATEDICT_KEY_H

#include <base/buf.h>
#include <stdint.h>

enum tasd_key_type {
	TASD_KEY_STR,   /* text: UTF-8, may hold NUL and lone surrogates */
	TASD_KEY_INT,   /* text: decimal, any size; also list indices */
	TASD_KEY_ATTR,  /* text: an object's attribute */
	TASD_KEY_FLOAT, /* text: as Python prints it */
	TASD_KEY_BYTES, /* text: the raw bytes */
	TASD_KEY_TUPLE, /* text: as Python prints it, then (behind a NUL, not
			   counted in len) the JSON array, terminated */
	TASD_KEY_NONE,
	TASD_KEY_TRUE,
	TASD_KEY_FALSE,
	TASD_KEY_WHOLE, /* text: what the container's only leaf is called; it
			   is no component, so its path is [] */
};

struct tasd_key {
	const char *text; /* borrowed or in the state dict's arena */
	uint32_t len;
	uint8_t type; /* enum tasd_key_type */
};

static inline struct tasd_key tasd_key_str(const char *text, uint32_t len)
{
	return (struct tasd_key){
		.text = text, .len = len, .type = TASD_KEY_STR};
}

/*
 * Append the component as user.tasd.key spells it: "text", 7, {"attr":"x"},
 * {"float":"1.5"}, {"tuple":[..]}, {"bytes":"00ff"}, null, true.
 */
void tasd_key_json(struct tasd_buf *buf, const struct tasd_key *key);

/*
 * Append the component as Python prints it, unescaped: the text a name is made
 * of (str: its text; bytes: b'..'; None, True).
 */
void tasd_key_print(struct tasd_buf *buf, const struct tasd_key *key);

#endif
