/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/ranks.h"

#include <stdlib.h>

int ranks_agree(struct sensitivity_plan *plan, const struct group *group, struct err *err)
{
	struct buf text = { 0 };
	int rc;

	kld_table_text(&plan->table, &text);
	rc = group_agree(group, text.data, text.len, err);
	buf_release(&text);
	return rc ? rc : group_least(group, &plan->n_at_once, err);
}

/* The divergence of a group in a message; all bytes are 0 on ranks that do not lead. */
struct divergence_sent {
	uint64_t measured;
	double mean, se;
};

/* Takes the divergences of the leading rank into the table. */
static int take_divergences(struct kld_table *table, const struct group *group, struct err *err)
{
	struct divergence_sent *sent = xcalloc(table->n_groups, sizeof *sent);
	int rc;

	for (size_t i = 0; i < table->n_groups && group_leads(group); i++) {
		const struct kld_group *from = &table->groups[i];

		sent[i] = (struct divergence_sent){ from->measured, from->mean, from->se };
	}
	rc = group_reduce(group, GROUP_UNION, sent, table->n_groups * sizeof *sent, err);
	for (size_t i = 0; i < table->n_groups && !rc; i++) {
		table->groups[i].measured = sent[i].measured;
		table->groups[i].mean = sent[i].mean;
		table->groups[i].se = sent[i].se;
	}
	free(sent);
	return rc;
}

int ranks_take(struct sensitivity_plan *plan, const struct group *group, bool *finished,
	       struct err *err)
{
	unsigned char byte = group_leads(group) && *finished;

	if (group_size(group) == 1)
		return 0;
	if (group_reduce(group, GROUP_UNION, &byte, 1, err))
		return -1;
	*finished = byte;
	return take_divergences(&plan->table, group, err);
}
