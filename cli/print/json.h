/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON to standard output, member by member and without a tree: a plan may hold a hundred thousand
 * tensors.  The text is ASCII (other characters are escaped), so no name drives a terminal.
 */
#ifndef FP8CONV_CLI_PRINT_JSON_H
#define FP8CONV_CLI_PRINT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* { .stream = stdout } is the start, json_out_begin() what follows. */
struct json_out {
	FILE *stream;
	bool comma; /* something stands in front at this level */
};

/* The beginning of an object of its own: '{' and "schema", whose number grows when a key changes
 * its name, type or meaning. */
#define JSON_SCHEMA 1
void json_out_begin(struct json_out *out);

/* key is NULL in an array and outside of everything.  bracket: '{', '['; json_out_close() takes
 * '}', ']'. */
void json_out_open(struct json_out *out, const char *key, char bracket);
void json_out_close(struct json_out *out, char bracket);

void json_out_text(struct json_out *out, const char *key, const char *text); /* NULL: null */
void json_out_count(struct json_out *out, const char *key, uint64_t n);
void json_out_real(struct json_out *out, const char *key, double value); /* not finite: null */
/* All nine digits that tell it from its neighbours; not finite: null. */
void json_out_float(struct json_out *out, const char *key, float value);
void json_out_bool(struct json_out *out, const char *key, bool value);
void json_out_null(struct json_out *out, const char *key);
void json_out_counts(struct json_out *out, const char *key, const uint64_t *n,
		     size_t n_n); /* an array */

/* The end of the object and of the line. */
void json_out_end(struct json_out *out);

#endif
