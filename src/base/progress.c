/* SPDX-License-Identifier: Apache-2.0 */
#include "base/progress.h"

int progress_stopped(const atomic_int *stop, struct err *err)
{
	int number = stop ? atomic_load(stop) : 0;

	if (number)
		return err_set(err, ERR_INTERRUPTED, "interrupted by signal %d", number);
	return 0;
}
