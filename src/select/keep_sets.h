/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups of a table as sets of units: those that engines merge are one set, which is kept,
 * quantized or takes another recipe as a whole.  What each set may become, with divergence and
 * bytes, scales included.
 *
 * Order: keep_sets_make(); keep_sets_take() for each set that changes; keep_sets_release().
 */
#ifndef FP8CONV_SELECT_KEEP_SETS_H
#define FP8CONV_SELECT_KEEP_SETS_H

#include "select/keep_choose.h"
#include "select/keep_list.h"

struct keep_group_set {
	char *name;  /* of its groups */
	size_t root; /* unit */
	size_t n_measured;
	uint64_t bf16_bytes;
	struct keep_option *options; /* the first is the recipe of the job */
	size_t *ways;		     /* by option: an alternative of the offer; KEEP_WAY_BF16 */
	size_t n_options;
};

#define KEEP_WAY_BF16 SIZE_MAX

struct keep_sets {
	struct selection *selection;
	const struct keep_offer *offer;
	const char *path;      /* of the table, for messages */
	struct unit_index *by; /* names of units: of the selection, then by alternative */
	size_t *parents;       /* by unit: another unit of its set, or itself */
	bool *known;	       /* by unit: the table has it */
	size_t **same;	       /* by alternative and unit: the unit of its selection; SIZE_MAX */
	size_t *set_of;	       /* by unit that is a root; SIZE_MAX: none */
	struct keep_group_set *list;
	size_t n;
	uint64_t bf16_bytes, fp8_bytes; /* of all units that are quantized */
};

/* Makes the sets of a zeroed struct of which the first three members are set.  Fails as
 * keep_list_make() does; release it then too. */
int keep_sets_make(struct keep_sets *sets, struct err *err);
void keep_sets_release(struct keep_sets *sets);

/* Makes the units of a set what an option of it says, for KEEP_REASON. */
void keep_sets_take(struct keep_sets *sets, const struct keep_group_set *set, size_t option);

#endif
