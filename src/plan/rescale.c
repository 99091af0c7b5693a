/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/rescale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "num/e8m0.h"
#include "num/scale.h"

#define CHUNK ((uint64_t)1 << 16) /* scales */

/* Finds the exponent byte of a scale_inv: 2^(code - 127) == value.  Returns false if there is
 * none. */
static bool find_exponent(float value, uint8_t *code)
{
	*code = e8m0_round_up(value);
	return *code != E8M0_NAN && f32_bits(e8m0_to_f32(*code)) == f32_bits(value);
}

static void add_values(struct scales_found *found, const float *values, uint64_t at, size_t n)
{
	uint8_t code;

	if (at == 0 && n)
		found->first = values[0];
	for (size_t i = 0; i < n; i++) {
		found->valid &= isfinite(values[i]) && values[i] > 0;
		if (!found->pow2 || find_exponent(values[i], &code))
			continue;
		found->pow2 = false;
		found->odd = values[i];
		found->at = at + i;
	}
}

/* Returns the number of its scales. */
static uint64_t n_scales(const struct unit *unit)
{
	const struct weight_scale *from = &unit->source_scale;
	const struct st_tensor *tensor = from->scale->tensor;

	if (unit_is_cut(unit))
		return tile_count(unit->rows, from->tile.rows) *
		       tile_count(unit->cols, from->tile.cols);
	return st_n_elements(tensor->shape, tensor->n_dims);
}

int scales_find(struct source *source, const struct unit *unit, struct scales_found *found,
		struct err *err)
{
	const struct weight_scale *from = &unit->source_scale;
	uint64_t first = source_first_scale(unit, 0), n = n_scales(unit);
	uint64_t step = n < CHUNK ? n : CHUNK;
	float *chunk = xcalloc(step, sizeof *chunk);
	int rc = 0;

	*found = (struct scales_found){ .valid = true, .pow2 = true };
	for (uint64_t at = 0; !rc && at < n; at += step) {
		size_t n_chunk = (size_t)(n - at < step ? n - at : step);

		rc = source_read_floats(source,
					&(struct floats_request){ .ref = from->scale,
								  .inverted = from->inverted,
								  .first = first + at,
								  .n = n_chunk },
					chunk, err);
		if (!rc)
			add_values(found, chunk, at, n_chunk);
	}
	free(chunk);
	return rc;
}

/* Has it scales of which nothing says that they divide? */
static bool is_multiplied(const struct unit *unit)
{
	const struct tensor_ref *scale = unit->source_scale.scale;

	return scale && !unit->source_scale.inverted && scale->tensor->end > scale->tensor->begin;
}

/* Weights whose scales are looked at, spread over the model. */
#define N_LOOKED_AT 64

int scales_check_divisors(struct source *source, const struct selection *selection, struct err *err)
{
	const struct weight_scale *example = NULL;
	size_t n_fp8 = 0, n = 0, n_inverted = 0, step;
	float scale, odd = 0;

	for (size_t u = 0; u < selection->n_units; u++)
		n_fp8 += is_multiplied(&selection->units[u]);
	step = n_fp8 / N_LOOKED_AT + 1;
	for (size_t u = 0, i = 0; u < selection->n_units; u++) {
		const struct weight_scale *from = &selection->units[u].source_scale;

		if (!is_multiplied(&selection->units[u]) || i++ % step)
			continue;
		if (source_read_floats(source,
				       &(struct floats_request){ .ref = from->scale,
								 .inverted = from->inverted,
								 .n = 1 },
				       &scale, err))
			return -1;
		n++;
		if (scale_looks_inverted(scale)) {
			n_inverted++;
			example = from;
			odd = scale;
		}
	}
	if (2 * n_inverted <= n)
		return 0;
	return err_set(err, ERR_INPUT,
		       "scale '%s' in '%s' is %g, and the scales of %zu of %zu weights are as "
		       "large: they look like divisors, but no quantization_config says that they "
		       "are: take the config.json of the release",
		       example->scale->tensor->name,
		       source->checkpoint->shards[example->scale->shard].file.path, (double)odd,
		       n_inverted, n);
}

/* Stores n scales in the new type. */
static int store(const struct output *output, enum dtype dtype, const float *values, size_t n,
		 void *data, struct err *err)
{
	if (dtype == DT_F32) {
		memcpy(data, values, n * sizeof *values);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		if (!find_exponent(values[i], (uint8_t *)data + i))
			return err_set(
				err, ERR_USAGE,
				"scale '%s' holds %g, which is not a power of two from 2^-127 "
				"to 2^127: it has no E8M0 exponent",
				output->source->tensor->name, (double)values[i]);
	}
	return 0;
}

/* Repeats each block's scale: in as many rows as its tile has, and in several of the new
 * columns. */
static int spread(struct source *source, const struct plan *plan, const struct band *band,
		  float *values, char *data, struct err *err)
{
	const struct unit *unit = &plan->selection.units[band->unit];
	const struct output *output =
		&plan->shards[plan->units[band->unit].shard].outputs[band->output];
	const struct weight_scale *from = &unit->source_scale;
	const struct tile to = plan->units[band->unit].spec->tile;
	uint64_t cols = tile_count(unit->cols, to.cols),
		 n_blocks = tile_count(unit->cols, from->tile.cols);
	uint64_t per_block = from->tile.cols / to.cols;
	uint64_t end = band->rect.col + band->rect.n_cols;
	uint64_t read_first = UINT64_MAX, read_n = 0;

	/* cols and per_block are not 0: an empty unit has no bands, and blocks are wider than the
	 * new ones. */
	for (uint64_t at = band->rect.col; at < end;) {
		/* NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
		uint64_t row = at / cols, col = at % cols;
		uint64_t n = cols - col < end - at ? cols - col : end - at;
		/* NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
		uint64_t first = unit_tile_row(unit, from->tile, row) * n_blocks + col / per_block;
		uint64_t n_read = (col + n - 1) / per_block + 1 - col / per_block;

		if ((first != read_first || n_read != read_n) &&
		    source_read_floats(source,
				       &(struct floats_request){ output->source, from->inverted,
								 first, (size_t)n_read, true },
				       values, err))
			return -1;
		read_first = first;
		read_n = n_read;
		for (uint64_t i = 0; i < n; i++, at++, data++) {
			if (store(output, DT_U8, &values[(col + i) / per_block - col / per_block],
				  1, data, err))
				return -1;
		}
	}
	return 0;
}

static bool same_tile(struct tile a, struct tile b)
{
	return a.rows == b.rows && a.cols == b.cols;
}

int rescale_band(struct source *source, const struct plan *plan, const struct band *band,
		 const struct source_buffers *buffers, void *data, struct err *err)
{
	const struct unit *unit = &plan->selection.units[band->unit];
	const struct output_shard *shard = &plan->shards[plan->units[band->unit].shard];
	const struct output *output = &shard->outputs[band->output];
	const struct weight_scale *from = &unit->source_scale;
	bool of_weight = output->source == from->scale;
	uint64_t first = band->rect.col + (of_weight ? source_first_scale(unit, 0) : 0);
	size_t n = (size_t)band->rect.n_cols;

	if (of_weight && !same_tile(from->tile, plan->units[band->unit].spec->tile))
		return spread(source, plan, band, buffers->matrix, data, err);
	if (source_read_floats(source,
			       &(struct floats_request){ output->source,
							 of_weight && from->inverted, first, n,
							 true },
			       buffers->matrix, err))
		return -1;
	return store(output, shard->tensors[band->output].dtype, buffers->matrix, n, data, err);
}
