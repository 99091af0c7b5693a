/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables: sbatch(1) and srun(1); Open MPI, "Environment variables set by mpirun"; MPICH, Hydra;
 * torch, distributed/elastic/agent; Kubernetes, "Indexed Job for Parallel Processing".
 */
#include "cli/place.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/values.h"

#define MAX_TASKS 1000000

/* An engine that starts tasks: the variable with the index of a task, and those with their number,
 * of which the first one that is set counts. */
struct launcher {
	const char *name, *index, *counts[3];
	/* set in a job, and in a job's steps: the script of a job is one task, whatever the number
	 * says; NULL: all processes are tasks */
	const char *job, *step;
	/* the index of a task on its machine, and the number of tasks there; NULL: not known */
	const char *local, *n_local;
};

/* Those that start tasks within a task of another one come first. */
static const struct launcher launchers[] = {
	{ .name = "Open MPI",
	  .index = "OMPI_COMM_WORLD_RANK",
	  .counts = { "OMPI_COMM_WORLD_SIZE" },
	  .local = "OMPI_COMM_WORLD_LOCAL_RANK",
	  .n_local = "OMPI_COMM_WORLD_LOCAL_SIZE" },
	{ .name = "MPI",
	  .index = "PMI_RANK",
	  .counts = { "PMI_SIZE" },
	  .local = "MPI_LOCALRANKID",
	  .n_local = "MPI_LOCALNRANKS" },
	{ .name = "torchrun",
	  .index = "RANK",
	  .counts = { "WORLD_SIZE" },
	  .local = "LOCAL_RANK",
	  .n_local = "LOCAL_WORLD_SIZE" },
	{ .name = "Slurm",
	  .index = "SLURM_PROCID",
	  .counts = { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS" },
	  .job = "SLURM_JOB_ID",
	  .step = "SLURM_STEP_ID",
	  .local = "SLURM_LOCALID",
	  .n_local = "SLURM_STEP_TASKS_PER_NODE" },
	{ .name = "PMIx", .index = "PMIX_RANK" },
	{ .name = "Kubernetes", .index = "JOB_COMPLETION_INDEX" },
};

#define N_LAUNCHERS (sizeof launchers / sizeof *launchers)

/* Returns the value of a variable; NULL if it is not set or empty. */
static const char *variable(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

/* Reads a variable, whose value is below `end`. */
static int read_number(const char *name, uint64_t end, uint64_t *value, struct err *err)
{
	const char *text = variable(name), *rest;

	if (!text)
		return err_set(err, ERR_USAGE, "environment variable '%s' is not set", name);
	if (!option_digits(text, value, &rest) || *rest || *value >= end)
		return err_set(err, ERR_USAGE,
			       "environment variable '%s' is '%s', not a number below %" PRIu64,
			       name, text, end);
	return 0;
}

/* Returns the name of the variable with the number of tasks; NULL: none is set. */
static const char *count_name(const struct launcher *launcher)
{
	for (size_t i = 0; i < 3; i++)
		if (variable(launcher->counts[i]))
			return launcher->counts[i];
	return NULL;
}

static bool is_script(const struct launcher *launcher)
{
	return variable(launcher->job) && !variable(launcher->step);
}

/* Reads the place that a launcher tells; place->n becomes 0 where it does not tell the number. */
static int read_place(const struct launcher *launcher, struct task_place *place, struct err *err)
{
	const char *count = count_name(launcher);

	*place = (struct task_place){ .launcher = launcher->name };
	if (is_script(launcher)) {
		place->n = 1;
		return 0;
	}
	if (count && read_number(count, MAX_TASKS + 1, &place->n, err))
		return -1;
	if (count && !place->n)
		return err_set(err, ERR_USAGE, "environment variable '%s' is 0: a job has tasks",
			       count);
	return read_number(launcher->index, count ? place->n : MAX_TASKS, &place->index, err);
}

/* Finds the launcher that tells most: the first one with index and number, or with an index. */
static const struct launcher *find_launcher(void)
{
	const struct launcher *found = NULL;

	for (size_t i = 0; i < N_LAUNCHERS; i++) {
		const struct launcher *launcher = &launchers[i];

		if (!variable(launcher->index))
			continue;
		if (count_name(launcher) || is_script(launcher))
			return launcher;
		found = found ? found : launcher;
	}
	return found;
}

/* The tasks of a Slurm array run the same script, and each may be a job of several tasks. */
static int read_array(struct task_place *array, struct err *err)
{
	static const char count[] = "SLURM_ARRAY_TASK_COUNT";
	uint64_t here = 0, first = 0, last = 0, step = 1;

	*array = (struct task_place){ .launcher = "Slurm" };
	if (read_number("SLURM_ARRAY_TASK_ID", UINT32_MAX, &here, err) ||
	    read_number("SLURM_ARRAY_TASK_MAX", UINT32_MAX, &last, err) ||
	    read_number("SLURM_ARRAY_TASK_MIN", UINT32_MAX, &first, err) ||
	    (variable("SLURM_ARRAY_TASK_STEP") &&
	     read_number("SLURM_ARRAY_TASK_STEP", UINT32_MAX, &step, err)) ||
	    read_number(count, MAX_TASKS + 1, &array->n, err))
		return -1;
	if (!step || here < first || here > last || (here - first) % step ||
	    (last - first) / step + 1 != array->n)
		return err_set(err, ERR_USAGE,
			       "the %" PRIu64
			       " tasks of the Slurm array are not evenly spaced from "
			       "%" PRIu64 " to %" PRIu64 ": use --array=0-N",
			       array->n, first, last);
	array->index = (here - first) / step;
	return 0;
}

/* Settles the number of tasks, which the launcher, the user or both have told. */
static int settle(struct task_place *place, uint64_t n_given, struct err *err)
{
	if (!place->n && !n_given)
		return err_set(err, ERR_USAGE,
			       "%s does not set the number of tasks: give it, for "
			       "example auto/8",
			       place->launcher);
	if (place->n && n_given && place->n != n_given)
		return err_set(err, ERR_USAGE,
			       "%s says that there are %" PRIu64 " tasks, the option says "
			       "%" PRIu64 ": leave the number out",
			       place->launcher, place->n, n_given);
	place->n = place->n ? place->n : n_given;
	if (place->index >= place->n)
		return err_set(err, ERR_USAGE,
			       "%s says that this is task %" PRIu64 ", counted from 0; the option "
			       "says that there are %" PRIu64 " tasks: give the right number",
			       place->launcher, place->index, place->n);
	return 0;
}

int place_find(struct task_place *place, uint64_t n_given, struct err *err)
{
	const struct launcher *launcher = find_launcher();
	bool is_array = variable("SLURM_ARRAY_TASK_ID");
	struct task_place array = { .n = 1 };

	if (!launcher && !is_array)
		return err_set(err, ERR_USAGE,
			       "found no task index in the environment (Slurm, Open MPI, MPI, "
			       "torchrun, PMIx, Kubernetes): give I/N, or start the tasks with "
			       "one of them");
	*place = (struct task_place){ .n = 1, .launcher = "Slurm" };
	if ((launcher && read_place(launcher, place, err)) || (is_array && read_array(&array, err)))
		return -1;
	if (place->n) {
		place->index += array.index * place->n;
		place->n *= array.n;
	} else if (is_array) {
		return err_set(err, ERR_USAGE,
			       "%s does not set the number of tasks in each task of the "
			       "Slurm array: give I/N",
			       place->launcher);
	}
	return settle(place, n_given, err);
}

/* Is there one task on each machine?  Slurm writes a list of numbers of tasks: "1(x3)". */
static bool is_alone(const struct launcher *launcher)
{
	const char *n = variable(launcher->n_local);

	return n && n[0] == '1' && (!n[1] || (n[1] == '(' && !strchr(n, ',')));
}

int place_local(uint64_t *local, bool *told, struct err *err)
{
	*told = false;
	for (size_t i = 0; i < N_LAUNCHERS; i++) {
		const struct launcher *launcher = &launchers[i];

		if (!variable(launcher->local))
			continue;
		if (is_script(launcher) || is_alone(launcher))
			return 0;
		*told = true;
		return read_number(launcher->local, MAX_TASKS, local, err);
	}
	return 0;
}
