/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/message.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/print/json.h"
#include "cli/print/wrap.h"
#include "cli/program.h"
#include "cli/signals.h"

static void print_text(const char *noun, const char *text)
{
	struct buf line = { 0 };

	if (signals_clear_line(false))
		fputs("\r\033[K", program.err);
	buf_printf(&line, "fp8conv%s%s: %s%s", program.command ? " " : "",
		   program.command ? program.command->name : "", noun, text);
	if (program_on_terminal(STDERR_FILENO))
		wrap_message(line.data);
	else
		fprintf(program.err, "%s\n", line.data);
	buf_release(&line);
}

void message_note(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = xvasprintf(format, arguments);
	va_end(arguments);
	print_text("note: ", text);
	if (program.objects) {
		struct json_out out;

		flockfile(program.objects); /* a ticker may write its object now */
		out = json_out_begin(program.objects);
		json_out_text(&out, "note", text);
		json_out_end(&out);
		funlockfile(out.stream);
	}
	free(text);
}

static void print_error(FILE *stream, const char *text, int status)
{
	struct json_out out;

	if (!stream)
		return;
	out = json_out_begin(stream);
	json_out_text(&out, "error", text);
	json_out_count(&out, "status", (uint64_t)status);
	json_out_end(&out);
	fflush(stream);
}

void message_error(const char *text, int status, FILE *result)
{
	print_text("", text);
	print_error(program.objects, text, status);
	print_error(result, text, status);
}
