/* SPDX-License-Identifier: Apache-2.0
 *
 * The facts of a config.json that more than one command needs, under one name each.  The reader
 * accepts the keys of the hub and of transformers 5, on the top level or nested (multimodal models:
 * text_config).
 *
 * A missing key and null are the same.  A value of another type, or out of range, is an error that
 * names the key.
 */
#ifndef FP8CONV_NAMES_CONFIG_H
#define FP8CONV_NAMES_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/words.h"

/* clang-format off */
/* Sizes, and the keys of each.  Messages use the first; of several keys in a file the first
 * counts. */
#define CONFIG_SIZES(X) \
	X(CONFIG_HIDDEN_SIZE, "hidden_size", "n_embd", "d_model", "dim") \
	X(CONFIG_INTERMEDIATE_SIZE, "intermediate_size", "ffn_hidden_size", "ffn_dim", \
	  "n_inner", "d_ff") \
	X(CONFIG_MOE_INTERMEDIATE_SIZE, "moe_intermediate_size", "expert_intermediate_size") \
	/* routed experts of a layer */ \
	X(CONFIG_EXPERTS, "num_experts", "num_local_experts", "n_routed_experts", \
	  "moe_num_experts") \
	X(CONFIG_LAYERS, "num_hidden_layers", "n_layer", "n_layers", "num_layers") \
	X(CONFIG_HEADS, "num_attention_heads", "n_head", "n_heads", "num_heads") \
	X(CONFIG_KV_HEADS, "num_key_value_heads", "num_kv_heads", "n_head_kv", \
	  "multi_query_group_num", "kv_n_heads", "num_attention_groups") \
	X(CONFIG_HEAD_DIM, "head_dim") \
	X(CONFIG_V_HEAD_DIM, "v_head_dim") /* where values have heads of another size */ \
	X(CONFIG_VOCAB_SIZE, "vocab_size") \
	/* of Mamba-2 mixers */ \
	X(CONFIG_MAMBA_HEADS, "mamba_num_heads", "mamba_n_heads", "n_mamba_heads") \
	X(CONFIG_MAMBA_GROUPS, "mamba_n_groups", "mamba_ngroups", "n_groups") \
	X(CONFIG_MAMBA_STATE, "mamba_d_state", "ssm_state_size")

enum config_size { CONFIG_SIZES(WORDS_ID) N_CONFIG_SIZES };
/* clang-format on */

#define MODEL_CONFIG_LEVELS 3

struct model_config {
	char *model_type;   /* strings: NULL where missing */
	char *architecture; /* architectures[0], or _class_name of diffusers */
	/* of the top level, then of the nested ones in which the language model's facts are */
	char *model_types[MODEL_CONFIG_LEVELS];
	size_t n_model_types;
	char *dtype;	       /* "bfloat16" */
	char *quant_method;    /* of quantization_config */
	bool has_quantization; /* quantization_config is present and not null */
	bool tie_word_embeddings;
	bool tie_is_stated; /* false: tie_word_embeddings is missing */
	bool has_parts;	    /* it describes other models too, as vision_config */
	bool is_encoder_decoder;
	/* of the language model; 0 where missing, 0, or a list with a number for each layer */
	uint64_t size[N_CONFIG_SIZES];
	bool bad[N_CONFIG_SIZES]; /* present, but 0 or a list */
};

/* Reads text, a whole config.json; an empty text leaves every fact missing.  The caller releases
 * config, which holds copies and is empty after a failure.  ERR_INPUT unless text is a JSON object,
 * and with the key and its value for one of another type. */
int model_config_read(struct model_config *config, const struct buf *text, struct err *err);

/* Fails with ERR_INPUT and the name of the key unless config has the size. */
int model_config_need(const struct model_config *config, enum config_size which, struct err *err);

/* Returns the object of the language model in a config.json: root or a nested one. */
const json_t *model_config_level(const json_t *root);

/* Returns the intermediate size of an expert: moe_intermediate_size, else intermediate_size, else
 * 0. */
uint64_t model_config_expert_width(const struct model_config *config);

void model_config_release(struct model_config *config);

#endif
