/* SPDX-License-Identifier: Apache-2.0
 *
 * What each engine refuses, for any format.  What it refuses of one variant of a format, and why,
 * is `.refused` of that variant's row in format_<name>.c.
 */
#include "format/engine.h"

#include <string.h>

#include "base/words.h"
#include "format/variant.h"

static const char *const engine_names[] = {
	[ENGINE_ANY] = "any",
	[ENGINE_VLLM] = "vllm",
	[ENGINE_SGLANG] = "sglang",
	[ENGINE_TRTLLM] = "trtllm",
	[ENGINE_TRANSFORMERS] = "transformers",
	[N_ENGINES] = NULL,
};

const char *engine_name(enum engine engine)
{
	return engine_names[engine];
}

bool engine_has_bit(unsigned set, enum engine target)
{
	return target == ENGINE_ANY ? set != 0 : (set & ENGINE_BIT(target)) != 0;
}

int engine_find(const char *name, enum engine *engine, struct err *err)
{
	*engine = ENGINE_ANY;
	if (!name)
		return 0;
	for (int i = ENGINE_VLLM; i < N_ENGINES; i++) {
		if (!strcmp(engine_names[i], name)) {
			*engine = (enum engine)i;
			return 0;
		}
	}
	return words_unknown("target", name, engine_names + ENGINE_VLLM, "fp8conv formats", err);
}

int engine_check(enum engine target, const struct format *format, const struct scheme *scheme,
		 const char *recipe, struct err *err)
{
	const struct variant *variant = variant_find(format, scheme, target);
	char words[SCHEME_NAME_SIZE];

	if (target != ENGINE_ANY && scheme->fp8_format == FP8_E5M2)
		return err_set(err, ERR_USAGE,
			       "recipe '%s' with E5M2 weights does not load in %s, whose kernels "
			       "read E4M3 weights: omit --fp8-format e5m2",
			       recipe, engine_name(target));
	if (!variant) {
		scheme_name(scheme, words);
		return err_set(err, ERR_USAGE,
			       "no engine loads recipe '%s' in format '%s': the format has no %s "
			       "scheme",
			       recipe, format->name, words);
	}
	if (variant->refused[ENGINE_ANY])
		return err_set(err, ERR_USAGE, "no engine loads recipe '%s' in format '%s': %s",
			       recipe, format->name, variant->refused[ENGINE_ANY]);
	if (variant->refused[target])
		return err_set(err, ERR_USAGE, "recipe '%s' in format '%s' does not load in %s: %s",
			       recipe, format->name, engine_name(target), variant->refused[target]);
	return 0;
}

bool engine_wants_names(enum engine engine, const struct format *format,
			const struct scheme *scheme)
{
	const struct variant *variant = variant_find(format, scheme, ENGINE_ANY);

	return variant && !variant->refused[engine] && !variant_is_read(variant, engine);
}

/* Source: hf_to_vllm_mapper of vLLM 0.32's mistral3.py; load_weights() of SGLang 0.5.23's llama.py,
 * and of the classes that inherit it. */
static const struct {
	enum engine engine;
	const char *models;
} renaming[] = {
	{ ENGINE_VLLM, "mistral3" },
	{ ENGINE_SGLANG,
	  "llama|mistral|ministral3|phi3|internlm3|llama4_text|iquestcoder|teleflm" },
};

bool engine_renames_scales(enum engine engine, const char *model_type)
{
	for (size_t i = 0; i < sizeof renaming / sizeof *renaming; i++)
		if (renaming[i].engine == engine && words_find(renaming[i].models, model_type) >= 0)
			return true;
	return false;
}

const char *engine_refuses_experts(enum engine target, const struct format *format,
				   const struct scheme *scheme)
{
	const struct variant *variant = variant_find(format, scheme, target);

	return variant ? variant->refused_moe[target] : NULL;
}

const char *engine_refuses_partial(enum engine target, const struct format *format,
				   const struct scheme *scheme, uint64_t rows, uint64_t cols)
{
	const struct variant *variant = variant_find(format, scheme, target);

	if (!variant || scheme->granularity != GRANULARITY_BLOCK)
		return NULL;
	if (rows % scheme->tile.rows && variant->refused_rows[target])
		return variant->refused_rows[target];
	return cols % scheme->tile.cols ? variant->refused_cols[target] : NULL;
}

const char *engine_misreads_merged(enum engine target, const struct format *format,
				   const struct scheme *scheme)
{
	const struct variant *variant = variant_find(format, scheme, target);

	return variant ? variant->misread_merged[target] : NULL;
}

const char *engine_refuses_beside(enum engine target, const struct format *format,
				  const struct scheme *scheme)
{
	const struct variant *variant = variant_find(format, scheme, target);

	return variant ? variant->refused_mixed[target] : NULL;
}
