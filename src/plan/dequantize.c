/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `dequantize`: every FP8 or low-bit weight becomes one of high precision under its own
 * name; scales and their configuration are left out.
 */
#include "plan/dequantize.h"

#include <string.h>

#include "format/edit_config.h"
#include "plan/bands.h"
#include "select/fp8_units.h"

static const struct value_type {
	const char *name;
	enum dtype dtype;
	const char *config; /* as in config.json */
} value_types[] = {
	{ "bf16", DT_BF16, "\"bfloat16\"" },
	{ "f16", DT_F16, "\"float16\"" },
	{ "f32", DT_F32, "\"float32\"" },
};

static const struct value_type *value_type_find(const char *name, struct err *err)
{
	for (size_t i = 0; i < sizeof value_types / sizeof *value_types; i++)
		if (!strcmp(value_types[i].name, name ? name : "bf16"))
			return &value_types[i];
	err_set(err, ERR_USAGE, "unknown type '%s' (known: bf16, f16, f32)", name);
	return NULL;
}

static int plan_units(struct plan *plan, const struct convert_params *params, struct err *err)
{
	struct detection detection = { 0 };
	int rc = -1;

	if (low_bit_find(&plan->selection.low_bit, &plan->source, err) ||
	    fp8_source_detect(&detection, &plan->source, params->io, err) ||
	    fp8_units_make(&plan->selection, &plan->source, &detection, err) ||
	    plan_check_source(plan, params->io, err))
		goto out;
	rc = 0;
	if (!plan->selection.n_quantized)
		rc = err_set(err, ERR_USAGE,
			     "nothing to dequantize: '%s' has neither FP8 nor low-bit weights",
			     params->input);
out:
	detection_release(&detection);
	return rc;
}

static int plan_values(struct plan *plan, enum dtype dtype, struct err *err)
{
	plan_specs_begin(plan);
	plan_begin(plan, plan->selection.n_units, false);
	for (size_t u = 0; u < plan->selection.n_units; u++) {
		const struct unit *unit = &plan->selection.units[u];
		const struct st_tensor *source = unit->source->tensor;
		const uint64_t stack[3] = { source->shape[0], unit->stack, unit->cols };

		plan_unit_begin(plan, u);
		if (!unit_is_coded(unit)) {
			plan_keep(plan, u);
			continue;
		}
		plan_add(plan, u,
			 &(struct output_decl){ .kind = OUTPUT_VALUES,
						.name = unit->name,
						.dtype = dtype,
						.n_dims = source->n_dims,
						.shape = unit->stack ? stack : source->shape });
		plan->totals.n_converted++;
	}
	return plan_layout(plan, err);
}

static int plan_config(struct plan *plan, const char *dtype, struct err *err)
{
	if (plan_params(plan, NULL, NULL, err))
		return -1;
	if (plan->source.config.len &&
	    config_set_dequantized(&plan->source.config, dtype, &plan->files.config, err))
		return err_wrap(err, "'%s'", plan->source.path);
	return 0;
}

int dequantize_plan_make(struct plan *plan, const struct dequantize_params *params,
			 struct progress *progress, struct err *err)
{
	const struct convert_params *convert = &params->convert;
	const struct value_type *type = value_type_find(params->dtype, err);
	struct band_limits limits;

	*plan = (struct plan){ .stream_fd = -1, .conversion = CONVERT_DEQUANTIZE };
	if (!type || band_limits_plan(convert, &limits, &plan->totals.memory_bytes, err) ||
	    plan_open(plan, convert, progress, err) || plan_units(plan, convert, err))
		goto fail;
	plan->dtype = type->name;
	plan->options = json_pack("{s:s}", "dtype", type->name);
	if (plan_values(plan, type->dtype, err) || plan_config(plan, type->config, err) ||
	    plan_finish(plan, convert, progress, err))
		goto fail;
	return 0;
fail:
	plan_release(plan);
	return -1;
}
