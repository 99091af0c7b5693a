/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a pickle as a tree of values, and calls nothing: a global is its name, a call is a pair of
 * a name and arguments.  Opcodes that torch's files do not have, and globals that the caller does
 * not list, are refused by name and position.
 *
 * Source: pickletools of CPython 3.11; protocols 2 to 5.
 */
#ifndef FP8CONV_TORCH_PICKLE_H
#define FP8CONV_TORCH_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

#define PICKLE_LIMIT (256u << 20) /* bytes; as a tree up to sixty times that */

enum pickle_kind {
	PICKLE_NONE,
	PICKLE_BOOL,
	PICKLE_INT,
	PICKLE_BIG, /* an integer outside of int64_t, or a float: no reader needs its value */
	PICKLE_TEXT,
	PICKLE_DATA, /* a text with NUL, which is no name: bytes for the codec latin1 */
	PICKLE_BYTES,
	PICKLE_TUPLE,
	PICKLE_LIST,
	PICKLE_DICT,	   /* items: keys and values in turn */
	PICKLE_GLOBAL,	   /* text: "module name" */
	PICKLE_CALL,	   /* items: callee, arguments */
	PICKLE_PERSISTENT, /* items: the id */
	PICKLE_MARK,
};

struct pickle_value {
	enum pickle_kind kind;
	uint32_t at; /* byte of the pickle that made it */
	size_t n;    /* bytes of a text, without the NUL that follows; items */
	union {
		int64_t number; /* also of a bool */
		const char *text;
		struct pickle_value **items;
	};
	struct pickle_value *more;  /* of a call: what was set in the object, as a dict or a list */
	struct pickle_value *state; /* of a call: what BUILD gave */
};

struct pickle {
	const struct pickle_value *top;
	size_t n;		     /* bytes of the pickle; others may follow */
	struct arena arena;	     /* of all values */
	struct pickle_value **lists; /* whose items are no part of the arena */
	size_t n_lists;
};

/* Does the reader know the global "module name"? */
typedef bool pickle_knows_fn(const char *global);

struct pickle_text {
	const char *name; /* for messages */
	const unsigned char *data;
	size_t n;
};

/* Reads the pickle at the start of the text.  ERR_INPUT with the position.  The caller calls
 * pickle_release(), also on failure. */
int pickle_read(struct pickle *pickle, const struct pickle_text *text, pickle_knows_fn *knows,
		struct err *err);
void pickle_release(struct pickle *pickle);

/* Is it a call of that global? */
bool pickle_is_call(const struct pickle_value *value, const char *global);

/* Returns an argument of a call, or an item of a tuple; NULL: it has no such one. */
const struct pickle_value *pickle_argument(const struct pickle_value *call, size_t i);

/* Returns the n bytes of a bytes object, which protocol 2 has as the call of a codec with a text;
 * NULL: it is none.  They belong to the arena. */
const unsigned char *pickle_bytes(const struct pickle_value *value, struct arena *arena, size_t *n);

/* Returns the value of a text key in a dict, or NULL. */
const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);

#endif
