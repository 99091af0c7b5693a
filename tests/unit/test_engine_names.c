/* SPDX-License-Identifier: Apache-2.0
 *
 * The names by which engines ask a skip list for modules, and that a list has them.  The expected
 * names are the prefixes that the engines' classes build: vLLM 0.32.0, SGLang 0.5.23.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "select/engine_names.h"
#include "select/skip_list.h"
#include "tests/unit/support/format_schemes.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

static const struct {
	const char *names, *module, *renamed; /* NULL: OLD is not in it */
} renames[] = {
	{ "mamba=mixer", "model.layers.0.mamba.in_proj", "model.layers.0.mixer.in_proj" },
	{ "mamba=mixer", "mamba.in_proj", "mixer.in_proj" },
	{ "mamba=mixer", "model.layers.0.mamba", "model.layers.0.mixer" },
	{ "mamba=mixer", "model.layers.0.mamba2.in_proj", NULL },
	{ "mamba=mixer", "model.layers.0.xmamba.in_proj", NULL },
	{ "mamba=mixer", "mamba.mamba", "mixer.mamba" },
	{ "a.b=c", "x.a.b.y", "x.c.y" },
	{ "a.b=c", "x.a.y.b", NULL },
	{ "a.b=c", "a.a.b", "a.c" },
	{ "^a=b.c", "a.x", "b.c.x" },
	{ "^a=b.c", "x.a", NULL },
	{ "^a=b.c", "ab.x", NULL },
	{ "layers.#.attn=layers.#", "model.layers.12.attn.q", "model.layers.12.q" },
	{ "layers.#.attn=layers.#", "model.layers.x.attn.q", NULL },
	{ "^model.layers.#.mamba=model.#+.mixer", "model.layers.0.mamba.in_proj",
	  "model.36.mixer.in_proj" },
	{ "^model.layers.#.mamba=model.#+.mixer", "model.layers.35.mamba.in_proj",
	  "model.71.mixer.in_proj" },
	{ "^model.layers.#.mamba=model.#+.mixer", "model.layers.35.self_attn.q_proj", NULL },
};

static void whole_segments_are_replaced(void **state)
{
	const struct profile profile = { .n_layers = 36 };

	(void)state;
	for (size_t i = 0; i < N_OF(renames); i++) {
		const struct profile_row row = { .pattern = renames[i].names };
		char *name = engine_name_by(&profile, &row, renames[i].module);

		if (!name != !renames[i].renamed || (name && strcmp(name, renames[i].renamed) != 0))
			fail_msg("%s of %s: %s", renames[i].names, renames[i].module,
				 name ? name : "none");
		free(name);
	}
}

static void profile_of(struct profile *profile, const char *model_type)
{
	struct model_config config = { .model_types = { (char *)model_type },
				       .n_model_types = 1,
				       .size = { [CONFIG_LAYERS] = 36 } };

	profile_make(profile, &config, PROFILE_NONE);
}

static const struct {
	const char *model_type, *format;
	enum engine engine;
	const char *module, *name; /* NULL: its own */
} asked[] = {
	{ "granitemoehybrid", "hf", ENGINE_VLLM, "model.layers.0.mamba.in_proj",
	  "model.layers.0.mixer.in_proj" },
	{ "granitemoehybrid", "compressed-tensors", ENGINE_SGLANG, "model.layers.0.mamba.in_proj",
	  "model.layers.0.mixer.in_proj" },
	{ "granitemoehybrid", "compressed-tensors", ENGINE_TRANSFORMERS,
	  "model.layers.0.mamba.in_proj", NULL },
	{ "granitemoehybrid", "hf", ENGINE_VLLM, "model.layers.0.shared_mlp.input_linear", NULL },
	{ "falcon_h1", "hf", ENGINE_VLLM, "model.layers.1.mamba.out_proj",
	  "model.37.mixer.out_proj" },
	{ "falcon_h1", "hf", ENGINE_SGLANG, "model.layers.1.self_attn.k_proj",
	  "model.layers.1.k_proj" },
	{ "mistral3", "compressed-tensors", ENGINE_SGLANG,
	  "vision_tower.transformer.layers.0.attention.q_proj",
	  "vision_tower.transformer.layers.0.attention.qkv_proj" },
	{ "mistral3", "hf", ENGINE_SGLANG, "vision_tower.transformer.layers.0.attention.q_proj",
	  NULL },
	{ "mistral3", "hf", ENGINE_SGLANG, "vision_tower.transformer.layers.0.attention.o_proj",
	  "vision_tower.transformer.layers.0.attention.proj" },
	{ "mistral3", "compressed-tensors", ENGINE_SGLANG,
	  "vision_tower.transformer.layers.0.feed_forward.gate_proj",
	  "vision_tower.transformer.layers.0.feed_forward.gate_up_proj" },
	{ "minimax_m2", "hf", ENGINE_VLLM, "model.layers.1.block_sparse_moe.experts",
	  "model.layers.1.mlp.experts" },
	{ "minimax_m2", "hf", ENGINE_SGLANG, "model.layers.1.block_sparse_moe.experts", NULL },
	{ "llama", "hf", ENGINE_VLLM, "layers.0.self_attn.k_proj",
	  "model.layers.0.self_attn.k_proj" },
	{ "llama", "hf", ENGINE_VLLM, "model.layers.0.self_attn.k_proj", NULL },
	/* VisionAttention, without a packed_modules_mapping in the class of the model */
	{ "llava", "compressed-tensors", ENGINE_SGLANG,
	  "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj",
	  "vision_tower.vision_model.encoder.layers.0.self_attn.qkv_proj" },
	{ "llava", "hf", ENGINE_SGLANG,
	  "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj", NULL },
	{ "llava", "hf", ENGINE_SGLANG,
	  "vision_tower.vision_model.encoder.layers.0.self_attn.out_proj",
	  "vision_tower.vision_model.encoder.layers.0.self_attn.proj" },
	/* of the list in hf, transformers maps the names itself */
	{ "llava", "hf", ENGINE_TRANSFORMERS, "language_model.lm_head", NULL },
	{ "llava", "compressed-tensors", ENGINE_TRANSFORMERS, "language_model.lm_head", "lm_head" },
	{ "llava", "compressed-tensors", ENGINE_TRANSFORMERS,
	  "vision_tower.vision_model.encoder.layers.0.mlp.fc1",
	  "model.vision_tower.encoder.layers.0.mlp.fc1" },
	{ "hy_v4_vl", "hf", ENGINE_TRANSFORMERS, "model.layers.1.self_attn.indexer.weights_proj",
	  NULL },
	{ "hy_v4_vl", "compressed-tensors", ENGINE_TRANSFORMERS,
	  "model.layers.1.self_attn.indexer.weights_proj",
	  "model.language_model.layers.1.self_attn.indexer.weights_proj" },
	{ "nosuch", "hf", ENGINE_VLLM, "model.layers.0.mamba.in_proj", NULL },
};

static void an_engine_asks_by_its_own_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(asked); i++) {
		struct profile profile;
		char *name;

		profile_of(&profile, asked[i].model_type);
		name = engine_name_of(&profile,
				      ON_RECIPES | profile_on_format(format_named(asked[i].format)),
				      asked[i].engine, asked[i].module);
		if (!name != !asked[i].name || (name && strcmp(name, asked[i].name) != 0))
			fail_msg("%s %s %s: %s", asked[i].model_type, asked[i].format,
				 asked[i].module, name ? name : "its own");
		free(name);
		profile_release(&profile);
	}
}

static const struct {
	const char *model_type, *format, *tensor;
	uint64_t shape[3];
	int n_dims;
	const char *list;
} lists[] = {
	{ "granitemoehybrid",
	  "hf",
	  "model.layers.0.mamba.in_proj.weight",
	  { 64, 64 },
	  2,
	  "model.layers.0.mamba.in_proj model.layers.0.mixer.in_proj" },
	{ "falcon_h1",
	  "hf",
	  "model.layers.0.mamba.in_proj.weight",
	  { 64, 64 },
	  2,
	  "model.36.mixer.in_proj model.layers.0.mamba.in_proj" },
	{ "minimax_m2",
	  "hf",
	  "m.0.block_sparse_moe.experts.3.w1.weight",
	  { 64, 64 },
	  2,
	  "m.0.block_sparse_moe.experts m.0.mlp.experts" },
	/* a base model of any family */
	{ "nosuch",
	  "hf",
	  "layers.0.self_attn.k_proj.weight",
	  { 64, 64 },
	  2,
	  "layers.0.self_attn.k_proj model.layers.0.self_attn.k_proj" },
	{ "nosuch",
	  "hf",
	  "encoder.layer.0.output.dense.weight",
	  { 64, 64 },
	  2,
	  "encoder.layer.0.output.dense model.encoder.layer.0.output.dense" },
	{ "nosuch",
	  "hf",
	  "model.layers.0.self_attn.k_proj.weight",
	  { 64, 64 },
	  2,
	  "model.layers.0.self_attn.k_proj" },
	/* vLLM's hf_to_vllm_mapper of gpt_oss changes the names of experts in the list */
	{ "gpt_oss",
	  "hf",
	  "m.2.mlp.experts.down_proj",
	  { 4, 64, 64 },
	  3,
	  "m.2.mlp.experts m.2.mlp.experts.down_proj" },
	{ "gpt_oss",
	  "compressed-tensors",
	  "m.2.mlp.experts.down_proj",
	  { 4, 64, 64 },
	  3,
	  "m.2.mlp.experts.0.down_proj m.2.mlp.experts.0.gate_proj m.2.mlp.experts.0.up_proj "
	  "m.2.mlp.experts.down_proj re:.*\\.2\\.mlp\\.experts.*" },
	/* transformers 5.23 maps no list of compressed-tensors: model.vision_tower.layers there */
	{ "kimi_k25",
	  "compressed-tensors",
	  "vision_tower.encoder.blocks.0.wo.weight",
	  { 64, 64 },
	  2,
	  "re:(model\\.)?(vis|audio|word|acoustic|semantic|resam|.*projector).* "
	  "vision_tower.encoder.blocks.0.wo" },
	/* model.vision_tower.layers.0.mlp.fc1 in transformers 5.24 */
	{ "hy_v4_vl",
	  "compressed-tensors",
	  "vit.layers.0.mlp.dense_h_to_4h.weight",
	  { 64, 64 },
	  2,
	  "re:(model\\.)?(vis|audio|word|acoustic|semantic|resam|.*projector).* "
	  "vit.layers.0.mlp.dense_h_to_4h" },
	/* in_proj_qkv, in_proj_z, in_proj_b and in_proj_a there, of which the map of the list in hf
	 * has the first alone */
	{ "lara_mini",
	  "hf",
	  "model.layers.0.linear_attn.in_proj.weight",
	  { 192, 64 },
	  2,
	  ".*\\.linear_attn\\.in_proj_.* model.layers.0.linear_attn.in_proj" },
	/* layers.1.q_message_gate.down_proj there */
	{ "inkling2_loop_text",
	  "hf",
	  "model.llm.layers.1.controllers.attn.down_weight",
	  { 64, 128 },
	  2,
	  ".*(\\.sink_proj|sconv\\.weight_proj|_message_gate\\..*|\\.vision_tower\\..*)$ "
	  "model.llm.layers.1.controllers.attn.down_weight" },
	/* layers.1.self_attn.k_proj.sconv.weight_proj there */
	{ "inkling2_text",
	  "compressed-tensors",
	  "model.llm.layers.1.attn.k_sconv.weight_proj",
	  { 64, 128 },
	  2,
	  "model.llm.layers.1.attn.k_sconv.weight_proj "
	  "re:.*(\\.sink_proj|sconv\\.weight_proj|_message_gate\\..*|\\.vision_tower\\..*)$" },
	/* model.vision_tokenizer.quantize.embedding is linear there */
	{ "apertus1p5",
	  "compressed-tensors",
	  "lm_head.weight",
	  { 320, 64 },
	  2,
	  "lm_head re:.*(patch_embedding|conv_out|vision_embed_tokens|quantize\\.embedding)$" },
	/* of wqkv, transformers' map of the list in hf has q_proj alone */
	{ "kimi_k25",
	  "hf",
	  "vision_tower.encoder.blocks.0.wqkv.weight",
	  { 192, 64 },
	  2,
	  "(model\\.)?(vis|audio|word|acoustic|semantic|resam|.*projector).* "
	  "vision_tower.encoder.blocks.0.wqkv" },
	/* SGLang 0.5.23 asks for attn.q_proj there, or in compressed-tensors for attn.qkv_proj */
	{ "glm4v",
	  "hf",
	  "model.visual.blocks.0.attn.qkv.weight",
	  { 192, 64 },
	  2,
	  "model.visual.blocks.0.attn.qkv visual" },
	{ "glm4v",
	  "compressed-tensors",
	  "model.visual.blocks.0.attn.qkv.weight",
	  { 192, 64 },
	  2,
	  "model.visual.blocks.0.attn.qkv re:.*visual\\..*" },
	/* the entries of two engines */
	{ "ernie4_5_vl_moe",
	  "hf",
	  "vision_model.blocks.0.attn.qkv.weight",
	  { 192, 64 },
	  2,
	  "(model\\.)?(vis|audio|word|acoustic|semantic|resam|.*projector).* vision_model "
	  "vision_model.blocks.0.attn.qkv" },
	/* a draft of EAGLE-3, which vLLM 0.32 builds below "model" */
	{ "llama", "hf", "fc.weight", { 64, 192 }, 2, "fc model.fc" },
	{ "kimi_k25",
	  "compressed-tensors",
	  "language_model.model.layers.1.mlp.gate.weight",
	  { 64, 64 },
	  2,
	  "language_model.model.layers.1.mlp.gate" },
};

static void a_list_has_the_names_of_all_engines(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(lists); i++) {
		const struct format *format = format_named(lists[i].format);
		const struct st_tensor tensor = { .name = (char *)lists[i].tensor,
						  .dtype = DT_BF16,
						  .n_dims = lists[i].n_dims,
						  .shape = (uint64_t *)lists[i].shape };
		struct skip_list list = { 0 };
		struct role_facts facts;
		struct profile profile;
		struct buf text = { 0 };

		profile_of(&profile, lists[i].model_type);
		list.profile = &profile;
		list.on = ON_RECIPES | FOR_ENGINES | profile_on_format(format);
		role_of_name(&facts, tensor.name);
		skip_list_add(&list, format, &tensor, skip_need(&tensor, &facts));
		skip_list_sort(&list);
		for (size_t n = 0; n < list.n; n++)
			buf_printf(&text, "%s%s", n ? " " : "", list.names[n]);
		if (strcmp(text.data, lists[i].list) != 0)
			fail_msg("%s %s: %s", lists[i].model_type, lists[i].tensor, text.data);
		buf_release(&text);
		skip_list_release(&list);
		profile_release(&profile);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_segments_are_replaced),
		cmocka_unit_test(an_engine_asks_by_its_own_name),
		cmocka_unit_test(a_list_has_the_names_of_all_engines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
