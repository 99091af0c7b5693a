/* SPDX-License-Identifier: Apache-2.0
 *
 * Output shards of a given size.  The rule is that of split_state_dict_into_shards_factory() in
 * huggingface_hub 2.4: tensors in order, each to the current file unless that would become too
 * large; a tensor above the limit has a file of its own, and the current one stays open.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "plan/bands.h"
#include "plan/plan.h"

#define SUFFIX ".safetensors"

size_t output_unit_end(const struct output_shard *shard, size_t i)
{
	size_t unit = shard->outputs[i].unit;

	while (i < shard->n_tensors && shard->outputs[i].unit == unit)
		i++;
	return i;
}

/* Returns the bytes of a tensor that has no place yet. */
static uint64_t output_size(const struct st_tensor *tensor)
{
	return st_n_elements(tensor->shape, tensor->n_dims) * dtype_bits(tensor->dtype) / 8;
}

/* The shards that are full. */
struct shard_list {
	size_t n;
	struct output_shard *list;
};

/* Ends a shard, and makes it empty. */
static void close_shard(struct plan *plan, struct shard_list *shards, struct output_shard *shard)
{
	for (size_t i = 0; i < shard->n_tensors; i = output_unit_end(shard, i)) {
		struct plan_unit *unit = &plan->units[shard->outputs[i].unit];

		unit->shard = (uint32_t)shards->n;
		unit->first_output = (uint32_t)i;
	}
	ARRAY_GROW(shards->list, shards->n);
	shards->list[shards->n++] = *shard;
	*shard = (struct output_shard){ 0 };
}

static void move_outputs(const struct output_shard *from, size_t first, size_t end,
			 struct output_shard *to)
{
	to->source = to->source ? to->source : from->source;
	for (size_t i = first; i < end; i++) {
		to->input_bytes += output_source_bytes(from, i, output_size(&from->tensors[i]));
		to->data_size += output_size(&from->tensors[i]);
		ARRAY_GROW(to->outputs, to->n_tensors);
		to->outputs[to->n_tensors] = from->outputs[i];
		output_shard_add(to, &from->tensors[i]);
	}
}

/* Lays the outputs of a unit into the open shard, or into one of its own. */
static void lay_unit(struct plan *plan, struct shard_list *shards, struct output_shard *open,
		     const struct output_shard *from, size_t first, size_t end)
{
	struct output_shard own = { 0 };
	uint64_t size = 0;

	for (size_t i = first; i < end; i++)
		size += output_size(&from->tensors[i]);
	if (size > plan->max_shard_size) {
		move_outputs(from, first, end, &own);
		close_shard(plan, shards, &own);
		return;
	}
	if (open->data_size + size > plan->max_shard_size)
		close_shard(plan, shards, open);
	move_outputs(from, first, end, open);
}

/* Returns the bytes of a file's name before "-00001-of-00002.safetensors" or ".safetensors". */
static size_t stem_len(const char *name)
{
	size_t n = strlen(name);
	int end = 0;

	n -= text_ends(name, SUFFIX) ? strlen(SUFFIX) : 0;
	if (n > 15)
		sscanf(name + n - 15, "-%*5[0-9]-of-%*5[0-9]%n", &end);
	return end == 15 ? n - 15 : n;
}

/* Gives the shards the names that Hugging Face's rule gives: those of the source with new numbers,
 * because loaders of other layouts look for "consolidated" or "diffusion_pytorch_model". */
static void name_shards(struct plan *plan, struct shard_list *shards)
{
	const char *stem = plan->source.shards[0].name;
	size_t len = stem_len(stem);

	for (size_t i = 1; i < plan->source.n_shards; i++) {
		const char *name = plan->source.shards[i].name;

		if (stem_len(name) == len && !strncmp(name, stem, len))
			continue;
		stem = "model";
		len = strlen(stem);
		break;
	}
	for (size_t i = 0; i < shards->n; i++) {
		char *name = shards->n == 1 ? xasprintf("%.*s" SUFFIX, (int)len, stem)
					    : xasprintf("%.*s-%05zu-of-%05zu" SUFFIX, (int)len,
							stem, i + 1, shards->n);

		shards->list[i].name = arena_take(&plan->texts, name);
	}
}

void plan_cut_shards(struct plan *plan)
{
	struct output_shard open = { 0 };
	struct shard_list shards = { 0 };
	uint64_t counted = 0;

	for (size_t s = 0; s < plan->n_shards; s++) {
		struct output_shard *from = &plan->shards[s];

		for (size_t i = 0, end; i < from->n_tensors; i = end) {
			end = output_unit_end(from, i);
			lay_unit(plan, &shards, &open, from, i, end);
		}
		free(from->tensors);
		free(from->outputs);
	}
	if (open.n_tensors)
		close_shard(plan, &shards, &open);
	name_shards(plan, &shards);
	for (size_t i = 0; i < shards.n; i++)
		counted += shards.list[i].input_bytes;
	/* what no output is made of, as scales that are left out, counts with the last file */
	if (shards.n && counted < plan->totals.input_bytes)
		shards.list[shards.n - 1].input_bytes += plan->totals.input_bytes - counted;
	free(plan->shards);
	plan->shards = shards.list;
	plan->n_shards = shards.n;
}
