/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/place.h"
#include "cli/program.h"
#include "cli/print/message.h"

/* Processes whose engine does not speak MPI's protocol are one rank each. */
static int check_engine(const struct group *group, struct err *err)
{
	struct task_place place;
	struct err none;

	if (group->n_ranks > 1 || place_find(&place, 0, &none) || place.n == 1)
		return 0;
	return err_set(err, ERR_USAGE,
		       "option '--ranks': %s says that there are %" PRIu64
		       " tasks, but MPI knows only this one: start them with mpirun, or with "
		       "'srun --mpi=pmix'",
		       place.launcher, place.n);
}

static int join(struct ranks *ranks, struct run_settings *settings, struct err *err)
{
	if (group_mpi_open(&ranks->group, err))
		return err_wrap(err, "option '--ranks'");
	ranks->open = true;
	if (check_engine(&ranks->group, err))
		return -1;
	if (!group_leads(&ranks->group)) {
		settings->quiet = true;
		program.objects = NULL;
		settings->json = false;
	}
	return 0;
}

const struct group *ranks_group(const struct ranks *ranks)
{
	return ranks->open ? &ranks->group : NULL;
}

int ranks_check_data(const char *const *data, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(data[i], "-"))
			return err_set(err, ERR_USAGE,
				       "options '--data -' and '--ranks mpi' cannot be combined: "
				       "only one process has standard input");
	return 0;
}

bool ranks_print(const struct ranks *ranks)
{
	return group_leads(ranks_group(ranks));
}

static int leave(struct group *group, int rc, struct err *err)
{
	if (rc < 0 && !err->shared && group->n_ranks > 1) {
		char *text = xasprintf("rank %d of %d on %s: %s", group->rank, group->n_ranks,
				       group->host, err->message);

		message_error(text, (int)err->kind, NULL);
		free(text);
		group_mpi_abort(group, (int)err->kind);
	}
	if (rc < 0 && !group_leads(group))
		err->message[0] = '\0';
	return rc;
}

int ranks_run(struct ranks *ranks, bool wanted, struct run_settings *run,
	      int (*work)(void *settings, struct err *err), void *settings, struct err *err)
{
	int rc = wanted ? join(ranks, run, err) : 0;

	rc = rc ? rc : work(settings, err);
	return ranks->open ? leave(&ranks->group, rc, err) : rc;
}
