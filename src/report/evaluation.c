/* SPDX-License-Identifier: Apache-2.0 */
#include "report/evaluation.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* The file, for messages. */
struct result_reading {
	struct evaluation_file *evaluation;
	const char *path;
	struct err *err;
};

static int invalid(const struct result_reading *reading, const char *key, const char *what)
{
	return err_set(reading->err, ERR_INPUT,
		       "'%s' is not a result of 'fp8conv eval --json': '%s' %s", reading->path, key,
		       what);
}

/* --- members --- */

/* Reads a number; null, which stands for a number that is not finite, and a missing one are NAN. */
static int read_real(const struct result_reading *reading, const json_t *object, const char *key,
		     double *value)
{
	const json_t *member = json_object_get(object, key);

	*value = NAN;
	if (!member || json_is_null(member))
		return 0;
	if (!json_is_number(member))
		return invalid(reading, key, "is not a number");
	*value = json_number_value(member);
	return 0;
}

/* Reads a number of the table and its standard error. */
static int read_number(const struct result_reading *reading, enum quality_number number)
{
	const struct quality_row *row = &quality_rows[number];
	struct estimate *estimate = &reading->evaluation->of[number];
	bool alone = !row->object && row->has_error;
	const char *object = alone ? row->key : row->object;
	const json_t *from = reading->evaluation->json;

	if (object)
		from = json_object_get(from, object);
	if (from && !json_is_object(from))
		return invalid(reading, object, "is not an object");
	estimate->se = NAN;
	if (read_real(reading, from, alone ? "value" : row->key, &estimate->value))
		return -1;
	return row->has_error ? read_real(reading, from, "se", &estimate->se) : 0;
}

static int read_count(const struct result_reading *reading, const char *key, uint64_t *count)
{
	const json_t *member = json_object_get(reading->evaluation->json, key);

	if (!json_is_integer(member) || json_integer_value(member) < 0)
		return invalid(reading, key, member ? "is not a count" : "is missing");
	*count = (uint64_t)json_integer_value(member);
	return 0;
}

/* Reads a text that may be missing or null. */
static int read_text(const struct result_reading *reading, const char *key, const char **text)
{
	const json_t *member = json_object_get(reading->evaluation->json, key);

	*text = json_string_value(member);
	if (member && !*text && !json_is_null(member))
		return invalid(reading, key, "is not a text");
	return 0;
}

static int read_hash(const struct result_reading *reading)
{
	const char *text;

	if (read_text(reading, "data_sha256", &text))
		return -1;
	if (!text || strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
		return invalid(reading, "data_sha256", "is not a SHA-256");
	memcpy(reading->evaluation->data_sha256, text, 65);
	return 0;
}

static int read_data(const struct result_reading *reading)
{
	struct evaluation_file *evaluation = reading->evaluation;
	const json_t *list = json_object_get(evaluation->json, "data"), *name;
	size_t i;

	if (list && !json_is_array(list))
		return invalid(reading, "data", "is not a list");
	json_array_foreach(list, i, name)
	{
		if (!json_is_string(name))
			return invalid(reading, "data", "has a name that is not a text");
		if (evaluation->n_data < EVALUATION_MAX_DATA)
			evaluation->data[evaluation->n_data++] = json_string_value(name);
		else
			evaluation->n_more_data++;
	}
	return 0;
}

/* --- by layer --- */

/* Adds a module, or the residual stream without a name. */
static int read_sqnr(const struct result_reading *reading, const char *name, uint64_t layer,
		     const json_t *json)
{
	struct evaluation_file *evaluation = reading->evaluation;
	struct measured_module *module;

	ARRAY_GROW(evaluation->modules, evaluation->n_modules);
	module = &evaluation->modules[evaluation->n_modules++];
	*module = (struct measured_module){ .name = name, .layer = layer };
	return read_real(reading, json, "sqnr_db", &module->sqnr);
}

static int read_layer(const struct result_reading *reading, const json_t *json)
{
	const json_t *number = json_object_get(json, "layer"), *module;
	const json_t *modules = json_object_get(json, "modules");
	uint64_t layer = (uint64_t)json_integer_value(number);
	size_t i;

	if (!json_is_integer(number) || json_integer_value(number) < 0)
		return invalid(reading, "layer", number ? "is not a count" : "is missing");
	json_array_foreach(modules, i, module)
	{
		const char *name = json_string_value(json_object_get(module, "module"));

		if (!name)
			return invalid(reading, "module", "is missing or not a text");
		if (read_sqnr(reading, name, layer, json_object_get(module, "local")))
			return -1;
	}
	return read_sqnr(reading, NULL, layer, json_object_get(json, "residual"));
}

static int read_layers(const struct result_reading *reading)
{
	const json_t *list = json_object_get(reading->evaluation->json, "layers"), *layer;
	size_t i;

	if (list && !json_is_array(list))
		return invalid(reading, "layers", "is not a list");
	json_array_foreach(list, i, layer)
	{
		if (read_layer(reading, layer))
			return -1;
	}
	return 0;
}

/* --- the file --- */

static int read_numbers(const struct result_reading *reading)
{
	struct evaluation_file *evaluation = reading->evaluation;

	for (enum quality_number i = 0; i < N_QUALITY; i++) {
		if (read_number(reading, i))
			return -1;
		if (!i && isnan(evaluation->of[i].value))
			return invalid(reading, "perplexity", "is missing");
	}
	evaluation->compared = !isnan(evaluation->of[QUALITY_KLD].value);
	return 0;
}

static int read_all(const struct result_reading *reading)
{
	struct evaluation_file *evaluation = reading->evaluation;

	if (read_numbers(reading) || read_count(reading, "tokens", &evaluation->tokens) ||
	    read_count(reading, "sequences", &evaluation->sequences) ||
	    read_count(reading, "seq_len", &evaluation->seq_len) || read_hash(reading) ||
	    read_text(reading, "precision", &evaluation->precision) ||
	    read_text(reading, "activations", &evaluation->activations) ||
	    read_text(reading, "model", &evaluation->model) ||
	    read_text(reading, "source", &evaluation->source) || read_data(reading) ||
	    read_layers(reading))
		return -1;
	return 0;
}

int evaluation_parse(struct evaluation_file *evaluation, const char *text, size_t n,
		     const char *path, struct err *err)
{
	struct result_reading reading = { evaluation, path, err };

	*evaluation = (struct evaluation_file){ 0 };
	evaluation->json = json_decode((struct json_text){ text, n }, err);
	if (!evaluation->json)
		return err_wrap(err, "'%s' is not a result of 'fp8conv eval --json'", path);
	if (!json_is_object(evaluation->json))
		return err_set(err, ERR_INPUT,
			       "'%s' is not a result of 'fp8conv eval --json': it is not an object",
			       path);
	return read_all(&reading);
}

int evaluation_read(struct evaluation_file *evaluation, const struct io *io, const char *path,
		    struct err *err)
{
	struct buf text = { 0 };
	int rc = io_read_file(io, AT_FDCWD, path, EVALUATION_LIMIT, &text, err);

	*evaluation = (struct evaluation_file){ 0 };
	if (!rc)
		rc = evaluation_parse(evaluation, text.data, text.len, path, err);
	buf_release(&text);
	return rc;
}

void evaluation_release(struct evaluation_file *evaluation)
{
	free(evaluation->modules);
	json_decref(evaluation->json);
	*evaluation = (struct evaluation_file){ 0 };
}
