/* SPDX-License-Identifier: Apache-2.0
 *
 * Mamba-1 in config.json.  The keys are as in transformers 5.23 (configuration_jamba.py).
 */
#include <string.h>

#include "model/steps.h"

#define MAX_SIZE  65536
#define MAX_WIDTH 64 /* of a convolution; models have 4 */

/* Reads the rank of the steps: a number, or "auto" for a 16th of hidden_size. */
static int read_rank(struct model *model, const json_t *facts, struct err *err)
{
	static const char key[] = "mamba_dt_rank";
	const char *word = json_string_value(json_object_get(facts, key));

	if (!word || strcmp(word, "auto") != 0)
		return fact_size(facts, key, MAX_SIZE, &model->mamba1.step_rank, err);
	model->mamba1.step_rank = (model->hidden + 15) / 16;
	return 0;
}

/* One layer of each period has attention. */
static int read_layers(struct model *model, const json_t *facts, struct err *err)
{
	size_t offset = fact_count(facts, "attn_layer_offset", 0), period;

	if (fact_size(facts, "attn_layer_period", MAX_SIZE, &period, err))
		return -1;
	if (offset >= period)
		return err_set(err, ERR_INPUT,
			       "config.json: 'attn_layer_offset' is %zu, not below "
			       "'attn_layer_period', %zu",
			       offset, period);
	for (size_t i = 0; i < model->n_layers; i++)
		model->layers[i].mixer = i % period == offset ? MIXER_ATTENTION : MIXER_MAMBA1;
	return 0;
}

int mamba1_configure(struct model *model, const json_t *facts, struct err *err)
{
	struct mamba1 *mamba = &model->mamba1;
	size_t expand;

	if (fact_size(facts, "mamba_d_state", MODEL_MAX_CHANNEL_STATE, &mamba->state_size, err) ||
	    fact_size(facts, "mamba_d_conv", MAX_WIDTH, &mamba->conv_width, err) ||
	    fact_size(facts, "mamba_expand", MAX_SIZE, &expand, err) ||
	    read_rank(model, facts, err))
		return -1;
	mamba->n_channels = expand * model->hidden;
	if (model->activation != ACT_SILU)
		return err_set(err, ERR_INPUT,
			       "config.json: 'hidden_act' is not silu, the only activation of "
			       "Mamba-1 that is supported");
	return read_layers(model, facts, err);
}
