/* SPDX-License-Identifier: Apache-2.0
 *
 * What every format asks before it writes a configuration, and the parts that all configurations
 * have.
 */
#include "format/write_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Whether configurations state two schemes in the same words. */
static bool same_words(const struct scheme *a, const struct scheme *b)
{
	return a->granularity == b->granularity && a->tile.rows == b->tile.rows &&
	       a->tile.cols == b->tile.cols && a->fp8_format == b->fp8_format &&
	       a->static_input == b->static_input;
}

bool quantization_mixed(const struct quantization *quantization)
{
	for (size_t i = 1; i < quantization->n_sets; i++)
		if (!same_words(&quantization->sets[0].scheme, &quantization->sets[i].scheme))
			return true;
	return false;
}

static const char *const strategies[][2] = {
	[GRANULARITY_TENSOR] = { "tensor", "tensor" },
	[GRANULARITY_CHANNEL] = { "channel", "token" },
	[GRANULARITY_BLOCK] = { "block", "group" },
	[GRANULARITY_MX] = { "group", "group" },
};

const char *strategy_of_weights(enum granularity granularity)
{
	return strategies[granularity][0];
}

const char *strategy_of_inputs(enum granularity granularity)
{
	return strategies[granularity][1];
}

bool quantization_pow2(const struct quantization *quantization)
{
	for (size_t i = 0; i < quantization->n_sets; i++)
		if (!quantization->sets[i].scheme.pow2)
			return false;
	return true;
}

/* Refuses sets of two schemes that the format, or the target, does not have in one checkpoint. */
static int check_mixed(const struct format *format, const struct quantization *quantization,
		       struct err *err)
{
	const char *const *refused = format->refused_mixed;
	const char *const reason = refused[refused[ENGINE_ANY] ? ENGINE_ANY : quantization->target];
	const struct module_set *sets = quantization->sets;
	char first[SCHEME_NAME_SIZE], second[SCHEME_NAME_SIZE];
	size_t other = 0;

	for (size_t i = 1; i < quantization->n_sets; i++)
		if (!same_words(&sets[0].scheme, &sets[i].scheme))
			other = i;
	if (!other || !reason)
		return 0;
	scheme_name(&sets[0].scheme, first);
	scheme_name(&sets[other].scheme, second);
	if (!refused[ENGINE_ANY])
		return err_set(err, ERR_USAGE,
			       "%s and %s modules in format '%s' do not load in %s: %s", first,
			       second, format->name, engine_name(quantization->target), reason);
	return err_set(err, ERR_USAGE, "format '%s' cannot mix %s and %s modules: %s", format->name,
		       first, second, reason);
}

/* Checks each set of a checkpoint with several schemes by itself. */
static int check_beside(const struct format *format, const struct quantization *quantization,
			struct err *err)
{
	char words[SCHEME_NAME_SIZE];

	if (!quantization_mixed(quantization) && !quantization->passed.n_modules)
		return 0;
	for (size_t i = 0; i < quantization->n_sets; i++) {
		const struct module_set *set = &quantization->sets[i];
		const char *reason =
			engine_refuses_beside(quantization->target, format, &set->scheme);

		scheme_name(&set->scheme, words);
		if (reason)
			return err_set(err, ERR_USAGE,
				       "module '%s' as %s in format '%s' does not load in %s "
				       "beside other schemes: %s",
				       set->modules[0], words, format->name,
				       engine_name(quantization->target), reason);
	}
	return 0;
}

/* An engine that reads one group or scheme does not read low-bit weights beside FP8. */
static int check_passed_target(const struct format *format, const struct quantization *quantization,
			       struct err *err)
{
	const char *reason = quantization->target == ENGINE_ANY
				     ? NULL
				     : format->refused_mixed[quantization->target];

	if (!reason || !quantization->passed.n_modules)
		return 0;
	return err_set(err, ERR_USAGE,
		       "%s and FP8 modules in format '%s' do not load in %s: %s; use --requantize "
		       "to convert them",
		       quantization->passed.kind, format->name, engine_name(quantization->target),
		       reason);
}

static const char *find_expert(const struct module_set *set)
{
	for (size_t i = 0; i < set->n_modules; i++)
		if (strstr(set->modules[i], ".experts."))
			return set->modules[i];
	return NULL;
}

static int check_experts(const struct format *format, const struct module_set *set,
			 enum engine target, struct err *err)
{
	const char *reason = engine_refuses_experts(target, format, &set->scheme);
	const char *expert = reason ? find_expert(set) : NULL;
	char words[SCHEME_NAME_SIZE];

	if (!expert)
		return 0;
	scheme_name(&set->scheme, words);
	return err_set(err, ERR_USAGE, "module '%s' as %s in format '%s' does not load in %s: %s",
		       expert, words, format->name, engine_name(target), reason);
}

const char *module_set_head(const struct module_set *set)
{
	for (size_t i = 0; i < set->n_modules; i++)
		if (!strcmp(text_after(set->modules[i], '.'), "lm_head"))
			return set->modules[i];
	return NULL;
}

static int check_head(const struct format *format, const struct module_set *set, enum engine target,
		      struct err *err)
{
	const char *head;

	if (format->head != FP8_HEAD_NEVER && target != ENGINE_TRANSFORMERS)
		return 0;
	head = module_set_head(set);
	if (!head)
		return 0;
	if (target != ENGINE_ANY)
		return err_set(err, ERR_USAGE,
			       "'%s' as FP8 in format '%s' does not load in %s: keep it", head,
			       format->name, engine_name(target));
	return err_set(err, ERR_USAGE,
		       "no engine loads '%s' as FP8 in format '%s': keep it, or use --format "
		       "compressed-tensors or modelopt",
		       head, format->name);
}

int format_refuse_kv(const struct format *format, struct err *err)
{
	return err_set(err, ERR_USAGE,
		       "format '%s' does not support KV-cache scales: omit --kv-cache, or use "
		       "--format compressed-tensors or modelopt",
		       format->name);
}

/* ERR_USAGE with a suggestion where the format cannot describe the low-bit weights that the output
 * takes over. */
static int check_passed(const struct format *format, const struct passed *passed, struct err *err)
{
	const char *other = NULL;

	if (!passed->n_modules || (format->passes && format->passes(passed)))
		return 0;
	for (size_t i = 0; formats[i] && !other; i++)
		if (formats[i]->passes && formats[i]->passes(passed))
			other = formats[i]->name;
	if (other)
		return err_set(err, ERR_USAGE,
			       "'%s' is %s, which format '%s' cannot describe beside FP8: use "
			       "--format %s to pass it on, or --requantize to convert it",
			       passed->modules[0], passed->kind, format->name, other);
	return err_set(err, ERR_USAGE,
		       "'%s' is %s, which no format can describe beside FP8 as this source has it: "
		       "use --requantize to convert it",
		       passed->modules[0], passed->kind);
}

int format_check(const struct format *format, const struct quantization *quantization,
		 struct err *err)
{
	char words[SCHEME_NAME_SIZE];

	if (!quantization->n_sets)
		return err_set(err, ERR_USAGE, "nothing to quantize: every module is kept");
	for (size_t i = 0; i < quantization->n_sets; i++) {
		const struct module_set *set = &quantization->sets[i];

		scheme_name(&set->scheme, words);
		if (engine_check(quantization->target, format, &set->scheme, words, err) ||
		    check_experts(format, set, quantization->target, err) ||
		    check_head(format, set, quantization->target, err))
			return -1;
	}
	if (quantization->kv_cache && !format->kv_scale)
		return format_refuse_kv(format, err);
	if (check_mixed(format, quantization, err) ||
	    check_passed(format, &quantization->passed, err) ||
	    check_passed_target(format, quantization, err) ||
	    check_beside(format, quantization, err))
		return -1;
	return 0;
}

int format_configure(const struct format *format, const struct quantization *quantization,
		     struct buf *config, struct buf *hf_quant_config, struct err *err)
{
	if (format_check(format, quantization, err))
		return -1;
	return format->configure(format, quantization, config, hf_quant_config, err);
}

json_t *config_kept_json(const struct quantization *quantization)
{
	json_t *list = json_array();

	for (size_t i = 0; i < quantization->n_kept; i++)
		json_array_append_new(list, json_string(quantization->kept[i]));
	return list;
}

void config_add_json(struct buf *buf, json_t *value, size_t indent)
{
	char *text = json_dumps(value, JSON_INDENT(indent));

	buf_puts(buf, text);
	free(text);
	json_decref(value);
}
