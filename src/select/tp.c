/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensor-parallel sizes that load (fp8conv-formats(7)).  Every split, and every border between
 * members of a fused set, must be a border of tiles; the rows of experts must be whole tiles even
 * on one device.  Where each module is split: names/parallel.h.  verify/target.c checks an output.
 */
#include <inttypes.h>

#include "base/buf.h"
#include "select/steps.h"

/* The heads that cannot be split; or the first tensor, and its dimension: N (rows), K (columns). */
struct obstacle {
	const char *heads; /* NULL: a tensor */
	const struct candidate *candidate;
	char dimension;
	uint64_t n;
	size_t tile;
};

void selection_put_obstacle(struct buf *text, const struct unit *unit)
{
	const struct tile tile = unit->recipe->weight.tile;
	bool by_rows = unit->obstacle == 'N';

	buf_printf(text,
		   "%" PRIu64 " %s do not divide into whole blocks of %zu, as merged weights and "
		   "experts must",
		   by_rows ? unit_matrix_rows(unit) : unit->cols, dimension_noun(unit->obstacle),
		   by_rows ? tile.rows : tile.cols);
}

static bool splits(const struct select *select, const struct candidate *c, uint64_t tp,
		   struct obstacle *obstacle)
{
	const struct tp_split split = { .parallel = c->facts.parallel,
					.rows = c->rows,
					.cols = c->cols,
					.tile = c->recipe->weight.tile,
					.expert = c->facts.expert || candidate_is_fused(c),
					.ends_fused_set = c->ends_fused_set };
	char dimension;

	if (tp_split_fits(&split, &select->config, tp, &dimension))
		return true;
	*obstacle = (struct obstacle){
		.candidate = c,
		.dimension = dimension,
		.n = dimension == 'N' ? c->rows : c->cols,
		.tile = dimension == 'N' ? split.tile.rows : split.tile.cols,
	};
	return false;
}

static bool loads(const struct select *select, uint64_t tp, struct obstacle *obstacle)
{
	*obstacle = (struct obstacle){ 0 };
	if (!tp_heads_fit(&select->config, tp, &obstacle->n, &obstacle->heads))
		return false;
	for (size_t i = 0; i < select->n; i++)
		if (select->candidates[i].recipe &&
		    !splits(select, &select->candidates[i], tp, obstacle))
			return false;
	return true;
}

static int refuse(const struct selection *selection, int tp, const struct obstacle *obstacle,
		  struct err *err)
{
	const struct candidate *c = obstacle->candidate;
	struct buf sizes = { 0 };

	for (size_t i = 0; i < selection->n_tp; i++)
		buf_printf(&sizes, "%s%d", i ? ", " : "sizes that load: ", selection->tp[i]);
	if (!selection->n_tp)
		buf_puts(&sizes, "no size loads");
	if (obstacle->heads)
		err_set(err, ERR_USAGE,
			"the %" PRIu64 " %s of config.json do not divide by --tp %d; %s",
			obstacle->n, obstacle->heads, tp, sizes.data);
	else if (obstacle->tile > 1)
		err_set(err, ERR_USAGE,
			"tensor '%s': %" PRIu64
			" %s do not split over --tp %d in multiples of %zu; %s",
			c->source->tensor->name, obstacle->n, dimension_noun(obstacle->dimension),
			tp, obstacle->tile, sizes.data);
	else
		err_set(err, ERR_USAGE, "tensor '%s': %" PRIu64 " %s do not split over --tp %d; %s",
			c->source->tensor->name, obstacle->n, dimension_noun(obstacle->dimension),
			tp, sizes.data);
	buf_release(&sizes);
	return -1;
}

/* Marks the units that do not even fit one device.  Units are in the order of candidates. */
static void mark_units(const struct select *select, struct selection *selection)
{
	struct obstacle obstacle;
	size_t u = 0;

	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];
		bool fits = !c->recipe || splits(select, c, 1, &obstacle);

		for (; u < selection->n_units && selection->units[u].source == c->source; u++)
			if (!fits && selection->units[u].recipe)
				selection->units[u].obstacle = obstacle.dimension;
	}
}

int select_tp(struct select *select, struct selection *selection, struct err *err)
{
	struct obstacle obstacle;

	mark_units(select, selection);

	for (int tp = 1; tp <= 64; tp *= 2)
		if (loads(select, (uint64_t)tp, &obstacle))
			selection->tp[selection->n_tp++] = tp;
	if (select->options->tp <= 0 || loads(select, (uint64_t)select->options->tp, &obstacle))
		return 0;
	return refuse(selection, select->options->tp, &obstacle, err);
}

const struct unit *selection_obstacle(const struct selection *selection)
{
	for (size_t u = 0; u < selection->n_units; u++)
		if (selection->units[u].recipe && selection->units[u].obstacle)
			return &selection->units[u];
	return NULL;
}
