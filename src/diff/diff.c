/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists what each side has by the names of the model, pairs it, compares the pairs and sorts them.
 */
#include "diff/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pattern.h"
#include "base/sort.h"
#include "base/text.h"
#include "diff/files.h"
#include "diff/values.h"
#include "select/fp8_units.h"

const char *diff_kind_name(enum diff_kind kind)
{
#define NAME(id, name) name,
	static const char *const names[] = { DIFF_KINDS(NAME) };

	return names[kind];
}

double diff_sqnr(const struct diff_counts *counts)
{
	if (!(counts->signal > 0) && !(counts->noise > 0))
		return NAN;
	return counts->noise > 0 ? 10 * log10(counts->signal / counts->noise) : INFINITY;
}

bool diff_is_none(const struct difference *difference)
{
	return difference->n_of[DIFF_NONE] == difference->n_tensors && !difference->n_keys &&
	       !difference->n_files;
}

/* --- what a side has --- */

/* Sets what the tensor is.  Returns its scale, which belongs to it, or NULL. */
static const struct tensor_ref *set_unit(const struct diff_side *side, size_t i, struct unit *unit)
{
	const struct tensor_ref *ref = &side->checkpoint.tensors[i];
	const struct low_bit_weight *low_bit =
		low_bit_is_part(&side->low_bit, i) ? NULL : low_bit_of(&side->low_bit, i);
	struct err ignored;

	*unit = (struct unit){ .name = ref->tensor->name, .source = ref };
	if (low_bit) {
		unit->name = ((struct low_bit_weight *)low_bit)->tensor.name;
		unit->source = &low_bit->ref;
		unit->low_bit = low_bit;
		unit->source_scale =
			(struct weight_scale){ .scale = low_bit->scale,
					       .tile = { 1, low_bit->packing->group } };
		fp8_unit_low_bit(unit);
	} else if (detection_is_weight(ref)) {
		if (fp8_source_scale(&side->detection, ref, &unit->source_scale, &ignored))
			unit->source_scale = (struct weight_scale){ 0 };
		else
			fp8_unit_layout(unit);
	}
	return unit->source_scale.scale;
}

static void list_units(struct diff_side *side)
{
	const struct checkpoint *checkpoint = &side->checkpoint;
	bool *belongs = xcalloc(checkpoint->n_tensors, sizeof *belongs);
	const struct tensor_ref *scale;
	struct unit unit;

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		scale = set_unit(side, i, &unit);
		if (scale)
			belongs[low_bit_index(checkpoint, scale)] = true;
	}
	side->units = xcalloc(checkpoint->n_tensors, sizeof *side->units);
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		if (!belongs[i])
			set_unit(side, i, &side->units[side->n_units++]);
	sort(side->units, side->n_units, sizeof *side->units, text_compare); /* by name */
	free(belongs);
}

static int side_open(struct diff_side *side, const struct diff_params *params, const char *path,
		     struct err *err)
{
	struct err ignored;

	if (checkpoint_open(&side->checkpoint, params->io, path, params->n_threads, err) ||
	    (path == params->paths[0] &&
	     checkpoint_rename(&side->checkpoint, &params->renames, err)))
		return -1;
	source_init(&side->files, params->io, &side->checkpoint, params->backend, -1);
	if (fp8_source_detect(&side->detection, &side->checkpoint, params->io, err))
		return -1;
	/* Weights that do not fit their scales are compared as the tensors that they are. */
	if (low_bit_find(&side->low_bit, &side->checkpoint, &ignored))
		ignored.kind = ERR_NONE;
	list_units(side);
	return 0;
}

/* --- what can be compared --- */

/* Is the tensor read as rows and columns?  Others are read as one row. */
static bool is_matrix(const struct unit *unit)
{
	return unit->slice.col_stride != 0;
}

static void lay_flat(struct unit *unit)
{
	const struct st_tensor *tensor = unit->source->tensor;

	if (!unit->part) {
		unit->slice = (struct slice){ .row_stride = 1 };
		unit->rows = st_tensor_size(tensor) / diff_element_size(tensor->dtype);
	}
	unit->cols = unit->rows;
	unit->rows = 1;
	unit->slice.col_stride = unit->slice.row_stride;
	unit->slice.row_stride = unit->cols;
}

/* Gives both units of a tensor the same rows and columns.  Returns false if the shapes differ. */
static bool lay_out(const struct diff_tensor *tensor)
{
	struct unit *const *units = tensor->units;
	bool flat = !tensor->has_values || (!is_matrix(units[0]) && !is_matrix(units[1]));

	if (flat && !units[0]->part && !units[1]->part &&
	    !st_same_shape(units[0]->source->tensor, units[1]->source->tensor))
		return false;
	for (int s = 0; s < 2; s++) {
		if (flat)
			lay_flat(units[s]);
		else if (!is_matrix(units[s]) && (units[s]->source->tensor->n_dims | 1) == 3)
			fp8_unit_layout(units[s]);
	}
	return units[0]->rows == units[1]->rows && units[0]->cols == units[1]->cols &&
	       units[0]->stack == units[1]->stack;
}

/* Can the unit be read as numbers? */
static bool is_readable(const struct unit *unit)
{
	return unit->source_scale.scale || dtype_is_float(diff_type(unit)) || unit->low_bit;
}

/* Are the elements of one type?  A matrix of packed experts is no whole number of their bytes. */
static bool has_same_elements(const struct unit *a, const struct unit *b)
{
	if (!a->low_bit && !b->low_bit)
		return diff_type(a) == diff_type(b);
	return a->low_bit && b->low_bit && a->low_bit->packing == b->low_bit->packing &&
	       !unit_is_cut(a) && !unit_is_cut(b);
}

static void classify(struct diff_tensor *tensor)
{
	struct unit **units = tensor->units;

	if (!units[0] || !units[1]) {
		tensor->kind = units[0] ? DIFF_ONLY_A : DIFF_ONLY_B;
		return;
	}
	tensor->kind = DIFF_NONE;
	tensor->has_values = is_readable(units[0]) && is_readable(units[1]);
	tensor->has_codes = has_same_elements(units[0], units[1]);
	if (!lay_out(tensor))
		tensor->kind = DIFF_SHAPE;
	else if (!tensor->has_values && !tensor->has_codes)
		tensor->kind = DIFF_TYPE;
	tensor->n_elements = units[0]->rows * units[0]->cols;
}

/* --- pairs --- */

static void add_tensor(struct difference *difference, const char *name, struct unit *a,
		       struct unit *b)
{
	ARRAY_GROW(difference->tensors, difference->n_tensors);
	difference->tensors[difference->n_tensors++] =
		(struct diff_tensor){ .name = name, .units = { a, b } };
}

static void pair_names(struct difference *difference)
{
	struct diff_side *a = &difference->sides[0], *b = &difference->sides[1];

	for (size_t i = 0, j = 0; i < a->n_units || j < b->n_units;) {
		int order = i == a->n_units   ? 1
			    : j == b->n_units ? -1
					      : strcmp(a->units[i].name, b->units[j].name);

		add_tensor(difference, order <= 0 ? a->units[i].name : b->units[j].name,
			   order <= 0 ? &a->units[i] : NULL, order >= 0 ? &b->units[j] : NULL);
		i += order <= 0;
		j += order >= 0;
	}
}

/* Returns the tensor of that name among the first n, which are sorted, or NULL. */
static struct diff_tensor *find_tensor(struct difference *difference, size_t n, const char *name)
{
	return n ? bsearch(&name, difference->tensors, n, sizeof *difference->tensors, text_compare)
		 : NULL;
}

static bool is_alone(const struct diff_tensor *tensor, int s)
{
	return tensor && tensor->units[s] && !tensor->units[!s];
}

/* Pairs the matrices of side s's fused experts with those that the other side has by themselves.
 * Of a tensor that has some of them, the others are alone, and the whole has no unit. */
static void pair_experts(struct difference *difference, int s)
{
	struct selection *cut = &difference->sides[s].cut;
	size_t n = difference->n_tensors;
	bool *paired = xcalloc(n, sizeof *paired);

	for (size_t i = 0; i < cut->n_units; i++) {
		struct unit *unit = &cut->units[i];
		const char *name = unit->source->tensor->name;
		struct diff_tensor *whole = find_tensor(difference, n, name),
				   *part = find_tensor(difference, n, unit->name);

		if (whole != part && is_alone(whole, s) && is_alone(part, !s)) {
			part->units[s] = unit;
			paired[whole - difference->tensors] = true;
		}
	}
	for (size_t i = 0; i < cut->n_units; i++) {
		struct unit *unit = &cut->units[i];
		struct diff_tensor *whole = find_tensor(difference, n, unit->source->tensor->name);

		if (whole && paired[whole - difference->tensors] &&
		    !find_tensor(difference, n, unit->name))
			add_tensor(difference, unit->name, s ? NULL : unit, s ? unit : NULL);
	}
	for (size_t i = 0; i < n; i++)
		if (paired[i])
			difference->tensors[i].units[s] = NULL;
	free(paired);
}

/* Does the tensor only describe a packed weight, which the other side has in another way? */
static bool is_description(const struct difference *difference, const struct diff_tensor *tensor)
{
	int s = tensor->units[0] ? 0 : 1;
	const struct diff_side *side = &difference->sides[s];
	const struct unit *unit = tensor->units[s];

	return !tensor->units[!s] && !unit->low_bit &&
	       low_bit_is_part(&side->low_bit, low_bit_index(&side->checkpoint, unit->source));
}

static int match_any(const struct pattern *patterns, size_t n, const char *name, bool *matches,
		     struct err *err)
{
	*matches = false;
	for (size_t i = 0; i < n && !*matches; i++)
		if (pattern_match(&patterns[i], name, matches, err))
			return -1;
	return 0;
}

/* Removes tensors without units, and those that the patterns leave out. */
static int filter(struct difference *difference, const struct diff_params *params, struct err *err)
{
	size_t n_all = params->n_include + params->n_exclude, n = 0;
	struct pattern *patterns = xcalloc(n_all + 1, sizeof *patterns);
	bool in = true, out = false;
	int rc = 0;

	for (size_t i = 0; i < n_all && !rc; i++)
		rc = i < params->n_include
			     ? pattern_compile(&patterns[i], "--include", params->include[i], err)
			     : pattern_compile(&patterns[i], "--exclude",
					       params->exclude[i - params->n_include], err);
	for (size_t i = 0; i < difference->n_tensors && !rc; i++) {
		const struct diff_tensor tensor = difference->tensors[i];

		if ((!tensor.units[0] && !tensor.units[1]) || is_description(difference, &tensor))
			continue;
		if (params->n_include)
			rc = match_any(patterns, params->n_include, tensor.name, &in, err);
		if (!rc)
			rc = match_any(patterns + params->n_include, params->n_exclude, tensor.name,
				       &out, err);
		if (in && !out)
			difference->tensors[n++] = tensor;
	}
	if (!rc && !n && difference->n_tensors && n_all)
		rc = err_set(err, ERR_USAGE,
			     "options '--include' and '--exclude' leave no tensor to compare: "
			     "'fp8conv inspect' lists the names");
	if (!rc)
		difference->n_tensors = n;
	for (size_t i = 0; i < n_all; i++)
		pattern_release(&patterns[i]);
	free(patterns);
	return rc;
}

static int pair_tensors(struct difference *difference, const struct diff_params *params,
			struct err *err)
{
	size_t n_alone[2] = { 0 };

	pair_names(difference);
	for (size_t i = 0; i < difference->n_tensors; i++)
		for (int s = 0; s < 2; s++)
			n_alone[s] += is_alone(&difference->tensors[i], s);
	for (int s = 0; s < 2 && n_alone[0] && n_alone[1]; s++) {
		selection_make_all(&difference->sides[s].cut, &difference->sides[s].checkpoint);
		pair_experts(difference, s);
		sort(difference->tensors, difference->n_tensors, sizeof *difference->tensors,
		     text_compare);
	}
	if (filter(difference, params, err))
		return -1;
	for (size_t i = 0; i < difference->n_tensors; i++)
		classify(&difference->tensors[i]);
	return 0;
}

/* --- the whole --- */

/* Returns how much it matters that values differ: NaN and inf on one side, then noise. */
static double harm(const struct diff_tensor *tensor)
{
	const struct diff_counts *found = &tensor->found;
	double sqnr = diff_sqnr(found);

	if (tensor->kind != DIFF_VALUES)
		return 0;
	if (!tensor->has_values || found->n_nan[0] != found->n_nan[1] ||
	    found->n_inf[0] != found->n_inf[1] || isnan(sqnr))
		return INFINITY;
	return -sqnr;
}

COMPARISON(by_harm, struct diff_tensor,
	   ORDER(x->kind, y->kind) ?: ORDER(harm(y), harm(x)) ?: strverscmp(x->name, y->name))

int diff_run(struct difference *difference, const struct diff_params *params,
	     struct progress *progress, struct err *err)
{
	int rc = -1;

	*difference = (struct difference){ 0 };
	for (int s = 0; s < 2; s++)
		if (side_open(&difference->sides[s], params, params->paths[s], err))
			return -1;
	if (pair_tensors(difference, params, err) ||
	    diff_values(difference, params, progress, err) ||
	    diff_files(difference, params->io, err))
		return -1;
	for (int s = 0; s < 2; s++)
		rc = source_close(&difference->sides[s].files, s ? rc : 0, err);
	for (size_t i = 0; i < difference->n_tensors; i++)
		difference->n_of[difference->tensors[i].kind]++;
	sort(difference->tensors, difference->n_tensors, sizeof *difference->tensors, by_harm);
	return rc;
}

static void release_entries(struct diff_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(entries[i].name);
		free(entries[i].values[0]);
		free(entries[i].values[1]);
	}
	free(entries);
}

void diff_release(struct difference *difference)
{
	for (int s = 0; s < 2; s++) {
		struct diff_side *side = &difference->sides[s];

		selection_release(&side->cut);
		source_release(&side->files);
		detection_release(&side->detection);
		low_bit_release(&side->low_bit);
		checkpoint_release(&side->checkpoint);
		free(side->units);
	}
	free(difference->tensors);
	release_entries(difference->keys, difference->n_keys);
	release_entries(difference->files, difference->n_files);
	*difference = (struct difference){ 0 };
}
