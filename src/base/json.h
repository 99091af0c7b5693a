/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, by jansson, with three additions: members of an object one at a time, without a tree of the
 * whole (a header may hold a million tensors); a text edited in place, so that every byte outside
 * the edited member survives; and a depth limit checked before anything recurses.
 */
#ifndef FP8CONV_BASE_JSON_H
#define FP8CONV_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define JSON_MAX_DEPTH \
	127 /* containers in containers; the reference's parser stops at the same one */

/* A stretch of JSON text. */
struct json_text {
	const char *data;
	size_t len;
};

/* A member of an object: the key (decoded, NUL-terminated, no NUL inside; valid until the next
 * call) and its value as text. */
struct json_member {
	const char *key;
	size_t key_len;
	size_t begin; /* offset of the key's opening quote in the walked text */
	struct json_text value;
};

/* Walks the members of one object.  Zeroed, then text set, is the start; so is
 * json_members_begin(). */
struct json_members {
	struct json_text text;
	size_t base; /* added to the offsets in messages: where text lies in its file */
	size_t at;   /* byte offset in text */
	int state;
	struct buf key;
};

/* 1: *member is the next one.  0: the object ended well (nothing but white space behind it).  -1:
 * not an object, bad JSON or nested deeper than JSON_MAX_DEPTH, with the byte offset in the message
 * (ERR_INPUT; the caller wraps it in the file's name).  Member values are balanced but not yet
 * checked: json_decode() does that.  Words that are not JSON (NaN, Infinity) pass as values.
 * Duplicate keys are the caller's business. */
int json_members_next(struct json_members *walk, struct json_member *member, struct err *err);
/* Walks another object, with the memory of a walk that was begun or zeroed. */
void json_members_begin(struct json_members *walk, struct json_text text, size_t base);
void json_members_release(struct json_members *walk);

/* The value of a text by jansson: duplicate keys, bad UTF-8, NUL, integers of 2^63 and more, and
 * "-0" as an integer are refused.  A new reference, NULL with ERR_INPUT. */
json_t *json_decode(struct json_text text, struct err *err);

/* The same where strings may hold "\u0000": their length is json_string_length(). */
json_t *json_decode_nul(struct json_text text, struct err *err);

/* The same for files that Python wrote: NaN, Infinity and -Infinity are read as null. */
json_t *json_decode_python(struct json_text text, struct err *err);

/* 0: text is good JSON of whatever kind and size of number, duplicate keys included (a field that
 * is not ours). */
int json_check(struct json_text text, struct err *err);

/* Single values without jansson's cost.  False, -1: text is not one; the caller, who knows its
 * name, says so. */

/* A string, decoded into out (overwritten; NUL-terminated): bad UTF-8, lone surrogates and NUL are
 * refused. */
bool json_text_string(struct json_text text, struct buf *out);
/* A list of integers from 0 to 2^64-1 ("1.0", "1e0", "-0", "01" are none): the first max of them go
 * into values; returns how many there are. */
int64_t json_text_uints(struct json_text text, uint64_t *values, int max);
/* One such integer. */
bool json_text_uint(struct json_text text, uint64_t *value);
bool json_text_is_null(struct json_text text);

/* 0: text is one value whose strings end, whose brackets match and which is not nested deeper than
 * JSON_MAX_DEPTH. */
int json_balanced(struct json_text text, struct err *err);

/* Length of the longest prefix of text without quote, backslash and control character (below
 * 0x20). */
size_t json_plain_prefix(struct json_text text);

/* Length of the longest prefix of text that is good UTF-8. */
size_t json_utf8_prefix(struct json_text text);

/* The text of top-level member `key` of an object; len 0 (and data NULL) if there is none.  -1: not
 * a good object, or two members have that key. */
int json_find(struct json_text object, const char *key, struct json_text *value, struct err *err);

/* Copies `text`, an object, into out with member `key` replaced by `value` (JSON text, laid out
 * anew), or appended as the last member, in the file's own indentation; with value NULL the member
 * is removed.  All other bytes stay as they are.  On failure out is as it was. */
int json_edit(struct json_text text, const char *key, const char *value, struct buf *out,
	      struct err *err);

/* The same for the member path[n - 1] of the object path[n - 2] ... of the object text; all but the
 * last must exist ({ "text_config", "quantization_config" }). */
int json_edit_path(struct json_text text, const char *const *path, size_t n, const char *value,
		   struct buf *out, struct err *err);

/* The offset in text behind the white space, string, word or punctuation at *at, put into *at;
 * *token is that text without the white space.  Returns its first byte for punctuation and strings,
 * 'x' for numbers and words, 0 at the end, -1 for a string that does not end. */
int json_token(struct json_text text, size_t *at, struct json_text *token);

/* Appends a JSON string literal with the escapes of serde_json (the reference serialiser): \" \\ \b
 * \f \n \r \t,
 * \u00XX below 0x20, all else as it is. */
void config_add_json_string(struct buf *buf, const char *text, size_t n);

#endif
