/* SPDX-License-Identifier: Apache-2.0 */
#include "report/evaluation.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

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

/* --- benchmarks --- */

static int read_file(struct benchmarks *benchmarks, const struct io *io, const char *path,
		     struct err *err)
{
	struct buf text = { 0 };
	json_t *file, *task;
	const char *name;
	int rc = io_read_file(io, AT_FDCWD, path, EVALUATION_LIMIT, &text, err);

	if (rc)
		goto out;
	file = json_decode_python((struct json_text){ text.data, text.len }, err);
	rc = file ? 0 : err_wrap(err, "'%s' is no result of lm_eval", path);
	if (rc)
		goto out;
	ARRAY_GROW(benchmarks->files, benchmarks->n_files);
	benchmarks->files[benchmarks->n_files++] = file;
	if (!json_object_size(json_object_get(file, "results")))
		rc = err_set(err, ERR_INPUT, "'%s' is no result of lm_eval: it has no 'results'",
			     path);
	json_object_foreach(json_object_get(file, "results"), name, task)
	{
		if (!rc && !json_is_object(task))
			rc = err_set(err, ERR_INPUT,
				     "'%s' is no result of lm_eval: task '%s' is not an object",
				     path, name);
	}
out:
	buf_release(&text);
	return rc;
}

/* Is the member of a task a metric, "acc,none", and not its standard error, "acc_stderr,none"? */
static bool is_metric(const char *key, const json_t *value)
{
	const char *comma = strchr(key, ',');

	return comma && json_is_number(value) &&
	       !text_n_ends(key, (size_t)(comma - key), "_stderr");
}

static bool has_metric(json_t *task)
{
	const char *key;
	json_t *value;

	json_object_foreach(task, key, value)
	{
		if (is_metric(key, value))
			return true;
	}
	return false;
}

/* Returns the tasks, as keys, of which a group has the mean. */
static json_t *find_parts(const json_t *file)
{
	json_t *parts = json_object(), *list, *part;
	const char *group;
	size_t i;

	json_object_foreach(json_object_get(file, "group_subtasks"), group, list)
	{
		if (!has_metric(json_object_get(json_object_get(file, "results"), group)))
			continue;
		json_array_foreach(list, i, part)
		{
			if (json_is_string(part))
				json_object_set_new(parts, json_string_value(part), json_true());
		}
	}
	return parts;
}

static double metric_of(const json_t *task, const char *key)
{
	const json_t *value = json_object_get(task, key);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static double error_of(const json_t *task, const char *key)
{
	const char *comma = strchr(key, ',');
	char *name = xasprintf("%.*s_stderr%s", (int)(comma - key), key, comma);
	double error = metric_of(task, name);

	free(name);
	return error;
}

/* Is less better, as of a perplexity? */
static bool less_is_better(const json_t *file, const char *task, const char *key)
{
	char *metric = xstrndup(key, strcspn(key, ","));
	const json_t *directions = json_object_get(json_object_get(file, "higher_is_better"), task);
	bool less = json_is_false(json_object_get(directions, metric));

	free(metric);
	return less;
}

static void add_benchmark(struct benchmarks *benchmarks, const json_t *file, const char *name,
			  const char *metric, const json_t *source)
{
	const json_t *shots = json_object_get(json_object_get(file, "n-shot"), name);
	const json_t *task = json_object_get(json_object_get(file, "results"), name);
	struct benchmark *row;
	double better, worse;

	if (benchmarks->n == BENCHMARKS_MAX) {
		benchmarks->n_more++;
		return;
	}
	ARRAY_GROW(benchmarks->list, benchmarks->n);
	row = &benchmarks->list[benchmarks->n++];
	*row = (struct benchmark){ .task = name,
				   .metric = metric,
				   .shots = json_is_integer(shots) ? json_integer_value(shots) : -1,
				   .value = metric_of(task, metric),
				   .se = error_of(task, metric),
				   .source = metric_of(source, metric),
				   .source_se = error_of(source, metric) };
	better = less_is_better(file, name, metric) ? row->source : row->value;
	worse = less_is_better(file, name, metric) ? row->value : row->source;
	row->recovery = better >= 0 && worse > 0 ? 100 * better / worse : NAN;
	if (isinf(row->recovery))
		row->recovery = NAN;
}

/* ERR_INPUT where a task of two files was not measured alike. */
static int check_alike(const json_t *const files[2], const char *const paths[2], const char *task,
		       struct err *err)
{
	static const char *const keys[] = { "n-shot", "versions", "n-samples" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const json_t *a = json_object_get(json_object_get(files[0], keys[i]), task);
		const json_t *b = json_object_get(json_object_get(files[1], keys[i]), task);

		if (a && b && !json_equal(a, b))
			return err_set(err, ERR_INPUT,
				       "'%s' and '%s' differ in '%s' of task '%s': measure both "
				       "alike",
				       paths[0], paths[1], keys[i], task);
	}
	return 0;
}

/* Returns the first file from `first` to before `end` that has the task; end: none. */
static size_t find_task(const struct benchmarks *benchmarks, size_t first, size_t end,
			const char *task)
{
	while (first < end &&
	       !json_object_get(json_object_get(benchmarks->files[first], "results"), task))
		first++;
	return first;
}

/* Adds the metrics of a task of file i. */
static int add_task(struct benchmarks *benchmarks, const struct benchmark_paths *paths, size_t i,
		    const char *name, struct err *err)
{
	const json_t *file = benchmarks->files[i], *source = NULL;
	size_t twin = find_task(benchmarks, 0, i, name);
	size_t s = find_task(benchmarks, paths->n_own, benchmarks->n_files, name);
	const char *metric;
	json_t *value;

	if (twin < i)
		return err_set(err, ERR_INPUT, "'%s' and '%s' both have task '%s'",
			       paths->own[twin], paths->own[i], name);
	if (s < benchmarks->n_files) {
		source = json_object_get(json_object_get(benchmarks->files[s], "results"), name);
		if (check_alike((const json_t *[]){ file, benchmarks->files[s] },
				(const char *[]){ paths->own[i], paths->source[s - paths->n_own] },
				name, err))
			return -1;
	}
	json_object_foreach(json_object_get(json_object_get(file, "results"), name), metric, value)
	{
		if (is_metric(metric, value))
			add_benchmark(benchmarks, file, name, metric, source);
	}
	return 0;
}

static int add_tasks(struct benchmarks *benchmarks, const struct benchmark_paths *paths, size_t i,
		     struct err *err)
{
	json_t *parts = find_parts(benchmarks->files[i]), *task;
	const char *name;
	int rc = 0;

	json_object_foreach(json_object_get(benchmarks->files[i], "results"), name, task)
	{
		if (!rc && !json_object_get(parts, name))
			rc = add_task(benchmarks, paths, i, name, err);
	}
	json_decref(parts);
	if (!rc && !benchmarks->n)
		rc = err_set(err, ERR_INPUT, "'%s' is no result of lm_eval: it has no metric",
			     paths->own[i]);
	return rc;
}

int benchmarks_read(struct benchmarks *benchmarks, const struct io *io,
		    const struct benchmark_paths *paths, struct err *err)
{
	*benchmarks = (struct benchmarks){ 0 };
	for (size_t i = 0; i < paths->n_own; i++)
		if (read_file(benchmarks, io, paths->own[i], err))
			return -1;
	for (size_t i = 0; i < paths->n_source; i++)
		if (read_file(benchmarks, io, paths->source[i], err))
			return -1;
	for (size_t i = 0; i < paths->n_own; i++)
		if (add_tasks(benchmarks, paths, i, err))
			return -1;
	if (paths->n_own)
		benchmarks->model =
			json_string_value(json_object_get(benchmarks->files[0], "model_name"));
	return 0;
}

void benchmarks_release(struct benchmarks *benchmarks)
{
	for (size_t i = 0; i < benchmarks->n_files; i++)
		json_decref(benchmarks->files[i]);
	free(benchmarks->files);
	free(benchmarks->list);
	*benchmarks = (struct benchmarks){ 0 };
}
