/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/print/units.h"
#include "cli/process.h"
#include "cli/signals.h"

#define LEAST_MEMORY ((uint64_t)8 << 20) /* bytes: eight blocks of one MiB */

int model_io_open(struct model_io *model, const char *path, uint64_t max_memory, struct err *err)
{
	const char *endpoint = getenv("HF_ENDPOINT");
	struct remote_params params = {
		.address = path,
		.endpoint = endpoint && *endpoint ? endpoint : "https://huggingface.co",
		.token = getenv("HF_TOKEN"),
		.ca_file = getenv("SSL_CERT_FILE"),
		.memory = max_memory / 3 > LEAST_MEMORY ? max_memory / 3 : LEAST_MEMORY,
		.now = (uint64_t)(process_now() * 1e6),
	};

	*model = (struct model_io){ .io = &io_system };
	if (!path || !remote_is_address(path))
		return 0;
	params.stop = signals_watch();
	if (remote_open(&model->remote, &io_system, &params, err)) {
		model_io_close(model);
		return -1;
	}
	model->io = remote_io(model->remote);
	model->memory = params.memory;
	return 0;
}

void model_io_note(const struct model_io *model, const char *command)
{
	struct buf text = { 0 };

	if (!model->remote)
		return;
	units_size(&text, remote_bytes(model->remote));
	fprintf(stderr, "fp8conv %s: note: read %s from the server\n", command, text.data);
	buf_release(&text);
}

void model_io_close(struct model_io *model)
{
	remote_close(model->remote);
	*model = (struct model_io){ 0 };
}
