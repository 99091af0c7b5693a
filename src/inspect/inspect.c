/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect/inspect.h"

#include <string.h>

#include "source/fp8_source.h"
#include "source/spool.h"
#include "source/states.h"

static int open_path(struct inspection *inspection, const struct inspect_params *params,
		     struct progress *progress, struct err *err)
{
	struct checkpoint *checkpoint = &inspection->checkpoint;

	if (strcmp(params->path, "-") != 0)
		return checkpoint_open_part(checkpoint, params->io, params->path, err);
	if (spool_read(params->io, params->temp_dir, progress, &inspection->stream_fd, err))
		return -1;
	inspection->spooled = true;
	return checkpoint_open_fd(checkpoint, params->io, inspection->stream_fd, "-", err);
}

/* A description has no errors: states that cannot be read have no history. */
static void read_states(struct inspection *inspection)
{
	struct source source;
	struct err ignored;

	if (!inspection->checkpoint.n_states)
		return;
	source_init(&source, inspection->io, &inspection->checkpoint, NULL, inspection->stream_fd);
	amax_stats_init(&inspection->states, "", "", "", AMAX_HISTORY_LEN_MAX);
	if (states_read(&source, &inspection->states, &ignored))
		amax_stats_release(&inspection->states);
	source_release(&source);
}

int inspect_make(struct inspection *inspection, const struct inspect_params *params,
		 struct progress *progress, struct err *err)
{
	const struct io *io = params->io;
	struct err ignored; /* a description has no errors: such tensors are what they are */

	*inspection = (struct inspection){ .io = io, .stream_fd = -1 };
	if (open_path(inspection, params, progress, err) ||
	    checkpoint_rename(&inspection->checkpoint, &params->renames, err))
		return -1;
	inspection->is_amax = strcmp(params->path, "-") != 0 &&
			      inspection->checkpoint.n_shards == 1 &&
			      amax_is_file(&inspection->checkpoint.shards[0].file);
	if (inspection->is_amax &&
	    amax_stats_read(&inspection->amax, io, inspection->checkpoint.shards[0].file.path, err))
		return -1;
	read_states(inspection);
	(void)low_bit_find(&inspection->low_bit, &inspection->checkpoint, &ignored);
	return fp8_source_detect(&inspection->detection, &inspection->checkpoint, io, err);
}

void inspect_release(struct inspection *inspection)
{
	amax_stats_release(&inspection->amax);
	amax_stats_release(&inspection->states);
	detection_release(&inspection->detection);
	low_bit_release(&inspection->low_bit);
	if (inspection->spooled)
		inspection->io->close(inspection->io, inspection->stream_fd);
	checkpoint_release(&inspection->checkpoint);
}
