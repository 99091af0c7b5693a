/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/defect.h"

#include <stdlib.h>

#include "base/mem.h"

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
	if (!defects || err->kind != ERR_INPUT)
		return -1;
	if (defects_count_more(defects, kind))
		return 0;
	defects->n_of[kind]++;
	ARRAY_GROW(defects->list, defects->n);
	defects->list[defects->n++] = (struct defect){
		.kind = kind,
		.tensor = tensor ? xstrdup(tensor) : NULL,
		.file = file ? xstrdup(file) : NULL,
		.message = xstrdup(err->message),
	};
	return 0;
}

void defects_release(struct defects *defects)
{
	for (size_t i = 0; i < defects->n; i++) {
		free(defects->list[i].tensor);
		free(defects->list[i].file);
		free(defects->list[i].message);
	}
	free(defects->list);
	*defects = (struct defects){ 0 };
}
