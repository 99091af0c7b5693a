/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, by jansson, with three additions: members of an object one at a time, without a tree of the whole (a header
 * may hold a million tensors); a text edited in place, so that every byte outside the edited member survives; and a
 * depth limit checked before anything recurses.
 */
#ifndef FP8CONV_BASE_JSON_H
#define FP8CONV_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define JSON_MAX_DEPTH 128

/* A stretch of JSON text. */
struct json_text {
	const char *data;
	size_t len;
};

/* A member of an object: the key (decoded, NUL-terminated, no NUL inside; valid until the next call) and its value as text. */
struct json_member {
	const char *key;
	size_t key_len;
	struct json_text value;
};

/* Walks the members of one object.  Zeroed, then text set, is the start. */
struct json_members {
	struct json_text text;
	size_t at; /* byte offset in text */
	int state;
	char *key;
};

/* 1: *member is the next one.  0: the object ended well (nothing but white space behind it).  -1: not an object, bad
 * JSON or nested deeper than JSON_MAX_DEPTH, with the byte offset in the message (ERR_INPUT; the caller wraps it in the file's
 * name).  Member values are balanced but not yet checked: json_decode() does that.  Duplicate keys are the caller's business. */
int json_members_next(struct json_members *walk, struct json_member *member, struct err *err);
void json_members_release(struct json_members *walk);

/* The value of a text by jansson: duplicate keys, bad UTF-8, NUL and "-0" as an integer are refused.  A new reference, NULL with
 * ERR_INPUT. */
json_t *json_decode(struct json_text text, struct err *err);

/* The text of top-level member `key` of an object; len 0 (and data NULL) if there is none.  -1: not a good object. */
int json_find(struct json_text object, const char *key, struct json_text *value, struct err *err);

/* Copies `text`, an object, into out with member `key` replaced by `value` (JSON text), or appended as the last member,
 * in the file's own indentation; with value NULL the member is removed.  All other bytes stay as they are. */
int json_edit(struct json_text text, const char *key, const char *value, struct buf *out, struct err *err);

/* Appends a JSON string literal with the escapes of serde_json (the reference serialiser): \" \\ \b \f \n \r \t, \u00XX below
 * 0x20, all else as it is. */
void json_add_string(struct buf *buf, const char *text, size_t n);

#endif
