/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes and errors of the command that runs: one line on standard error, on a terminal broken
 * between words; and an object where the run writes its progress as JSON (program.objects).
 */
#ifndef FP8CONV_CLI_PRINT_MESSAGE_H
#define FP8CONV_CLI_PRINT_MESSAGE_H

#include <stdio.h>

/* Prints "fp8conv CMD: note: TEXT", and {"note": TEXT}. */
__attribute__((format(printf, 1, 2))) void message_note(const char *format, ...);

/* Prints "fp8conv CMD: TEXT", and {"error": TEXT, "status": N}, which also goes to the stream
 * result, unless it is NULL. */
void message_error(const char *text, int status, FILE *result);

#endif
