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
#include "base/sort.h"
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
		return checkpoint_open(&plan->source, params->io, params->input, params->n_threads, err);
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

void shard_add(struct output_shard *shard, size_t output, const struct st_tensor *tensor)
{
	ARRAY_GROW(shard->tensors, shard->n_tensors);
	ARRAY_GROW(shard->outputs, shard->n_tensors);
	shard->outputs[shard->n_tensors] = output;
	shard->tensors[shard->n_tensors++] = *tensor;
}

void plan_add(struct plan *plan, size_t u, enum output_part part, const struct tensor_ref *source, char *name,
	      enum dtype dtype, int n_dims, const uint64_t *shape)
{
	size_t shard = plan->selection.units[u].source->shard;
	struct st_tensor tensor = { .name = name,
				    .dtype = dtype,
				    .n_dims = n_dims,
				    .shape = st_shape_copy(&plan->texts, shape, n_dims) };
	struct output output = { .unit = u,
				 .part = part,
				 .source = source ? source : plan->selection.units[u].source,
				 .shard = shard,
				 .index = plan->shards[shard].n_tensors };

	ARRAY_GROW(plan->outputs, plan->n_outputs);
	plan->outputs[plan->n_outputs] = output;
	shard_add(&plan->shards[shard], plan->n_outputs++, &tensor);
}

void plan_keep(struct plan *plan, size_t u)
{
	const struct st_tensor *source = plan->selection.units[u].source->tensor;

	plan_add(plan, u, PART_COPY, NULL, source->name, source->dtype, source->n_dims, source->shape);
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
	for (size_t i = 0; i < plan->n_shards; i++) {
		const struct shard *source = &plan->source.shards[i];

		plan->shards[i] = (struct output_shard){ .name = source->name, .source = &source->file };
		if (preserve)
			plan->preserved[i] = plan->shards[i];
	}
}

/* The source's own metadata, with "format" set, which loaders ask for. */
static struct st_metadata *shard_metadata(const struct st_file *source, size_t *n)
{
	struct st_metadata *metadata = xcalloc(source->n_metadata + 1, sizeof *metadata);

	*n = 0;
	for (size_t i = 0; i < source->n_metadata; i++) {
		if (strcmp(source->metadata[i].key, "format") != 0)
			metadata[(*n)++] = source->metadata[i];
	}
	metadata[(*n)++] = (struct st_metadata){ .key = (char *)"format", .value = (char *)"pt" };
	return metadata;
}

static int shard_layout(struct output_shard *shard, struct err *err)
{
	size_t n;
	struct st_metadata *metadata = shard_metadata(shard->source, &n);

	st_layout(shard->tensors, shard->n_tensors, metadata, n, &shard->header_size, &shard->data_size);
	free(metadata);
	if (shard->header_size - 8 > ST_MAX_HEADER)
		return err_set(err, ERR_INPUT, "the header of output '%s' would have %llu bytes, and readers take %d",
			       shard->name, (unsigned long long)shard->header_size - 8, ST_MAX_HEADER);
	return 0;
}

void shard_header(const struct output_shard *shard, struct buf *header)
{
	size_t n;
	struct st_metadata *metadata = shard_metadata(shard->source, &n);

	st_header(shard->tensors, shard->n_tensors, metadata, n, header);
	free(metadata);
}

/* Tensors of all shards, by name. */
struct names {
	size_t n;
	struct name {
		const char *tensor;
		const char *file;
	} *list;
};

static int compare_names(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return strcmp(x->tensor, y->tensor);
}

static void names_sort(struct names *names, const struct output_shard *shards, size_t n_shards)
{
	size_t n = 0;

	for (size_t i = 0; i < n_shards; i++)
		n += shards[i].n_tensors;
	names->list = xreallocarray(NULL, n, sizeof *names->list);
	for (size_t i = 0; i < n_shards; i++)
		for (size_t k = 0; k < shards[i].n_tensors; k++)
			names->list[names->n++] = (struct name){ shards[i].tensors[k].name, shards[i].name };
	sort(names->list, n, sizeof *names->list, compare_names);
}

/* A scale's name may be that of a tensor that was there before. */
static int names_check(const struct names *names, struct err *err)
{
	for (size_t i = 1; i < names->n; i++)
		if (!strcmp(names->list[i - 1].tensor, names->list[i].tensor))
			return err_set(err, ERR_INPUT,
				       "the output would have two tensors '%s': the source has one of that name",
				       names->list[i].tensor);
	return 0;
}

/* As Hugging Face writes it: the sum of tensor bytes, and names in order. */
static void index_begin(const struct output_shard *shards, size_t n_shards, struct buf *text)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n_shards; i++)
		total += shards[i].data_size;
	buf_printf(text, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
		   (unsigned long long)total);
}

static void index_add(const struct names *names, size_t i, struct buf *text)
{
	const struct name *name = &names->list[i];

	buf_puts(text, i ? ",\n    " : "\n    ");
	json_add_string(text, name->tensor, strlen(name->tensor));
	buf_puts(text, ": ");
	json_add_string(text, name->file, strlen(name->file));
}

static void index_end(const struct names *names, struct buf *text)
{
	buf_puts(text, names->n ? "\n  }\n}\n" : "}\n}\n");
}

void shards_index(const struct output_shard *shards, size_t n, struct buf *text)
{
	struct names names = { 0 };

	names_sort(&names, shards, n);
	index_begin(shards, n, text);
	for (size_t i = 0; i < names.n; i++)
		index_add(&names, i, text);
	index_end(&names, text);
	free(names.list);
}

/* Of the same text, without all of it in memory. */
static uint64_t index_size(const struct names *names, const struct output_shard *shards, size_t n_shards)
{
	struct buf text = { 0 };
	uint64_t size;

	index_begin(shards, n_shards, &text);
	index_end(names, &text);
	size = text.len;
	for (size_t i = 0; i < names->n; i++) {
		text.len = 0;
		index_add(names, i, &text);
		size += text.len;
	}
	buf_release(&text);
	return size;
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

static int shards_layout(struct plan *plan, struct err *err)
{
	for (size_t i = 0; i < plan->n_shards; i++) {
		if (shard_layout(&plan->shards[i], err) ||
		    (plan->preserved && shard_layout(&plan->preserved[i], err)))
			return -1;
		plan->output_bytes += plan->shards[i].data_size;
		plan->disk_bytes += plan->shards[i].header_size + plan->shards[i].data_size;
	}
	return 0;
}

int plan_layout(struct plan *plan, struct err *err)
{
	struct names names = { 0 };
	int rc = -1;

	plan->unit_outputs[plan->selection.n_units] = plan->n_outputs;
	plan->input_bytes = plan->source.data_bytes;
	names_sort(&names, plan->shards, plan->n_shards);
	if (names_check(&names, err) || shards_layout(plan, err))
		goto out;
	if (plan->source.has_index || plan->n_shards > 1)
		plan->index_size = index_size(&names, plan->shards, plan->n_shards);
	rc = 0;
out:
	free(names.list);
	return rc;
}

int plan_finish(struct plan *plan, struct progress *progress, struct err *err)
{
	plan->disk_bytes += plan->config.len + plan->hf_quant_config.len + plan->index_size + DISK_SLACK;
	if (add_auxiliary(plan, err))
		return -1;
	atomic_store(&progress->total, plan->input_bytes);
	return 0;
}

static void shards_release(struct output_shard *shards, size_t n)
{
	for (size_t i = 0; shards && i < n; i++) {
		free(shards[i].tensors);
		free(shards[i].outputs);
	}
	free(shards);
}

void plan_release(struct plan *plan)
{
	shards_release(plan->shards, plan->n_shards);
	shards_release(plan->preserved, plan->n_shards);
	arena_release(&plan->texts);
	free(plan->outputs);
	free(plan->unit_outputs);
	free(plan->unit_preserved);
	free(plan->specs);
	for (size_t i = 0; i < plan->n_caches; i++)
		free(plan->caches[i].attention);
	free(plan->caches);
	free(plan->group_amax);
	free(plan->input_scale_inv);
	free(plan->group_first);
	free(plan->group_next);
	json_decref(plan->options);
	buf_release(&plan->config);
	buf_release(&plan->hf_quant_config);
	selection_release(&plan->selection);
	checkpoint_release(&plan->source);
	if (plan->stream_fd > 0)
		plan->io->close(plan->stream_fd);
	*plan = (struct plan){ .stream_fd = -1 };
}
