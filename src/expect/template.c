/* SPDX-License-Identifier: Apache-2.0
 *
 * Templates: the names that tensors have in their layers, and what they say.  A checkpoint of
 * 100,000 tensors has perhaps 50 of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "expect/steps.h"
#include "format/scale_names.h"
#include "names/experts.h"

/* Ends of names by which tools pack a weight, and the end that the weight has. */
static const struct {
	const char *packed, *weight;
} packings[] = {
	{ ".weight_packed", ".weight" },
	{ ".qweight", ".weight" },
	{ "_proj_blocks", "_proj" },
};

/* What lies beside such a weight, and buffers that some tools drop. */
static const char *const beside[] = {
	".weight_shape", ".weight_zero_point", ".weight_g_idx", ".qzeros", ".scales",
	".g_idx",	 "_proj_scales",       ".inv_freq",	".absmax", ".SCB",
};

#define BIAS "_bias" /* "experts.gate_up_proj_bias" */

static bool is_ignored(const char *name)
{
	for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
		if (text_ends(name, beside[i]))
			return true;
	return scale_name_find(name);
}

const char *expect_template_name(const struct expect *expect, uint32_t template, size_t *len)
{
	const struct intern_entry *entry = &expect->names.entries[template];

	*len = entry->len;
	return expect->names.keys.data + entry->offset;
}

uint32_t expect_template(struct expect *expect, const char *name, size_t len)
{
	size_t n = expect->names.n, number = intern_add(&expect->names, name, len);
	struct template *template;
	struct buf path = { 0 };

	if (number < n)
		return (uint32_t)number;
	ARRAY_GROW(expect->templates, n);
	template = &expect->templates[number];
	*template = (struct template){ .parts = { EXPECT_NONE, EXPECT_NONE } };
	buf_puts(&path, "layers.0.");
	buf_add(&path, name, len);
	role_of_name(&template->facts, path.data);
	template->ignored = is_ignored(path.data);
	buf_release(&path);
	return (uint32_t)number;
}

/* Returns the template of a whole name. */
static uint32_t template_of(struct expect *expect, const char *name)
{
	struct layer_name split;
	struct buf rest = { 0 };
	uint32_t template;

	layer_name_split(&split, name);
	layer_name_template(&split, name, &rest);
	template = expect_template(expect, rest.data, rest.len);
	expect->templates[template].expert = split.expert_at > 0;
	expect->templates[template].routed = split.routed;
	buf_release(&rest);
	return template;
}

static void add_part(struct expect *expect, uint32_t template, int i, const char *name,
		     enum expert_part part)
{
	bool bias = text_ends(name, BIAS);
	char *one = experts_part_name(name, part, 0, bias ? "bias" : "weight");

	/* templates may move */
	uint32_t number = template_of(expect, one);

	expect->templates[template].parts[i] = number;
	free(one);
}

/* Finds what a tensor of all experts holds of each. */
static void find_parts(struct expect *expect, uint32_t template, const char *name)
{
	const struct role_facts *facts = &expect->templates[template].facts;
	char *weight = xstrndup(name, strlen(name) - (text_ends(name, BIAS) ? sizeof BIAS - 1 : 0));
	enum experts_content content = experts_content(weight);

	free(weight);
	if (facts->in_any_experts && !facts->in_experts)
		return; /* experts that are not routed have other layouts */
	switch (content) {
	case EXPERTS_GATE_UP:
	case EXPERTS_INTERLEAVED:
		add_part(expect, template, 0, name, EXPERT_GATE);
		add_part(expect, template, 1, name, EXPERT_UP);
		break;
	case EXPERTS_GATE:
		add_part(expect, template, 0, name, EXPERT_GATE);
		break;
	case EXPERTS_UP:
		add_part(expect, template, 0, name, EXPERT_UP);
		break;
	case EXPERTS_DOWN:
		add_part(expect, template, 0, name, EXPERT_DOWN);
		break;
	case EXPERTS_UNKNOWN:
		break;
	}
}

/* Returns the name that the weight has which a tensor packs; NULL: it packs none.  The caller frees
 * it. */
static char *packed_weight(const char *name)
{
	for (size_t i = 0; i < sizeof packings / sizeof *packings; i++)
		if (text_ends(name, packings[i].packed))
			return xasprintf("%.*s%s", (int)(strlen(name) - strlen(packings[i].packed)),
					 name, packings[i].weight);
	return NULL;
}

void expect_template_learn(struct expect *expect, uint32_t template, const struct st_tensor *tensor,
			   const struct layer_name *split)
{
	char *weight = packed_weight(tensor->name);
	const char *name = weight ? weight : tensor->name;

	expect->templates[template].expert = split->expert_at > 0;
	expect->templates[template].routed = split->routed;
	if (tensor->n_dims >= (text_ends(name, BIAS) ? 2 : 3) && !split->expert_at)
		find_parts(expect, template, name);
	if (weight && expect->templates[template].parts[0] == EXPECT_NONE) {
		uint32_t number = template_of(expect, weight);

		expect->templates[template].parts[0] = number;
	}
	free(weight);
}
