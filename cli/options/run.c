/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/run.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/dispatch.h"
#include "cli/place.h"
#include "cli/process.h"
#include "cli/program.h"
#include "cli/print/message.h"

#define IN_RUN(member) offsetof(struct run_settings, member)

static int read_progress_fd(const struct option_row *option, const char *value, void *place,
			    struct err *err)
{
	uint64_t fd;

	(void)place;
	if (option_number(option, value, 0, INT_MAX, &fd, err))
		return -1;
	if (!program_objects_on((int)fd))
		return 0;
	err_errno(err, "option '--%s': cannot write to descriptor %d", option->name, (int)fd);
	err->kind = ERR_USAGE;
	return -1;
}

/* clang-format off */
const struct option_row source_options[] = {
	{ SECTION_RUNNING, "from-torch", 0, NULL,
	  "Read the pickles of torch in a directory; nothing in them is called",
	  option_flag, IN_RUN(from_torch) },
	{ SECTION_RUNNING, "retry-time", 0, "SECONDS",
	  "How long a server that does not answer is tried again (default 300)", option_large,
	  IN_RUN(retry_time) },
	{ 0 },
};

const struct option_row report_options[] = {
	{ SECTION_REPORTING, "json", 0, NULL, "Print one JSON object", option_flag, IN_RUN(json) },
	{ SECTION_REPORTING, "progress", 0, PROGRESS_MODES,
	  "Progress on standard error (default auto)", option_choice, IN_RUN(progress) },
	{ SECTION_REPORTING, "progress-fd", 0, "N",
	  "Progress, notes and errors as lines of JSON on descriptor N", read_progress_fd, 0 },
	{ SECTION_REPORTING, "quiet", 'q', NULL, "Suppress progress, notes and summary",
	  option_flag, IN_RUN(quiet) },
	{ 0 },
};

const struct option_row device_options[] = {
	{ SECTION_RUNNING, "devices", 0, "LIST|all",
	  "GPUs that share the sequences, by number, such as 0,1 (default one)", option_devices,
	  IN_RUN(devices) },
	{ 0 },
};

const struct option_row run_options[] = {
	{ SECTION_RUNNING, "threads", 'j', "N", "Number of threads (default one per CPU)",
	  option_count, IN_RUN(n_threads) },
	{ SECTION_RUNNING, "max-memory", 0, "SIZE",
	  "Memory for buffers, with K, M, G or T (default 192M)", option_size, IN_RUN(max_memory) },
	{ SECTION_RUNNING, "backend", 0, "BACKEND",
	  "Backend: auto (default), cpu, or one that 'fp8conv version' lists", option_text,
	  IN_RUN(backend) },
	{ SECTION_REPORTING, "verbose", 'v', NULL,
	  "Print the summary even when stderr is not a terminal", option_flag, IN_RUN(verbose) },
	{ 0 },
};
/* clang-format on */

int run_threads(const struct run_settings *settings)
{
	return settings->n_threads ? settings->n_threads : process_cpus();
}

int run_streams(const struct run_settings *settings, const struct executor_ops *executor)
{
	int n = run_threads(settings), n_devices = run_n_devices(settings);

	if (settings->n_threads || !executor->load.streams)
		return n;
	n /= n_devices;
	n = 2 * n < executor->load.streams ? executor->load.streams / 2 : n;
	return n_devices * (n < executor->load.streams ? n : executor->load.streams);
}

static bool lists_devices(const struct run_settings *settings)
{
	return settings->devices.all || settings->devices.n;
}

int run_n_devices(const struct run_settings *settings)
{
	if (settings->devices.all)
		return backend_n_devices();
	return settings->devices.n ? settings->devices.n : 1;
}

/* Checks the devices of --devices against this machine's, numbered from 0 to n - 1. */
static int check_devices(const struct run_settings *settings, int n, struct err *err)
{
	const struct device_list *list = &settings->devices;

	if (n == 0)
		return err_set(err, ERR_USAGE,
			       "option '--devices': there is no usable GPU: see 'fp8conv version'");
	for (int i = 0; i < list->n; i++)
		if (list->numbers[i] >= n)
			return err_set(err, ERR_USAGE,
				       "option '--devices': there is no GPU %d: give numbers from "
				       "0 to %d",
				       list->numbers[i], n - 1);
	if (settings->n_threads && settings->n_threads < run_n_devices(settings))
		return err_set(err, ERR_USAGE,
			       "option '--threads': %d threads for %d devices: give at least one "
			       "for each",
			       settings->n_threads, run_n_devices(settings));
	return 0;
}

/* Takes the devices of --devices. */
static int take_devices(const struct run_settings *settings, struct err *err)
{
	const struct device_list *list = &settings->devices;
	const struct backend *named = backend_select(settings->backend, err);
	bool automatic = !settings->backend || !strcmp(settings->backend, "auto");

	if (!named)
		return -1;
	if (!automatic && !named->on_device)
		return err_set(err, ERR_USAGE,
			       "options '--devices' and '--backend %s' cannot be combined: the "
			       "devices are GPUs",
			       settings->backend);
	if (check_devices(settings, backend_n_devices(), err))
		return -1;
	if (list->n)
		backend_use_devices(list->numbers, list->n);
	return 0;
}

/* Tasks of an engine on one machine take its devices in turn. */
static int take_device(struct err *err)
{
	uint64_t local = 0;
	bool told;
	int n, device;

	if (place_local(&local, &told, err))
		return -1;
	n = told ? backend_n_devices() : 0;
	if (n < 2)
		return 0;
	device = (int)(local % (uint64_t)n);
	backend_use_devices(&device, 1);
	return 0;
}

const struct backend *run_backend(const struct run_settings *settings, struct err *err)
{
	const struct backend *backend = backend_select(settings->backend, err);

	return backend && backend->on_device && take_device(err) ? NULL : backend;
}

const struct backend *run_forward_backend(const struct run_settings *settings, struct err *err)
{
	struct err refused;
	const struct backend *backend;

	if (lists_devices(settings) ? take_devices(settings, err) : take_device(err))
		return NULL;
	backend = backend_select_forward(settings->backend, run_n_devices(settings), &refused, err);
	if (backend && !backend->on_device && lists_devices(settings)) {
		err_set(err, ERR_SYSTEM, "option '--devices': a GPU failed its self-test: %s",
			refused.message);
		return NULL;
	}
	if (backend && refused.kind != ERR_NONE && !settings->quiet)
		message_note("a GPU failed its self-test and is not used: %s", refused.message);
	return backend;
}

enum progress_mode run_progress_mode(const struct run_settings *settings)
{
	if (settings->progress == PROGRESS_JSON)
		program_objects_on_err();
	if (program.objects)
		return PROGRESS_JSON;
	return settings->quiet ? PROGRESS_NONE : (enum progress_mode)settings->progress;
}
