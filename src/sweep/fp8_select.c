/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/fp8_select.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/sort.h"

#define DEFAULT_RECIPE "blockwise"

static int check_unused(const struct fp8_params *params, struct err *err)
{
	const struct {
		const char *option;
		bool given;
	} options[] = {
		{ "--recipe", params->recipe },
		{ "--scale-fmt", params->scale_fmt },
		{ "--include", params->select.include.n },
		{ "--exclude", params->select.exclude.n },
		{ "--ragged", params->select.ragged },
	};

	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (options[i].given)
			return err_set(err, ERR_USAGE, "option '%s' requires '--fp8-forward'",
				       options[i].option);
	return 0;
}

/* Tunes the recipe: the scales of inputs have the same form as the weights' scales. */
static int tune(struct fp8_selection *selected, const struct fp8_params *params, struct err *err)
{
	const struct recipe *recipe =
		recipe_find(params->recipe ? params->recipe : DEFAULT_RECIPE, err);
	const struct recipe_tuning tuning = { .scale_fmt = params->scale_fmt };

	if (!recipe)
		return -1;
	selected->recipe = *recipe;
	if (recipe_weight_spec(recipe, &tuning, &selected->recipe.weight, err))
		return -1;
	if (params->scale_fmt)
		selected->recipe.input.pow2 = selected->recipe.weight.pow2;
	return 0;
}

/* Compares positions in the checkpoint. */
COMPARISON(compare_units, struct unit *const,
	   compare_tensor_places((*x)->source, (*y)->source)
		   ?: ORDER((*x)->slice.first, (*y)->slice.first))

size_t fp8_select_find(const struct fp8_selection *selected, const struct linear_ref *ref)
{
	const struct unit unit = { .source = ref->weight, .slice = ref->slice }, *key = &unit;
	size_t i;

	SEARCH(i, selected->n, compare_units(&selected->units[i], &key) < 0);
	return i < selected->n && !compare_units(&selected->units[i], &key) ? i : SIZE_MAX;
}

bool fp8_select_alternates(const struct fp8_selection *selected, const struct linear_ref *ref)
{
	size_t i = fp8_select_find(selected, ref), j;
	const struct unit *first = i == SIZE_MAX ? NULL : selected->units[i], *second;
	struct linear_ref next = *ref;

	if (!first || first->slice.row_stride != 2 * ref->slice.row_stride)
		return false;
	next.slice.first += ref->slice.row_stride;
	j = fp8_select_find(selected, &next);
	second = j == SIZE_MAX ? first : selected->units[j];
	return second != first && first->rows * 2 == ref->n && second->rows == first->rows &&
	       second->slice.row_stride == first->slice.row_stride &&
	       second->scale_group == first->scale_group;
}

/* A matrix that is quantized as one must also be multiplied as one, or hold another one's rows in
 * turn with its own. */
static int check_matrix(const struct fp8_selection *selected, const struct linear_ref *ref,
			struct err *err)
{
	size_t i = ref->weight ? fp8_select_find(selected, ref) : SIZE_MAX;

	if (i == SIZE_MAX ||
	    (selected->units[i]->cols == ref->k &&
	     (selected->units[i]->rows == ref->n || fp8_select_alternates(selected, ref))))
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' is multiplied as a matrix of (%zu, %zu), but quantized as (%" PRIu64
		       ", %" PRIu64 "): use --exclude to keep it",
		       ref->module, ref->n, ref->k, selected->units[i]->rows,
		       selected->units[i]->cols);
}

static int check_model(const struct fp8_selection *selected, const struct model *model,
		       struct err *err)
{
	for (size_t i = 0; i < model->n_layers; i++)
		for (size_t l = 0; l < layer_n_linears(&model->layers[i]); l++)
			if (check_matrix(selected, layer_linear_ref(&model->layers[i], l), err))
				return -1;
	return check_matrix(selected, &model->head, err);
}

static void list_units(struct fp8_selection *selected)
{
	const struct selection *selection = &selected->selection;

	selected->units = xcalloc(selection->n_quantized, sizeof *selected->units);
	for (size_t i = 0; i < selection->n_units; i++)
		if (selection->units[i].recipe)
			selected->units[selected->n++] = &selection->units[i];
	sort(selected->units, selected->n, sizeof *selected->units, compare_units);
}

int fp8_select_make(struct fp8_selection *selected, const struct fp8_params *params,
		    const struct checkpoint *checkpoint, const struct model *model, struct err *err)
{
	struct select_options select = params->select;

	*selected = (struct fp8_selection){ 0 };
	if (tune(selected, params, err))
		return -1;
	if (!params->forward)
		return check_unused(params, err);
	select.recipe = &selected->recipe;
	select.requantize = true; /* FP8 weights stay as they are, but their inputs are quantized */
	select.writes_nothing = true;
	if (selection_make(&selected->selection, checkpoint, &select, err))
		return -1;
	list_units(selected);
	return check_model(selected, model, err);
}

void fp8_select_release(struct fp8_selection *selected)
{
	free(selected->units);
	selection_release(&selected->selection);
	*selected = (struct fp8_selection){ 0 };
}

bool fp8_select_is_bf16(const struct fp8_selection *selected)
{
	const struct qspec *input = &selected->recipe.input;

	return input->pow2 || input->scale_type == SCALE_E8M0;
}

char *fp8_select_precision(const struct fp8_params *params, const char *precision)
{
	struct buf text = { 0 };

	buf_puts(&text, precision);
	if (params->forward)
		buf_printf(&text, ", fp8 %s", params->recipe ? params->recipe : DEFAULT_RECIPE);
	if (params->scale_fmt)
		buf_printf(&text, " --scale-fmt %s", params->scale_fmt);
	if (params->select.ragged)
		buf_puts(&text, " --ragged");
	for (size_t i = 0; i < params->select.include.n; i++)
		buf_printf(&text, " --include '%s'", params->select.include.list[i]);
	for (size_t i = 0; i < params->select.exclude.n; i++)
		buf_printf(&text, " --exclude '%s'", params->select.exclude.list[i]);
	return text.data;
}
