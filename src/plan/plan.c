/* SPDX-License-Identifier: Apache-2.0
 *
 * Common to all plans: the source, the tensors of every output shard with their places, the
 * indexes, the totals.
 */
#include "plan/plan.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "ckpt/manifest.h"
#include "ckpt/mistaken.h"
#include "plan/rounding.h"
#include "plan/rescale.h"
#include "plan/write_index.h"
#include "source/fingerprint.h"
#include "source/spool.h"
#include "source/unpack.h"

/* Space for the manifest, and for rounding files up to blocks. */
#define DISK_SLACK ((uint64_t)64 << 10)

enum destination destination_of(const char *output)
{
	if (!strcmp(output, "-"))
		return DESTINATION_STREAM;
	return *output && text_ends(output + 1, ".safetensors") ? DESTINATION_FILE
								: DESTINATION_DIRECTORY;
}

static int open_input(struct plan *plan, const struct convert_params *params,
		      struct progress *progress, struct err *err)
{
	if (strcmp(params->input, "-") != 0)
		return checkpoint_open(&plan->source, params->io, params->input, params->n_threads,
				       err);
	if (spool_read(params->io, params->temp_dir, progress, &plan->stream_fd, err))
		return -1;
	if (checkpoint_open_fd(&plan->source, params->io, plan->stream_fd, "-", err)) {
		params->io->close(params->io, plan->stream_fd);
		plan->stream_fd = -1;
		return -1;
	}
	/* a stream or a file without a shard's name is a whole model */
	free(plan->source.shards[0].name);
	plan->source.shards[0].name = xstrdup("model.safetensors");
	return 0;
}

/* Would a new directory of that name be a misspelled file name? */
static bool looks_like_file(const char *output)
{
	static const char *const endings[] = { ".safetensor", ".safetensors.", ".txt", ".json",
					       ".bin",	      ".gguf",	       ".pt",  ".pth" };
	struct stat st;

	if (!stat(output, &st))
		return false;
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (*output && text_ends(output + 1, endings[i]))
			return true;
	return false;
}

/* Checks the command line's own requirements, which depend on no file. */
static int check_request(const struct plan *plan, const struct convert_params *params,
			 struct err *err)
{
	if (params->hashes && plan->stream_fd >= 0)
		return err_set(err, ERR_USAGE, "option '--%s' requires files as input, not '-'",
			       params->sign ? "sign" : "manifest");
	if (params->output && destination_of(params->output) == DESTINATION_DIRECTORY &&
	    looks_like_file(params->output))
		return err_set(
			err, ERR_USAGE,
			"output '%s' is not a directory: end its name in .safetensors for one "
			"file, or in / for a new directory",
			params->output);
	if (params->output && destination_of(params->output) != DESTINATION_DIRECTORY) {
		if (plan->source.n_shards != 1)
			return err_set(err, ERR_USAGE,
				       "'%s' has %zu shards: give a directory as output, not '%s'",
				       params->input, plan->source.n_shards, params->output);
		if (params->part || params->part_finish || params->hashes || params->max_shard_size)
			return err_set(
				err, ERR_USAGE,
				"options '--part', '--manifest', '--sign' and '--max-shard-size' "
				"require a directory as output, not '%s'",
				params->output);
	}
	if (params->max_shard_size && params->preserve)
		return err_set(err, ERR_USAGE,
			       "options '--max-shard-size' and '--preserve-high-precision' cannot "
			       "be combined: preserved files are as the source's");
	return 0;
}

int plan_open(struct plan *plan, const struct convert_params *params, struct progress *progress,
	      struct err *err)
{
	plan->max_shard_size = params->max_shard_size;
	if (open_input(plan, params, progress, err) ||
	    checkpoint_rename(&plan->source, &params->renames, err) ||
	    check_request(plan, params, err))
		return -1;
	return 0;
}

int plan_take_profile(struct plan *plan, enum profile_level level, struct err *err)
{
	struct model_config config;

	if (model_config_read(&config, &plan->source.config, err))
		return err_wrap(err, "'%s'", plan->source.path);
	profile_make(&plan->profile, &config, level);
	model_config_release(&config);
	return 0;
}

void plan_prefer_format(struct plan *plan, const struct scheme *scheme)
{
	unsigned on = profile_on_granularity(scheme->granularity) | profile_on_engine(plan->target);
	const struct profile_row *row = NULL;
	const struct format *format = NULL;
	struct err ignored;

	while (!format && (row = profile_next(&plan->profile, PROFILE_FORMAT, on, row)))
		format = format_select(row->pattern, plan->target, scheme, plan->recipe->name,
				       &ignored);
	plan->format = format ? format : plan->format;
}

int plan_check_source(struct plan *plan, const struct io *io, struct err *err)
{
	struct source source;
	json_t *manifest;
	int rc;

	if (manifest_read(&manifest, &plan->source, err))
		return -1;
	source_init(&source, io, &plan->source, NULL, plan->stream_fd);
	rc = unpack_check_shapes(&source, &plan->selection.low_bit, err);
	if (!rc && !manifest)
		rc = scales_check_divisors(&source, &plan->selection, err);
	json_decref(manifest);
	rc = source_close(&source, rc, err);
	source_release(&source);
	return rc;
}

int plan_check_model(const struct plan *plan, const char *path, const char *fingerprint,
		     struct err *err)
{
	char found[FINGERPRINT_SIZE];
	struct source source;
	int rc;

	source_init(&source, plan->source.io, &plan->source, NULL, plan->stream_fd);
	rc = fingerprint_make(&source, found, err);
	source_release(&source);
	if (!rc && strcmp(fingerprint, found) != 0)
		rc = err_set(err, ERR_INPUT,
			     "'%s' belongs to another model: its fingerprint is '%s', but that "
			     "of '%s' is '%s': give one that was made of this model",
			     path, fingerprint, plan->source.path, found);
	return rc;
}

void plan_specs_begin(struct plan *plan)
{
	free(plan->units);
	plan->units = xcalloc(plan->selection.n_units, sizeof *plan->units);
	for (size_t u = 0; u < plan->selection.n_units; u++)
		plan->units[u].spec = &plan->spec;
}

void plan_spec_set(struct plan *plan, size_t u, const struct qspec *spec)
{
	const struct qspec *before = u ? plan->units[u - 1].spec : &plan->spec;
	struct qspec *own;

	if (before != &plan->spec && qspec_equal(before, spec)) {
		plan->units[u].spec = before;
		return;
	}
	own = arena_alloc(&plan->texts, sizeof *own);
	*own = *spec;
	plan->units[u].spec = own;
}

void output_shard_add(struct output_shard *shard, const struct st_tensor *tensor)
{
	ARRAY_GROW(shard->tensors, shard->n_tensors);
	shard->tensors[shard->n_tensors++] = *tensor;
}

static bool has_shape(const struct st_tensor *tensor, int n_dims, const uint64_t *shape)
{
	return n_dims == tensor->n_dims &&
	       !memcmp(shape, tensor->shape, (size_t)n_dims * sizeof *shape);
}

/* Codes share the shape of their source.  Scales mostly have the shape of the last scale, two
 * outputs before, and share it. */
static uint64_t *output_shape(struct plan *plan, const struct output_shard *shard,
			      const struct st_tensor *source, const struct output_decl *decl)
{
	const struct st_tensor *before =
		shard->n_tensors > 1 ? &shard->tensors[shard->n_tensors - 2] : source;

	if (has_shape(source, decl->n_dims, decl->shape))
		return source->shape;
	if (has_shape(before, decl->n_dims, decl->shape))
		return before->shape;
	return st_shape_copy(&plan->texts, decl->shape, decl->n_dims);
}

struct output *plan_add(struct plan *plan, size_t u, const struct output_decl *decl)
{
	const struct tensor_ref *own = plan->selection.units[u].source;
	struct output_shard *shard = &plan->shards[plan->units[u].shard];
	struct st_tensor tensor = { .name = decl->name,
				    .dtype = decl->dtype,
				    .n_dims = decl->n_dims,
				    .shape = output_shape(plan, shard, own->tensor, decl) };

	ARRAY_GROW(shard->outputs, shard->n_tensors);
	shard->outputs[shard->n_tensors] = (struct output){
		.unit = (uint32_t)u, .kind = decl->kind, .source = decl->source ? decl->source : own
	};
	output_shard_add(shard, &tensor);
	return &shard->outputs[shard->n_tensors - 1];
}

struct output *plan_add_scale(struct plan *plan, size_t u, enum output_kind kind,
			      const struct tensor_ref *source, struct scale_decl *decl)
{
	struct output *output;

	decl->name = arena_take(&plan->texts, decl->name);
	output = plan_add(plan, u,
			  &(struct output_decl){ .kind = kind,
						 .source = source,
						 .name = decl->name,
						 .dtype = decl->dtype,
						 .n_dims = decl->n_dims,
						 .shape = decl->shape });
	output->is_scale = true;
	return output;
}

void plan_keep(struct plan *plan, size_t u)
{
	const struct unit *unit = &plan->selection.units[u];
	const struct st_tensor *source = unit->source->tensor;

	plan_add(plan, u,
		 &(struct output_decl){ .kind = unit->part ? OUTPUT_PART : OUTPUT_COPY,
					.name = unit->part ? unit->name : source->name,
					.dtype = source->dtype,
					.n_dims = unit->part ? 1 : source->n_dims,
					.shape = unit->part ? &unit->rows : source->shape });
	plan->totals.n_kept++;
}

/* Makes room for more units than the selection has: repack adds units of KV-cache scales. */
static void units_grow(struct plan *plan, size_t n_units)
{
	assert(n_units < NO_UNIT); /* more take terabytes before they come here */
	plan->units = xreallocarray(plan->units, n_units, sizeof *plan->units);
	for (size_t u = plan->selection.n_units; u < n_units; u++)
		plan->units[u] = (struct plan_unit){ .spec = &plan->spec };
}

void plan_begin(struct plan *plan, size_t n_units, bool preserve)
{
	units_grow(plan, n_units);
	plan->n_shards = plan->source.n_shards;
	plan->shards = xcalloc(plan->n_shards, sizeof *plan->shards);
	if (preserve)
		plan->preserved = xcalloc(plan->n_shards, sizeof *plan->preserved);
	for (size_t i = 0; i < plan->n_shards; i++) {
		const struct shard *source = &plan->source.shards[i];

		plan->shards[i] = (struct output_shard){
			.name = source->name,
			.source = &source->file,
			.input_bytes = source->file.identity.size - source->file.data_start,
		};
		if (preserve)
			plan->preserved[i] = plan->shards[i];
	}
}

void plan_unit_begin(struct plan *plan, size_t u)
{
	size_t shard = plan->selection.units[u].source->shard;

	plan->units[u].shard = (uint32_t)shard;
	plan->units[u].first_output = (uint32_t)plan->shards[shard].n_tensors;
}

/* Returns the source's own metadata, with "format" set, which loaders require, and without the
 * statement that its tensors are slices: the output has whole ones. */
static struct st_metadata *shard_metadata(const struct st_file *source, size_t *n)
{
	struct st_metadata *metadata = xcalloc(source->n_metadata + 1, sizeof *metadata);

	*n = 0;
	for (size_t i = 0; i < source->n_metadata; i++) {
		if (strcmp(source->metadata[i].key, "format") != 0 &&
		    strcmp(source->metadata[i].key, SHARDING_KEY) != 0)
			metadata[(*n)++] = source->metadata[i];
	}
	metadata[(*n)++] = (struct st_metadata){ .key = (char *)"format", .value = (char *)"pt" };
	return metadata;
}

static int shard_layout(struct output_shard *shard, struct err *err)
{
	size_t n;
	struct st_metadata *metadata = shard_metadata(shard->source, &n);

	st_layout(shard->tensors, shard->n_tensors, metadata, n, &shard->header_size,
		  &shard->data_size);
	free(metadata);
	if (shard->header_size - 8 > ST_MAX_HEADER)
		return err_set(err, ERR_INPUT,
			       "the header of output '%s' would have %" PRIu64
			       " bytes, but readers accept at most %d",
			       shard->name, shard->header_size - 8, ST_MAX_HEADER);
	return 0;
}

void output_shard_header(const struct output_shard *shard, struct buf *header)
{
	size_t n;
	struct st_metadata *metadata = shard_metadata(shard->source, &n);

	st_header(shard->tensors, shard->n_tensors, metadata, n, header);
	free(metadata);
}

static int add_auxiliary(struct plan *plan, struct err *err)
{
	struct listing files;
	int rc = checkpoint_auxiliary(&plan->source, &files, err);

	for (size_t i = 0; i < files.n; i++) {
		char *path = xasprintf("%s/%s", plan->source.directory, files.items[i]);
		struct stat st;

		if (!plan->source.io->fstatat(plan->source.io, AT_FDCWD, path, &st, 0))
			plan->totals.disk_bytes += (uint64_t)st.st_size;
		free(path);
	}
	listing_release(&files);
	return rc;
}

static int shards_layout(struct plan *plan, struct err *err)
{
	for (size_t i = 0; i < plan->n_shards; i++) {
		if (shard_layout(&plan->shards[i], err) ||
		    (plan->preserved && shard_layout(&plan->preserved[i], err)))
			return -1;
		plan->totals.output_bytes += plan->shards[i].data_size;
		plan->totals.disk_bytes += plan->shards[i].header_size + plan->shards[i].data_size;
	}
	return 0;
}

int plan_layout(struct plan *plan, struct err *err)
{
	plan->totals.input_bytes = plan->source.data_bytes;
	if (plan->max_shard_size)
		plan_cut_shards(plan);
	if (shards_layout(plan, err) || plan_index(plan, err))
		return -1;
	return 0;
}

json_t *plan_texts_json(const struct texts *texts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < texts->n; i++)
		json_array_append_new(list, json_string(texts->list[i]));
	return list;
}

static void note_states(struct plan *plan)
{
	const struct checkpoint *source = &plan->source;

	if (source->n_states)
		notes_add(
			&plan->selection.notes, NOTE_STATES_LEFT_OUT,
			source->states[0].ref.tensor->name,
			"%zu states of TransformerEngine are left out ('%s'): no engine reads them",
			source->n_states, source->states[0].ref.tensor->name);
}

int plan_finish(struct plan *plan, const struct convert_params *params, struct progress *progress,
		struct err *err)
{
	plan->totals.disk_bytes += plan->files.config.len + plan->files.hf_quant_config.len +
				   plan->files.index_size + DISK_SLACK;
	if (add_auxiliary(plan, err))
		return -1;
	note_states(plan);
	if (plan->max_shard_size)
		json_object_set_new(plan->options, "max_shard_size",
				    json_integer((json_int_t)plan->max_shard_size));
	if (params->renames.n)
		json_object_set_new(plan->options, "rename", plan_texts_json(&params->renames));
	progress_begin(progress, PROGRESS_WORK, plan->totals.input_bytes);
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

const char *plan_command(const struct plan *plan)
{
	static const char *const commands[] = { [CONVERT_QUANTIZE] = "quantize",
						[CONVERT_DEQUANTIZE] = "dequantize",
						[CONVERT_REPACK] = "repack" };

	return commands[plan->conversion];
}

void plan_release(struct plan *plan)
{
	if (plan->source.io && plan->stream_fd >= 0) /* in a zeroed plan, 0 is not a descriptor */
		plan->source.io->close(plan->source.io, plan->stream_fd);
	shards_release(plan->shards, plan->n_shards);
	shards_release(plan->preserved, plan->n_shards);
	arena_release(&plan->texts);
	rounding_release(plan);
	for (size_t i = 0; i < plan->caches.n; i++)
		free(plan->caches.list[i].attention);
	free(plan->caches.list);
	free(plan->units);
	free(plan->groups);
	json_decref(plan->options);
	buf_release(&plan->files.config);
	buf_release(&plan->files.quantization);
	buf_release(&plan->files.params);
	buf_release(&plan->files.hf_quant_config);
	selection_release(&plan->selection);
	skip_list_release(&plan->skipped);
	profile_release(&plan->profile);
	checkpoint_release(&plan->source);
	*plan = (struct plan){ .stream_fd = -1 };
}

struct low_bit_totals low_bit_total(const struct plan *plan)
{
	struct low_bit_totals totals = { 0 };

	for (size_t u = 0; u < plan->selection.n_units; u++) {
		const struct unit *unit = &plan->selection.units[u];

		if (!unit->low_bit || !unit->recipe)
			continue;
		totals.n++;
		totals.n_values += unit->rows * unit->cols;
		totals.kind = low_bit_kind(&plan->selection.low_bit);
	}
	return totals;
}
