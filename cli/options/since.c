/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/since.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/manifest.h"
#include "cli/print/job_options.h"
#include "cli/program.h"

static void add_word(struct since_options *since, char *word)
{
	ARRAY_GROW(since->words, since->n_words);
	since->words[since->n_words++] = word;
}

/* Adds a recorded option, unless the command line gives it.  A job_option_fn. */
static void add_option(void *context, const char *option, const char *value)
{
	struct since_options *since = context;

	if (command_gives(program.command, program.argc, program.argv, option))
		return;
	add_word(since, value ? xasprintf("--%s=%s", option, value) : xasprintf("--%s", option));
}

/* A file that a record has only the numbers of is given again. */
static void add_recorded(void *context, const char *option, const char *value)
{
	if (strcmp(option, "calibration") != 0)
		add_option(context, option, value);
}

static int read_manifest(struct since_options *since, const struct io *io, struct err *err)
{
	const struct checkpoint place = { .io = io, .directory = (char *)since->base };
	const char *command;
	struct stat st;

	if (strstr(since->base, "://"))
		return err_set(err, ERR_USAGE,
			       "option '--since': '%s' is an address: download the model and give "
			       "its directory",
			       since->base);
	if (io->fstatat(io, AT_FDCWD, since->base, &st, 0))
		return err_errno(err, "option '--since': cannot open '%s'", since->base);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_USAGE,
			       "option '--since': '%s' is a single file: give the directory of an "
			       "output",
			       since->base);
	if (manifest_read(&since->manifest, &place, err))
		return -1;
	if (!since->manifest)
		return err_set(err, ERR_INPUT,
			       "option '--since': '%s' has no " MANIFEST_NAME
			       ", which has the options of the job: convert to a directory, and "
			       "use 'fp8conv delta'",
			       since->base);
	command = json_member_text(since->manifest, "command");
	if (strcmp(command, program.command->name) != 0)
		return err_set(err, ERR_USAGE,
			       "option '--since': '%s' was made by '%s': convert to a directory, "
			       "and use 'fp8conv delta'",
			       since->base, command);
	return 0;
}

/* Refuses what an output needs its directory for. */
static int check_options(const struct since_options *since, const json_t *options, struct err *err)
{
	const char *option = json_object_get(options, "rounding") ? "--rounding compensated"
			     : json_is_true(json_object_get(options, "preserve_high_precision"))
				     ? "--preserve-high-precision"
				     : NULL;

	return option ? err_set(err, ERR_USAGE,
				"'%s' was made with option '%s', which '--since' cannot be "
				"combined with: convert to a directory, and use 'fp8conv delta'",
				since->base, option)
		      : 0;
}

int since_options_read(struct since_options *since, const struct io *io, const char *base,
		       void *settings, struct err *err)
{
	const json_t *options;

	since->base = base;
	if (read_manifest(since, io, err))
		return -1;
	options = json_object_get(since->manifest, "options");
	if (check_options(since, options, err))
		return -1;
	add_word(since, xstrdup(program.command->name));
	add_option(since, "recipe", json_member_text(options, "recipe"));
	add_option(since, "format", json_member_text(options, "format"));
	job_options_each(options, NULL, add_recorded, since);
	add_word(since, NULL);
	return command_parse_more(program.command, (int)since->n_words - 1, since->words, settings,
				  err);
}

/* Returns the texts of a list, each in quotes, which the caller frees. */
static char *list_text(const json_t *list)
{
	struct buf text = { 0 };
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
		buf_printf(&text, "%s'%s'", i ? ", " : "", json_string_value(item));
	return text.data;
}

/* Returns a value as a user gives it, which the caller frees. */
static char *text_of(const char *name, const json_t *value)
{
	if (!value || json_is_null(value) || (json_is_array(value) && !json_array_size(value)))
		return xstrdup("none");
	if (json_is_array(value))
		return list_text(value);
	if (!strcmp(name, "pow2"))
		return xstrdup(json_is_true(value) ? "'ue8m0'" : "'float'");
	return json_is_string(value) ? xasprintf("'%s'", json_string_value(value))
				     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
}

/* Returns the options but for the numbers of a calibration: each model has its own. */
static json_t *without_numbers(const json_t *options)
{
	json_t *copy = json_copy((json_t *)options);

	if (json_is_string(json_object_get(copy, "calibration")))
		json_object_set_new(copy, "calibration", json_string("given"));
	return copy;
}

/* Finds the first member, of objects in them too, that is not the same in both. */
static const char *find_difference(const json_t **was, const json_t **is)
{
	const char *name = manifest_option_that_differs(*was, *is), *inner;

	if (!name)
		return NULL;
	*was = json_object_get(*was, name);
	*is = json_object_get(*is, name);
	inner = find_difference(was, is);
	return inner ? inner : name;
}

static int refuse(const struct since_options *since, const char *name, const json_t *was,
		  const json_t *is, struct err *err)
{
	char *option = xstrdup(strcmp(name, "pow2") ? name : "scale_fmt");
	char *texts[] = { text_of(name, was), text_of(name, is) };

	for (char *at = option; *at; at++)
		if (*at == '_')
			*at = '-';
	err_set(err, ERR_USAGE,
		"option '--%s' is %s, but '%s' was made with %s: give the options of that job, or "
		"none; for others, convert to a directory and use 'fp8conv delta'",
		option, texts[1], since->base, texts[0]);
	free(option);
	free(texts[0]);
	free(texts[1]);
	return -1;
}

int since_options_check(const struct since_options *since, const json_t *options, struct err *err)
{
	json_t *both[2] = { without_numbers(json_object_get(since->manifest, "options")),
			    without_numbers(options) };
	const json_t *was = both[0], *is = both[1];
	const char *name = find_difference(&was, &is);
	int rc = name ? refuse(since, name, was, is, err) : 0;

	json_decref(both[0]);
	json_decref(both[1]);
	return rc;
}

void since_options_release(struct since_options *since)
{
	for (size_t i = 0; i < since->n_words; i++)
		free(since->words[i]);
	free(since->words);
	json_decref(since->manifest);
}
