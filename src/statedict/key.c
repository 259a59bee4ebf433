/*
 * One key component as text: as JSON, which keeps its type, and as Python
 * prints it, which is what people and names see.
 */
#include <statedict/key.h>
#include <stdbool.h>
#include <string.h>

static void add_hex(struct tasd_buf *buf, const char *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)bytes[i];

		tasd_buf_char(buf, digits[c >> 4]);
		tasd_buf_char(buf, digits[c & 15]);
	}
}

/* {"what": "text"} */
static void add_tagged(
	struct tasd_buf *buf, const char *what, const struct tasd_key *key)
{
	tasd_buf_str(buf, "{\"");
	tasd_buf_str(buf, what);
	tasd_buf_str(buf, "\":");
	tasd_buf_json_str(buf, key->text, key->len);
	tasd_buf_char(buf, '}');
}

void tasd_key_json(struct tasd_buf *buf, const struct tasd_key *key)
{
	switch ((enum tasd_key_type)key->type) {
	case TASD_KEY_STR:
		tasd_buf_json_str(buf, key->text, key->len);
		break;
	case TASD_KEY_INT:
		tasd_buf_add(buf, key->text, key->len);
		break;
	case TASD_KEY_ATTR:
		add_tagged(buf, "attr", key);
		break;
	case TASD_KEY_FLOAT:
		add_tagged(buf, "float", key);
		break;
	case TASD_KEY_BYTES:
		tasd_buf_str(buf, "{\"bytes\":\"");
		add_hex(buf, key->text, key->len);
		tasd_buf_str(buf, "\"}");
		break;
	case TASD_KEY_TUPLE:
		tasd_buf_str(buf, "{\"tuple\":");
		tasd_buf_str(buf, key->text + key->len + 1);
		tasd_buf_char(buf, '}');
		break;
	case TASD_KEY_NONE:
		tasd_buf_str(buf, "null");
		break;
	case TASD_KEY_TRUE:
		tasd_buf_str(buf, "true");
		break;
	case TASD_KEY_FALSE:
		tasd_buf_str(buf, "false");
		break;
	case TASD_KEY_WHOLE:
		break; /* no component */
	}
}

/* b'..' with the quotes and escapes Python's repr chooses. */
static void print_bytes(struct tasd_buf *buf, const char *bytes, size_t len)
{
	bool apostrophe = len && memchr(bytes, '\'', len) != NULL;
	char quote = apostrophe && !memchr(bytes, '"', len) ? '"' : '\'';

	tasd_buf_char(buf, 'b');
	tasd_buf_char(buf, quote);
	for (size_t i = 0; i < len; i++) {
		char c = bytes[i];

		if (c == quote || c == '\\') {
			tasd_buf_char(buf, '\\');
			tasd_buf_char(buf, c);
		} else if (c == '\t') {
			tasd_buf_str(buf, "\\t");
		} else if (c == '\n') {
			tasd_buf_str(buf, "\\n");
		} else if (c == '\r') {
			tasd_buf_str(buf, "\\r");
		} else if (c < 0x20 || c == 0x7f) {
			tasd_buf_str(buf, "\\x");
			add_hex(buf, &c, 1);
		} else {
			tasd_buf_char(buf, c);
		}
	}
	tasd_buf_char(buf, quote);
}

void tasd_key_print(struct tasd_buf *buf, const struct tasd_key *key)
{
	switch ((enum tasd_key_type)key->type) {
	case TASD_KEY_STR:
	case TASD_KEY_INT:
	case TASD_KEY_ATTR:
	case TASD_KEY_FLOAT:
	case TASD_KEY_TUPLE:
	case TASD_KEY_WHOLE:
		tasd_buf_add(buf, key->text, key->len);
		break;
	case TASD_KEY_BYTES:
		print_bytes(buf, key->text, key->len);
		break;
	case TASD_KEY_NONE:
		tasd_buf_str(buf, "None");
		break;
	case TASD_KEY_TRUE:
		tasd_buf_str(buf, "True");
		break;
	case TASD_KEY_FALSE:
		tasd_buf_str(buf, "False");
		break;
	}
}
