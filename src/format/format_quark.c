/* SPDX-License-Identifier: Apache-2.0
 *
 * Quark's FP8 (AMD): one scale for a tensor or for each row, read only.  quark.py of vLLM 0.32 and
 * SGLang 0.5.23.
 */
#include <string.h>

#include "format/member.h"
#include "format/read_config.h"
#include "format/variant.h"

static const char *const methods[] = { "quark", NULL };

static const struct variant variants[] = { { 0 } };

/* A list of arguments is that of a low-bit weight with two scales. */
static const json_t *global_args(const json_t *config, const char *key)
{
	return json_object_get(json_object_get(config, "global_quant_config"), key);
}

static void read_config(const json_t *config, struct declaration *said)
{
	const json_t *weight = global_args(config, "weight");
	const json_t *inputs = global_args(config, "input_tensors");
	const char *scheme = config_text(weight, "qscheme");

	if (strncmp(config_text(weight, "dtype"), "fp8_e4m3", strlen("fp8_e4m3")) != 0)
		return;
	said->declared = said->has_input = true;
	said->weight_only = !json_is_object(inputs);
	said->scheme.static_input = json_is_false(json_object_get(inputs, "is_dynamic"));
	if (!strcmp(scheme, "per_channel")) {
		said->scheme.granularity = GRANULARITY_CHANNEL;
		said->scheme.tile = (struct tile){ 1, WHOLE };
	}
}

#define REFUSED "engines refuse to load it"

static const struct member members[] = {
	MEMBER_ROW("global_quant_config", MEMBER_OBJECT, ENGINE_ALL_BITS, ENGINE_ALL_BITS, REFUSED),
	MEMBER_ROW("export", MEMBER_OBJECT, ENGINE_ALL_BITS, ENGINE_BIT(ENGINE_VLLM),
		   "vLLM refuses to load it"),
	MEMBER_ROW("exclude", MEMBER_TEXTS, ENGINE_ALL_BITS, ENGINE_BIT(ENGINE_VLLM),
		   "engines refuse to load it, or quantize other modules"),
	{ 0 },
};

static void check_config(const struct config_check *check)
{
	member_check(check, "config.json", "", check->detection->config, members);
}

const struct format format_quark = {
	.name = "quark",
	.summary = "Quark's: quant_method quark, read only",
	.methods = methods,
	.variants = variants,
	.read = read_config,
	.check = check_config,
};
