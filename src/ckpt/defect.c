/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/defect.h"

bool defects_count_more(struct defects *defects, enum defect_kind kind)
{
	bool full = defects && defects->n_of[kind] >= DEFECTS_LISTED;

	if (full)
		defects->n_of[kind]++;
	return full;
}

int defect_add(struct defects *defects, enum defect_kind kind, const char *tensor, const char *file,
	       const struct err *err)
{
	bool known = false;

	if (!defects || err->kind != ERR_INPUT)
		return -1;
	if (defects_count_more(defects, kind))
		return 0;
	for (int other = 0; other < N_DEFECT_KINDS; other++)
		known |= other != DEFECT_UNFINISHED && defects->n_of[other];
	if (!known)
		defects->first = *err;
	defects->n_of[kind]++;
	defects->add(defects->context, kind, tensor, file, err->message);
	return 0;
}
