/* SPDX-License-Identifier: Apache-2.0
 *
 * The experts of a layer are numbered from 0 to E-1, and each has the same matrices.  E is that of
 * config.json for routed experts of the language model, else the highest number.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "expect/steps.h"

#define MAX_EXPERTS 65536 /* as quantize accepts */

/* Returns the name of the first expert's tensor that the member lacks, which the caller frees. */
static char *first_missing(const struct expect *expect, const struct expect_member *member,
			   uint64_t n)
{
	const struct cell *cell = &expect->cells[member->cell], *end = cell;
	unsigned char *has = xcalloc(n, 1);
	const char *name = expect_tensor(expect, member)->name;
	struct layer_name split;
	uint64_t expert = 0;
	char *missing;

	for (; end < expect->cells + expect->n_cells && end->layer == cell->layer &&
	       end->template == cell->template;
	     end++)
		if (end->expert < n)
			has[end->expert] = 1;
	while (expert + 1 < n && has[expert])
		expert++;
	free(has);
	layer_name_split(&split, name);
	missing = xasprintf("%.*s%" PRIu64 "%s", (int)split.expert_at, name, expert,
			    strchr(name + split.expert_at, '.'));
	return missing;
}

/* Families whose config.json counts the experts of one modality of several. */
static const struct {
	const char *model_type;
	uint64_t times;
} modalities[] = {
	{ "ernie4_5_vl_moe", 2 }, /* text and images */
};

/* Returns the number of routed experts that config.json counts; 0: it counts none. */
static uint64_t n_counted(const struct expect *expect)
{
	uint64_t n = expect->config.size[CONFIG_EXPERTS];

	for (size_t i = 0; i < sizeof modalities / sizeof *modalities; i++)
		for (size_t m = 0; m < expect->config.n_model_types; m++)
			if (!strcmp(expect->config.model_types[m], modalities[i].model_type))
				n *= modalities[i].times;
	return n;
}

/* Returns the number of experts that compute nothing, of which some files have matrices. */
static uint64_t n_zero_experts(const struct expect *expect)
{
	json_int_t n = json_integer_value(json_object_get(expect->level, "zero_expert_num"));

	return n > 0 ? (uint64_t)n : 0;
}

/* The experts of a layer. */
struct experts {
	bool routed, counted;		  /* counted: config.json says their number */
	uint64_t n;			  /* which each matrix must have */
	const struct expect_member *most; /* with the highest number */
	const struct expect_member *less; /* the first that lacks some; NULL: none */
	uint64_t lacking;		  /* of all matrices */
};

static bool is_of(const struct expect *expect, const struct experts *experts,
		  const struct expect_member *member)
{
	const struct template *template = &expect->templates[member->template];

	return template->expert && template->routed == experts->routed;
}

static void report_count(struct expect *expect, const struct expect_member *member, uint32_t has,
			 uint64_t n)
{
	const char *name = expect_tensor(expect, member)->name;

	expect_add(expect, EXPECT_SHAPE, name, 1,
		   "'%s' is one of %" PRIu32
		   " experts of its layer, but config.json counts %" PRIu64,
		   name, has, n);
}

static void report_missing(struct expect *expect, const struct experts *experts)
{
	char *name = first_missing(expect, experts->less, experts->n);

	expect_add(expect, EXPECT_TENSOR, name, experts->lacking,
		   "'%s' is missing, the first of %" PRIu64 ": %s %" PRIu64 " experts, and %" PRIu32
		   " have this matrix",
		   name, experts->lacking,
		   experts->counted ? "config.json counts" : "the layer has", experts->n,
		   experts->less->n);
	free(name);
}

static void check_layer(struct expect *expect, const struct expect_layer *layer, bool routed)
{
	struct experts experts = { .routed = routed };
	uint64_t n = n_counted(expect);

	for (size_t i = 0; i < layer->n; i++) {
		const struct expect_member *member = &expect->members[layer->first + i];

		if (is_of(expect, &experts, member) &&
		    (!experts.most || member->end > experts.most->end))
			experts.most = member;
	}
	if (!experts.most)
		return;
	experts.counted = routed && n && expect->main == &expect->stacks[layer->stack];
	experts.n = experts.counted ? n : experts.most->end;
	for (size_t i = 0; i < layer->n; i++) {
		const struct expect_member *member = &expect->members[layer->first + i];

		if (!is_of(expect, &experts, member) || member->n >= experts.n)
			continue;
		experts.lacking += experts.n - member->n;
		if (!experts.less || member->cell < experts.less->cell)
			experts.less = member;
	}
	if (experts.most->end > experts.n + n_zero_experts(expect))
		report_count(expect, experts.most, experts.most->end, experts.n);
	else if (experts.less && (experts.n > MAX_EXPERTS ||
				  expect->cells[experts.less->cell].expert == EXPECT_NONE))
		report_count(expect, experts.less, experts.less->n, experts.n);
	else if (experts.less)
		report_missing(expect, &experts);
}

void expect_experts(struct expect *expect)
{
	for (size_t i = 0; i < expect->n_layers; i++) {
		if (!expect->stacks[expect->layers[i].stack].is_uniform)
			continue;
		check_layer(expect, &expect->layers[i], true);
		check_layer(expect, &expect->layers[i], false);
	}
}
