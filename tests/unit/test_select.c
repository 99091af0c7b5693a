/* SPDX-License-Identifier: Apache-2.0
 *
 * What is decided of each tensor by itself: types, patterns, roles, and sources that are quantized
 * already.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/memory_checkpoint.h"
#include "support/selection_check.h"

static void only_linear_weights_are_selected(void **state)
{
	(void)state;
	selection_gives("a.0.up_proj.weight BF16 256 128\n"
			"a.0.up_proj.bias BF16 256\n"
			"a.0.half_proj.weight F16 256 128\n"
			"a.0.full_proj.weight F32 256 128\n"
			"a.0.double_proj.weight F64 256 128\n"
			"a.0.hash_proj.weight I64 256 128\n"
			"a.0.packed_proj.weight U8 256 128\n"
			"a.0.empty_proj.weight BF16 0 128\n"
			"a.0.hollow_proj.weight F16 128 0\n"
			"a.0.multiplier F32\n"
			"a.0.stack_proj.weight BF16 2 256 128\n"
			"a.0.conv1d.weight BF16 256 1 4\n"
			"a.0.norm.weight BF16 256\n"
			"a.0.table BF16 256 128\n"
			"a.0.mask BOOL 1 1 9 9\n"
			"model.embed_tokens.weight BF16 512 128\n"
			"lm_head.weight BF16 512 128\n"
			"weight BF16 128 128\n",
			"blockwise", NO_OPTIONS,
			"a.0.up_proj.weight blockwise\n"
			"a.0.up_proj.bias: 1-D tensor\n"
			"a.0.half_proj.weight blockwise\n"
			"a.0.full_proj.weight blockwise\n"
			"a.0.double_proj.weight: dtype F64\n"
			"a.0.hash_proj.weight: dtype I64\n"
			"a.0.packed_proj.weight: dtype U8\n"
			"a.0.empty_proj.weight: empty tensor\n"
			"a.0.hollow_proj.weight: empty tensor\n"
			"a.0.multiplier: scalar\n"
			"a.0.stack_proj.weight: fused experts of an unknown layout\n"
			"a.0.conv1d.weight: convolution\n"
			"a.0.norm.weight: norm\n"
			"a.0.table: not a linear weight\n"
			"a.0.mask: dtype BOOL\n"
			"model.embed_tokens.weight: embedding\n"
			"lm_head.weight: lm_head\n"
			"weight: not a linear weight\n");
}

#define MLP                                          \
	"a.0.mlp.gate.weight BF16 8 128\n"           \
	"a.0.mlp.down_proj.weight BF16 128 256\n"    \
	"a.0.self_attn.o_proj.weight BF16 128 128\n" \
	"lm_head.weight BF16 512 128\n"

static void include_and_exclude_are_applied(void **state)
{
	(void)state;
	selection_gives(MLP, "channelwise",
			(struct select_options){ .exclude = { LIST("^x", "mlp\\."), 2 } },
			"a.0.mlp.gate.weight: excluded\n"
			"a.0.mlp.down_proj.weight: excluded\n"
			"a.0.self_attn.o_proj.weight channelwise\n"
			"lm_head.weight: lm_head\n");
	selection_gives(MLP, "channelwise",
			(struct select_options){ .include = { LIST("self_attn", "lm_head"), 2 } },
			"a.0.mlp.gate.weight: not included\n"
			"a.0.mlp.down_proj.weight: not included\n"
			"a.0.self_attn.o_proj.weight channelwise\n"
			"lm_head.weight: lm_head\n");
	selection_gives(MLP, "channelwise",
			(struct select_options){ .include = { LIST("proj"), 1 },
						 .exclude = { LIST("o_proj"), 1 } },
			"a.0.mlp.gate.weight: not included\n"
			"a.0.mlp.down_proj.weight channelwise\n"
			"a.0.self_attn.o_proj.weight: excluded\n"
			"lm_head.weight: not included\n");
}

/* The last rule that matches wins; rules override lists and roles, but not what a tensor is. */
static void the_last_matching_rule_wins(void **state)
{
	struct select_rule rules[] = {
		{ "proj", recipe_named("mxfp8") },
		{ "o_proj", NULL },
		{ "mlp\\.gate", recipe_named("current") },
		{ ".*norm.*|embed|bias", recipe_named("current") },
	};

	(void)state;
	selection_gives(MLP "a.0.norm.weight BF16 128\n"
			    "model.embed_tokens.weight BF16 512 128\n"
			    "a.0.mlp.down_proj.bias BF16 128\n",
			"blockwise",
			(struct select_options){ .rules = { rules, 4 },
						 .exclude = { LIST("down_proj"), 1 } },
			"a.0.mlp.gate.weight current\n"
			"a.0.mlp.down_proj.weight mxfp8\n"
			"a.0.self_attn.o_proj.weight: skipped by --tensor\n"
			"lm_head.weight: lm_head\n"
			"a.0.norm.weight: norm\n"
			"model.embed_tokens.weight: embedding\n"
			"a.0.mlp.down_proj.bias: 1-D tensor\n");
}

static void bad_patterns_are_refused(void **state)
{
	struct select_rule rule = { "(", NULL };

	(void)state;
	selection_refuses(
		MLP, "blockwise", (struct select_options){ .include = { LIST("ok", "a[b"), 2 } },
		ERR_USAGE,
		"--include 'a[b': missing terminating ] for character class at character 4");
	selection_refuses(
		MLP, "blockwise", (struct select_options){ .exclude = { LIST("*"), 1 } }, ERR_USAGE,
		"--exclude '*': quantifier does not follow a repeatable item at character 1 (a "
		"pattern is a regular expression: '.*' matches any text)");
	selection_refuses(MLP, "blockwise", (struct select_options){ .rules = { &rule, 1 } },
			  ERR_USAGE, "--tensor '(': missing closing parenthesis at character 2");
	selection_refuses(
		"a.0."
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		".weight BF16 128 128\n",
		"blockwise",
		(struct select_options){ .exclude = { LIST("(a+)+(a+)+(a+)+(a+)+(a+)+$"), 1 } },
		ERR_USAGE,
		"--exclude '(a+)+(a+)+(a+)+(a+)+(a+)+$' on tensor "
		"'a.0.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.weight': match limit "
		"exceeded");
}

/* GPT-2 stores [in, out]; StarCoder gives the same names to linear layers. */
static void transposed_modules_of_gpt2_are_kept(void **state)
{
	(void)state;
	selection_gives("h.0.attn.c_attn.weight F32 128 384\n"
			"h.0.attn.c_proj.weight F32 128 128\n"
			"h.0.mlp.c_fc.weight F32 128 512\n"
			"h.0.mlp.c_proj.weight F32 512 128\n"
			"h.0.mlp.other.weight F32 512 128\n",
			"blockwise", NO_OPTIONS,
			"h.0.attn.c_attn.weight: transposed weight (Conv1D)\n"
			"h.0.attn.c_proj.weight: transposed weight (Conv1D)\n"
			"h.0.mlp.c_fc.weight: transposed weight (Conv1D)\n"
			"h.0.mlp.c_proj.weight: transposed weight (Conv1D)\n"
			"h.0.mlp.other.weight blockwise\n");
	selection_gives("h.0.attn.c_attn.weight F32 384 128\n"
			"h.0.attn.c_proj.weight F32 128 128\n"
			"h.0.mlp.c_proj.weight F32 128 512\n",
			"blockwise", NO_OPTIONS,
			"h.0.attn.c_attn.weight blockwise\n"
			"h.0.attn.c_proj.weight blockwise\n"
			"h.0.mlp.c_proj.weight blockwise\n");
	/* EXAONE has no first layer of such a name */
	selection_gives("h.0.mlp.c_fc_0.weight F32 512 128\n"
			"h.0.mlp.c_proj.weight F32 128 512\n",
			"blockwise", NO_OPTIONS,
			"h.0.mlp.c_fc_0.weight blockwise\n"
			"h.0.mlp.c_proj.weight blockwise\n");
}

/* vLLM and SGLang share the weight of the embedding, which they build without quantization. */
static void a_tied_head_is_refused(void **state)
{
	static const char tensors[] = "h.0.o_proj.weight BF16 128 128\n"
				      "lm_head.weight BF16 256 128\n";
	struct select_rule rule = { "lm_head", recipe_named("blockwise") };
	const struct select_options options = { .rules = { &rule, 1 } };

	(void)state;
	selection_gives_config("{}", tensors, "blockwise", options,
			       "h.0.o_proj.weight blockwise\nlm_head.weight blockwise\n");
	selection_refuses_config("{\"tie_word_embeddings\": true}", tensors, "blockwise", options,
				 ERR_USAGE,
				 "'lm_head.weight' is tied to the embedding, which no engine loads "
				 "as FP8: keep it");
}

static void an_empty_selection_is_refused(void **state)
{
	(void)state;
	selection_refuses(
		"a.norm.weight BF16 128\nlm_head.weight BF16 8 128\n", "blockwise", NO_OPTIONS,
		ERR_USAGE,
		"nothing to quantize: all 2 tensors are kept, 1 of them linear weights, for "
		"example 'lm_head.weight': lm_head");
	selection_refuses(
		"lm_head.weight BF16 8 128\n"
		"a.0.x_up.weight BF16 128 576\n"
		"a.1.x_up.weight BF16 128 576\n",
		"blockwise", NO_OPTIONS, ERR_USAGE,
		"nothing to quantize: all 3 tensors are kept, 3 of them linear weights, for "
		"example 'a.0.x_up.weight': 576 columns are not a multiple of 128; --recipe "
		"channelwise "
		"accepts any shape, --ragged allows partial blocks");
	selection_refuses(
		"a.norm.weight BF16 128\nb.norm.bias BF16 128\n", "blockwise", NO_OPTIONS,
		ERR_USAGE,
		"nothing to quantize: all 2 tensors are kept, 0 of them linear weights, for "
		"example 'a.norm.weight': norm");
	selection_refuses("", "blockwise", NO_OPTIONS, ERR_USAGE,
			  "nothing to quantize: the input has no tensors");
}

#define HF_CONFIG                                                                       \
	"{\"quantization_config\": {\"quant_method\": \"fp8\", \"activation_scheme\": " \
	"\"dynamic\","                                                                  \
	" \"weight_block_size\": [128, 128]}}"
#define FP8_MODEL                                \
	"a.0.up_proj.weight F8_E4M3 256 128\n"   \
	"a.0.up_proj.weight_scale_inv F32 2 1\n" \
	"a.0.down_proj.weight BF16 128 256\n"    \
	"lm_head.weight BF16 512 128\n"

static void fp8_weights_are_requantized(void **state)
{
	const struct select_options requantize = { .requantize = true,
						   .recipe = recipe_named("channelwise") };
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	(void)state;
	selection_refuses_config(
		HF_CONFIG, FP8_MODEL, "channelwise", NO_OPTIONS, ERR_USAGE,
		"tensor 'a.0.up_proj.weight' is already F8_E4M3: use --requantize to "
		"convert an FP8 source");
	memory_checkpoint_init(&checkpoint, HF_CONFIG, FP8_MODEL);
	assert_int_equal(selection_make(&selection, &checkpoint, &requantize, &err), 0);
	selection_assert(&selection, "a.0.up_proj.weight channelwise\n"
				     "a.0.down_proj.weight channelwise\n"
				     "lm_head.weight: lm_head\n");
	assert_string_equal(selection.units[0].source_scale.scale->tensor->name,
			    "a.0.up_proj.weight_scale_inv");
	assert_null(selection.units[1].source_scale.scale);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
	/* DeepSeek-V4's table from tokens to experts */
	memory_checkpoint_init(&checkpoint, HF_CONFIG, FP8_MODEL "a.0.gate.tid2eid I32 512 6\n");
	assert_int_equal(selection_make(&selection, &checkpoint, &requantize, &err), 0);
	selection_assert(&selection, "a.0.up_proj.weight channelwise\n"
				     "a.0.down_proj.weight channelwise\n"
				     "lm_head.weight: lm_head\n"
				     "a.0.gate.tid2eid: dtype I32\n");
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

static void other_quantized_sources_are_refused(void **state)
{
	const struct select_options requantize = { .requantize = true };

	(void)state;
	selection_refuses_config(
		HF_CONFIG, FP8_MODEL, "channelwise",
		(struct select_options){ .requantize = true, .exclude = { LIST("up_proj"), 1 } },
		ERR_USAGE,
		"tensor 'a.0.up_proj.weight' is F8_E4M3 and would be kept (excluded), but "
		"FP8 tensors can only be quantized again: use 'fp8conv dequantize' first");
	selection_refuses_config(
		HF_CONFIG,
		"a.0.up_proj.weight F8_E4M3 200 128\na.0.up_proj.weight_scale_inv F32 2 1\n"
		"a.0.down_proj.weight BF16 128 256\n",
		"blockwise", requantize, ERR_USAGE,
		"tensor 'a.0.up_proj.weight' is F8_E4M3 and would be kept (200 rows are not a "
		"multiple "
		"of 128), but FP8 tensors can only be quantized again: use --recipe channelwise, "
		"which takes its shape, or 'fp8conv dequantize' first");
	selection_refuses(
		"a.0.up_proj.weight_packed U8 200 64\na.0.up_proj.weight_scale U8 200 4\n"
		"a.0.down_proj.weight BF16 128 256\n",
		"blockwise", requantize, ERR_USAGE,
		"tensor 'a.0.up_proj.weight' is MXFP4 and would be kept (200 rows are not a "
		"multiple "
		"of 128), but low-bit tensors can only be quantized again: use --recipe mxfp8, "
		"which takes its shape, or 'fp8conv dequantize' first");
	selection_refuses_config(HF_CONFIG, "a.0.experts.down_proj F8_E4M3 2 2 64 128\n",
				 "channelwise", requantize, ERR_INPUT,
				 "FP8 tensor 'a.0.experts.down_proj' has 4 dimensions, not 2 or 3");
	selection_refuses_config(HF_CONFIG,
				 "a.0.experts.gate_up_proj F8_E4M3 2 128 512\n"
				 "a.0.experts.gate_up_proj_scale_inv F32 2 1 4\n"
				 "a.0.experts.down_proj F8_E4M3 2 256 128\n"
				 "a.0.experts.down_proj_scale_inv F32 2 2 1\n",
				 "channelwise", requantize, ERR_INPUT,
				 "FP8 experts 'a.0.experts.gate_up_proj' are transposed, which "
				 "--requantize cannot read: use 'fp8conv dequantize' first");
	selection_refuses_config(HF_CONFIG,
				 "a.0.experts.gate_up_proj F8_E4M3 2 384 128\n"
				 "a.0.experts.gate_up_proj_scale_inv F32 2 3 1\n"
				 "a.0.experts.down_proj F8_E4M3 2 128 192\n"
				 "a.0.experts.down_proj_scale_inv F32 2 1 2\n",
				 "channelwise", requantize, ERR_INPUT,
				 "FP8 experts 'a.0.experts.gate_up_proj' have blocks of both gate "
				 "and up, which --requantize cannot read: use 'fp8conv dequantize' "
				 "first");
	selection_refuses("a.0.up_proj.weight F8_E4M3FNUZ 256 128\n", "channelwise", requantize,
			  ERR_INPUT,
			  "tensor 'a.0.up_proj.weight' has the unsupported type F8_E4M3FNUZ");
	/* GPTQ, MXFP4: our configuration would take the place of theirs */
	selection_refuses_config(
		"{\"quantization_config\": {\"quant_method\": \"gptq\"}}",
		"a.0.up_proj.qweight I32 16 256\na.0.o_proj.weight BF16 128 128\n", "channelwise",
		requantize, ERR_INPUT,
		"tensor 'a.0.up_proj.qweight' is I32 in a source that is already "
		"quantized (quant_method 'gptq'): only FP8 sources can be requantized");
}

/* Names and types as the loaders of vLLM and transformers, and MLX, have them.
 * They stand beside a plain weight, as where only some layers were packed. */
static void foreign_weights_are_refused(void **state)
{
	static const struct {
		const char *tensors, *said;
	} rows[] = {
		{ "a.0.up_proj.qweight I32 16 256\n",
		  "'a.0.up_proj.qweight' is I32, as GPTQ or AWQ" },
		{ "a.0.up_proj.qzeros I32 1 32\n", "'a.0.up_proj.qzeros' is I32, as GPTQ or AWQ" },
		{ "a.0.up_proj.weight U8 16384 1\na.0.up_proj.weight.absmax F32 512\n",
		  "'a.0.up_proj.weight.absmax' is F32, as bitsandbytes" },
		{ "a.0.up_proj.weight I8 256 128\na.0.up_proj.SCB F32 256\n",
		  "'a.0.up_proj.SCB' is F32, as bitsandbytes" },
		{ "a.0.up_proj.weight U32 256 16\na.0.up_proj.scales BF16 256 2\n"
		  "a.0.up_proj.biases BF16 256 2\n",
		  "'a.0.up_proj.weight' is U32, as MLX" },
		{ "a.0.up_proj.weight I8 256 128\na.0.up_proj.weight_scale BF16 256 1\n",
		  "'a.0.up_proj.weight' is I8, as compressed-tensors" },
		{ "a.0.up_proj.weight I8 128 256\na.0.up_proj.weight_scales F16 256\n",
		  "'a.0.up_proj.weight' is I8, as EETQ" },
		{ "a.0.up_proj.weight._data F8_E4M3 256 128\na.0.up_proj.weight._scale F16 256 1\n",
		  "'a.0.up_proj.weight._data' is F8_E4M3, as Quanto" },
		{ "a.0.up_proj.Qidxs I64 256 2\n", "'a.0.up_proj.Qidxs' is I64, as QuIP#" },
		{ "a.0.up_proj.indices I32 1 64 64\na.0.up_proj.centroids.weight F16 1 2048\n",
		  "'a.0.up_proj.indices' is I32, as VPTQ" },
		{ "a.0.up_proj.q_weight I32 16 256\n",
		  "'a.0.up_proj.q_weight' is I32, as ExLlamaV2" },
		{ "a.0.up_proj.trellis I16 8 16 64\n",
		  "'a.0.up_proj.trellis' is I16, as ExLlamaV3" },
		{ "a.0.up_proj.B I32 8 512\na.0.up_proj.s F16 1 256\n",
		  "'a.0.up_proj.B' is I32, as Marlin" },
		{ "a.0.up_proj.weight BF16 256 128\na.0.up_proj.pre_quant_scale BF16 128\n",
		  "'a.0.up_proj.pre_quant_scale' is BF16, as ModelOpt's AWQ" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char tensors[256], said[256];

		snprintf(tensors, sizeof tensors, "a.0.o_proj.weight BF16 128 128\n%s",
			 rows[i].tensors);
		snprintf(said, sizeof said,
			 "tensor %s packs weights, which fp8conv does not read: convert the model "
			 "in high precision, or dequantize it with that tool first",
			 rows[i].said);
		selection_refuses(tensors, "channelwise", NO_OPTIONS, ERR_INPUT, said);
	}
	/* parameters and buffers of plain models */
	selection_gives("a.0.up_proj.weight BF16 256 128\na.0.scales F32 3\na.0.codes I64 3\n"
			"a.0.indices I64 3\na.0.B F32 3\n"
			"a.0.weight.absmax F32 3\n",
			"channelwise", NO_OPTIONS,
			"a.0.up_proj.weight channelwise\n"
			"a.0.scales: 1-D tensor\n"
			"a.0.codes: dtype I64\n"
			"a.0.indices: dtype I64\n"
			"a.0.B: 1-D tensor\n"
			"a.0.weight.absmax: 1-D tensor\n");
}

/* Engines would take a scale beside our codes for theirs. */
static void scales_of_high_precision_are_refused(void **state)
{
	const char *const words[] = { "weight_scale_inv", "weight_scale", "input_scale",
				      "activation_scale" };
	const char *const by[] = { "blockwise", "channelwise", "current", "mxfp8" };

	(void)state;
	for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
		char *tensors = xasprintf(
			"a.0.up_proj.weight BF16 256 128\na.0.up_proj.%s F32 2 1\n", words[w]);
		char *message = xasprintf(
			"'a.0.up_proj.%s' is a scale, but 'a.0.up_proj.weight' is BF16: remove "
			"the scale from the source, or use --exclude to keep the weight",
			words[w]);
		char *kept = xasprintf("a.0.up_proj.weight: excluded\na.0.up_proj.%s: not a "
				       "linear weight\nb.0.up_proj.weight blockwise\n",
				       words[w]);
		char *beside = xasprintf("%sb.0.up_proj.weight BF16 256 128\n", tensors);

		for (size_t r = 0; r < sizeof by / sizeof *by; r++)
			selection_refuses(tensors, by[r], NO_OPTIONS, ERR_INPUT, message);
		selection_gives(
			beside, "blockwise",
			(struct select_options){ .exclude = { LIST("a.0.up_proj.weight$"), 1 } },
			kept);
		free(tensors);
		free(message);
		free(kept);
		free(beside);
	}
	selection_refuses("a.0.mlp.experts.gate_up_proj BF16 4 512 128\n"
			  "a.0.mlp.experts.gate_up_proj_scale_inv F32 4\n"
			  "a.0.mlp.experts.down_proj BF16 4 128 256\n",
			  "channelwise", NO_OPTIONS, ERR_INPUT,
			  "'a.0.mlp.experts.gate_up_proj_scale_inv' is a scale, but "
			  "'a.0.mlp.experts.gate_up_proj' is BF16: remove the scale from the "
			  "source, or use --exclude to keep the weight");
	/* Parameters with such names, and scales without a weight. */
	selection_gives("a.0.up_proj.weight BF16 256 128\n"
			"a.0.up_proj.scale F32 1\n"
			"a.0.norm.weight BF16 128\n"
			"a.0.norm.weight_scale F32 1\n"
			"b.0.up_proj.weight_scale F32 1\n",
			"blockwise", NO_OPTIONS,
			"a.0.up_proj.weight blockwise\n"
			"a.0.up_proj.scale: 1-D tensor\n"
			"a.0.norm.weight: norm\n"
			"a.0.norm.weight_scale: 1-D tensor\n"
			"b.0.up_proj.weight_scale: 1-D tensor\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_linear_weights_are_selected),
		cmocka_unit_test(include_and_exclude_are_applied),
		cmocka_unit_test(the_last_matching_rule_wins),
		cmocka_unit_test(bad_patterns_are_refused),
		cmocka_unit_test(transposed_modules_of_gpt2_are_kept),
		cmocka_unit_test(a_tied_head_is_refused),
		cmocka_unit_test(an_empty_selection_is_refused),
		cmocka_unit_test(fp8_weights_are_requantized),
		cmocka_unit_test(foreign_weights_are_refused),
		cmocka_unit_test(scales_of_high_precision_are_refused),
		cmocka_unit_test(other_quantized_sources_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
