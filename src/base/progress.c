/* SPDX-License-Identifier: Apache-2.0 */
#include "base/progress.h"

void progress_begin(struct progress *progress, enum progress_phase phase, uint64_t total)
{
	atomic_store(&progress->name, NULL);
	atomic_store(&progress->syncing, false);
	atomic_store(&progress->total, total);
	atomic_store(&progress->done, 0);
	atomic_store(&progress->phase, phase);
}

int progress_stopped(const atomic_int *stop, struct err *err)
{
	int number = stop ? atomic_load(stop) : 0;

	if (number)
		return err_set(err, ERR_INTERRUPTED, "interrupted by signal %d", number);
	return 0;
}
