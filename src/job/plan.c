/* SPDX-License-Identifier: Apache-2.0
 *
 * What all plans have in common: the source, the tensors of every output shard with their places, the indexes, the totals.
 */
#include "job/plan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/mem.h"
#include "job/stream.h"

/* The manifest and the rounding of files to blocks. */
#define DISK_SLACK ((uint64_t)64 << 10)

enum output_kind output_kind(const char *output)
{
	size_t n = strlen(output);

	if (!strcmp(output, "-"))
		return OUTPUT_STREAM;
	return n > 12 && !strcmp(output + n - 12, ".safetensors") ? OUTPUT_FILE : OUTPUT_DIRECTORY;
}

static int open_source(struct plan *plan, const struct convert_params *params, struct progress *progress,
		       struct err *err)
{
	if (strcmp(params->input, "-") != 0)
		return checkpoint_open(&plan->source, params->io, params->input, err);
	if (stream_spool(params->io, params->temp_dir, progress->stop, &plan->stream_fd, err))
		return -1;
	if (checkpoint_open_fd(&plan->source, params->io, plan->stream_fd, "-", err))
		return -1;
	/* what has no name of its own is a whole model */
	free(plan->source.shards[0].name);
	plan->source.shards[0].name = xstrdup("model.safetensors");
	return 0;
}

/* What the command line asks for, where no file decides. */
static int check_request(const struct plan *plan, const struct convert_params *params, struct err *err)
{
	if (params->hashes && plan->stream_fd >= 0)
		return err_set(err, ERR_USAGE, "--manifest needs files as input, not '-'");
	if (params->output && output_kind(params->output) != OUTPUT_DIRECTORY) {
		if (plan->source.n_shards != 1)
			return err_set(err, ERR_USAGE,
				       "'%s' has %zu shards: give a directory as output, not '%s'",
				       params->input, plan->source.n_shards, params->output);
		if (params->part || params->part_finish || params->hashes)
			return err_set(err, ERR_USAGE, "--part and --manifest need a directory as output, not '%s'",
				       params->output);
	}
	return 0;
}

int plan_open(struct plan *plan, const struct convert_params *params, struct progress *progress, struct err *err)
{
	plan->io = params->io;
	return open_source(plan, params, progress, err) || check_request(plan, params, err) ? -1 : 0;
}

/* Makes room for one more tensor in a shard. */
struct st_tensor *shard_add(struct output_shard *shard, size_t output)
{
	size_t n = shard->n_tensors;

	ARRAY_GROW(shard->tensors, n);
	ARRAY_GROW(shard->outputs, n);
	shard->outputs[n] = output;
	shard->tensors[n] = (struct st_tensor){ 0 };
	shard->n_tensors++;
	return &shard->tensors[n];
}

void tensor_set(struct st_tensor *tensor, char *name, enum dtype dtype, int n_dims, const uint64_t *shape)
{
	tensor->name = name;
	tensor->dtype = dtype;
	tensor->n_dims = n_dims;
	tensor->shape = xcalloc((size_t)n_dims, sizeof *shape);
	if (n_dims)
		memcpy(tensor->shape, shape, (size_t)n_dims * sizeof *shape);
}

struct st_tensor *plan_add(struct plan *plan, size_t u, enum output_part part, const struct tensor_ref *source)
{
	size_t shard = plan->selection.units[u].source->shard;
	struct output output = { .unit = u,
				 .part = part,
				 .source = source ? source : plan->selection.units[u].source,
				 .shard = shard,
				 .index = plan->shards[shard].n_tensors };

	ARRAY_GROW(plan->outputs, plan->n_outputs);
	plan->outputs[plan->n_outputs] = output;
	return shard_add(&plan->shards[shard], plan->n_outputs++);
}

void plan_keep(struct plan *plan, size_t u)
{
	const struct st_tensor *source = plan->selection.units[u].source->tensor;

	tensor_set(plan_add(plan, u, PART_COPY, NULL), xstrdup(source->name), source->dtype, source->n_dims,
		   source->shape);
	plan->n_kept++;
}

void plan_begin(struct plan *plan, bool preserve)
{
	size_t n_units = plan->selection.n_units;

	plan->n_shards = plan->source.n_shards;
	plan->shards = xcalloc(plan->n_shards, sizeof *plan->shards);
	plan->unit_outputs = xcalloc(n_units + 1, sizeof *plan->unit_outputs);
	if (preserve) {
		plan->preserved = xcalloc(plan->n_shards, sizeof *plan->preserved);
		plan->unit_preserved = xcalloc(n_units, sizeof *plan->unit_preserved);
	}
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A scale's name may be that of a tensor that was there before. */
static int names_check(const struct plan *plan, struct err *err)
{
	const char **names = xcalloc(plan->n_outputs, sizeof *names);
	int rc = 0;

	for (size_t i = 0; i < plan->n_outputs; i++)
		names[i] = plan->shards[plan->outputs[i].shard].tensors[plan->outputs[i].index].name;
	sort(names, plan->n_outputs, sizeof *names, compare_texts);
	for (size_t i = 1; i < plan->n_outputs && !rc; i++) {
		if (!strcmp(names[i - 1], names[i]))
			rc = err_set(err, ERR_INPUT,
				     "the output would have two tensors '%s': the source has one of that name",
				     names[i]);
	}
	free(names);
	return rc;
}

/* The source's own metadata, with "format" set, which loaders ask for. */
static int shard_layout(struct output_shard *shard, const struct st_file *source, struct err *err)
{
	struct st_metadata *metadata = xcalloc(source->n_metadata + 1, sizeof *metadata);
	size_t n = 0;

	for (size_t i = 0; i < source->n_metadata; i++) {
		if (strcmp(source->metadata[i].key, "format") != 0)
			metadata[n++] = source->metadata[i];
	}
	metadata[n++] = (struct st_metadata){ .key = (char *)"format", .value = (char *)"pt" };
	st_layout(shard->tensors, shard->n_tensors, metadata, n, &shard->header, &shard->data_size);
	free(metadata);
	if (shard->header.len - 8 > ST_MAX_HEADER)
		return err_set(err, ERR_INPUT, "the header of output '%s' would have %zu bytes, and readers take %d",
			       shard->name, shard->header.len - 8, ST_MAX_HEADER);
	return 0;
}

struct index_entry {
	const char *tensor;
	const char *file;
};

static int compare_entries(const void *a, const void *b)
{
	const struct index_entry *x = a, *y = b;

	return strcmp(x->tensor, y->tensor);
}

/* As Hugging Face writes it: the sum of tensor bytes, and names in order. */
static void index_write(const struct output_shard *shards, size_t n_shards, struct buf *text)
{
	struct index_entry *entries;
	uint64_t total = 0;
	size_t n = 0, at = 0;

	for (size_t i = 0; i < n_shards; i++)
		n += shards[i].n_tensors;
	entries = xcalloc(n, sizeof *entries);
	for (size_t i = 0; i < n_shards; i++) {
		total += shards[i].data_size;
		for (size_t k = 0; k < shards[i].n_tensors; k++)
			entries[at++] = (struct index_entry){ shards[i].tensors[k].name, shards[i].name };
	}
	sort(entries, n, sizeof *entries, compare_entries);
	buf_printf(text, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
		   (unsigned long long)total);
	for (size_t i = 0; i < n; i++) {
		buf_puts(text, i ? ",\n    " : "\n    ");
		json_add_string(text, entries[i].tensor, strlen(entries[i].tensor));
		buf_puts(text, ": ");
		json_add_string(text, entries[i].file, strlen(entries[i].file));
	}
	buf_puts(text, n ? "\n  }\n}\n" : "}\n}\n");
	free(entries);
}

static int add_auxiliary(struct plan *plan, struct err *err)
{
	char **paths;
	size_t n;

	if (!plan->source.directory)
		return 0;
	if (checkpoint_auxiliary(&plan->source, &paths, &n, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		char *path = xasprintf("%s/%s", plan->source.directory, paths[i]);
		struct stat st;

		if (!stat(path, &st))
			plan->disk_bytes += (uint64_t)st.st_size;
		free(path);
		free(paths[i]);
	}
	free(paths);
	return 0;
}

int plan_layout(struct plan *plan, struct err *err)
{
	const struct checkpoint *source = &plan->source;

	plan->unit_outputs[plan->selection.n_units] = plan->n_outputs;
	if (names_check(plan, err))
		return -1;
	for (size_t i = 0; i < plan->n_shards; i++) {
		plan->shards[i].name = source->shards[i].name;
		if (shard_layout(&plan->shards[i], &source->shards[i].file, err))
			return -1;
		plan->output_bytes += plan->shards[i].data_size;
		plan->disk_bytes += plan->shards[i].header.len + plan->shards[i].data_size;
		if (plan->preserved) {
			plan->preserved[i].name = source->shards[i].name;
			if (shard_layout(&plan->preserved[i], &source->shards[i].file, err))
				return -1;
		}
	}
	plan->input_bytes = source->data_bytes;
	if (source->has_index || plan->n_shards > 1)
		index_write(plan->shards, plan->n_shards, &plan->index);
	if (plan->preserved)
		index_write(plan->preserved, plan->n_shards, &plan->preserved_index);
	return 0;
}

int plan_finish(struct plan *plan, struct progress *progress, struct err *err)
{
	plan->disk_bytes += plan->config.len + plan->hf_quant_config.len + plan->index.len + DISK_SLACK;
	if (add_auxiliary(plan, err))
		return -1;
	atomic_store(&progress->total, plan->input_bytes);
	return 0;
}

static void shards_release(struct output_shard *shards, size_t n)
{
	for (size_t i = 0; shards && i < n; i++) {
		for (size_t k = 0; k < shards[i].n_tensors; k++) {
			free(shards[i].tensors[k].name);
			free(shards[i].tensors[k].shape);
		}
		free(shards[i].tensors);
		free(shards[i].outputs);
		buf_release(&shards[i].header);
	}
	free(shards);
}

void plan_release(struct plan *plan)
{
	shards_release(plan->shards, plan->n_shards);
	shards_release(plan->preserved, plan->n_shards);
	free(plan->outputs);
	free(plan->unit_outputs);
	free(plan->unit_preserved);
	free(plan->specs);
	free(plan->group_first);
	free(plan->group_next);
	json_decref(plan->options);
	buf_release(&plan->config);
	buf_release(&plan->hf_quant_config);
	buf_release(&plan->index);
	buf_release(&plan->preserved_index);
	selection_release(&plan->selection);
	checkpoint_release(&plan->source);
	if (plan->stream_fd > 0)
		plan->io->close(plan->stream_fd);
	*plan = (struct plan){ .stream_fd = -1 };
}
