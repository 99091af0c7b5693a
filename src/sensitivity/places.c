/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/places.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"

static int compare_places(const void *one, const void *other)
{
	const struct unit_place *a = one, *b = other;

	if (a->shard != b->shard)
		return a->shard < b->shard ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return (a->first > b->first) - (a->first < b->first);
}

static struct unit_place place_of(const struct tensor_ref *tensor, uint64_t first)
{
	return (struct unit_place){ .shard = tensor->shard,
				    .begin = tensor->tensor->begin,
				    .first = first };
}

void places_make(struct unit_places *places, const struct selection *selection)
{
	*places = (struct unit_places){ .selection = selection };
	places->list = xcalloc(selection->n_quantized, sizeof *places->list);
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];
		struct unit_place *place = &places->list[places->n];

		if (!unit->recipe)
			continue;
		*place = place_of(unit->source, unit->slice.first);
		place->unit = u;
		place->group = SIZE_MAX;
		places->n++;
	}
	sort(places->list, places->n, sizeof *places->list, compare_places);
}

void places_release(struct unit_places *places)
{
	free(places->list);
}

/* Returns the place of the unit that begins at this element of the matrix's tensor and has as many
 * columns in the same order, or NULL. */
static struct unit_place *find_at(const struct unit_places *places, const struct linear_ref *ref,
				  uint64_t first)
{
	const struct unit_place wanted = place_of(ref->weight, first);
	struct unit_place *found =
		bsearch(&wanted, places->list, places->n, sizeof wanted, compare_places);
	const struct unit *unit = found ? &places->selection->units[found->unit] : NULL;

	return unit && !unit->table && unit->cols == ref->k &&
			       unit->slice.col_stride == ref->slice.col_stride
		       ? found
		       : NULL;
}

/* Finds a matrix, or some rows of one, in a stack. */
static size_t find_in_stack(const struct unit_places *places, const struct linear_ref *ref,
			    struct matrix_parts *parts)
{
	struct unit_place *place = find_at(places, ref, 0);
	const struct unit *unit = place ? &places->selection->units[place->unit] : NULL;
	uint64_t size;

	if (!unit || !unit->stack || unit->slice.row_stride != ref->slice.row_stride)
		return 0;
	size = unit->stack * unit->slice.row_stride;
	parts->list[0] = (struct matrix_part){ place, ref->slice.first / size };
	if (ref->slice.first % size + ref->n * ref->slice.row_stride > size)
		return 0;
	return 1;
}

/* Finds the two units of gate and up: one after the other, or by rows in turn. */
static size_t find_halves(const struct unit_places *places, const struct linear_ref *ref,
			  struct unit_place *first, struct matrix_parts *parts)
{
	const struct unit *units = places->selection->units, *unit = &units[first->unit];
	uint64_t stride = ref->slice.row_stride;
	struct unit_place *second;

	if (unit->rows * 2 != ref->n)
		return 0;
	second = find_at(places, ref,
			 ref->slice.first +
				 (unit->slice.row_stride == stride ? unit->rows : 1) * stride);
	if (!second || units[second->unit].rows != unit->rows ||
	    units[second->unit].slice.row_stride != unit->slice.row_stride ||
	    (unit->slice.row_stride != stride && unit->slice.row_stride != 2 * stride))
		return 0;
	parts->list[0] = (struct matrix_part){ first, 0 };
	parts->list[1] = (struct matrix_part){ second, 0 };
	return 2;
}

bool places_find(const struct unit_places *places, const struct linear_ref *ref,
		 struct matrix_parts *parts)
{
	const struct unit *units = places->selection->units;
	struct unit_place *place;

	parts->n = 0;
	if (!ref->weight)
		return false;
	parts->n = find_in_stack(places, ref, parts);
	place = parts->n ? NULL : find_at(places, ref, ref->slice.first);
	if (!place)
		return parts->n;
	parts->n = 1;
	parts->list[0] = (struct matrix_part){ place, 0 };
	if (units[place->unit].rows != ref->n)
		parts->n = find_halves(places, ref, place, parts);
	return parts->n;
}
