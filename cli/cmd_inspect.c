/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv inspect: what a checkpoint holds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/amax_print.h"
#include "cli/command.h"
#include "cli/json_out.h"
#include "cli/opts.h"
#include "cli/table.h"
#include "cli/units.h"
#include "job/inspect.h"

/* The name of an FP8 weight's scale; NULL: it is no such weight, or its scale is missing. */
static const char *scale_of(const struct inspection *inspection, const struct tensor_ref *ref)
{
	struct weight_scale scale;
	struct err none = { 0 };

	if (!recognition_is_weight(ref) ||
	    recognition_scale(&inspection->recognition, ref, &scale, &none))
		return NULL;
	return scale.scale->tensor->name;
}

/* The metadata of all files: of keys that several have, the first file's. */
static void metadata_json(struct json_out *out, const struct checkpoint *checkpoint)
{
	json_t *seen = json_object();

	json_out_open(out, "metadata", '{');
	for (size_t s = 0; s < checkpoint->n_shards; s++) {
		const struct st_file *file = &checkpoint->shards[s].file;

		for (size_t i = 0; i < file->n_metadata; i++) {
			if (json_object_get(seen, file->metadata[i].key))
				continue;
			json_object_set_new(seen, file->metadata[i].key, json_true());
			json_out_text(out, file->metadata[i].key, file->metadata[i].value);
		}
	}
	json_out_close(out, '}');
	json_decref(seen);
}

static void files_json(struct json_out *out, const struct checkpoint *checkpoint)
{
	json_out_open(out, "files", '[');
	for (size_t s = 0; s < checkpoint->n_shards; s++) {
		json_out_open(out, NULL, '{');
		json_out_text(out, "name", checkpoint->shards[s].name);
		json_out_count(out, "bytes", checkpoint->shards[s].file.identity.size);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
}

static void tensor_json(struct json_out *out, const struct inspection *inspection,
			const struct tensor_ref *ref)
{
	const struct st_tensor *tensor = ref->tensor;

	json_out_open(out, NULL, '{');
	json_out_text(out, "name", tensor->name);
	json_out_text(out, "file", inspection->checkpoint.shards[ref->shard].name);
	json_out_text(out, "dtype", dtype_name(tensor->dtype));
	json_out_counts(out, "shape", tensor->shape, (size_t)tensor->n_dims);
	json_out_count(out, "bytes", st_tensor_size(tensor));
	json_out_text(out, "scale_inv", scale_of(inspection, ref));
	json_out_close(out, '}');
}

static void print_json(const struct inspection *inspection)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;
	const struct recognition *recognition = &inspection->recognition;
	struct json_out out = { .stream = stdout };

	json_out_open(&out, NULL, '{');
	json_out_text(&out, "kind", inspection->is_amax ? "amax" : "checkpoint");
	json_out_text(&out, "recipe", recognition->recipe);
	json_out_text(&out, "format", recognition->format);
	json_out_text(&out, "scale_fmt", recognition->scale_fmt);
	files_json(&out, checkpoint);
	metadata_json(&out, checkpoint);
	json_out_open(&out, "tensors", '[');
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		tensor_json(&out, inspection, &checkpoint->tensors[i]);
	json_out_close(&out, ']');
	if (inspection->is_amax)
		amax_print_json(&out, &inspection->amax);
	json_out_end(&out);
}

static void tensor_cells(struct table *table, const struct inspection *inspection,
			 const struct tensor_ref *ref, bool terminal)
{
	const struct st_tensor *tensor = ref->tensor;
	const char *scale = scale_of(inspection, ref);
	struct buf shape = { 0 };

	st_shape_format(&shape, tensor->shape, tensor->n_dims);
	table_cell(table, tensor->name);
	table_cell(table, dtype_name(tensor->dtype));
	table_cell(table, shape.data);
	if (terminal)
		table_cell_size(table, st_tensor_size(tensor));
	else
		table_cell_number(table, st_tensor_size(tensor));
	table_cell(table, inspection->checkpoint.shards[ref->shard].name);
	table_cell(table, scale ? scale : "");
	buf_release(&shape);
}

static void print_head(const struct inspection *inspection)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;
	const struct recognition *recognition = &inspection->recognition;
	struct buf size = { 0 };

	if (recognition->format)
		printf("FP8: recipe %s, format %s, scales %s\n", recognition->recipe,
		       recognition->format, recognition->scale_fmt);
	else
		printf("not FP8\n");
	units_size(&size, checkpoint->data_bytes);
	printf("%zu tensors, %s, in %zu file%s\n\n", checkpoint->n_tensors, size.data,
	       checkpoint->n_shards, checkpoint->n_shards == 1 ? "" : "s");
	buf_release(&size);
}

static void print_text(const struct inspection *inspection)
{
	bool terminal = isatty(STDOUT_FILENO);
	struct table table = { .columns = "lllrll" };

	if (terminal)
		print_head(inspection);
	for (size_t i = 0; i < inspection->checkpoint.n_tensors; i++)
		tensor_cells(&table, inspection, &inspection->checkpoint.tensors[i], terminal);
	table_print(&table, stdout, terminal);
	table_release(&table);
}

struct settings {
	const char *path;
	bool json;
};

static const struct option_row argument = { .name = "MODEL",
					.arg = "MODEL",
					.read = option_text,
					.offset = offsetof(struct settings, path) };

static const struct option_row options[] = {
	{ SECTION_NONE, "json", 0, NULL, "Print one JSON object", option_flag,
	  offsetof(struct settings, json) },
	{ 0 },
};

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct settings settings = { 0 };
	struct inspection inspection = { 0 };
	int rc = command_parse(command, argc, argv, &settings, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	rc = inspect_make(&inspection, &io_system, settings.path, opt_temp_dir(), err);
	if (rc == 0 && settings.json)
		print_json(&inspection);
	else if (rc == 0 && inspection.is_amax)
		amax_print_text(&inspection.amax, isatty(STDOUT_FILENO));
	else if (rc == 0)
		print_text(&inspection);
	inspect_release(&inspection);
	return rc;
}

const struct command command_inspect = {
	.name = "inspect",
	.args = "MODEL",
	.summary = "Show the tensors, types, scales and sizes of a checkpoint, or an amax history",
	.group = GROUP_LOOK,
	.options = options,
	.argument = &argument,
	.run = run,
};
