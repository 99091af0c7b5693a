/* SPDX-License-Identifier: Apache-2.0
 *
 * What is outside of the layers of the language model.  Names are released models'; what
 * engines build without quantization: vLLM 0.32, models/{colqwen3,roberta,medusa,cohere_asr}.py,
 * SGLang 0.5.23, models/llama_eagle3.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/selection_check.h"

static void single_modules_outside_are_kept(void **state)
{
	(void)state;
	selection_gives("model.layers.0.self_attn.o_proj.weight BF16 128 128\n"
			"custom_text_proj.weight BF16 128 128\n"
			"embedding_proj_layer.weight BF16 128 128\n"
			"classifier.dense.weight BF16 128 128\n"
			"0.1.linear.weight BF16 128 128\n",
			"blockwise", NO_OPTIONS,
			"model.layers.0.self_attn.o_proj.weight blockwise\n"
			"custom_text_proj.weight: outside of the layers\n"
			"embedding_proj_layer.weight: outside of the layers\n"
			"classifier.dense.weight: outside of the layers\n"
			"0.1.linear.weight: outside of the layers\n");
	/* EAGLE-3 has one layer, without a number */
	selection_gives("midlayer.self_attn.o_proj.weight BF16 128 128\n"
			"fc.weight BF16 128 384\n",
			"blockwise", NO_OPTIONS,
			"midlayer.self_attn.o_proj.weight blockwise\n"
			"fc.weight: outside of the layers\n");
}

/* A file of matrices alone has no layers to be outside of; a model has. */
static void a_model_may_have_no_layers(void **state)
{
	static const char tensors[] = "a.weight BF16 128 128\nb.c.weight BF16 128 128\n";

	(void)state;
	selection_gives(tensors, "blockwise", NO_OPTIONS,
			"a.weight blockwise\nb.c.weight blockwise\n");
	selection_refuses_config("{\"architectures\": [\"MedusaModel\"]}", tensors, "blockwise",
				 NO_OPTIONS, ERR_USAGE,
				 "nothing to quantize: all 2 tensors are kept, 2 of them linear "
				 "weights, for example 'a.weight': outside of the layers");
}

static void a_user_decides(void **state)
{
	const struct select_rule rule = { "custom", recipe_named("current") };

	(void)state;
	selection_gives("model.layers.0.o_proj.weight BF16 128 128\n"
			"custom_text_proj.weight BF16 128 128\n",
			"blockwise", (struct select_options){ .rules = &rule, .n_rules = 1 },
			"model.layers.0.o_proj.weight blockwise\n"
			"custom_text_proj.weight current\n");
}

/* clang-format off */
/* Two layers of 128 columns, and what becomes of them. */
#define LAYERS(p)                                 \
	p "layers.0.o_proj.weight BF16 128 128\n" \
	p "layers.1.o_proj.weight BF16 128 128\n"
#define TAKEN(p)                               \
	p "layers.0.o_proj.weight blockwise\n" \
	p "layers.1.o_proj.weight blockwise\n"
#define KEPT(p)                                                       \
	p "layers.0.o_proj.weight: not of the language model\n" \
	p "layers.1.o_proj.weight: not of the language model\n"
#define SIZES "\"hidden_size\": 128, \"num_hidden_layers\": 2"

/* In a model of one part, layers of another width belong to another model, as the local
 * transformers of MiMo-Audio; layers of the hidden size are its own. */
static void layers_of_another_width_are_kept(void **state)
{
	static const char tensors[] = LAYERS("model.")
		"local.layers.0.o_proj.weight BF16 256 256\n"
		"model.mtp_layers.0.o_proj.weight BF16 128 128\n";

	(void)state;
	selection_gives_config("{" SIZES "}", tensors, "blockwise", NO_OPTIONS,
			       TAKEN("model.")
			       "local.layers.0.o_proj.weight: not of the language model\n"
			       "model.mtp_layers.0.o_proj.weight blockwise\n");
	/* nothing says which are the language model's */
	selection_gives_config("{\"hidden_size\": 128, \"num_hidden_layers\": 9}",
			       LAYERS("a.") LAYERS("b."), "blockwise", NO_OPTIONS,
			       TAKEN("a.") TAKEN("b."));
}

/* Where config.json describes another model, layers of any width apart from the main ones are its
 * own. */
static void layers_of_other_parts_are_kept(void **state)
{
	static const char config[] = "{\"text_config\": {" SIZES "}, "
				     "\"encoder_config\": {\"model_type\": \"conformer\"}}";
	static const char tensors[] = LAYERS("llm.model.")
		"llm.model.layers.1.q2.weight BF16 128 128\n"
		"llm.model.cross_layers.0.q.weight BF16 128 128\n"
		"mtp.layers.0.o_proj.weight BF16 128 256\n" LAYERS("model.encoder.");

	(void)state;
	selection_gives_config(config, tensors, "blockwise", NO_OPTIONS,
			       TAKEN("llm.model.")
			       "llm.model.layers.1.q2.weight blockwise\n"
			       "llm.model.cross_layers.0.q.weight blockwise\n"
			       "mtp.layers.0.o_proj.weight blockwise\n" KEPT("model.encoder."));
}

/* The encoder of a text model is quantized, that of a speech model is not. */
static void an_encoder_is_kept_where_it_is_another_model(void **state)
{
#define SEQ2SEQ(type)                                                                        \
	"{\"is_encoder_decoder\": true, \"decoder_config\": {\"model_type\": \"canary_x\", " \
	SIZES "}, \"encoder_config\": {\"model_type\": \"" type "\"}}"
	static const char tensors[] = LAYERS("encoder.") LAYERS("decoder.");

	(void)state;
	selection_gives_config(SEQ2SEQ("canary_y"), tensors, "blockwise", NO_OPTIONS,
			       TAKEN("encoder.") TAKEN("decoder."));
	selection_gives_config(SEQ2SEQ("parakeet_y"), tensors, "blockwise", NO_OPTIONS,
			       KEPT("encoder.") TAKEN("decoder."));
}

/* clang-format on */

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_modules_outside_are_kept),
		cmocka_unit_test(a_model_may_have_no_layers),
		cmocka_unit_test(a_user_decides),
		cmocka_unit_test(layers_of_another_width_are_kept),
		cmocka_unit_test(layers_of_other_parts_are_kept),
		cmocka_unit_test(an_encoder_is_kept_where_it_is_another_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
