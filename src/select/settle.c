/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a finished selection, and changes it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "select/steps.h"

static void unit_keep(struct unit *unit, char *reason)
{
	unit->recipe = NULL;
	free(unit->reason);
	unit->reason = reason;
}

void selection_keep(struct selection *selection, size_t i, const char *reason)
{
	struct unit *units = selection->units;

	if (!units[i].recipe)
		return;
	unit_keep(&units[i], xstrdup(reason));
	for (size_t u = units[i].next_joint; u != i; u = units[u].next_joint) {
		if (units[u].recipe)
			unit_keep(&units[u],
				  xasprintf("fused with '%s', which is kept", units[i].name));
		units[u].part = false;
	}
}

/* Is it a kept matrix of fused experts, or its bias?  It has another name than its source. */
static bool is_kept_slice(const struct unit *unit)
{
	return !unit->recipe && !unit->part && strcmp(unit->name, unit->source->tensor->name) != 0;
}

/* Joins the kept slices of each source, which are adjacent, into one unit.  places[i]: the new
 * index of unit i. */
static void join_slices(struct selection *selection, uint32_t *places)
{
	struct unit *units = selection->units;
	const struct tensor_ref *joined = NULL;
	uint32_t n = 0;

	for (size_t i = 0; i < selection->n_units; i++) {
		struct unit *unit = &units[i];

		places[i] = n;
		if (is_kept_slice(unit)) {
			if (unit->source == joined) {
				free(unit->reason);
				continue;
			}
			joined = unit->source;
			unit->name = joined->tensor->name;
		}
		units[n++] = *unit;
	}
	selection->n_units = n;
}

int selection_settle(struct selection *selection, struct err *err)
{
	uint32_t *places = xcalloc(selection->n_units, sizeof *places);

	join_slices(selection, places);
	for (uint32_t i = 0; i < selection->n_units; i++) {
		struct unit *unit = &selection->units[i];

		if (unit->recipe || unit->part) {
			unit->next_joint = places[unit->next_joint];
		} else {
			unit->next_joint = i;
			unit->rows = unit->cols = unit->stack = 0;
			unit->slice = (struct slice){ 0 };
			unit->scale_group = 0;
		}
	}
	free(places);
	return selection_check(selection, NULL, err);
}

/* Returns the first unit kept for the reason that most linear weights share, or most tensors if
 * none is linear.  asked_for: only of units that --include matches. */
static const struct unit *commonest(const struct selection *selection, bool asked_for)
{
	struct {
		size_t first, n;
	} *counts = xcalloc(selection->n_units, sizeof *counts);
	struct intern reasons = { 0 };
	const struct unit *found = NULL;
	size_t n_max = 0;

	for (size_t i = 0; i < selection->n_units; i++) {
		const struct unit *unit = &selection->units[i];
		size_t known = reasons.n, reason;

		if (selection->n_linear && !unit->linear)
			continue;
		if (asked_for && !strcmp(unit->reason, NOT_INCLUDED))
			continue;
		reason = intern_add(&reasons, unit->reason, strlen(unit->reason));
		if (reason == known)
			counts[reason].first = i;
		if (++counts[reason].n > n_max) {
			n_max = counts[reason].n;
			found = &selection->units[counts[reason].first];
		}
	}
	intern_release(&reasons);
	free(counts);
	return found;
}

static int refuse_empty(const struct selection *selection, const char *hint, struct err *err)
{
	const struct unit *kept = commonest(selection, true);

	if (!kept) {
		kept = commonest(selection, false);
		hint = "no --include matches a linear weight";
	}
	if (!kept)
		return err_set(err, ERR_USAGE, "nothing to quantize: the input has no tensors");
	if (kept->linear && !strcmp(kept->reason, "adapter"))
		hint = "merge it into its base model first (merge_and_unload() of peft)";
	if (selection->n_units == 1)
		return err_set(err, ERR_USAGE,
			       "nothing to quantize: the only tensor, '%s', is kept: %s%s%s",
			       kept->name, kept->reason, hint ? "; " : "", hint ? hint : "");
	return err_set(err, ERR_USAGE,
		       "nothing to quantize: all %zu tensors are kept, %zu of them linear "
		       "weights, for example '%s': %s%s%s",
		       selection->n_units, selection->n_linear, kept->name, kept->reason,
		       hint ? "; " : "", hint ? hint : "");
}

/* Returns the recipe that takes a weight which its shape keeps: mxfp8 has the groups of 32 columns
 * that most low-bit weights have. */
static const char *other_recipe(const struct unit *unit)
{
	enum dtype dtype = unit->source->tensor->dtype;

	return dtype == DT_MXFP4 || dtype == DT_INT4 ? "mxfp8" : "channelwise";
}

/* Refuses to keep codes: they need their scale, whose name and kind belong to the source's
 * format. */
static int check_kept(const struct unit *unit, struct err *err)
{
	const char *type = dtype_name(unit->source->tensor->dtype);
	const char *kind = unit->low_bit ? "low-bit" : "FP8";

	if (!unit_is_coded(unit) || unit->passed)
		return 0;
	if (unit->rule == RULE_SHAPE)
		return err_set(err, ERR_USAGE,
			       "tensor '%s' is %s and would be kept (%s), but %s tensors can only "
			       "be quantized again: use --recipe %s, which takes its shape, or "
			       "'fp8conv dequantize' first",
			       unit->name, type, unit->reason, kind, other_recipe(unit));
	return err_set(err, ERR_USAGE,
		       "tensor '%s' is %s and would be kept (%s), but %s tensors can only be "
		       "quantized again: use 'fp8conv dequantize' first",
		       unit->name, type, unit->reason, kind);
}

int selection_check(struct selection *selection, const char *hint, struct err *err)
{
	selection->n_quantized = selection->n_linear = selection->n_linear_kept = 0;
	for (size_t i = 0; i < selection->n_units; i++) {
		const struct unit *unit = &selection->units[i];

		selection->n_linear += unit->linear;
		selection->n_quantized += unit->recipe != NULL;
		if (unit->recipe)
			continue;
		selection->n_linear_kept += unit->linear;
		if (!selection->writes_nothing && check_kept(unit, err))
			return -1;
	}
	return selection->n_quantized ? 0 : refuse_empty(selection, hint, err);
}

void selection_release(struct selection *selection)
{
	for (size_t i = 0; i < selection->n_units; i++)
		free(selection->units[i].reason);
	free(selection->units);
	arena_release(&selection->names);
	low_bit_release(&selection->low_bit);
	notes_release(&selection->notes);
	*selection = (struct selection){ 0 };
}
