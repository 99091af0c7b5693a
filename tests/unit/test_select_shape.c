/* SPDX-License-Identifier: Apache-2.0
 *
 * What shapes forbid (fp8conv-formats(7)), and what is quantized together or not at all
 * (5.1).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/memory_checkpoint.h"
#include "support/selection_check.h"

static const struct select_options ragged = { .ragged = true };

static void blocks_must_be_whole(void **state)
{
	const char *tensors = "a.0.o_proj.weight BF16 128 576\n"
			      "a.0.down_proj.weight BF16 200 256\n"
			      "a.1.down_proj.weight BF16 256 256\n"
			      "a.0.x_proj2.weight BF16 128 40\n";

	(void)state;
	selection_gives(tensors, "blockwise", NO_OPTIONS,
			"a.0.o_proj.weight: 576 columns are not a multiple of 128\n"
			"a.0.down_proj.weight: 200 rows are not a multiple of 128\n"
			"a.1.down_proj.weight blockwise\n"
			"a.0.x_proj2.weight: 40 columns are not a multiple of 128\n");
	selection_gives(tensors, "blockwise", ragged,
			"a.0.o_proj.weight blockwise\n"
			"a.0.down_proj.weight blockwise\n"
			"a.1.down_proj.weight blockwise\n"
			"a.0.x_proj2.weight blockwise\n");
	selection_gives(tensors, "mxfp8", NO_OPTIONS,
			"a.0.o_proj.weight mxfp8\n"
			"a.0.down_proj.weight mxfp8\n"
			"a.1.down_proj.weight mxfp8\n"
			"a.0.x_proj2.weight: 40 columns are not a multiple of 32\n");
	/* --ragged is about blocks: an MX scale is a byte for 32 columns */
	selection_gives(tensors, "mxfp8", ragged,
			"a.0.o_proj.weight mxfp8\n"
			"a.0.down_proj.weight mxfp8\n"
			"a.1.down_proj.weight mxfp8\n"
			"a.0.x_proj2.weight: 40 columns are not a multiple of 32\n");
	selection_gives(tensors, "channelwise", NO_OPTIONS,
			"a.0.o_proj.weight channelwise\n"
			"a.0.down_proj.weight channelwise\n"
			"a.1.down_proj.weight channelwise\n"
			"a.0.x_proj2.weight channelwise\n");
	selection_gives(tensors, "current", NO_OPTIONS,
			"a.0.o_proj.weight current\n"
			"a.0.down_proj.weight current\n"
			"a.1.down_proj.weight current\n"
			"a.0.x_proj2.weight current\n");
}

/* As vendors release them, but for transformers, which finds their blocks by a division. */
static void rows_of_some_modules_may_be_ragged(void **state)
{
	const char *tensors = "a.0.kv_a_proj_with_mqa.weight BF16 576 128\n"
			      "layers.0.attention.wkv_a_with_mqa.weight BF16 576 128\n"
			      "model.layers.0.conv.in_proj.weight BF16 832 128\n"
			      "a.0.kv_b_proj.weight BF16 256 128\n";

	(void)state;
	selection_gives(tensors, "blockwise", NO_OPTIONS,
			"a.0.kv_a_proj_with_mqa.weight blockwise\n"
			"layers.0.attention.wkv_a_with_mqa.weight blockwise\n"
			"model.layers.0.conv.in_proj.weight: 832 rows are not a multiple of 128\n"
			"a.0.kv_b_proj.weight blockwise\n");
	selection_gives(tensors, "blockwise",
			(struct select_options){ .target = ENGINE_TRANSFORMERS },
			"a.0.kv_a_proj_with_mqa.weight: 576 rows are not a multiple of 128\n"
			"layers.0.attention.wkv_a_with_mqa.weight: 576 rows are not a multiple "
			"of 128\n"
			"model.layers.0.conv.in_proj.weight: 832 rows are not a multiple of 128\n"
			"a.0.kv_b_proj.weight blockwise\n");
}

/* vLLM's MambaMixer2 has the output sizes [d, d, groups x state, groups x state, heads] and checks
 * all but the last: d is 256 here, and there are 128 heads. */
static void parts_of_a_mixer_are_whole_blocks(void **state)
{
	static const char narrow[] = "{\"mamba_n_heads\": 128, \"mamba_n_groups\": 1, "
				     "\"mamba_d_state\": 64}";
	static const char wide[] = "{\"mamba_num_heads\": 128, \"n_groups\": 2, "
				   "\"ssm_state_size\": 64}";
	const char *tensors = "layers.0.mamba.in_proj.weight BF16 768 128\n"
			      "layers.0.mamba.out_proj.weight BF16 128 256\n";

	(void)state;
	selection_gives_config(narrow, tensors, "blockwise", NO_OPTIONS,
			       "layers.0.mamba.in_proj.weight: "
			       "768 rows are fused of parts, and 64 are not a multiple of 128\n"
			       "layers.0.mamba.out_proj.weight blockwise\n");
	selection_gives_config(narrow, tensors, "channelwise", NO_OPTIONS,
			       "layers.0.mamba.in_proj.weight channelwise\n"
			       "layers.0.mamba.out_proj.weight channelwise\n");
	selection_gives_config(wide,
			       "layers.0.mixer.in_proj.weight BF16 896 128\n"
			       "layers.0.mixer.out_proj.weight BF16 128 256\n",
			       "blockwise", NO_OPTIONS,
			       "layers.0.mixer.in_proj.weight blockwise\n"
			       "layers.0.mixer.out_proj.weight blockwise\n");
	/* without the sizes, and where they do not give the rows, it is one part */
	selection_gives(tensors, "blockwise", NO_OPTIONS,
			"layers.0.mamba.in_proj.weight blockwise\n"
			"layers.0.mamba.out_proj.weight blockwise\n");
	selection_gives_config("{\"mamba_n_heads\": 300, \"mamba_n_groups\": 1, "
			       "\"mamba_d_state\": 64}",
			       tensors, "blockwise", NO_OPTIONS,
			       "layers.0.mamba.in_proj.weight blockwise\n"
			       "layers.0.mamba.out_proj.weight blockwise\n");
}

/* A merged weight loads only with its seams between blocks; a vendor's last member may be
 * ragged. */
static void seams_must_lie_between_blocks(void **state)
{
	(void)state;
	selection_gives("a.0.q_proj.weight BF16 256 128\n"
			"a.0.k_proj.weight BF16 256 128\n"
			"a.0.v_proj.weight BF16 200 128\n"
			"a.1.q_proj.weight BF16 256 128\n",
			"blockwise", NO_OPTIONS,
			"a.0.q_proj.weight: fused with 'a.0.v_proj.weight', which is kept\n"
			"a.0.k_proj.weight: fused with 'a.0.v_proj.weight', which is kept\n"
			"a.0.v_proj.weight: 200 rows are not a multiple of 128\n"
			"a.1.q_proj.weight blockwise\n");
	selection_gives(
		"a.0.v_proj.weight BF16 256 128\n"
		"/\n"
		"a.0.k_proj.weight BF16 200 128\n"
		"a.0.q_proj.weight BF16 200 128\n"
		"a.0.o_proj.weight BF16 256 128\n",
		"blockwise", NO_OPTIONS,
		"a.0.v_proj.weight: fused with 'a.0.k_proj.weight', which is kept\n"
		"a.0.k_proj.weight: 200 rows are not a multiple of 128, and engines fuse them with "
		"v_proj\n"
		"a.0.q_proj.weight: 200 rows are not a multiple of 128, and engines fuse them with "
		"k_proj\n"
		"a.0.o_proj.weight blockwise\n");
}

static void small_fused_weights_keep_their_seams(void **state)
{
	const char *gate_up = "a.0.gate_proj.weight BF16 200 128\na.0.up_proj.weight BF16 200 128\n"
			      "a.0.down_proj.weight BF16 128 256\n";

	(void)state;
	selection_gives(
		gate_up, "blockwise", NO_OPTIONS,
		"a.0.gate_proj.weight: 200 rows are not a multiple of 128, and engines fuse them "
		"with "
		"up_proj\n"
		"a.0.up_proj.weight: 200 rows are not a multiple of 128\n"
		"a.0.down_proj.weight blockwise\n");
	selection_gives(gate_up, "blockwise", ragged,
			"a.0.gate_proj.weight blockwise\na.0.up_proj.weight blockwise\n"
			"a.0.down_proj.weight blockwise\n");
	selection_gives(gate_up, "mxfp8", NO_OPTIONS,
			"a.0.gate_proj.weight mxfp8\n"
			"a.0.up_proj.weight mxfp8\n"
			"a.0.down_proj.weight mxfp8\n");
	/* DeepSeek: q_lora_rank 1536, kv_lora_rank 512 + 64 */
	selection_gives(
		"a.0.q_a_proj.weight BF16 1536 128\na.0.kv_a_proj_with_mqa.weight BF16 576 128\n",
		"blockwise", NO_OPTIONS,
		"a.0.q_a_proj.weight blockwise\na.0.kv_a_proj_with_mqa.weight blockwise\n");
}

/* Phi-3: merged on disk already. */
static void merged_weights_have_seams_inside(void **state)
{
	const char *config = "{\"num_attention_heads\": 4, \"num_key_value_heads\": 2}";

	(void)state;
	selection_gives_config(
		config,
		"a.0.gate_up_proj.weight BF16 512 128\na.1.gate_up_proj.weight BF16 400 128\n"
		"a.0.qkv_proj.weight BF16 512 128\na.1.qkv_proj.weight BF16 1024 128\n",
		"blockwise", NO_OPTIONS,
		"a.0.gate_up_proj.weight blockwise\n"
		"a.1.gate_up_proj.weight: 400 rows are fused of parts, and 200 are not a multiple "
		"of 128\n"
		"a.0.qkv_proj.weight blockwise\n"
		"a.1.qkv_proj.weight blockwise\n");
	selection_gives_config(
		config, "a.0.qkv_proj.weight BF16 256 128\na.1.up_proj.weight BF16 256 128\n",
		"blockwise", NO_OPTIONS,
		"a.0.qkv_proj.weight: 256 rows are fused of parts, and 64 are not a multiple of "
		"128\n"
		"a.1.up_proj.weight blockwise\n");
	selection_gives("a.0.qkv_proj.weight BF16 256 128\na.0.o_proj.weight BF16 128 128\n",
			"blockwise", NO_OPTIONS,
			"a.0.qkv_proj.weight blockwise\na.0.o_proj.weight blockwise\n");
}

/* The parts as vLLM 0.32 cuts them: models/{modernbert,molmo2,gpt_bigcode,dbrx,chatglm}.py. */
static void parts_follow_from_each_dialect_of_config(void **state)
{
	static const struct {
		const char *config, *tensor;
		bool seam; /* a part ends inside a block */
	} rows[] = {
		{ "{\"intermediate_size\": 448}", "a.0.mlp.Wi.weight BF16 896 128\n", true },
		{ "{\"intermediate_size\": 2624}", "a.0.mlp.Wi.weight BF16 5248 128\n", true },
		{ "{\"num_attention_heads\": 4, \"num_key_value_heads\": 1, \"head_dim\": 64}",
		  "a.0.self_attn.att_proj.weight BF16 384 128\n", true },
		{ "{\"n_head\": 4, \"multi_query\": true}", "a.0.attn.c_attn.weight BF16 384 128\n",
		  true },
		{ "{\"n_head\": 3, \"multi_query\": false}",
		  "a.0.attn.c_attn.weight BF16 576 128\n", true },
		{ "{\"n_heads\": 4, \"attn_config\": {\"kv_n_heads\": 1}}",
		  "a.0.attn.Wqkv.weight BF16 384 128\n", true },
		{ "{\"n_head\": 4, \"multi_query\": true, \"new_decoder_architecture\": true, "
		  "\"num_kv_heads\": 2}",
		  "a.0.query_key_value.weight BF16 1024 128\n", false },
		{ "{\"num_attention_heads\": 4, \"multi_query_group_num\": 1}",
		  "a.0.query_key_value.weight BF16 384 128\n", true },
		{ "{\"n_head\": 5}", "a.0.attn.Wqkv.weight BF16 384 128\n", true },
		{ "{\"ffn_hidden_size\": 448}", "a.0.mlp.dense_h_to_4h.weight BF16 896 128\n",
		  true },
		{ "{\"ffn_hidden_size\": 896}", "a.0.mlp.dense_h_to_4h.weight BF16 896 128\n",
		  false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *tensors = xasprintf("%sa.0.o_proj.weight BF16 128 128\n", rows[i].tensor);
		char *selected;
		struct checkpoint checkpoint;
		struct selection selection;
		struct select_options options = { .recipe = recipe_named("blockwise") };
		struct err err;

		memory_checkpoint_init(&checkpoint, rows[i].config, tensors);
		assert_int_equal(selection_make(&selection, &checkpoint, &options, &err), 0);
		selected = selection_text(&selection);
		assert_int_equal(strstr(selected, "are fused of parts") != NULL, rows[i].seam);
		free(selected);
		free(tensors);
		selection_release(&selection);
		memory_checkpoint_release(&checkpoint);
	}
}

/* MiMo-V2: the heads of v are smaller than of q and k.  4 x 192, 2 x 192, 2 x 128 rows. */
static void merged_weights_may_have_two_sizes_of_heads(void **state)
{
	const char *config = "{\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
			     "\"head_dim\": 192, \"v_head_dim\": 128}";
	const char *narrow = "{\"num_attention_heads\": 4, \"num_key_value_heads\": 1, "
			     "\"head_dim\": 192, \"v_head_dim\": 128}";
	const char *tensors = "a.0.qkv_proj.weight BF16 1408 128\n"
			      "a.1.qkv_proj.weight BF16 1280 128\n";

	(void)state;
	selection_gives_config(config, tensors, "blockwise", NO_OPTIONS,
			       "a.0.qkv_proj.weight blockwise\n"
			       "a.1.qkv_proj.weight: 1280 rows are fused of parts of unknown "
			       "sizes\n");
	selection_gives_config(config, tensors, "channelwise", NO_OPTIONS,
			       "a.0.qkv_proj.weight channelwise\n"
			       "a.1.qkv_proj.weight channelwise\n");
	/* 768 + 192 + 128 rows: k ends inside a block */
	selection_gives_config(
		narrow, "a.0.qkv_proj.weight BF16 1088 128\na.1.up_proj.weight BF16 256 128\n",
		"blockwise", NO_OPTIONS,
		"a.0.qkv_proj.weight: 1088 rows are fused of parts, and 192 are not a multiple "
		"of 128\n"
		"a.1.up_proj.weight blockwise\n");
}

/* All or none. */
static void a_fused_set_is_selected_whole_or_not_at_all(void **state)
{
	(void)state;
	selection_gives("a.0.q_proj.weight BF16 128 128\na.0.k_proj.weight I8 128 128\n"
			"a.0.v_proj.weight BF16 128 128\na.0.o_proj.weight BF16 128 128\n",
			"channelwise", NO_OPTIONS,
			"a.0.q_proj.weight: fused with 'a.0.k_proj.weight', which is kept\n"
			"a.0.k_proj.weight: dtype I8\n"
			"a.0.v_proj.weight: fused with 'a.0.k_proj.weight', which is kept\n"
			"a.0.o_proj.weight channelwise\n");
	selection_gives("a.0.w1.weight BF16 128 128\na.0.w3.weight BF16 128 128\n"
			"a.1.w1.weight BF16 128 128\na.1.w3.weight BF16 128 128\n",
			"current", (struct select_options){ .exclude = { LIST("0.w3"), 1 } },
			"a.0.w1.weight: fused with 'a.0.w3.weight', which is kept\n"
			"a.0.w3.weight: excluded\n"
			"a.1.w1.weight current\na.1.w3.weight current\n");
}

static void a_fused_set_has_one_recipe(void **state)
{
	struct select_rule rules[] = { { "k_proj", recipe_named("mxfp8") },
				       { "experts\\.1\\.", recipe_named("mxfp8") },
				       { "[qkv]_proj", recipe_named("mxfp8") } };

	(void)state;
	selection_refuses(
		"a.0.q_proj.weight BF16 128 128\na.0.k_proj.weight BF16 128 128\n", "blockwise",
		(struct select_options){ .rules = { rules, 1 } }, ERR_USAGE,
		"engines fuse 'a.0.q_proj.weight' (blockwise) with 'a.0.k_proj.weight' (mxfp8), "
		"which needs one recipe: use --tensor to give both one recipe");
	selection_refuses(
		"a.experts.0.up_proj.weight BF16 128 128\na.experts.1.up_proj.weight BF16 128 "
		"128\n",
		"blockwise", (struct select_options){ .rules = { rules, 2 } }, ERR_USAGE,
		"engines fuse 'a.experts.0.up_proj.weight' (blockwise) with "
		"'a.experts.1.up_proj.weight' (mxfp8), which needs one recipe: use --tensor to "
		"give both one recipe");
	selection_gives(
		"a.0.q_proj.weight BF16 128 128\na.0.k_proj.weight BF16 128 128\n"
		"a.0.o_proj.weight BF16 128 128\n",
		"blockwise", (struct select_options){ .rules = { &rules[2], 1 } },
		"a.0.q_proj.weight mxfp8\na.0.k_proj.weight mxfp8\na.0.o_proj.weight blockwise\n");
}

/* Experts of one layer go together; their widths must be whole blocks even on one device. */
static void experts_of_a_layer_go_together(void **state)
{
	const char *tensors = "a.0.experts.0.up_proj.weight BF16 192 128\n"
			      "a.0.experts.0.down_proj.weight BF16 128 192\n"
			      "a.1.experts.0.up_proj.weight BF16 256 128\n"
			      "a.1.experts.0.down_proj.weight BF16 128 256\n";

	(void)state;
	selection_gives(tensors, "blockwise", NO_OPTIONS,
			"a.0.experts.0.up_proj.weight: 192 rows are not a multiple of 128\n"
			"a.0.experts.0.down_proj.weight: 192 columns are not a multiple of 128\n"
			"a.1.experts.0.up_proj.weight blockwise\n"
			"a.1.experts.0.down_proj.weight blockwise\n");
	selection_gives(
		tensors, "mxfp8", NO_OPTIONS,
		"a.0.experts.0.up_proj.weight mxfp8\na.0.experts.0.down_proj.weight mxfp8\n"
		"a.1.experts.0.up_proj.weight mxfp8\na.1.experts.0.down_proj.weight mxfp8\n");
	selection_gives(
		"a.experts.0.w1.weight BF16 128 128\n/\na.experts.1.w1.weight BF16 200 128\n"
		"a.experts.0.w2.weight BF16 128 128\nb.experts.0.w2.weight BF16 128 128\n",
		"blockwise", NO_OPTIONS,
		"a.experts.0.w1.weight: 200 rows are not a multiple of 128\n"
		"a.experts.1.w1.weight: 200 rows are not a multiple of 128\n"
		"a.experts.0.w2.weight: 200 rows are not a multiple of 128\n"
		"b.experts.0.w2.weight blockwise\n");
	selection_gives(
		tensors, "blockwise",
		(struct select_options){ .exclude = { LIST("1.experts.0.up"), 1 }, .ragged = true },
		"a.0.experts.0.up_proj.weight blockwise\na.0.experts.0.down_proj.weight blockwise\n"
		"a.1.experts.0.up_proj.weight: excluded\n"
		"a.1.experts.0.down_proj.weight: fused with 'a.1.experts.0.up_proj.weight', which "
		"is kept\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_must_be_whole),
		cmocka_unit_test(rows_of_some_modules_may_be_ragged),
		cmocka_unit_test(parts_of_a_mixer_are_whole_blocks),
		cmocka_unit_test(seams_must_lie_between_blocks),
		cmocka_unit_test(small_fused_weights_keep_their_seams),
		cmocka_unit_test(merged_weights_have_seams_inside),
		cmocka_unit_test(parts_follow_from_each_dialect_of_config),
		cmocka_unit_test(merged_weights_may_have_two_sizes_of_heads),
		cmocka_unit_test(a_fused_set_is_selected_whole_or_not_at_all),
		cmocka_unit_test(a_fused_set_has_one_recipe),
		cmocka_unit_test(experts_of_a_layer_go_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
