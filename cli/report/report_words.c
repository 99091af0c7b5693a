/* SPDX-License-Identifier: Apache-2.0
 *
 * What the card and the page of a report both say.
 */
#include <string.h>

#include "cli/print/path.h"
#include "cli/report/report.h"
#include "format/variant.h"
#include "num/fp8.h"
#include "report/escape.h"

void report_put_tile(struct buf *out, const struct tensor_group *group)
{
	struct tile tile = group->tile;

	if (tile.rows == WHOLE && tile.cols == WHOLE)
		buf_puts(out, "the whole matrix");
	else if (tile.rows == 1 && tile.cols == WHOLE)
		buf_puts(out, "each row");
	else if (tile.rows == 1)
		buf_printf(out, "each %zu values of a row", (size_t)tile.cols);
	else if (tile.cols == WHOLE)
		buf_printf(out, "each %zu rows", (size_t)tile.rows);
	else
		buf_printf(out, "each %zu x %zu block", (size_t)tile.rows, (size_t)tile.cols);
}

void report_put_type(struct buf *out, const struct tensor_group *group)
{
	if (dtype_is_fp8(group->dtype))
		buf_printf(out, "FP8 (%s)",
			   fp8_of_dtype(group->dtype) == FP8_E4M3 ? "E4M3" : "E5M2");
	else
		buf_puts(out, dtype_name(group->dtype));
}

const char *report_version(const struct report *report)
{
	const char *tool = json_string_value(json_object_get(report->manifest, "tool"));

	if (!tool || strcmp(tool, "fp8conv") != 0)
		return NULL;
	return json_string_value(json_object_get(report->manifest, "version"));
}

struct report_counts report_count(const struct summary *summary)
{
	struct report_counts counts = { 0 };

	for (size_t g = 0; g < summary->n; g++) {
		counts.n_parameters += summary->groups[g].n_parameters;
		if (summary->groups[g].fp8)
			counts.n_fp8 += summary->groups[g].n_tensors;
		else
			counts.n_kept += summary->groups[g].n_tensors;
	}
	return counts;
}

/* --- engines --- */

static bool has_experts(const struct summary *summary)
{
	for (size_t g = 0; g < summary->n; g++)
		if (summary->groups[g].fp8 && strstr(summary->groups[g].pattern, "experts"))
			return true;
	return false;
}

/* Returns the first FP8 weight that has a scale, which *scale becomes; NULL without one. */
static const struct st_tensor *first_weight(const struct inspection *inspection,
					    struct weight_scale *scale)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;
	struct err ignored;

	for (size_t t = 0; t < checkpoint->n_tensors; t++) {
		const struct tensor_ref *ref = &checkpoint->tensors[t];

		if (detection_is_weight(ref) &&
		    !detection_scale(&inspection->detection, ref, scale, &ignored))
			return ref->tensor;
	}
	return NULL;
}

/* Did a variant that only other engines read write the checkpoint, and not the given one? */
static bool is_of_others(const struct inspection *inspection, const struct format *format,
			 const struct variant *given)
{
	struct weight_scale scale;
	const struct st_tensor *weight = first_weight(inspection, &scale);
	struct tile tile = inspection->detection.scheme.tile;

	if (!weight || variant_wrote(given, tile, weight, scale.scale->tensor))
		return false;
	for (const struct variant *row = format->variants; row->method; row++)
		if (row != given && row->granularity == given->granularity &&
		    row->static_input == given->static_input &&
		    (row->only_for != given->only_for) &&
		    variant_wrote(row, tile, weight, scale.scale->tensor))
			return true;
	return false;
}

/* Returns the reason for which the engine does not load the checkpoint, or NULL.  Layouts of other
 * tools are not judged. */
static const char *refusal(const struct reported *reported, enum engine engine)
{
	const struct detection *detection = &reported->inspection->detection;
	const struct format *format = format_find(detection->format);
	const struct variant *variant;

	if (!detection->known || !format)
		return NULL;
	if (detection->scheme.fp8_format == FP8_E5M2)
		return "its kernels read E4M3 weights";
	variant = variant_find(format, &detection->scheme, engine);
	if (!variant)
		return "the format has no such scheme";
	if (variant->refused[ENGINE_ANY])
		return variant->refused[ENGINE_ANY];
	if (variant->refused[engine])
		return variant->refused[engine];
	if (is_of_others(reported->inspection, format, variant))
		return engine == ENGINE_VLLM
			       ? "it reads scales of other names: use --target vllm"
			       : "it reads scales of other names: use --target sglang";
	if (has_experts(reported->summary) && variant->refused_moe[engine])
		return variant->refused_moe[engine];
	return reported->report->kept.obstacle;
}

/* Options of vLLM 0.11 (`vllm serve --help=all`) and SGLang 0.5
 * (`python -m sglang.launch_server --help`).  Both find the scheme of the weights in config.json,
 * but cache keys and values in FP8 only when they are told. */
bool report_put_serve(struct buf *out, const struct reported *reported, enum engine engine)
{
	const bool cache = reported->summary->n_scales[SCALE_OF_CACHE] > 0;
	const char *reason = refusal(reported, engine);
	struct buf line = { 0 };

	if (reason) {
		buf_puts(out, reason);
		return false;
	}
	buf_puts(&line, engine == ENGINE_VLLM ? "vllm serve "
					      : "python -m sglang.launch_server --model-path ");
	path_put(&line, reported->report->name);
	if (cache)
		buf_puts(&line, engine == ENGINE_VLLM ? " --kv-cache-dtype fp8"
						      : " --kv-cache-dtype fp8_e4m3");
	escape_line(out, line.data);
	buf_release(&line);
	return true;
}
