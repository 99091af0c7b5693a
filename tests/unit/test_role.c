/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of real checkpoints, and what fp8conv-formats(7) says becomes of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "names/cached.h"
#include "names/experts.h"
#include "names/fusion.h"
#include "names/role.h"
#include "support/memory_checkpoint.h"

/* Linear weights that are quantized, and how tensor parallelism cuts them. */
static const struct {
	const char *name;
	enum parallel parallel;
} quantized[] = {
	/* Llama, Mistral, Qwen, Gemma, with the prefixes of multimodal models */
	{ "model.layers.0.self_attn.q_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.0.self_attn.k_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.31.self_attn.v_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.0.self_attn.o_proj.weight", PARALLEL_ROW },
	{ "model.layers.0.mlp.gate_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.0.mlp.up_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.0.mlp.down_proj.weight", PARALLEL_ROW },
	{ "model.language_model.layers.3.mlp.up_proj.weight", PARALLEL_COLUMN },
	{ "language_model.model.layers.3.self_attn.o_proj.weight", PARALLEL_ROW },
	/* Mixtral, Qwen3-MoE, DeepSeek, GLM-4-MoE, Llama 4 */
	{ "model.layers.0.block_sparse_moe.experts.7.w1.weight", PARALLEL_COLUMN },
	{ "model.layers.0.block_sparse_moe.experts.7.w2.weight", PARALLEL_ROW },
	{ "model.layers.0.block_sparse_moe.experts.7.w3.weight", PARALLEL_COLUMN },
	{ "model.layers.0.mlp.experts.127.down_proj.weight", PARALLEL_ROW },
	{ "model.layers.0.mlp.experts.local_experts.3.linear_fc1.weight", PARALLEL_REPLICATED },
	{ "model.layers.0.mlp.routed_experts.3.up_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.0.mlp.shared_experts.up_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.0.mlp.shared_expert.down_proj.weight", PARALLEL_ROW },
	{ "language_model.model.layers.1.feed_forward.shared_expert.up_proj.weight",
	  PARALLEL_COLUMN },
	/* MLA and the indexer */
	{ "model.layers.0.self_attn.q_a_proj.weight", PARALLEL_REPLICATED },
	{ "model.layers.0.self_attn.q_b_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.0.self_attn.kv_a_proj_with_mqa.weight", PARALLEL_REPLICATED },
	{ "model.layers.0.self_attn.kv_b_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.0.self_attn.indexer.wq_b.weight", PARALLEL_REPLICATED },
	{ "model.layers.0.self_attn.indexer.wk.weight", PARALLEL_REPLICATED },
	/* linear attention; MTP layers */
	{ "model.layers.0.linear_attn.in_proj_qkvz.weight", PARALLEL_COLUMN },
	{ "model.layers.0.linear_attn.in_proj_qkv.weight", PARALLEL_COLUMN },
	{ "model.layers.0.linear_attn.in_proj_z.weight", PARALLEL_COLUMN },
	{ "model.layers.0.linear_attn.out_proj.weight", PARALLEL_ROW },
	{ "mtp.layers.0.mlp.up_proj.weight", PARALLEL_COLUMN },
	{ "model.layers.61.self_attn.o_proj.weight", PARALLEL_ROW },
	/* Phi-3, Falcon, GPT-NeoX, BERT, Mamba, Jamba, LFM2, Whisper */
	{ "model.layers.0.self_attn.qkv_proj.weight", PARALLEL_QKV },
	{ "model.layers.0.mlp.gate_up_proj.weight", PARALLEL_GATE_UP },
	{ "transformer.h.0.self_attention.query_key_value.weight", PARALLEL_QKV },
	{ "transformer.h.0.self_attention.dense.weight", PARALLEL_ROW },
	{ "gpt_neox.layers.0.mlp.dense_h_to_4h.weight", PARALLEL_COLUMN },
	{ "gpt_neox.layers.0.mlp.dense_4h_to_h.weight", PARALLEL_ROW },
	{ "bert.encoder.layer.0.attention.self.query.weight", PARALLEL_COLUMN },
	{ "bert.encoder.layer.0.intermediate.dense.weight", PARALLEL_COLUMN },
	{ "bert.encoder.layer.0.output.dense.weight", PARALLEL_ROW },
	{ "backbone.layers.0.mixer.in_proj.weight", PARALLEL_MAMBA },
	{ "backbone.layers.0.mixer.out_proj.weight", PARALLEL_ROW },
	{ "model.layers.0.conv.in_proj.weight", PARALLEL_MAMBA },
	{ "model.decoder.layers.0.encoder_attn.k_proj.weight", PARALLEL_COLUMN },
	{ "model.encoder.layers.0.fc2.weight", PARALLEL_ROW },
	/* Phi-4-MM: beside the matrices of its adapters */
	{ "model.layers.0.self_attn.qkv_proj.base_layer.weight", PARALLEL_QKV },
	{ "model.layers.0.mlp.gate_up_proj.base_layer.weight", PARALLEL_GATE_UP },
	{ "model.layers.0.self_attn.o_proj.base_layer.weight", PARALLEL_ROW },
	{ "model.layers.0.mlp.down_proj.base_layer.weight", PARALLEL_ROW },
	/* what nobody has heard of */
	{ "model.layers.0.something.else.weight", PARALLEL_REPLICATED },
	{ "linear.weight", PARALLEL_REPLICATED },
};

static void linear_weights_are_cut_as_engines_do(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof quantized / sizeof *quantized; i++) {
		struct role_facts facts;

		role_of_name(&facts, quantized[i].name);
		if (role_reason(facts.role))
			fail_msg("%s: %s", quantized[i].name, role_reason(facts.role));
		assert_true(facts.linear);
		if (facts.parallel != quantized[i].parallel)
			fail_msg("%s: parallel %d", quantized[i].name, facts.parallel);
	}
}

/* What stays, why, and whether ignore lists must name its module. */
static const struct {
	const char *name, *reason;
	bool linear;
} kept[] = {
	{ "lm_head.weight", "lm_head", true },
	{ "language_model.lm_head.weight", "lm_head", true },
	{ "output.weight", "lm_head", true },
	{ "embed_out.weight", "lm_head", true },
	{ "transformer.output_layer.weight", "lm_head", true },
	{ "model.layers.61.shared_head.head.weight", "lm_head", true },
	{ "model.layers.45.transformer.shared_head.output.weight", "lm_head", true },
	{ "model.embed_tokens.weight", "embedding", false },
	{ "model.language_model.embed_tokens.weight", "embedding", false },
	{ "model.layers.61.embed_tokens.weight", "embedding", false },
	{ "model.embed_tokens_per_layer.weight", "embedding", false },
	{ "transformer.wte.weight", "embedding", false },
	{ "transformer.wpe.weight", "embedding", false },
	{ "transformer.word_embeddings.weight", "embedding", false },
	{ "gpt_neox.embed_in.weight", "embedding", false },
	{ "model.tok_embeddings.weight", "embedding", false },
	{ "backbone.embeddings.weight", "embedding", false },
	{ "bert.embeddings.position_embeddings.weight", "embedding", false },
	{ "model.decoder.embed_positions.weight", "embedding", false },
	{ "shared.weight", "embedding", false },
	{ "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", "embedding",
	  false },
	{ "model.norm.weight", "norm", false },
	{ "model.layers.0.input_layernorm.weight", "norm", false },
	{ "model.layers.0.self_attn.q_norm.weight", "norm", false },
	{ "model.layers.0.self_attn.kv_a_layernorm.weight", "norm", false },
	{ "model.layers.0.self_attn.indexer.k_norm.weight", "norm", false },
	{ "model.layers.61.enorm.weight", "norm", false },
	{ "model.layers.61.shared_head.norm.weight", "norm", false },
	{ "mtp.pre_fc_norm_embedding.weight", "norm", false },
	{ "transformer.h.0.ln_1.weight", "norm", false },
	{ "bert.embeddings.LayerNorm.weight", "norm", false },
	{ "model.layers.0.mlp.gate.weight", "router gate", true },
	{ "model.layers.0.block_sparse_moe.gate.weight", "router gate", true },
	{ "model.layers.0.mlp.shared_expert_gate.weight", "router gate", true },
	{ "model.layers.0.feed_forward.router.weight", "router gate", true },
	{ "model.layers.0.mlp.router.weight", "router gate", true },
	{ "model.layers.0.mlp.router.bias", "router gate", false },
	{ "transformer.blocks.0.ffn.router.layer.weight", "router gate", true },
	{ "model.layers.0.mlp.gate.e_score_correction_bias", "router bias", false },
	{ "model.layers.0.linear_attn.conv1d.weight", "convolution", false },
	{ "backbone.layers.0.mixer.conv1d.weight", "convolution", false },
	{ "model.layers.0.conv.conv.weight", "convolution", false },
	{ "model.encoder.conv1.weight", "convolution", false },
	{ "model.layers.0.linear_attn.A_log", "state-space parameter", false },
	{ "model.layers.0.linear_attn.dt_bias", "state-space parameter", false },
	{ "backbone.layers.0.mixer.D", "state-space parameter", false },
	{ "model.layers.0.mamba.x_proj.weight", "state-space parameter", true },
	{ "model.layers.0.linear_attn.in_proj_ba.weight", "linear-attention gate", true },
	{ "model.layers.0.linear_attn.in_proj_a.weight", "linear-attention gate", true },
	{ "model.layers.0.linear_attn.in_proj_b.weight", "linear-attention gate", true },
	{ "model.layers.0.self_attn.indexer.weights_proj.weight", "indexer weights_proj", true },
	{ "model.layers.0.self_attn.sinks", "attention sink", false },
	{ "model.layers.61.eh_proj.weight", "MTP projection", true },
	{ "mtp.fc.weight", "MTP projection", true },
	{ "model.mtp_layers.0.input_proj.weight", "MTP projection", true },
	{ "visual.blocks.0.attn.qkv.weight", "vision tower", true },
	{ "model.visual.blocks.0.mlp.gate_proj.weight", "vision tower", true },
	{ "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", "vision tower", true },
	{ "vision_model.patch_embedding.linear.weight", "vision tower", true },
	{ "model.vision_tower.vision_model.embeddings.position_embedding.weight", "vision tower",
	  false },
	{ "visual.merger.mlp.0.weight", "projector", true },
	{ "multi_modal_projector.linear_1.weight", "projector", true },
	{ "mlp1.1.weight", "projector", true },
	{ "model.embed_vision.embedding_projection.weight", "projector", true },
	{ "model.audio_tower.layers.0.fc1.weight", "audio tower", true },
	{ "model.language_model.layers.0.altup.correction_coefs.weight", "AltUp", true },
	{ "model.language_model.altup_projections.0.weight", "AltUp", true },
	{ "model.language_model.layers.0.laurel.linear_left.weight", "LAuReL", true },
	{ "model.language_model.layers.0.per_layer_input_gate.weight", "per-layer input", true },
	{ "model.language_model.per_layer_model_projection.weight", "per-layer input", true },
	{ "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "adapter", true },
	{ "bert.pooler.dense.weight", "output head", true },
	{ "classifier.weight", "output head", true },
	{ "score.weight", "output head", true },
	{ "v_head.summary.weight", "output head", true },
	{ "cls.predictions.transform.dense.weight", "output head", true },
	{ "transformer.blocks.0.ffn.experts.mlp.w1", "fused experts of an unknown layout", false },
	{ "model.layers.0.self_attn.q_proj.bias", "not a linear weight", false },
	{ "model.layers.0.mlp.experts.gate_up_proj_bias", "not a linear weight", false },
	{ "model.layers.0.self_attn.k_scale", "not a linear weight", false },
	{ "model.position_ids", "not a linear weight", false },
	{ "weight", "not a linear weight", false },
};

static void kept_modules_have_their_reason(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		struct role_facts facts;
		const char *reason;

		role_of_name(&facts, kept[i].name);
		reason = role_reason(facts.role);
		if (!reason || strcmp(reason, kept[i].reason) != 0)
			fail_msg("%s: %s, not %s", kept[i].name, reason ? reason : "quantized",
				 kept[i].reason);
		if (facts.linear != kept[i].linear)
			fail_msg("%s: linear is %d", kept[i].name, facts.linear);
	}
}

static void experts_are_told_from_modules(void **state)
{
	static const struct {
		const char *name;
		enum role role;
		bool expert;
	} rows[] = {
		{ "model.layers.0.mlp.experts.gate_up_proj", ROLE_EXPERTS_GATE_UP, false },
		{ "model.layers.0.mlp.experts.gate_up_proj.weight", ROLE_EXPERTS_GATE_UP, false },
		{ "model.layers.0.mlp.experts.down_proj", ROLE_EXPERTS_DOWN, false },
		{ "model.layers.0.mlp.experts.3.down_proj.weight", ROLE_LINEAR, true },
		{ "model.layers.0.mlp.experts.3.gate.weight", ROLE_LINEAR, true },
		{ "model.layers.0.mlp.shared_experts.gate_up_proj.weight", ROLE_LINEAR, false },
		{ "visual.experts.down_proj", ROLE_VISION, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct role_facts facts;

		role_of_name(&facts, rows[i].name);
		if (facts.role != rows[i].role || facts.expert != rows[i].expert)
			fail_msg("%s: role %d, expert %d", rows[i].name, facts.role, facts.expert);
	}
}

static void fused_modules_are_found_in_order(void **state)
{
	static const struct {
		const char *a, *b;
		bool fused; /* and a in front of b */
	} rows[] = {
		{ "model.layers.0.self_attn.q_proj.weight",
		  "model.layers.0.self_attn.k_proj.weight", true },
		{ "model.layers.0.self_attn.k_proj.weight",
		  "model.layers.0.self_attn.v_proj.weight", true },
		{ "model.layers.0.self_attn.q_proj.weight",
		  "model.layers.1.self_attn.k_proj.weight", false },
		{ "model.layers.0.self_attn.q_proj.weight",
		  "model.layers.0.self_attn.o_proj.weight", false },
		{ "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
		  true },
		{ "x.experts.0.w1.weight", "x.experts.0.w3.weight", true },
		{ "x.experts.0.w1.weight", "x.experts.1.w3.weight", false },
		{ "x.experts.0.w1.weight", "x.experts.0.w2.weight", false },
		{ "x.q_a_proj.weight", "x.kv_a_proj_with_mqa.weight", true },
		{ "x.q_b_proj.weight", "x.kv_b_proj.weight", false },
		{ "x.in_proj_qkv.weight", "x.in_proj_z.weight", true },
		{ "x.in_proj_b.weight", "x.in_proj_a.weight", true },
		{ "x.in_proj_z.weight", "x.in_proj_a.weight", false },
		{ "x.q_proj.weight", "x.k_proj.bias", false },
		{ "x.q_proj.0.weight", "x.k_proj.0.weight", false },
		{ "x.q_proj.lora_A.weight", "x.k_proj.lora_A.weight", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct fusion a = { 0 }, b = { 0 };
		bool fused = fusion_of_name(&a, rows[i].a) && fusion_of_name(&b, rows[i].b) &&
			     a.kind == b.kind && a.parent_len == b.parent_len &&
			     !memcmp(rows[i].a, rows[i].b, a.parent_len) && a.position < b.position;

		if (fused != rows[i].fused)
			fail_msg("%s and %s: %d", rows[i].a, rows[i].b, fused);
	}
	assert_int_equal(experts_prefix_len("a.experts.12.up_proj.weight"), strlen("a.experts."));
	assert_int_equal(experts_prefix_len("experts.down_proj"), strlen("experts."));
	assert_int_equal(experts_prefix_len("a.mlp.up_proj.weight"), 0);
	assert_int_equal(experts_prefix_len("a.experts"), 0);
}

/* Long names, empty segments, no segments: no crash, and the end still counts. */
static void check_cached(struct role_cache *cache, const char *name)
{
	struct role_facts expected, found = role_cache_find(cache, name);

	role_of_name(&expected, name);
	if (found.role != expected.role || found.parallel != expected.parallel ||
	    found.linear != expected.linear || found.expert != expected.expert ||
	    found.conv1d != expected.conv1d)
		fail_msg("%s: the cache has other facts", name);
}

/* The first round fills the cache, the second finds every name in it. */
static void a_cache_gives_each_name_its_own_role(void **state)
{
	struct role_cache cache = { 0 };

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof quantized / sizeof *quantized; i++)
			check_cached(&cache, quantized[i].name);
		for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
			check_cached(&cache, kept[i].name);
	}
	role_cache_release(&cache);
}

static void projections_tell_what_attention_caches(void **state)
{
	static const struct {
		const char *name;
		size_t n;
		bool latent;
	} rows[] = {
		{ "model.layers.0.self_attn.k_proj.weight", 24, false },
		{ "model.layers.0.self_attn.kv_a_proj_with_mqa.weight", 24, true },
		{ "layers.0.attention.wkv_a_with_mqa.weight", 18, true },
		{ "layers.0.attention.wk.weight", 18, false },
		{ "model.layers.0.self_attn.v_proj.weight", 0, false },
		{ "model.layers.0.self_attn.kv_b_proj.weight", 0, false },
		{ "model.layers.0.self_attn.k_proj.bias", 0, false },
		{ "model.layers.0.self_attn.kv_a_proj_with_mqa.weight_scale", 0, false },
		{ "visual.blocks.0.attn.k_proj.weight", 0, false },
		{ "k_proj.weight", 0, false },
		/* keys of Kimi Delta Attention and of DeepSeek-V3.2's indexer */
		{ "model.layers.1.self_attn.k_proj.weight", 0, false },
		{ "model.layers.0.self_attn.indexer.wk.weight", 0, false },
	};
	struct checkpoint checkpoint;

	(void)state;
	memory_checkpoint_init(&checkpoint, NULL, "model.layers.1.self_attn.A_log F32 1 1 4 1\n");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		bool latent;

		assert_int_equal(cached_projection(&checkpoint, rows[i].name, &latent), rows[i].n);
		if (rows[i].n)
			assert_int_equal(latent, rows[i].latent);
	}
	memory_checkpoint_release(&checkpoint);
}

static void odd_names_end_in_a_role(void **state)
{
	struct role_facts facts;
	char name[400] = "";

	(void)state;
	for (int i = 0; i < 60; i++)
		strcat(name, "abcd.");
	strcat(name, "up_proj.weight");
	role_of_name(&facts, name);
	assert_int_equal(facts.role, ROLE_LINEAR);
	assert_int_equal(facts.parallel, PARALLEL_COLUMN);
	role_of_name(&facts, "..weight");
	assert_int_equal(facts.role, ROLE_LINEAR);
	role_of_name(&facts, "0.weight");
	assert_int_equal(facts.role, ROLE_LINEAR);
	role_of_name(&facts, "");
	assert_int_equal(facts.role, ROLE_PARAMETER);
	role_of_name(&facts, "classifier.0.weight");
	assert_int_equal(facts.role, ROLE_OUTPUT_HEAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linear_weights_are_cut_as_engines_do),
		cmocka_unit_test(kept_modules_have_their_reason),
		cmocka_unit_test(experts_are_told_from_modules),
		cmocka_unit_test(fused_modules_are_found_in_order),
		cmocka_unit_test(a_cache_gives_each_name_its_own_role),
		cmocka_unit_test(projections_tell_what_attention_caches),
		cmocka_unit_test(odd_names_end_in_a_role),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
