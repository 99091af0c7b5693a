/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes JSON to standard output, member by member and without a tree: a plan may have a hundred
 * thousand tensors.  The text is ASCII without '<' (other characters are escaped), so no name can
 * control a terminal or end an element of HTML.
 *
 * Order: json_out_begin(); members; json_out_end().
 */
#ifndef FP8CONV_CLI_PRINT_JSON_H
#define FP8CONV_CLI_PRINT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The state of writing. */
struct json_out {
	FILE *stream;
	bool comma; /* this level already has a member */
};

/* Begins the outermost object: '{' and "schema", whose number grows when a key changes its name,
 * type or meaning. */
#define JSON_SCHEMA 1
struct json_out json_out_begin(FILE *stream);

/* Open and close an object or array.  key is NULL in an array and at the outermost level.  bracket:
 * '{' or '['; for json_out_close() '}' or ']'. */
void json_out_open(struct json_out *out, const char *key, char bracket);
void json_out_close(struct json_out *out, char bracket);

void json_out_text(struct json_out *out, const char *key, const char *text); /* NULL: null */
void json_out_count(struct json_out *out, const char *key, uint64_t n);
void json_out_real(struct json_out *out, const char *key, double value); /* not finite: null */
/* Writes the nine digits that distinguish it from its neighbors; not finite: null. */
void json_out_float(struct json_out *out, const char *key, float value);
void json_out_bool(struct json_out *out, const char *key, bool value);
void json_out_null(struct json_out *out, const char *key);
void json_out_counts(struct json_out *out, const char *key, const uint64_t *n,
		     size_t n_n); /* an array */

/* Opens an object, or writes null where there is none.  Returns whether there is one. */
static inline bool json_out_object(struct json_out *out, const char *key, bool there_is)
{
	if (there_is)
		json_out_open(out, key, '{');
	else
		json_out_null(out, key);
	return there_is;
}

/* Ends the outermost object and the line. */
void json_out_end(struct json_out *out);

#endif
