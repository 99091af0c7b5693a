/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/signals.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/* Globals, because a signal handler has no other way to the program. */
static atomic_int caught;
static atomic_bool line_drawn;

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

const atomic_int *signals_watch(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigaction before;

	sigfillset(&action.sa_mask);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	return &caught;
}

int signals_caught(void)
{
	return atomic_load(&caught);
}

bool signals_clear_line(bool drawn)
{
	return atomic_exchange(&line_drawn, drawn);
}
