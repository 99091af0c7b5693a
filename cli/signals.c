/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread waits for the signals, and all others block them: a handler must not run on a thread
 * that computes.  With one, 12 of 151 interrupted runs of --rounding compensated damaged their
 * memory, with none 0 of 150; code that oneDNN generates seems to keep values below its stack
 * pointer, where the frame of a handler lies.
 */
#include "cli/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "cli/program.h"

#define WAKE	   SIGUSR1
#define STACK_SIZE ((size_t)256 << 10)

/* Globals, because a signal is of the process. */
static atomic_int caught;
static atomic_bool line_drawn;
static bool is_watching; /* of the first thread, as watcher is */
static pthread_t watcher;
static atomic_bool is_ending; /* the watcher returns at the next signal */

static void on_signal(int number)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&caught, &none, number))
		return;
	if (atomic_load(&line_drawn) && write(STDERR_FILENO, "\r\033[K", 4) < 0)
		_exit(128 + number);
	_exit(128 + number);
}

void signals_to_errors(void)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

static void *wait_for_signals(void *context)
{
	const sigset_t *watched = context;
	int number;

	for (;;)
		if (!sigwait(watched, &number)) {
			if (atomic_load(&is_ending))
				return NULL;
			if (number != WAKE)
				on_signal(number);
		}
}

/* Returns the signals that end a job, without those that were ignored at the start. */
static sigset_t signals_that_end(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction before;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, WAKE);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaddset(&set, numbers[i]);
	return set;
}

const atomic_int *signals_watch(void)
{
	static sigset_t watched;
	pthread_attr_t attributes;

	if (program.stop)
		return program.stop;
	if (is_watching)
		return &caught;
	watched = signals_that_end();
	pthread_sigmask(SIG_BLOCK, &watched, NULL);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	is_watching = !pthread_create(&watcher, &attributes, wait_for_signals, &watched);
	if (!is_watching) /* no memory for a thread: a signal ends the process as SIGKILL does */
		pthread_sigmask(SIG_UNBLOCK, &watched, NULL);
	pthread_attr_destroy(&attributes);
	return &caught;
}

void signals_unwatch(void)
{
	if (!is_watching)
		return;
	atomic_store(&is_ending, true);
	pthread_kill(watcher, WAKE);
	pthread_join(watcher, NULL);
	is_watching = false;
}

int signals_caught(void)
{
	return atomic_load(program.stop ? program.stop : &caught);
}

bool signals_clear_line(bool drawn)
{
	return atomic_exchange(&line_drawn, drawn);
}
