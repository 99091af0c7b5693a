/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kept tensors a configuration must name, and by which names.  An engine builds FP8 for a
 * module that it does not know and finds no name of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "select/skip_list.h"
#include "tests/unit/support/format_schemes.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

/* A tensor as a row of a test writes it; dimensions of 0 are not there. */
struct sample {
	const char *name;
	uint64_t shape[5];
	enum dtype dtype; /* DT_BF16 where the row says none */
};

static enum skip_need need_of(const struct sample *sample, struct st_tensor *tensor)
{
	struct role_facts facts;

	*tensor = (struct st_tensor){ .name = (char *)sample->name,
				      .dtype = sample->dtype,
				      .shape = (uint64_t *)sample->shape };
	while (tensor->n_dims < 5 && sample->shape[tensor->n_dims])
		tensor->n_dims++;
	role_of_name(&facts, sample->name);
	return skip_need(tensor, &facts);
}

#define L    "model.layers.0."
#define BF16 DT_BF16

struct row {
	struct sample sample;
	enum skip_need need;
};

static const struct row needs[] = {
	/* embeddings: embed*, *embed, *embedding[s], *embedder[s], wte, wpe */
	{ { "model.embed_tokens.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "model.embed_tokens_per_layer.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "model.llm.embed.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "visual.pos_embed.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "bert.position_embedding.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "model.tok_embeddings.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "model.ngram_embeddings.embedders.3.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "model.embedder.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "transformer.wte.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "transformer.wpe.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "vte.weight", { 512, 64 }, BF16 }, SKIP_FREE },
	{ { "visual.patch_embed.proj.weight", { 64, 64 }, BF16 }, SKIP_MODULE },
	{ { "shared.weight", { 512, 64 }, BF16 }, SKIP_MODULE }, /* T5: no such word */
	{ { "lm_head.weight", { 512, 64 }, BF16 }, SKIP_MODULE },
	/* norms and convolutions */
	{ { L "input_layernorm.weight", { 64 }, BF16 }, SKIP_FREE },
	{ { L "q_norm.weight", { 4, 64 }, BF16 }, SKIP_FREE },
	{ { L "linear_attn.conv1d.weight", { 768, 1, 4 }, BF16 }, SKIP_FREE },
	{ { L "conv.conv.weight", { 64, 1, 3 }, BF16 }, SKIP_FREE },
	{ { L "conv.in_proj.weight", { 192, 64 }, BF16 }, SKIP_MODULE },
	{ { "visual.patch.proj.weight", { 64, 3, 14, 14 }, BF16 }, SKIP_FREE },
	{ { "visual.patch.proj.weight", { 64, 3, 2, 14, 14 }, BF16 }, SKIP_FREE },
	{ { L "moe.bank.w_in", { 2, 4, 64, 64 }, BF16 }, SKIP_FREE },
	/* integers and bools; F64 is a value that nobody quantizes */
	{ { L "gate.tid2eid", { 512, 6 }, DT_I32 }, SKIP_FREE },
	{ { L "self_attn.mask.weight", { 64, 64 }, DT_BOOL }, SKIP_FREE },
	{ { L "self_attn.q_proj.weight", { 64, 64 }, DT_F32 }, SKIP_MODULE },
	{ { L "self_attn.q_proj.weight", { 64, 64 }, DT_F64 }, SKIP_MODULE },
	/* parameters without ".weight": two dimensions above 1 */
	{ { L "linear_attn.A_log", { 32 }, BF16 }, SKIP_FREE },
	{ { L "mixer.A_log", { 1, 32 }, BF16 }, SKIP_FREE },
	{ { L "mixer.A_log", { 1, 1, 32 }, BF16 }, SKIP_FREE },
	{ { L "mixer.A_log", { 1, 1, 32, 1 }, BF16 }, SKIP_FREE },
	{ { L "hc_attn_fn", { 24, 256 }, DT_F32 }, SKIP_MODULE },
	{ { L "mlp.gate.weight_1", { 4, 64 }, DT_F32 }, SKIP_MODULE },
	{ { L "compressor.ape", { 4, 64 }, DT_F32 }, SKIP_MODULE },
	/* the same shapes with it */
	{ { L "self_attn.q_proj.weight", { 64 }, BF16 }, SKIP_FREE },
	{ { L "mlp.shared_expert_gate.weight", { 1, 64 }, BF16 }, SKIP_MODULE },
	{ { L "mlp_res_proj.weight", { 1, 64 }, BF16 }, SKIP_MODULE },
	{ { L "self_attn.q_proj.bias", { 64 }, BF16 }, SKIP_FREE },
	{ { L "x", { 0 }, BF16 }, SKIP_FREE },
	/* routers, heads, towers, projectors, adapters have no word */
	{ { L "mlp.gate.weight", { 4, 64 }, BF16 }, SKIP_MODULE },
	{ { "visual.blocks.0.attn.qkv.weight", { 64, 64 }, BF16 }, SKIP_MODULE },
	{ { "multi_modal_projector.linear_1.weight", { 64, 64 }, BF16 }, SKIP_MODULE },
	{ { L "q_proj.lora_A.weight", { 8, 64 }, BF16 }, SKIP_MODULE },
};

static void check_needs(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct st_tensor tensor;
		enum skip_need need = need_of(&rows[i].sample, &tensor);

		if (need != rows[i].need)
			fail_msg("%s in %d dimensions: %d", rows[i].sample.name, tensor.n_dims,
				 need);
	}
}

static void what_engines_know_by_themselves_is_free(void **state)
{
	(void)state;
	check_needs(needs, N_OF(needs));
}

static const struct row expert_needs[] = {
	{ { L "mlp.experts.3.up_proj.weight", { 64, 64 }, BF16 }, SKIP_EXPERTS },
	{ { L "mlp.experts.gate_up_proj", { 4, 128, 64 }, BF16 }, SKIP_EXPERTS },
	{ { L "ffn.experts.mlp.w1", { 512, 64 }, BF16 }, SKIP_EXPERTS },
	{ { L "mlp.shared_experts.up_proj.weight", { 64, 64 }, BF16 }, SKIP_MODULE },
	/* of an unknown layout: three dimensions, the last two at least 32 */
	{ { L "moe_bank.w_in", { 8, 32, 32 }, BF16 }, SKIP_EXPERTS },
	{ { L "moe_bank.w_in", { 8, 31, 32 }, BF16 }, SKIP_MODULE },
	{ { L "moe_bank.w_in", { 8, 32, 31 }, BF16 }, SKIP_MODULE },
	{ { L "moe_bank.w_in", { 8, 64, 64 }, DT_I32 }, SKIP_FREE },
	{ { L "moe.gate_proj.weight", { 4, 64, 64 }, BF16 }, SKIP_EXPERTS },
	/* not below towers and projectors, and not what is free */
	{ { "visual.blocks.0.bank", { 8, 64, 64 }, BF16 }, SKIP_MODULE },
	{ { "audio_tower.experts.bank", { 8, 64, 64 }, BF16 }, SKIP_MODULE },
	{ { "resampler.bank", { 8, 64, 64 }, BF16 }, SKIP_MODULE },
	{ { L "conv1d.weight", { 64, 64, 64 }, BF16 }, SKIP_FREE },
};

static void experts_are_told_from_modules_by_name_and_shape(void **state)
{
	(void)state;
	check_needs(expert_needs, N_OF(expert_needs));
}

/* The names of kept tensors in the list, sorted, with blanks between. */
static char *list_text(const struct format *format, const struct sample *samples, size_t n)
{
	struct skip_list list = { 0 };
	struct buf text = { 0 };

	for (size_t i = 0; i < n && samples[i].name; i++) {
		struct st_tensor tensor;
		enum skip_need need = need_of(&samples[i], &tensor);

		skip_list_add(&list, format, &tensor, need);
	}
	skip_list_sort(&list);
	buf_puts(&text, "");
	for (size_t i = 0; i < list.n; i++)
		buf_printf(&text, "%s%s", i ? " " : "", list.names[i]);
	skip_list_release(&list);
	return text.data;
}

#define MATRIX { 64, 64 }, BF16

static const struct {
	struct sample samples[7];
	const char *hf, *compressed_tensors; /* NULL: the same */
} lists[] = {
	{ { { "lm_head.weight", MATRIX }, { "model.embed_tokens.weight", MATRIX } },
	  "lm_head",
	  NULL },
	{ { { L "hc_attn_fn", { 24, 64 }, BF16 } }, L "hc_attn_fn", NULL },
	{ { { "b.weight", MATRIX }, { "a.b.weight", MATRIX }, { "a.weight", MATRIX } },
	  "a a.b b",
	  NULL },
	/* one name for all experts of a layer; expert 0 by three words, whatever its own are */
	{ { { "m.0.experts.0.w1.weight", MATRIX },
	    { "m.0.experts.0.w2.weight", MATRIX },
	    { "m.0.experts.1.w1.weight", MATRIX },
	    { "m.0.experts.1.w2.weight", MATRIX },
	    { "m.1.experts.0.w1.weight", MATRIX } },
	  "m.0.experts m.1.experts",
	  "m.0.experts.0.down_proj m.0.experts.0.gate_proj m.0.experts.0.up_proj "
	  "m.0.experts.0.w1 m.0.experts.0.w2 m.0.experts.1.w1 m.0.experts.1.w2 "
	  "m.1.experts.0.down_proj m.1.experts.0.gate_proj m.1.experts.0.up_proj "
	  "m.1.experts.0.w1" },
	/* a stack has its own name too */
	{ { { "m.mlp.experts.gate_up_proj", { 4, 128, 64 }, BF16 },
	    { "m.mlp.experts.down_proj", { 4, 64, 64 }, BF16 } },
	  "m.mlp.experts m.mlp.experts.down_proj m.mlp.experts.gate_up_proj",
	  "m.mlp.experts.0.down_proj m.mlp.experts.0.gate_proj m.mlp.experts.0.up_proj "
	  "m.mlp.experts.down_proj m.mlp.experts.gate_up_proj" },
	/* of a stack below no such segment: its parent and ".experts", never the parent alone */
	{ { { "m.moe.gate_proj.weight", { 4, 64, 64 }, BF16 },
	    { "m.moe.down_proj.weight", { 4, 64, 64 }, BF16 } },
	  "m.moe.down_proj m.moe.experts m.moe.gate_proj",
	  "m.moe.down_proj m.moe.experts.0.down_proj m.moe.experts.0.gate_proj "
	  "m.moe.experts.0.up_proj m.moe.gate_proj" },
	{ { { "w_in", { 4, 64, 64 }, BF16 } },
	  "experts w_in",
	  "experts.0.down_proj experts.0.gate_proj experts.0.up_proj w_in" },
	/* experts of a tower are modules */
	{ { { "visual.experts.0.w1.weight", MATRIX } }, "visual.experts.0.w1", NULL },
};

static void check_list(const char *format, const struct sample *samples, const char *expected)
{
	char *text = list_text(format_named(format), samples, N_OF(lists[0].samples));

	if (strcmp(text, expected) != 0)
		fail_msg("%s:\n%s\nexpected:\n%s", format, text, expected);
	free(text);
}

static void kept_modules_have_the_names_that_engines_look_for(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(lists); i++) {
		const char *hf = lists[i].hf;
		const char *compressed_tensors = lists[i].compressed_tensors;

		check_list("hf", lists[i].samples, hf);
		check_list("modelopt", lists[i].samples, hf);
		check_list("compressed-tensors", lists[i].samples,
			   compressed_tensors ? compressed_tensors : hf);
	}
}

/* 61 layers of 256 experts, as in DeepSeek-V3: 46848 matrices, and one name for each layer. */
static void a_list_in_hf_is_short(void **state)
{
	static const char *const words[] = { "gate_proj", "up_proj", "down_proj" };
	struct skip_list list = { 0 };

	(void)state;
	for (int i = 0; i < 61 * 256 * 3; i++) {
		char *name = xasprintf("model.layers.%d.mlp.experts.%d.%s.weight", i / 768,
				       i / 3 % 256, words[i % 3]);
		const struct sample sample = { name, MATRIX };
		struct st_tensor tensor;
		enum skip_need need = need_of(&sample, &tensor);

		skip_list_add(&list, format_named("hf"), &tensor, need);
		free(name);
	}
	skip_list_sort(&list);
	assert_int_equal(list.n, 61);
	assert_string_equal(list.names[0], "model.layers.0.mlp.experts");
	skip_list_release(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_engines_know_by_themselves_is_free),
		cmocka_unit_test(experts_are_told_from_modules_by_name_and_shape),
		cmocka_unit_test(kept_modules_have_the_names_that_engines_look_for),
		cmocka_unit_test(a_list_in_hf_is_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
