/* SPDX-License-Identifier: Apache-2.0 */
#include "select/keep_list.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "select/keep_sets.h"

static int refuse_empty(const struct keep_params *params, struct err *err)
{
	if (params->max_kld > 0)
		return err_set(
			err, ERR_USAGE,
			"nothing would be quantized: by '%s' any group alone has a KLD above "
			"%g: give a larger --max-kld",
			params->path, params->max_kld);
	return err_set(err, ERR_USAGE,
		       "nothing would be quantized: every group fits the budget: give a smaller "
		       "--budget");
}

/* Returns the divergence that a choice saves for each byte. */
static double worth_of(const struct keep_choice *choice)
{
	double saved = choice->kld - choice->kld_left;

	return choice->n_added > 0 ? saved / (double)choice->n_added : INFINITY;
}

/* Sorts the largest first; equal ones stay in the order of units. */
static int compare_worth(const void *one, const void *other)
{
	double x = worth_of(one), y = worth_of(other);

	return (x < y) - (x > y);
}

static void add_choice(struct keep_list *list, const struct keep_sets *sets,
		       const struct keep_group_set *set, size_t chosen)
{
	const struct keep_option *option = &set->options[chosen];
	size_t way = set->ways[chosen];
	struct keep_choice choice = {
		.name = xstrdup(set->name),
		.recipe = way == KEEP_WAY_BF16 ? NULL : sets->offer->alternatives[way].recipe,
		.kld = set->options[0].kld,
		.kld_left = option->kld,
		.n_bytes = (uint64_t)option->n_bytes,
		.n_added = option->n_bytes - set->options[0].n_bytes,
	};

	list->n_added += choice.n_added;
	if (!choice.recipe) {
		list->n_bf16++;
		list->kept_bytes += set->bf16_bytes;
	}
	list->kept[list->n++] = choice;
}

static int choose(struct keep_list *list, struct keep_sets *sets, const struct keep_params *params,
		  struct err *err)
{
	struct keep_set *choices = xcalloc(sets->n, sizeof *choices);
	struct keep_limit limit = { .by_bytes = !(params->max_kld > 0), .kld = params->max_kld };

	list->all_bytes = sets->bf16_bytes;
	list->n_saved = (int64_t)sets->bf16_bytes - (int64_t)sets->fp8_bytes;
	limit.n_bytes = params->budget * (double)list->n_saved;
	for (size_t i = 0; i < sets->n; i++)
		choices[i] = (struct keep_set){ sets->list[i].options, sets->list[i].n_options, 0 };
	keep_choose(choices, sets->n, &limit);
	list->kept = xcalloc(sets->n + 1, sizeof *list->kept);
	for (size_t i = 0; i < sets->n; i++) {
		const struct keep_group_set *set = &sets->list[i];
		size_t chosen = choices[i].chosen;

		list->kld_before += set->options[0].kld;
		list->kld += set->options[chosen].kld;
		if (!chosen)
			continue;
		add_choice(list, sets, set, chosen);
		keep_sets_take(sets, set, chosen);
	}
	free(choices);
	sort(list->kept, list->n, sizeof *list->kept, compare_worth);
	if (list->all_bytes && list->kept_bytes == list->all_bytes)
		return refuse_empty(params, err);
	if (!limit.by_bytes && list->kld > limit.kld && !sets->offer->bf16)
		return err_set(err, ERR_USAGE,
			       "by '%s' no choice of what --keep-as allows has a KLD of at most "
			       "%g, but %g: allow bf16 too, or give a larger --max-kld",
			       params->path, limit.kld, list->kld);
	return 0;
}

int keep_list_make(struct keep_list *list, struct selection *selection,
		   const struct keep_offer *offer, const struct keep_params *params,
		   struct err *err)
{
	struct keep_sets sets = { .selection = selection, .offer = offer, .path = params->path };
	int rc;

	*list = (struct keep_list){ 0 };
	memcpy(list->file_sha256, offer->table->file_sha256, sizeof list->file_sha256);
	rc = keep_sets_make(&sets, err);
	rc = rc ? rc : choose(list, &sets, params, err);
	keep_sets_release(&sets);
	return rc;
}

void keep_list_release(struct keep_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->kept[i].name);
	free(list->kept);
	*list = (struct keep_list){ 0 };
}
