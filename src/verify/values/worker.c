/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in cuts, and the memory that each worker needs for one of them: --max-memory bounds it.
 */
#include "verify/values/worker.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "verify/steps.h"

#define CUT_CODES \
	((uint64_t)512 << 10) /* so that the data of a cut stays in a second-level cache */
#define WIDE_CODES \
	((uint64_t)4 << 20) /* of a row of tiles, which is one piece of the file: read once */
#define DEFAULT_MEMORY ((uint64_t)192 << 20)
#define BUFFER_BYTES \
	14 /* of a code: itself, the expected one, the source twice as fp32, the expected scale */

/* Bytes besides the buffers that a code of a cut may take, if every code has a scale: the scale
 * and, with a source, the amax. */
#define CODE_BYTES	  5
#define CODE_SOURCE_BYTES (BUFFER_BYTES + 8)

static uint64_t memory_each(const struct verify *verify)
{
	uint64_t memory = verify->params->max_memory ? verify->params->max_memory : DEFAULT_MEMORY;

	return memory / (uint64_t)verify->params->n_threads;
}

static uint64_t code_bytes(const struct verify *verify)
{
	return verify->params->source ? CODE_SOURCE_BYTES : CODE_BYTES;
}

uint64_t verify_worker_bytes(const struct verify *verify)
{
	uint64_t fit = memory_each(verify) / code_bytes(verify);

	return fit < CUT_CODES ? fit : CUT_CODES;
}

/* Returns the limit for the cuts of a weight: a whole row of its tiles if that fits. */
static uint64_t cut_codes(const struct verify *verify, const struct unit *unit)
{
	uint64_t row = cut_row_codes(unit), max = verify_worker_bytes(verify);

	return row > max && row <= WIDE_CODES && row * code_bytes(verify) <= memory_each(verify)
		       ? row
		       : max;
}

void verify_cut(const struct verify *verify, struct cuts *cuts)
{
	for (size_t w = 0; w < verify->weights.n; w++) {
		const struct verify_weight *weight = &verify->weights.list[w];

		if (weight->scanned)
			cut_unit(cuts, &weight->unit, w, cut_codes(verify, &weight->unit));
	}
}

/* Computes the codes of the largest cut.  ERR_USAGE where one row of tiles exceeds the memory of a
 * worker. */
static int largest_cut(const struct verify *verify, uint64_t *codes, struct err *err)
{
	*codes = verify_worker_bytes(verify);
	for (size_t w = 0; w < verify->weights.n; w++) {
		const struct verify_weight *weight = &verify->weights.list[w];
		uint64_t size;

		if (!weight->scanned)
			continue;
		size = cut_max_codes(&weight->unit, cut_codes(verify, &weight->unit));
		*codes = size > *codes ? size : *codes;
		if (size * code_bytes(verify) > memory_each(verify))
			return err_set(
				err, ERR_USAGE,
				"option '--max-memory' leaves %" PRIu64
				" bytes for each thread, but a row of tiles of '%s' needs %" PRIu64
				": increase --max-memory or reduce --threads",
				memory_each(verify), weight->unit.name, size * code_bytes(verify));
	}
	return 0;
}

static void worker_layout(struct verify_worker *worker, uint64_t codes)
{
	char *at = worker->memory;

	worker->codes = (uint8_t *)at;
	worker->expected = (uint8_t *)at + codes;
	worker->source = (struct source_buffers){ at + 2 * codes, at + 6 * codes, 4 * codes };
	worker->expected_scales = at + 10 * codes;
}

int verify_workers_new(struct verify_worker **workers, const struct verify *verify, struct err *err)
{
	uint64_t codes;

	if (largest_cut(verify, &codes, err))
		return -1;
	codes = (codes + 63) & ~(uint64_t)63;
	*workers = xcalloc((size_t)verify->params->n_threads, sizeof **workers);
	for (int i = 0; i < verify->params->n_threads; i++) {
		struct verify_worker *worker = &(*workers)[i];

		if (buffer_alloc(&worker->memory,
				 (verify->params->source ? BUFFER_BYTES : 1) * codes,
				 "a worker's buffers", err))
			return -1;
		if (verify->params->source)
			worker_layout(worker, codes);
		else
			worker->codes = worker->memory;
	}
	return 0;
}

void verify_workers_free(struct verify_worker *workers, int n_workers)
{
	for (int i = 0; workers && i < n_workers; i++)
		free(workers[i].memory);
	free(workers);
}
