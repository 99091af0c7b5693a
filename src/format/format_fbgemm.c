/* SPDX-License-Identifier: Apache-2.0
 *
 * FBGEMM's FP8 (Meta's Llama 3.1 405B): channelwise, read only.
 */
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

const struct format format_fbgemm = {
	.name = "fbgemm",
	.summary = "FBGEMM's: quant_method fbgemm_fp8, read only",
	.methods = methods,
	.variants = variants,
	.read = read_config,
};
