/* SPDX-License-Identifier: Apache-2.0
 *
 *	prove [NAME]
 *
 * Runs the proofs (all, or those whose name begins with NAME) and prints a line for each.  Exit
 * status 1 where one fails; a proof that cannot be done here is printed as SKIPPED and counted.
 */
#include "prove.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_THREADS_MAX 64

bool refuted(struct counterexample *found, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(found->text, sizeof found->text, format, args);
	va_end(args);
	return false;
}

struct run {
	const struct proof *proof;
	const struct backend *backend;
	atomic_uint next;
	atomic_bool failed;
	pthread_mutex_t lock;
	struct counterexample found;
};

static void *run_units(void *argument)
{
	struct run *run = argument;
	struct counterexample found = { "" };
	unsigned unit;

	while (!run->failed && (unit = run->next++) < run->proof->n_units) {
		if (run->proof->unit(unit, run->backend, &found))
			continue;
		pthread_mutex_lock(&run->lock);
		if (!run->failed)
			run->found = found;
		run->failed = true;
		pthread_mutex_unlock(&run->lock);
	}
	return NULL;
}

static bool proof_run(const struct proof *proof, const struct backend *backend)
{
	struct run run = { .proof = proof, .backend = backend, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t threads[N_THREADS_MAX];
	long n_threads = sysconf(_SC_NPROCESSORS_ONLN), n_started = 0;
	time_t start = time(NULL);

	while (n_started < n_threads && n_started < N_THREADS_MAX &&
	       !pthread_create(&threads[n_started], NULL, run_units, &run))
		n_started++;
	if (n_started == 0)
		run_units(&run);
	for (long i = 0; i < n_started; i++)
		pthread_join(threads[i], NULL);
	printf("%s: %s%s%s%s%s (%lld s)\n", run.failed ? "REFUTED" : "proved", proof->name,
	       backend ? ", " : "", backend ? backend->name : "", run.failed ? ": " : "",
	       run.found.text, (long long)(time(NULL) - start));
	fflush(stdout);
	return !run.failed;
}

/* Runs a list.  Adds what could not be done to *n_skipped; returns how many proofs failed. */
static int proofs_run(const struct proof *proof, const char *prefix, int *n_skipped)
{
	int n_failed = 0;

	for (; proof->name; proof++) {
		const char *why = proof->skipped ? proof->skipped() : NULL;

		if (strncmp(proof->name, prefix, strlen(prefix)))
			continue;
		if (why) {
			printf("SKIPPED: %s: %s\n", proof->name, why);
			++*n_skipped;
		} else if (!proof->per_backend) {
			n_failed += !proof_run(proof, NULL);
		}
		for (const struct backend *const *b = backends; !why && proof->per_backend && *b;
		     b++) {
			if ((*b)->unusable()) {
				printf("SKIPPED: %s, %s: %s\n", proof->name, (*b)->name,
				       (*b)->unusable());
				++*n_skipped;
			} else if (strcmp((*b)->name, "reference")) {
				n_failed += !proof_run(proof, *b);
			}
		}
	}
	return n_failed;
}

int main(int argc, char **argv)
{
	const char *prefix = argc > 1 ? argv[1] : "";
	int n_skipped = 0, n_failed = 0;

	n_failed += proofs_run(proofs_num, prefix, &n_skipped);
	n_failed += proofs_run(proofs_activations, prefix, &n_skipped);
	n_failed += proofs_run(proofs_backends, prefix, &n_skipped);
	n_failed += proofs_run(proofs_cuda, prefix, &n_skipped);
	if (n_skipped)
		printf("%d skipped\n", n_skipped);
	return n_failed || fflush(stdout) ? 1 : 0;
}
