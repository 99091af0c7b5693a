/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of model families, by name, and what becomes of them: quantized or kept, and the reason.
 * The names are as in the families' releases and the engines' loaders; what is expected is
 * what the vendor's release keeps or what a loader needs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/support/memory_checkpoint.h"
#include "tests/unit/support/selection_check.h"

/* Reasons. */
#define TAKEN	NULL
#define ROUTER	"router gate"
#define HEAD	"lm_head"
#define VISION	"vision tower"
#define AUDIO	"audio tower"
#define PROJ	"projector"
#define EMBED	"embedding"
#define CONV	"convolution"
#define MTP	"MTP projection"
#define STATE	"state-space parameter"
#define PER_LAY "per-layer input"
#define BARE	"engines build it without quantization"
#define SGLANG	"SGLang builds it without quantization, and skips a scale silently"

/* A module with a weight of 256 x 256, in blocks and format hf.  family: a model_type, or the class
 * of a model (a capital letter); NULL: that of the row above; "": no config.json. */
static const struct {
	const char *family, *module, *reason;
} rows[] = {
	/* dense models, and those with experts by number */
	{ "llama", "model.layers.0.self_attn.q_proj", TAKEN },
	{ NULL, "model.layers.0.mlp.down_proj", TAKEN },
	{ NULL, "lm_head", HEAD },
	{ "phi3", "model.layers.0.self_attn.qkv_proj", TAKEN },
	{ NULL, "model.layers.0.mlp.gate_up_proj", TAKEN },
	{ "phimoe", "model.layers.0.block_sparse_moe.experts.0.w1", TAKEN },
	{ NULL, "model.layers.0.block_sparse_moe.gate", ROUTER },
	{ NULL, "lm_head", HEAD },
	{ "phi4mm", "model.layers.0.self_attn.qkv_proj.base_layer", TAKEN },
	{ NULL, "model.layers.0.mlp.down_proj.base_layer", TAKEN },
	{ NULL, "model.layers.0.mlp.down_proj.lora_A.vision", "adapter" },
	{ NULL, "model.layers.0.mlp.down_proj.lora_B.speech", "adapter" },
	{ NULL, "model.embed_tokens_extend.image_embed.img_projection.0", PROJ },
	{ NULL, "model.embed_tokens_extend.audio_embed.encoder.encoders.0.feed_forward_in.net.0",
	  AUDIO },
	{ "qwen2_moe", "model.layers.0.mlp.gate", ROUTER },
	{ NULL, "model.layers.0.mlp.shared_expert_gate", ROUTER },
	{ NULL, "model.layers.0.mlp.shared_expert.up_proj", TAKEN },
	{ "dots1", "model.layers.1.mlp.experts.0.up_proj", TAKEN },
	{ "hunyuan_v1_moe", "model.layers.0.mlp.gate.wg", ROUTER },
	{ NULL, "model.layers.0.mlp.shared_mlp.up_proj", TAKEN },
	{ "hy_v3", "model.layers.1.mlp.router.gate", ROUTER },
	{ NULL, "model.layers.80.eh_proj", MTP },
	{ "ernie4_5_moe_vl", "model.layers.3.mlp.gate", ROUTER },
	{ NULL, "model.resampler_model.mlp.0", PROJ },
	{ NULL, "vision_model.blocks.0.attn.qkv", VISION },
	{ NULL, "model.mtp_linear_proj.0", MTP },
	{ NULL, "model.mtp_block.0.self_attn.o_proj", TAKEN },
	{ "longcat_flash", "model.layers.0.mlp.router.classifier", ROUTER },
	{ NULL, "model.mtp.layers.0.eh_proj", MTP },
	{ NULL, "model.layers.0.self_attn.0.q_b_proj", TAKEN },
	{ "longcat_flash_ngram", "model.ngram_embeddings.embedders.0", EMBED },
	{ NULL, "model.ngram_embeddings.post_projs.0", "vLLM stops at a scale of it" },
	{ "LongcatFlashNgramForCausalLM", "model.ngram_embeddings.post_projs.3",
	  "vLLM stops at a scale of it" },
	{ "laguna", "model.layers.0.self_attn.g_proj", TAKEN },
	{ "afmoe", "model.layers.2.self_attn.gate_proj", TAKEN },
	{ NULL, "model.layers.2.mlp.router.gate", ROUTER },
	{ "cohere2_moe", "model.layers.0.mlp.gate", ROUTER },
	{ "spark2_5", "model.layers.0.self_attn.g_proj", SGLANG },
	{ "gigachat35", "model.layers.0.self_attn.g_proj", SGLANG },
	{ NULL, "model.layers.0.mlp.gate_up_lowrank", SGLANG },
	{ NULL, "model.layers.0.mlp.gate_down_lowrank", SGLANG },
	{ NULL, "model.layers.0.mlp.gate_proj", TAKEN },
	{ "MiniMaxM1ForCausalLM", "model.layers.0.self_attn.qkv_proj", TAKEN },
	{ NULL, "model.layers.0.self_attn.output_gate", TAKEN },
	{ NULL, "model.layers.0.block_sparse_moe.gate", ROUTER },
	{ "minimax_m3_vl", "language_model.model.layers.3.self_attn.index_q_proj", TAKEN },
	{ NULL, "patch_merge_mlp.linear_1", PROJ },
	{ NULL, "multi_modal_projector.linear_1", PROJ },
	{ NULL, "vision_tower.vision_model.encoder.layers.0.mlp.fc1", VISION },

	/* latent attention and linear attention */
	{ "deepseek_v3", "model.layers.3.self_attn.q_a_proj", TAKEN },
	{ NULL, "model.layers.3.self_attn.kv_a_proj_with_mqa", TAKEN },
	{ NULL, "model.layers.61.eh_proj", MTP },
	{ NULL, "model.layers.61.shared_head.head", HEAD },
	{ "deepseek_v32", "model.layers.0.self_attn.indexer.wk", TAKEN },
	{ NULL, "model.layers.0.self_attn.indexer.weights_proj", "indexer weights_proj" },
	{ "hy_v4", "model.layers.0.self_attn.linear_gate", TAKEN },
	{ NULL, "model.layers.0.self_attn.indexer.wk", TAKEN },
	{ "hy_v4_vl", "model.layers.0.self_attn.linear_gate", TAKEN },
	{ NULL, "vit.layers.0.mlp.dense_h_to_4h", VISION },
	{ "deepseek_v4", "layers.0.attn.wo_a", TAKEN },
	{ NULL, "layers.0.attn.indexer.wq_b", TAKEN },
	{ NULL, "layers.0.attn.compressor.wgate", BARE },
	{ NULL, "layers.0.attn.indexer.compressor.wkv", BARE },
	{ NULL, "layers.0.attn.indexer.weights_proj", "indexer weights_proj" },
	{ NULL, "layers.0.ffn.gate", ROUTER },
	{ NULL, "mtp.0.e_proj", TAKEN },
	{ NULL, "mtp.0.h_proj", TAKEN },
	{ NULL, "head", HEAD },
	{ "glm4_moe", "model.layers.92.shared_head.head", HEAD },
	{ NULL, "model.layers.92.eh_proj", MTP },
	{ "glm5_next", "model.language_model.layers.0.self_attn.f_b_proj",
	  "attention, as in the release" },
	{ NULL, "model.language_model.layers.3.self_attn.indexer.wk",
	  "attention, as in the release" },
	{ NULL, "model.language_model.layers.0.mlp.up_proj", TAKEN },
	{ "kimi_k25", "vision_tower.encoder.blocks.0.wqkv", VISION },
	{ NULL, "mm_projector.proj.0", PROJ },
	{ NULL, "language_model.model.layers.1.self_attn.kv_b_proj", TAKEN },
	{ "kimi_linear", "model.layers.0.self_attn.g_b_proj", TAKEN },
	{ NULL, "model.layers.1.block_sparse_moe.gate", ROUTER },
	{ "kimi_k3", "language_model.model.layers.0.mlp_res_proj", BARE },
	{ NULL, "language_model.model.layers.1.block_sparse_moe.routed_expert_down_proj", BARE },
	{ NULL, "language_model.model.layers.1.block_sparse_moe.shared_experts.up_proj",
	  "shared experts, as in the release" },
	{ NULL, "language_model.model.layers.1.block_sparse_moe.experts.0.w2", TAKEN },
	{ "qwen3_next", "model.layers.0.linear_attn.in_proj_qkvz", TAKEN },
	{ NULL, "model.layers.0.linear_attn.in_proj_ba", "linear-attention gate" },
	{ NULL, "mtp.fc", MTP },
	{ "qwen3_5_moe", "model.language_model.layers.0.linear_attn.in_proj_z", TAKEN },
	{ NULL, "model.language_model.layers.0.linear_attn.in_proj_a", "linear-attention gate" },
	{ NULL, "mtp.layers.0.mlp.shared_expert.up_proj", TAKEN },
	{ NULL, "model.visual.merger.linear_fc1", PROJ },
	{ "lara_mini", "model.layers.0.linear_attn.in_proj",
	  "transformers splits it into four modules, and does not apply its scale" },
	{ NULL, "model.layers.0.linear_attn.out_proj", TAKEN },
	{ "qwen4_exp", "model.language_model.layers.0.mlp_hyper_connection.input_mix_weight_up",
	  "hyper-connections, as in the release" },
	{ NULL, "model.language_model.layers.1.ple.key_proj",
	  "per-layer embeddings, as in the release" },
	{ NULL, "model.language_model.layers.3.self_attn.indexer.index_qk_proj", TAKEN },
	{ "bailing_moe_v2", "model.layers.1.mlp.gate", ROUTER },
	{ NULL, "model.layers.20.eh_proj", MTP },
	{ "bailing_hybrid", "model.layers.1.attention.g_proj", TAKEN },
	{ NULL, "model.layers.0.attention.f_proj", TAKEN },
	{ NULL, "model.layers.0.attention.b_proj",
	  "vLLM loads it apart from q, k and v in blocks" },
	{ NULL, "model.layers.0.attention.q_proj", TAKEN },
	{ "mimo_v2_flash", "model.mtp.layers.0.eh_proj", MTP },

	/* Mamba and convolutions */
	{ "nemotron_h", "backbone.layers.0.mixer.in_proj", TAKEN },
	{ NULL, "backbone.layers.5.mixer.q_proj", "attention, as in the release" },
	{ NULL, "backbone.layers.5.mixer.o_proj", "attention, as in the release" },
	{ NULL, "backbone.layers.1.mixer.fc2_latent_proj", "latent layers, as in the release" },
	{ NULL, "backbone.layers.1.mixer.gate", ROUTER },
	{ NULL, "backbone.layers.1.mixer.shared_experts.up_proj", TAKEN },
	{ NULL, "mtp.layers.0.mixer.o_proj", "MTP layers, as in the release" },
	{ "NemotronH_Nano_Omni_Reasoning_V3", "language_model.backbone.layers.5.mixer.k_proj",
	  "attention, as in the release" },
	{ NULL, "sound_encoder.encoder.layers.0.feed_forward1.linear1", AUDIO },
	{ NULL, "sound_projection.linear1", AUDIO },
	{ NULL, "mlp1.1", PROJ },
	{ NULL, "vision_model.radio_model.model.blocks.0.attn.qkv", VISION },
	{ "falcon_h1", "model.layers.0.mamba.in_proj",
	  "SGLang builds it without quantization, and stops at a scale" },
	{ NULL, "model.layers.0.feed_forward.gate_proj", TAKEN },
	{ "jamba", "model.layers.0.mamba.x_proj", STATE },
	{ NULL, "model.layers.0.mamba.dt_proj", STATE },
	{ NULL, "model.layers.0.mamba.out_proj",
	  "vLLM builds it without quantization, and stops at a scale" },
	{ NULL, "model.layers.1.feed_forward.router", ROUTER },
	{ NULL, "model.layers.1.feed_forward.experts.0.up_proj", TAKEN },
	{ "lfm2_moe", "model.layers.0.conv.in_proj", TAKEN },
	{ NULL, "model.layers.0.conv.out_proj", TAKEN },
	{ NULL, "model.layers.0.conv.conv", CONV },
	{ NULL, "model.layers.2.feed_forward.gate", ROUTER },
	{ "zaya", "model.layers.0.mlp.gate.router_mlp.0", "router network" },
	{ NULL, "model.layers.0.mlp.gate.down_proj", "router network" },
	{ NULL, "model.layers.0.self_attn.v_proj_current", TAKEN },
	{ NULL, "model.layers.0.self_attn.conv_qk.0", CONV },

	/* Step, Granite, Muse, Inkling, GPT-OSS: what is not an expert */
	{ "granitemoehybrid", "model.layers.0.shared_mlp.input_linear", TAKEN },
	{ NULL, "model.layers.0.mamba.in_proj", TAKEN },
	{ NULL, "model.layers.0.block_sparse_moe.router.layer", ROUTER },
	{ "muse_spark", "model.layers.0.mlp.pre_expert_proj", BARE },
	{ NULL, "model.layers.0.mlp.post_expert_proj", BARE },
	{ NULL, "model.layers.0.self_attn.gate_proj", TAKEN },
	{ "inkling_mm_model", "model.llm.layers.0.attn.wq_du", TAKEN },
	{ NULL, "model.llm.layers.0.attn.wr_du", TAKEN },
	{ NULL, "model.llm.layers.1.mlp.w13_dn",
	  "its rows interleave gate and up, and a scale of both would mix them" },
	{ NULL, "model.llm.layers.0.mlp.gate", ROUTER },
	{ NULL, "model.llm.unembed", HEAD },
	{ NULL, "model.visual.layers.linear_0", VISION },
	{ "gpt_oss", "model.layers.0.mlp.router", ROUTER },

	/* images, audio, small embeddings for each layer */
	{ "gemma3n", "model.language_model.layers.0.altup.prediction_coefs", "AltUp" },
	{ NULL, "model.language_model.altup_unembed_projections.0", "AltUp" },
	{ NULL, "model.language_model.layers.0.laurel.linear_right", "LAuReL" },
	{ NULL, "model.language_model.layers.0.per_layer_projection", PER_LAY },
	{ NULL, "model.language_model.per_layer_model_projection", PER_LAY },
	{ "gemma4", "model.language_model.layers.0.router.proj", ROUTER },
	{ NULL, "model.embed_vision.embedding_projection", PROJ },
	{ NULL, "model.embed_audio.embedding_projection", PROJ },
	{ NULL, "model.language_model.layers.0.per_layer_input_gate", PER_LAY },
	{ "qwen3_vl_moe", "model.visual.deepstack_merger_list.0.linear_fc1", PROJ },
	{ NULL, "model.visual.blocks.0.attn.proj", VISION },
	{ "qwen3_omni_moe", "thinker.model.layers.0.mlp.gate", ROUTER },
	{ NULL, "thinker.model.layers.0.self_attn.o_proj", TAKEN },
	{ NULL, "thinker.audio_tower.layers.0.fc1", AUDIO },
	{ NULL, "talker.model.layers.0.self_attn.o_proj", AUDIO },
	{ NULL, "code2wav.pre_transformer.layers.0.self_attn.o_proj", AUDIO },
	{ "llama4", "language_model.model.layers.0.feed_forward.router", ROUTER },
	{ NULL, "multi_modal_projector.linear_1", PROJ },
	{ "internvl_chat", "mlp1.3", PROJ },
	{ NULL, "vision_model.encoder.layers.0.attn.qkv", VISION },
	{ "ovis2_5", "visual_tokenizer.vit.vision_model.encoder.layers.0.mlp.fc1", VISION },
	{ NULL, "visual_tokenizer.head.0", VISION },
	{ NULL, "vte", EMBED },
	{ "paddleocr_vl", "mlp_AR.linear_1", PROJ },
	{ NULL, "visual.vision_model.encoder.layers.0.mlp.fc1", VISION },
	{ "granite_speech", "encoder.layers.0.attn.to_q", BARE },
	{ NULL, "encoder.out", BARE },
	{ NULL, "projector.qformer.encoder.layer.0.output.dense", PROJ },
	{ NULL, "language_model.model.layers.0.self_attn.o_proj", TAKEN },
	{ "voxtral", "audio_tower.layers.0.fc1", AUDIO },
	{ NULL, "multi_modal_projector.linear_1", PROJ },

	/* Mistral's own files */
	{ "", "layers.0.attention.wkv_a_with_mqa", TAKEN },
	{ NULL, "layers.0.attention.wo", TAKEN },
	{ NULL, "layers.0.gate", ROUTER },
	{ NULL, "layers.0.experts.0.w1", TAKEN },
	{ NULL, "vision_encoder.transformer.layers.0.attention.wq", VISION },
	{ NULL, "vision_language_adapter.w_in", VISION },
	{ NULL, "patch_merger.merging_layer", PROJ },
	{ NULL, "mm_whisper_embeddings.whisper_encoder.transformer.layers.0.attention.wq", AUDIO },
	{ NULL, "output", HEAD },
};

#define N_ROWS (sizeof rows / sizeof *rows)
/* A module that is quantized in every family but Step's. */
#define ALWAYS "model.layers.9.mlp.down_proj.weight"

static char *config_of(const char *family)
{
	struct buf text = { 0 };

	if (*family >= 'A' && *family <= 'Z')
		buf_printf(&text, "{\"architectures\": [\"%s\"], \"n_head\": 1}", family);
	else if (*family)
		buf_printf(&text, "{\"model_type\": \"%s\", \"n_head\": 1}", family);
	else
		buf_puts(&text, "");
	return text.data;
}

/* Selects from the modules of one family, rows i to end. */
static void check_family(size_t i, size_t end)
{
	char *text = config_of(rows[i].family);
	struct buf config = { .data = text, .len = strlen(text) };
	struct buf tensors = { 0 }, expected = { 0 };
	struct model_config model;
	struct profile profile;
	struct err err = { 0 };

	assert_int_equal(model_config_read(&model, &config, &err), 0);
	profile_make(&profile, &model, PROFILE_VENDOR);
	buf_puts(&tensors, ALWAYS " BF16 256 256\n");
	buf_puts(&expected, ALWAYS " blockwise\n");
	for (; i < end; i++) {
		const char *reason = rows[i].reason;

		buf_printf(&tensors, "%s.weight BF16 768 256\n", rows[i].module);
		buf_printf(&expected, "%s.weight%s %s\n", rows[i].module, reason ? ":" : "",
			   reason ? reason : "blockwise");
	}
	selection_gives_config(*text ? text : NULL, tensors.data, "blockwise",
			       (struct select_options){ .profile = &profile }, expected.data);
	profile_release(&profile);
	model_config_release(&model);
	buf_release(&tensors);
	buf_release(&expected);
	free(text);
}

static void modules_of_each_family_are_quantized_or_kept(void **state)
{
	size_t end;

	(void)state;
	for (size_t i = 0; i < N_ROWS; i = end) {
		for (end = i + 1; end < N_ROWS && !rows[end].family; end++)
			;
		check_family(i, end);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modules_of_each_family_are_quantized_or_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
