/* SPDX-License-Identifier: Apache-2.0 */
#include "report/evaluation.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

const char *const spread_keys[N_SPREAD_KEYS] = { "max",	   "p99_9", "p99", "p95", "p90",
						 "median", "p10",   "p5",  "p1",  "min" };

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

static int read_measured(const struct result_reading *reading, const char *key,
			 struct measured *measured)
{
	const json_t *member = json_object_get(reading->evaluation->json, key);

	if (member && !json_is_object(member))
		return invalid(reading, key, "is not an object");
	if (read_real(reading, member, "value", &measured->value) ||
	    read_real(reading, member, "se", &measured->se))
		return -1;
	return 0;
}

static int read_spread(const struct result_reading *reading, const char *key,
		       struct measured_spread *spread)
{
	const json_t *member = json_object_get(reading->evaluation->json, key);

	if (member && !json_is_object(member))
		return invalid(reading, key, "is not an object");
	if (read_real(reading, member, "mean", &spread->mean) ||
	    read_real(reading, member, "se", &spread->se) ||
	    read_real(reading, member, "rms", &spread->rms) ||
	    read_real(reading, member, "reverse_mean", &spread->reverse_mean))
		return -1;
	for (size_t i = 0; i < N_SPREAD_KEYS; i++)
		if (read_real(reading, member, spread_keys[i], &spread->of[i]))
			return -1;
	return 0;
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

static struct measured_module *add_module(struct evaluation_file *evaluation, const char *name,
					  uint64_t layer)
{
	struct measured_module *module;

	ARRAY_GROW(evaluation->modules, evaluation->n_modules);
	module = &evaluation->modules[evaluation->n_modules++];
	*module = (struct measured_module){
		.name = name,
		.layer = layer,
		.local = NAN,
		.accumulated = NAN,
	};
	return module;
}

static int read_module(const struct result_reading *reading, const json_t *json, uint64_t layer)
{
	const char *name = json_string_value(json_object_get(json, "module"));
	struct measured_module *module;

	if (!name)
		return invalid(reading, "module", "is missing or not a text");
	module = add_module(reading->evaluation, name, layer);
	if (read_real(reading, json_object_get(json, "local"), "sqnr_db", &module->local) ||
	    read_real(reading, json_object_get(json, "accumulated"), "sqnr_db",
		      &module->accumulated) ||
	    read_real(reading, json, "zeros", &module->zeros) ||
	    read_real(reading, json, "saturated", &module->saturated))
		return -1;
	return 0;
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
		if (read_module(reading, module, layer))
			return -1;
	}
	return read_real(reading, json_object_get(json, "residual"), "sqnr_db",
			 &add_module(reading->evaluation, NULL, layer)->accumulated);
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

	if (read_measured(reading, "perplexity", &evaluation->perplexity))
		return -1;
	if (isnan(evaluation->perplexity.value))
		return invalid(reading, "perplexity", "is missing");
	if (read_measured(reading, "source_perplexity", &evaluation->source_perplexity) ||
	    read_measured(reading, "ln_ratio", &evaluation->ln_ratio) ||
	    read_measured(reading, "ratio", &evaluation->ratio) ||
	    read_measured(reading, "difference", &evaluation->difference) ||
	    read_measured(reading, "same_top", &evaluation->same_top) ||
	    read_spread(reading, "kld", &evaluation->kld) ||
	    read_spread(reading, "delta_p", &evaluation->delta_p) ||
	    read_real(reading, evaluation->json, "correlation", &evaluation->correlation))
		return -1;
	evaluation->compared = !isnan(evaluation->kld.mean);
	return 0;
}

static int read_all(const struct result_reading *reading)
{
	struct evaluation_file *evaluation = reading->evaluation;

	if (read_numbers(reading) || read_count(reading, "tokens", &evaluation->tokens) ||
	    read_count(reading, "targets", &evaluation->targets) ||
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
