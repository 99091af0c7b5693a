/* SPDX-License-Identifier: Apache-2.0
 *
 * FBGEMM's FP8 (Meta's Llama 3.1 405B): channelwise, read only.
 */
#include "format/member.h"
#include "format/read_config.h"
#include "format/variant.h"

static const char *const methods[] = { "fbgemm_fp8", NULL };

static const struct variant variants[] = { { 0 } };

static void read_config(const json_t *config, struct declaration *said)
{
	(void)config;
	said->declared = said->has_input = true;
	said->scheme.granularity = GRANULARITY_CHANNEL;
	said->scheme.tile = (struct tile){ 1, WHOLE };
}

/* vLLM 0.32, FBGEMMFp8Config.from_config(); transformers 5.24, FbgemmFp8Config. */
static const struct member members[] = {
	MEMBER_ROW("modules_to_not_convert", MEMBER_NULL | MEMBER_TEXTS, ENGINE_ALL_BITS,
		   ENGINE_BIT(ENGINE_VLLM), "engines refuse to load it, or skip other modules"),
	MEMBER_ROW("activation_scale_ub", MEMBER_NUMBER, ENGINE_ALL_BITS, ENGINE_BIT(ENGINE_VLLM),
		   "vLLM refuses to load it"),
	{ 0 },
};

static void check_config(const struct config_check *check)
{
	const struct detection *detection = check->detection;

	member_check(check, "config.json", "", detection->config, members);
	if (detection->n_weights && detection->scheme.granularity != GRANULARITY_CHANNEL)
		config_report(check, CONFIG_KEYS, "config.json",
			      "quant_method is 'fbgemm_fp8', which has one scale for each row, but "
			      "the scales are others: engines refuse it or answer garbage");
}

const struct format format_fbgemm = {
	.name = "fbgemm",
	.summary = "FBGEMM's: quant_method fbgemm_fp8, read only",
	.methods = methods,
	.variants = variants,
	.read = read_config,
	.check = check_config,
};
