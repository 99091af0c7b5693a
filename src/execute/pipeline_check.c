/* SPDX-License-Identifier: Apache-2.0
 *
 * What a conversion refuses in the values of its source: codes and values that are not finite, and
 * scales by which no code has a value.
 */
#include <inttypes.h>
#include <string.h>

#include "execute/pipeline.h"
#include "num/fp8.h"

static bool is_nonfinite(enum fp8_format format, uint8_t code)
{
	return format == FP8_E4M3 ? (code & 0x7F) == 0x7F : (code & 0x7C) == 0x7C;
}

int pipeline_check_codes(struct pipeline *pipeline, const struct band *band, const uint8_t *codes,
			 struct err *err)
{
	const struct unit *unit = &pipeline->plan->selection.units[band->unit];
	enum fp8_format format = pipeline->plan->units[band->unit].spec->format;
	uint64_t n = 0, first = 0;

	for (uint64_t i = band->rect.n_cols; i-- > 0;) {
		if (!is_nonfinite(format, codes[i]))
			continue;
		first = i;
		n++;
	}
	if (n && pipeline->params->on_nonfinite == NONFINITE_ERROR) {
		float value = fp8_to_f32(format, codes[first]);
		struct matrix x = { &value, DT_F32, 1, 1, 1 };
		uint64_t at = band->rect.col + first;
		struct rect rect = { at / unit->cols, at % unit->cols, 1, 1 };

		return pipeline_refuse_nonfinite(pipeline, unit, &rect, &x, err);
	}
	pthread_mutex_lock(&pipeline->lock);
	pipeline->counts.nonfinite += n;
	pthread_mutex_unlock(&pipeline->lock);
	return 0;
}

int pipeline_check_scales(const struct pipeline *pipeline, const struct band *band,
			  const void *data, struct err *err)
{
	const struct tensor_ref *scale = pipeline->work.shard->outputs[band->output].source;
	unsigned size = dtype_bits(scale->tensor->dtype) / 8;

	return source_check_scales(&pipeline->source, scale, band->rect.col / size,
				   (size_t)(band->rect.n_cols / size), data, err);
}

/* Values that lie in a word, and what their lanes are masked with and compared by: a magnitude and
 * what that of infinity lacks to the sign bit reach that bit if the value is NaN or infinite.  No
 * lane carries into the next one. */
struct lanes {
	uint64_t magnitudes, lacking, signs;
};

static struct lanes lanes_of(enum dtype dtype)
{
	const uint64_t lanes16 = UINT64_C(0x0001000100010001),
		       lanes32 = UINT64_C(0x0000000100000001);

	if (dtype == DT_F32)
		return (struct lanes){ lanes32 * 0x7FFFFFFF, lanes32 * 0x00800000,
				       lanes32 * 0x80000000 };
	return (struct lanes){ lanes16 * 0x7FFF, lanes16 * (dtype == DT_BF16 ? 0x0080 : 0x0400),
			       lanes16 * 0x8000 };
}

#define CHECKED 2048 /* bytes in which nonfinite values are looked for together */

/* Returns the index of the first of n values that is NaN or infinite, or n. */
static size_t first_nonfinite(enum dtype dtype, const void *values, size_t n)
{
	const struct lanes lanes = lanes_of(dtype);
	const size_t size = dtype_bits(dtype) / 8;
	const char *at = values, *end = at + n * size;

	for (; end - at >= CHECKED; at += CHECKED) {
		uint64_t word, any = 0;

		for (size_t i = 0; i < CHECKED; i += sizeof word) {
			memcpy(&word, at + i, sizeof word);
			any |= (word & lanes.magnitudes) + lanes.lacking;
		}
		if (any & lanes.signs)
			break;
	}
	for (; at < end; at += size) {
		uint64_t word = 0;

		memcpy(&word, at, size);
		if (((word & lanes.magnitudes) + lanes.lacking) & lanes.signs)
			return (size_t)(at - (const char *)values) / size;
	}
	return n;
}

int pipeline_check_values(const struct pipeline *pipeline, const struct band *band,
			  enum dtype dtype, const void *values, struct err *err)
{
	const struct unit *unit = &pipeline->plan->selection.units[band->unit];
	const struct rect *rect = &band->rect;
	size_t n = (size_t)(rect->n_rows * rect->n_cols), i = first_nonfinite(dtype, values, n);

	if (i == n)
		return 0;
	return err_set(
		err, ERR_INPUT,
		"tensor '%s' in '%s' has no finite %s value at [%" PRIu64 ", %" PRIu64 "]: %s",
		unit->name, pipeline->plan->source.shards[unit->source->shard].file.path,
		dtype_name(dtype), rect->row + i / rect->n_cols, rect->col + i % rect->n_cols,
		dtype == DT_F16 ? "use --dtype bf16 or f32, whose range is larger"
				: "its code is NaN or infinite, or the scale too large");
}
