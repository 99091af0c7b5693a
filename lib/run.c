/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of the program for a caller: what main() does with signals and standard streams, by memory
 * and functions.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/words.h"
#include "cli/program.h"
#include "cli/progress/progress.h"
#include "lib/context.h"

static atomic_bool running;
static const atomic_int never; /* stays 0 */

/* Lines on their way to the caller. */
struct log {
	const struct fp8conv_run *run;
	struct buf line;
};

static ssize_t log_write(void *cookie, const char *data, size_t n)
{
	struct log *log = cookie;

	for (size_t i = 0; i < n; i++) {
		if (data[i] != '\n') {
			buf_add(&log->line, data + i, 1);
			continue;
		}
		buf_add(&log->line, "", 1);
		if (log->run->log)
			log->run->log(log->run->user, log->line.data);
		log->line.len = 0;
	}
	return (ssize_t)n;
}

static void show(void *caller, const struct sample *sample)
{
	const struct fp8conv_run *run = caller;
	const struct fp8conv_progress progress = { .size = sizeof progress,
						   .done = sample->done,
						   .total = sample->total,
						   .unit = sample->unit,
						   .doing = sample->doing,
						   .item = sample->detail };

	run->progress(run->user, &progress);
}

/* Ends the streams of a run.  Fails where what was printed did not fit into memory. */
static int streams_close(int rc, struct err *err)
{
	if (program.objects)
		fclose(program.objects);
	if (program.err)
		fclose(program.err);
	if (program.out && fclose(program.out) && rc >= 0)
		rc = err_no_memory(err, "no memory for the output of the command");
	program = (struct program){ 0 };
	return rc;
}

static int run_program(int argc, const char *const *argv, struct fp8conv_run *run, struct err *err)
{
	struct log log = { .run = run };
	char **words = xcalloc((size_t)argc + 1, sizeof *words); /* argp sorts them */
	int rc;

	memcpy(words, argv, (size_t)argc * sizeof *words);
	program = (struct program){
		.out = open_memstream(&run->output, &run->output_size),
		.err = fopencookie(&log, "w", (cookie_io_functions_t){ .write = log_write }),
		.stop = run->cancel ? (const atomic_int *)run->cancel : &never,
		.progress = run->progress ? show : NULL,
		.caller = run,
	};
	if (program.out && program.err) {
		setvbuf(program.err, NULL, _IOLBF, BUFSIZ);
		rc = program_run(argc, words, err);
	} else {
		rc = err_no_memory(err, "no memory for the streams of a command");
	}
	if (rc < 0 && program.command)
		err_wrap(err, "%s", program.command->name);
	rc = streams_close(rc, err);
	buf_release(&log.line);
	free(words);
	return rc;
}

static int run_checked(int argc, const char *const *argv, struct fp8conv_run *run, struct err *err)
{
	int rc;

	if (size_check(run, sizeof *run, "run", err))
		return -1;
	run->output = NULL;
	run->output_size = 0;
	run->status = 0;
	if (argc < 1 || !argv)
		return err_set(err, ERR_USAGE, "argv has no argument");
	for (int i = 0; i < argc; i++)
		if (!argv[i])
			return err_set(err, ERR_USAGE, "argv[%d] is NULL", i);
	if (atomic_exchange(&running, true))
		return err_set(err, ERR_USAGE, "another run is in progress in this process");
	rc = run_program(argc, argv, run, err);
	atomic_store(&running, false);
	if (rc >= 0) {
		run->status = rc;
		return 0;
	}
	free(run->output);
	run->output = NULL;
	run->output_size = 0;
	return -1;
}

void words_add(struct command_words *words, char *word)
{
	ARRAY_GROW(words->list, words->n);
	words->list[words->n++] = word;
	ARRAY_GROW(words->list, words->n);
	words->list[words->n] = NULL; /* as argv ends */
}

void words_release(struct command_words *words)
{
	for (size_t i = 0; i < words->n; i++)
		free(words->list[i]);
	free(words->list);
}

/* Adds an option of the command line: with a value, or as a flag that is set. */
static int option_add(struct command_words *words, const char *name, const json_t *value,
		      bool is_flag, struct err *err)
{
	char *number;

	if (json_is_true(value) && !is_flag)
		return err_set(err, ERR_USAGE, "option '%s' is true, and needs a value", name);
	if (json_is_true(value)) {
		words_add(words, xasprintf("--%s", name));
	} else if (json_is_string(value)) {
		words_add(words, xasprintf("--%s=%s", name, json_string_value(value)));
	} else if (json_is_number(value)) {
		number = json_dumps(value, JSON_ENCODE_ANY);
		words_add(words, xasprintf("--%s=%s", name, number));
		free(number);
	} else if (!json_is_false(value) && !json_is_null(value)) {
		return err_set(
			err, ERR_USAGE,
			"option '%s' is not a text, a number, true, false or a list of texts",
			name);
	}
	return 0;
}

/* Adds an option with each of its values. */
static int option_read(struct command_words *words, const char *name, const json_t *value,
		       bool is_flag, struct err *err)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(value))
		return option_add(words, name, value, is_flag, err);
	json_array_foreach(value, i, one) if (option_add(words, name, one, is_flag, err)) return -1;
	return 0;
}

static bool is_listed(const char *const *names, const char *name)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names;
}

int words_make(struct command_words *words, const char *options, const char *const *names,
	       struct err *err)
{
	static const char *const flags[] = { "kv-cache", "ragged", "requantize", NULL };
	json_t *object = options ? json_decode((struct json_text){ options, strlen(options) }, err)
				 : json_object();
	const char *name;
	json_t *value;
	int rc = 0;

	if (!object)
		return err_wrap(err, "the options of a plan");
	if (!json_is_object(object))
		rc = err_set(err, ERR_USAGE, "the options of a plan are not a JSON object");
	json_object_foreach(object, name, value)
	{
		if (rc)
			break;
		rc = !is_listed(names, name)
			     ? words_unknown("option", name, names, "man 3 fp8conv", err)
			     : option_read(words, name, value, is_listed(flags, name), err);
	}
	json_decref(object);
	return rc;
}

EXPORTED int fp8conv_run(int argc, const char *const *argv, struct fp8conv_run *run,
			 struct fp8conv_error *error)
{
	struct err err = { 0 };

	return error_out(run_checked(argc, argv, run, &err), &err, error);
}

EXPORTED void fp8conv_free(void *memory)
{
	free(memory);
}
