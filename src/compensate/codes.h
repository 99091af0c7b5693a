/* SPDX-License-Identifier: Apache-2.0
 *
 * The codes of the current stage.  One process writes them into the store and reads them there.
 * Each of several ranks has the codes of its groups in memory; the commit gives all to all ranks,
 * and the leading one writes them.
 *
 * Order: codes_open() before the first stage; codes_begin(), codes_write() from any thread,
 * codes_commit(), or codes_take() where the store has the stage; then codes_read() from any thread,
 * with every rank's codes; codes_release().
 */
#ifndef FP8CONV_COMPENSATE_CODES_H
#define FP8CONV_COMPENSATE_CODES_H

#include "compensate/steps.h"

/* Returns the bytes that codes and inputs take while ranks unite them; of one process, 0. */
uint64_t codes_size(const struct compensate_plan *plan);

/* ERR_SYSTEM without memory. */
int codes_open(struct compensation *job, struct err *err);
void codes_release(struct compensation *job);
int codes_begin(struct compensation *job, struct writer *writer, struct err *err);
int codes_write(struct compensation *job, struct writer *writer, const struct store_span *span,
		const uint8_t *codes, struct err *err);
int codes_commit(struct compensation *job, struct writer *writer,
		 struct store_counts counts[STORE_RHOS], struct err *err);
int codes_take(struct compensation *job, struct err *err);
int codes_read(struct compensation *job, const struct store_span *span, uint8_t *codes,
	       struct err *err);

#endif
