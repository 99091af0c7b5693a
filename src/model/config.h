/* SPDX-License-Identifier: Apache-2.0
 *
 * The facts of a config.json that more than one job needs, under one name each, however the file
 * spells them: the hub's keys and those of transformers 5, on the top level or nested (multimodal
 * models: text_config).
 *
 * Reading is tolerant: a value of the wrong type is only an error for whoever needs it
 * (model_config_need()).
 */
#ifndef FP8CONV_MODEL_CONFIG_H
#define FP8CONV_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum config_size {
	CONFIG_HIDDEN_SIZE,
	CONFIG_INTERMEDIATE_SIZE,
	CONFIG_MOE_INTERMEDIATE_SIZE,
	CONFIG_EXPERTS, /* routed ones, in a layer */
	CONFIG_LAYERS,
	CONFIG_HEADS,
	CONFIG_KV_HEADS,
	CONFIG_HEAD_DIM,
	CONFIG_VOCAB_SIZE,
	N_CONFIG_SIZES
};

struct model_config {
	char *model_type;      /* NULL where not said, as all strings here */
	char *architecture;    /* architectures[0] */
	char *dtype;	       /* "bfloat16" */
	char *quant_method;    /* of the quantization_config that the source has */
	bool has_quantization; /* there is one, and it is not null */
	bool tie_word_embeddings;
	/* of the language model; 0 where not said or not a positive integer */
	uint64_t size[N_CONFIG_SIZES];
	bool bad[N_CONFIG_SIZES]; /* it is said, but not as a positive integer */
};

/* text: a whole config.json; an empty one leaves everything unsaid.  ERR_INPUT if it is not a JSON
 * object. */
int model_config_read(struct model_config *config, const struct buf *text, struct err *err);

/* ERR_INPUT naming the key unless the size is known. */
int model_config_need(const struct model_config *config, enum config_size which, struct err *err);

/* The width of an expert: moe_intermediate_size, where there is none intermediate_size; 0 where not
 * said. */
uint64_t model_config_expert_width(const struct model_config *config);

void model_config_release(struct model_config *config);

#endif
