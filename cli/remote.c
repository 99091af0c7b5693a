/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/print/units.h"
#include "cli/process.h"
#include "cli/program.h"
#include "cli/signals.h"
#include "cli/print/message.h"

#define MAX_MEMORY   ((uint64_t)192 << 20)
#define LEAST_MEMORY ((uint64_t)8 << 20) /* bytes: eight blocks of one MiB */

/* Says it also with --quiet: it tells of the output's bytes. */
static void note_unversioned(const struct remote *remote)
{
	const char *url = remote_unversioned(remote);

	if (url)
		fprintf(program.err,
			"fp8conv: note: the server gives neither ETag nor Last-Modified for '%s': "
			"a change of the file while it is read would go unnoticed\n",
			url);
}

/* Opens one remote above the table of `model`. */
static int open_address(struct model_io *model, const char *address, uint64_t memory,
			struct err *err)
{
	struct remote **remote = &model->remotes[model->remotes[0] ? 1 : 0];
	const char *endpoint = getenv("HF_ENDPOINT");
	struct remote_params params = {
		.address = address,
		.endpoint = endpoint && *endpoint ? endpoint : "https://huggingface.co",
		.token = getenv("HF_TOKEN"),
		.ca_file = getenv("SSL_CERT_FILE"),
		.memory = memory > LEAST_MEMORY ? memory : LEAST_MEMORY,
		.now = (uint64_t)(process_now() * 1e6),
		.stop = signals_watch(),
	};

	if (remote_open(remote, model->io, &params, err))
		return -1;
	note_unversioned(*remote);
	model->io = remote_io(*remote);
	model->memory += params.memory;
	return 0;
}

int model_io_open(struct model_io *model, const char *path, const char *source, uint64_t max_memory,
		  struct err *err)
{
	bool has_path = path && remote_is_address(path);
	bool has_source = source && remote_is_address(source);
	uint64_t memory = (max_memory ? max_memory : MAX_MEMORY) / (has_path && has_source ? 6 : 3);

	*model = (struct model_io){ .io = &io_system };
	if ((has_path && open_address(model, path, memory, err)) ||
	    (has_source && open_address(model, source, memory, err))) {
		model_io_close(model);
		return -1;
	}
	return 0;
}

uint64_t model_io_rest(const struct model_io *model, uint64_t max_memory)
{
	return max_memory > model->memory ? max_memory - model->memory : max_memory ? 1 : 0;
}

void model_io_note(const struct model_io *model)
{
	struct buf text = { 0 };

	if (!model->remotes[0])
		return;
	units_size(&text, remote_bytes(model->remotes[0]) +
				  (model->remotes[1] ? remote_bytes(model->remotes[1]) : 0));
	message_note("read %s from the server", text.data);
	buf_release(&text);
}

void model_io_close(struct model_io *model)
{
	remote_close(model->remotes[1]); /* stands above the other one */
	remote_close(model->remotes[0]);
	*model = (struct model_io){ 0 };
}
