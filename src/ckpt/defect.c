/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/defect.h"

#include <stdlib.h>

#include "base/mem.h"

int fault_add(struct faults *faults, enum fault_kind kind, const char *tensor, const char *file,
	      const struct err *err)
{
	if (!faults || err->kind != ERR_INPUT)
		return -1;
	ARRAY_GROW(faults->list, faults->n);
	faults->list[faults->n++] = (struct fault){
		.kind = kind,
		.tensor = tensor ? xstrdup(tensor) : NULL,
		.file = xstrdup(file),
		.message = xstrdup(err->message),
	};
	return 0;
}

void faults_release(struct faults *faults)
{
	for (size_t i = 0; i < faults->n; i++) {
		free(faults->list[i].tensor);
		free(faults->list[i].file);
		free(faults->list[i].message);
	}
	free(faults->list);
	*faults = (struct faults){ 0 };
}
