/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "cli/print/amax.h"
#include "cli/print/inspection.h"
#include "cli/print/json.h"
#include "cli/print/low_bit.h"
#include "cli/program.h"
#include "source/fp8_source.h"

/* Returns the low-bit weight that a tensor of the list packs, or NULL. */
static const struct low_bit_weight *packed_weight(const struct inspection *inspection,
						  const struct tensor_ref *ref)
{
	size_t t = (size_t)(ref - inspection->checkpoint.tensors);

	return low_bit_is_part(&inspection->low_bit, t) ? NULL
							: low_bit_of(&inspection->low_bit, t);
}

static struct scale_names low_bit_scale_names(const struct low_bit_weight *weight)
{
	const struct st_tensor *scale = weight->scale->tensor;

	return (struct scale_names){
		.name = scale->name,
		.use = "multiplies",
		.dtype = weight->tensor.dtype == DT_MXFP4 ? "E8M0" : dtype_name(scale->dtype),
		.tile = { 1, weight->packing->group },
	};
}

bool scale_names_of(const struct shown *shown, const struct tensor_ref *ref,
		    struct scale_names *words)
{
	const uint64_t *shape = ref->tensor->shape + ref->tensor->n_dims - 2;
	const struct low_bit_weight *low_bit = packed_weight(shown->inspection, ref);
	struct weight_scale scale;
	struct err none = { 0 };

	if (low_bit) {
		*words = low_bit_scale_names(low_bit);
		return true;
	}
	if (!detection_is_weight(ref) ||
	    detection_scale(&shown->inspection->detection, ref, &scale, &none))
		return false;
	*words = (struct scale_names){
		.name = scale.scale->tensor->name,
		.use = scale.inverted ? "divides" : "multiplies",
		.dtype = scale.scale_type == SCALE_E8M0 ? "E8M0"
							: dtype_name(scale.scale->tensor->dtype),
		.tile = { scale.tile.rows == WHOLE ? shape[0] : scale.tile.rows,
			  scale.tile.cols == WHOLE ? shape[1] : scale.tile.cols },
	};
	return true;
}

/* Prints the metadata of all files.  If several files have a key, the first one's value counts. */
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

static void totals_json(struct json_out *out, const struct inspection *inspection)
{
	struct inspection_totals totals = inspection_total(inspection);

	json_out_open(out, "totals", '{');
	json_out_count(out, "tensors", inspection->checkpoint.n_tensors);
	json_out_count(out, "bytes", totals.n_bytes);
	json_out_count(out, "parameters", totals.n_parameters);
	json_out_real(out, "bits_per_parameter", inspection_bits(&totals));
	json_out_open(out, "types", '[');
	for (int dtype = 0; dtype < N_DTYPES; dtype++) {
		if (!totals.n_tensors[dtype])
			continue;
		json_out_open(out, NULL, '{');
		json_out_text(out, "dtype", dtype_name((enum dtype)dtype));
		json_out_count(out, "tensors", totals.n_tensors[dtype]);
		json_out_count(out, "bytes", totals.bytes[dtype]);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
	json_out_close(out, '}');
}

static void scale_json(struct json_out *out, const struct scale_names *scale)
{
	json_out_open(out, "scale", '{');
	json_out_text(out, "use", scale->use);
	json_out_text(out, "dtype", scale->dtype);
	json_out_counts(out, "tile", scale->tile, 2);
	json_out_close(out, '}');
}

static void stats_json(struct json_out *out, const struct tensor_stats *stats)
{
	if (!json_out_object(out, "stats", stats->known))
		return;
	json_out_float(out, "amax", stats->amax);
	json_out_count(out, "nonfinite", stats->n_nonfinite);
	if (stats->fp8) {
		json_out_float(out, "scale_least", stats->scale_min);
		json_out_float(out, "scale_most", stats->scale_max);
		json_out_count(out, "saturated", stats->n_saturated);
		json_out_real(out, "expected_sqnr_db", tensor_stats_sqnr(stats));
	}
	json_out_close(out, '}');
}

/* Is the tensor in high precision beside FP8 or low-bit weights? */
static bool is_kept(const struct inspection *inspection, size_t t)
{
	const struct detection *detection = &inspection->detection;
	const struct tensor_ref *ref = &inspection->checkpoint.tensors[t];

	return (detection->n_weights || inspection->low_bit.n) && !detection_is_weight(ref) &&
	       !detection_is_scale(detection, ref) && !low_bit_of(&inspection->low_bit, t);
}

/* Prints the logical weight that the tensor packs. */
static void packs_json(struct json_out *out, const struct low_bit_weight *weight)
{
	if (!json_out_object(out, "packs", weight))
		return;
	json_out_text(out, "name", weight->tensor.name);
	json_out_text(out, "dtype", dtype_name(weight->tensor.dtype));
	json_out_counts(out, "shape", weight->tensor.shape, (size_t)weight->tensor.n_dims);
	json_out_close(out, '}');
}

static void low_bit_json(struct json_out *out, const struct low_bit *low_bit)
{
	struct low_bit_shown shown = { .kind = low_bit->n ? low_bit_kind(low_bit) : NULL,
				       .tensors = low_bit->n,
				       .known = LOW_BIT_HEADERS };

	low_bit_print_json(out, &shown);
}

static void tensor_json(struct json_out *out, const struct shown *shown, size_t t)
{
	const struct checkpoint *checkpoint = &shown->inspection->checkpoint;
	const struct tensor_ref *ref = &checkpoint->tensors[t];
	const struct st_tensor *tensor = ref->tensor;
	struct scale_names scale = { 0 };
	bool scaled = scale_names_of(shown, ref, &scale);

	json_out_open(out, NULL, '{');
	json_out_text(out, "name", tensor->name);
	json_out_text(out, "file", checkpoint->shards[ref->shard].name);
	json_out_text(out, "dtype", dtype_name(tensor->dtype));
	json_out_counts(out, "shape", tensor->shape, (size_t)tensor->n_dims);
	json_out_count(out, "bytes", st_tensor_size(tensor));
	json_out_text(out, "scale_inv", scale.name);
	if (scaled)
		scale_json(out, &scale);
	else
		json_out_null(out, "scale");
	json_out_bool(out, "kept", is_kept(shown->inspection, t));
	packs_json(out, packed_weight(shown->inspection, ref));
	if (shown->stats)
		stats_json(out, &shown->stats[t]);
	json_out_close(out, '}');
}

static void unfinished_json(struct json_out *out, const struct checkpoint *checkpoint)
{
	if (!json_out_object(out, "unfinished", checkpoint->n_expected))
		return;
	json_out_count(out, "files", checkpoint->n_found);
	json_out_count(out, "expected", checkpoint->n_expected);
	json_out_close(out, '}');
}

void inspect_print_json(const struct shown *shown)
{
	const struct checkpoint *checkpoint = &shown->inspection->checkpoint;
	const struct detection *detection = &shown->inspection->detection;
	struct json_out out = json_out_begin(program.out);

	json_out_text(&out, "kind", shown->inspection->is_amax ? "amax" : "checkpoint");
	json_out_text(&out, "recipe", fp8_source_recipe(detection));
	json_out_text(&out, "format", detection->format);
	json_out_text(&out, "scale_fmt", detection->scale_fmt);
	low_bit_json(&out, &shown->inspection->low_bit);
	files_json(&out, checkpoint);
	unfinished_json(&out, checkpoint);
	metadata_json(&out, checkpoint);
	totals_json(&out, shown->inspection);
	json_out_count(&out, "states", checkpoint->n_states);
	json_out_count(&out, "state_histories", shown->inspection->states.n_sites);
	json_out_open(&out, "tensors", '[');
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		tensor_json(&out, shown, i);
	json_out_close(&out, ']');
	if (shown->inspection->is_amax)
		amax_print_json(&out, &shown->inspection->amax);
	if (shown->losses->recipe)
		losses_print_json(&out, shown->losses);
	json_out_end(&out);
}
