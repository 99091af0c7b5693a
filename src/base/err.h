/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors travel as values.  A function that can fail returns 0 or -1 and takes `struct err *` last.
 * The function that knows the file, the tensor and the numbers writes the message, once; callers
 * pass it on, or prefix it with err_wrap().
 *
 * A message is one line: lower case, no full stop, what failed first, subjects in single quotes,
 * both numbers, and what to do where the user can act.  Control characters in it (from hostile
 * names) are replaced by '?', and the middle of a message that is too long by "...".
 */
#ifndef FP8CONV_BASE_ERR_H
#define FP8CONV_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* The value is the exit status of the program, except for ERR_INTERRUPTED (128 + signal). */
enum err_kind {
	ERR_NONE = 0,
	ERR_USAGE = 2,	     /* the request cannot be done */
	ERR_INPUT = 3,	     /* the input is bad, also at the next try */
	ERR_SYSTEM = 4,	     /* I/O, space, memory, device: another try may work */
	ERR_INTERRUPTED = 5, /* a signal ended the job */
};

struct err {
	enum err_kind kind;
	bool no_memory; /* ERR_SYSTEM: less work may fit */
	bool follows;	/* ERR_SYSTEM: because something else has failed before, and is told too */
	bool shared;	/* all ranks of a group have failed, and return; err_set() keeps it */
	int detail;	/* what failed, where the function that failed says so; 0: not said */
	char message[1024];
};

/* Records a failure and returns -1, so that `return err_set(...)` reads well. */
int err_set(struct err *err, enum err_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Calls err_set() with ERR_SYSTEM for memory that is not there. */
int err_no_memory(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Calls err_set() with ": " and the text of errno appended.  The kind is ERR_INPUT where the path
 * is wrong (ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG), else ERR_SYSTEM. */
int err_errno(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " in front of the existing message, but for a signal: what was done when it came is
 * not what failed.  Returns -1. */
int err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts ": advice" behind the existing message of an ERR_INPUT.  Returns -1. */
int err_advise(struct err *err, const char *advice);

/* Returns the offset of the first byte in text that a terminal might obey (C0, DEL, the C1 controls
 * in UTF-8), or the length of text if there is none. */
size_t text_control(const char *text);

/* Replaces all such bytes by '?', in place, and characters that change the direction or the line of
 * what a terminal shows (U+202E and its like). */
void text_sanitize(char *text);

#endif
