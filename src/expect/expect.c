/* SPDX-License-Identifier: Apache-2.0 */
#include "expect/expect.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "expect/steps.h"

/* What some families lack, or have of another size, though their other layers or config.json say
 * otherwise.  Source: transformers 5.23,
 * modeling_<family>.py. */
static const struct {
	const char *model_type;
	const char *name; /* end of the tensor's name, or EXPECT_LAST_NORM */
} lacking[] = {
	{ "modernbert", "layers.0.attn_norm.weight" },
	{ "modernbert-decoder", "layers.0.attn_norm.weight" },
	/* they normalize after each attention and MLP */
	{ "bart", EXPECT_LAST_NORM },
	{ "bigbird_pegasus", EXPECT_LAST_NORM },
	{ "blenderbot-small", EXPECT_LAST_NORM },
	{ "marian", EXPECT_LAST_NORM },
	{ "mvp", EXPECT_LAST_NORM },
	{ "openai-gpt", EXPECT_LAST_NORM },
	{ "plbart", EXPECT_LAST_NORM },
	{ "prophetnet", EXPECT_LAST_NORM },
	{ "trocr", EXPECT_LAST_NORM },
	/* transformers saves its dense MLP under the name of the experts */
	{ "kimi_linear", "mlp.up_proj.weight" },
	/* the first layer's MLP is dense */
	{ "axk1", "layers.0.post_mlp_layernorm.weight" },
	/* rows for tokens beside vocab_size */
	{ "mllama_text_model", "embed_tokens.weight" },
	{ "moshi", "embed_tokens.weight" },
	{ "kyutai_speech_to_text", "embed_tokens.weight" },
	/* half of intermediate_size */
	{ "recurrent_gemma", "mlp_block.gate_proj.weight" },
	{ "recurrent_gemma", "mlp_block.up_proj.weight" },
	{ "recurrent_gemma", "mlp_block.down_proj.weight" },
	/* experts in a latent space that is as wide as they are */
	{ "muse_spark_text", "experts.gate_up_proj" },
};

bool expect_may_lack(const struct expect *expect, const char *name)
{
	for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
		size_t n = strlen(name), n_end = strlen(lacking[i].name);

		for (size_t m = 0; m < expect->config.n_model_types; m++)
			if (!strcmp(expect->config.model_types[m], lacking[i].model_type) &&
			    n >= n_end && !strcmp(name + n - n_end, lacking[i].name))
				return true;
	}
	return false;
}

void expect_add(struct expect *expect, enum expect_kind kind, const char *tensor, size_t n,
		const char *format, ...)
{
	struct expect_gaps *gaps = expect->gaps;
	char message[1024];
	va_list args;

	for (size_t i = 0; tensor && i < gaps->n && i < 64; i++)
		if (gaps->list[i].tensor && !strcmp(gaps->list[i].tensor, tensor))
			return; /* two steps noticed it */
	if (tensor && (kind == EXPECT_TENSOR || kind == EXPECT_SHAPE) &&
	    expect_may_lack(expect, tensor))
		return;
	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	text_sanitize(message);
	ARRAY_GROW(gaps->list, gaps->n);
	gaps->list[gaps->n++] = (struct expect_gap){ .kind = kind,
						     .tensor = tensor ? xstrdup(tensor) : NULL,
						     .message = xstrdup(message),
						     .n = n };
}

static void release(struct expect *expect)
{
	model_config_release(&expect->config);
	json_decref(expect->root);
	intern_release(&expect->kinds);
	intern_release(&expect->names);
	free(expect->templates);
	free(expect->cells);
	free(expect->members);
	free(expect->layers);
	free(expect->stacks);
	free(expect->outside);
	free(expect->outline);
}

int expect_find(struct expect_gaps *gaps, const struct checkpoint *checkpoint, struct err *err)
{
	struct expect expect = { .checkpoint = checkpoint, .gaps = gaps };
	int rc = -1;

	*gaps = (struct expect_gaps){ 0 };
	if (!checkpoint->config.len || checkpoint->n_found < checkpoint->n_expected)
		return 0;
	if (expect_read_config(&expect, err))
		goto out;
	expect_layers(&expect);
	expect_judge(&expect);
	expect_wrapped(&expect);
	expect_numbers(&expect);
	expect_kinds(&expect);
	expect_parts(&expect);
	expect_shapes(&expect);
	expect_sizes(&expect);
	expect_experts(&expect);
	expect_ends(&expect);
	expect_model(&expect);
	rc = 0;
out:
	release(&expect);
	return rc;
}

void expect_release(struct expect_gaps *gaps)
{
	for (size_t i = 0; i < gaps->n; i++) {
		free(gaps->list[i].tensor);
		free(gaps->list[i].message);
	}
	free(gaps->list);
	*gaps = (struct expect_gaps){ 0 };
}

/* Is it a parameter that every model gives elements?  A buffer may have none. */
static bool is_parameter(const struct st_tensor *tensor)
{
	struct role_facts facts;

	role_of_name(&facts, tensor->name);
	if (tensor->n_dims == 1 && facts.role <= ROLE_EXPERTS_UNKNOWN)
		return true;
	/* two dimensions under a name that no model has may be meant so */
	if (!facts.weight || (tensor->n_dims != 1 && facts.parallel == PARALLEL_REPLICATED))
		return false;
	return facts.linear || facts.role == ROLE_EMBEDDING || facts.role == ROLE_NORM;
}

int expect_elements(const struct checkpoint *checkpoint, struct err *err)
{
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct st_tensor *tensor = checkpoint->tensors[i].tensor;

		if (tensor->end > tensor->begin || !tensor->n_dims || !is_parameter(tensor))
			continue;
		return err_set(
			err, ERR_INPUT,
			"weight '%s' is %s, without elements, as a ZeRO-3 rank saves it: gather "
			"the weights first, by zero_to_fp32.py",
			tensor->name, st_shape(tensor).text);
	}
	return 0;
}
