/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON by jansson, with three additions: a walk over the members of an object without a tree of the
 * whole (a header may hold a million tensors); an edit of a text in place, so that every byte
 * outside the edited member stays; and a depth limit, checked before anything recurses.
 *
 * Offsets are in bytes.  Errors are ERR_INPUT with the byte offset; the caller adds the file's
 * name.
 */
#ifndef FP8CONV_BASE_JSON_H
#define FP8CONV_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Nested containers; the parser of the reference has the same limit. */
#define JSON_MAX_DEPTH 127

/* A stretch of JSON text. */
struct json_text {
	const char *data;
	size_t len;
};

/* A member of an object.  key is decoded, ends in a NUL, contains none, and is valid until the next
 * call. */
struct json_member {
	const char *key;
	size_t key_len;
	size_t begin; /* offset of the key's opening quote in the walked text */
	struct json_text value;
};

/* A walk over the members of one object.  Begin with a zeroed struct and set text, or call
 * json_members_begin(). */
struct json_members {
	struct json_text text;
	size_t base; /* added to offsets in messages: the position of text in its file */
	size_t at;   /* byte offset in text */
	int state;
	struct buf key;
};

/* Returns 1 with the next member in *member, or 0 at the end of the object, if only white space
 * follows it.  Returns -1 where the text is not an object, is invalid JSON or is nested deeper than
 * JSON_MAX_DEPTH.  Values are balanced but not yet checked: json_decode() checks them.  Words that
 * are not JSON (NaN, Infinity) pass as values.  The caller checks for duplicate keys. */
int json_members_next(struct json_members *walk, struct json_member *member, struct err *err);
/* Begins a walk over another object, and reuses the memory of a begun or zeroed walk. */
void json_members_begin(struct json_members *walk, struct json_text text, size_t base);
void json_members_release(struct json_members *walk);

/* Decodes a text by jansson.  Rejects duplicate keys, invalid UTF-8, NUL, integers of 2^63 and
 * more, and the integer "-0".  Returns a new reference, or NULL with ERR_INPUT. */
json_t *json_decode(struct json_text text, struct err *err);

/* The same, but strings may contain "\u0000": json_string_length() is their length. */
json_t *json_decode_nul(struct json_text text, struct err *err);

/* The same for files that Python wrote: NaN, Infinity and -Infinity become null. */
json_t *json_decode_python(struct json_text text, struct err *err);

/* Returns 0 for valid JSON of any kind, with numbers of any size and duplicate keys (in a field
 * that this program does not use). */
int json_check(struct json_text text, struct err *err);

/* Single values without the cost of jansson.  They return false or -1 where text is not such a
 * value; the caller, who knows its name, writes the message. */

/* Decodes a string into out (overwritten, ends in a NUL).  Rejects invalid UTF-8, lone surrogates
 * and NUL. */
bool json_text_string(struct json_text text, struct buf *out);
/* Reads a list of integers from 0 to 2^64-1 (not "1.0", "1e0", "-0", "01").  Puts the first max of
 * them into values, and returns the number of all. */
int64_t json_text_uints(struct json_text text, uint64_t *values, int max);
/* Reads one such integer. */
bool json_text_uint(struct json_text text, uint64_t *value);
bool json_text_is_null(struct json_text text);

/* Returns 0 where text is one value with closed strings and matching brackets, nested at most
 * JSON_MAX_DEPTH deep. */
int json_balanced(struct json_text text, struct err *err);

/* Returns the length of the longest prefix of text without a quote, a backslash or a control
 * character (below 0x20). */
size_t json_plain_prefix(struct json_text text);

/* Returns the length of the longest prefix of text that is valid UTF-8. */
size_t json_utf8_prefix(struct json_text text);

/* Finds the text of top-level member `key` of an object; len 0 and data NULL if there is none.  -1:
 * text is not a valid object, or two members have that key. */
int json_find(struct json_text object, const char *key, struct json_text *value, struct err *err);

/* Copies `text`, an object, to out, with member `key` replaced by `value` (JSON text, laid out
 * again) or appended as the last member, in the file's own indentation.  With value NULL the member
 * is removed.  All other bytes stay.  On failure out is unchanged. */
int json_edit(struct json_text text, const char *key, const char *value, struct buf *out,
	      struct err *err);

/* The same for the member path[n - 1] of the object path[n - 2] ... of the object text, such as {
 * "text_config", "quantization_config" }. All keys but the last must exist. */
int json_edit_path(struct json_text text, const char *const *path, size_t n, const char *value,
		   struct buf *out, struct err *err);

/* Reads the next token at offset *at: white space, then a string, word or punctuation.  *at becomes
 * the offset after it, *token the token without the white space.  Returns the first byte of
 * punctuation and strings, 'x' for numbers and words, 0 at the end, -1 for a string that does not
 * end. */
int json_token(struct json_text text, size_t *at, struct json_text *token);

/* Returns the text of a member; "" if it is missing or no text. */
const char *json_member_text(const json_t *object, const char *key);

/* Returns a new number; null in place of one that is not finite. */
json_t *json_finite(double number);

/* Appends a value as compact JSON for a message; of more than 60 bytes only the beginning. */
void json_put_value(struct buf *buf, const json_t *value);

/* Appends a JSON string literal with the escapes of serde_json (the reference serializer): \" \\ \b
 * \f \n \r \t, \u00XX below 0x20; all other bytes stay as they are. */
void config_add_json_string(struct buf *buf, const char *text, size_t n);

#endif
