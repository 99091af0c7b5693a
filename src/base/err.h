/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors travel as values.  A function that can fail returns 0 or -1 and takes `struct err *`
 * last.  Whoever knows the file, the tensor and the numbers writes the message, once; callers pass
 * it on, or prefix it with err_wrap().
 *
 * A message is one line: lower case, no full stop, what failed first, subjects in single quotes,
 * both numbers, and what to do where the user can act.  Control characters in it (from hostile
 * names) have been replaced by '?', and of one that is too long the middle by "...".
 */
#ifndef FP8CONV_BASE_ERR_H
#define FP8CONV_BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

/* The value is the exit status of the program, save for ERR_INTERRUPTED (128 + signal). */
enum err_kind {
	ERR_NONE = 0,
	ERR_USAGE = 2,	     /* what was asked for cannot be done */
	ERR_INPUT = 3,	     /* the input is bad, and will be the next time */
	ERR_SYSTEM = 4,	     /* I/O, space, memory, device: worth another try */
	ERR_INTERRUPTED = 5, /* a signal asked for the end */
};

struct err {
	enum err_kind kind;
	char message[1024];
};

/* Records a failure and returns -1, so that `return err_set(...)` reads well. */
int err_set(struct err *err, enum err_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* err_set() of kind ERR_SYSTEM (ERR_INPUT where the path is wrong: ENOENT, ENOTDIR, ELOOP,
 * ENAMETOOLONG) with ": " and errno's text behind it. */
int err_errno(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " in front of the message that is there.  Returns -1. */
int err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Where the first byte of what a terminal might obey (C0, DEL, the C1 controls in UTF-8) is in
 * text; its length: nowhere. */
size_t text_control(const char *text);

/* Replaces all of that by '?', in place. */
void text_sanitize(char *text);

#endif
