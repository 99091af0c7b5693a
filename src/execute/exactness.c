/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/exactness.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "execute/execution.h"

/* Returns the sentence on values that are not exact, which the caller frees; NULL if all are. */
static char *sentence_make(const struct plan *plan, const struct figures *figures)
{
	struct low_bit_totals totals = low_bit_total(plan);
	struct buf text = { 0 };

	if (!totals.kind || !figures->n_changed)
		return NULL;
	buf_printf(&text, "%" PRIu64 " of %" PRIu64 " values of %zu of %zu tensors from ",
		   figures->n_changed, totals.n_values, figures->n_inexact, totals.n);
	for (const char *at = totals.kind; *at; at++)
		buf_putc(&text, (char)toupper(*at));
	buf_printf(&text, " are not exact in %s, first in '%s'", plan->recipe->name,
		   figures->inexact);
	if (!strcmp(totals.kind, "mxfp4") && plan->spec.scale_type != SCALE_E8M0)
		buf_puts(&text, ": --recipe mxfp8 is");
	return text.data;
}

void exactness_note(struct plan *plan, const struct convert_result *result)
{
	const struct figures *figures = &result->figures;
	char *sentence = result->has_figures && plan->recipe ? sentence_make(plan, figures) : NULL;

	if (plan->conversion == CONVERT_DEQUANTIZE && figures->n_changed)
		notes_add(&plan->selection.notes, NOTE_LOW_BIT_INEXACT, figures->inexact,
			  "%" PRIu64 " %s too small for F16 and %s 0, first in '%s': use "
			  "--dtype bf16 or f32",
			  figures->n_changed, figures->n_changed == 1 ? "value is" : "values are",
			  figures->n_changed == 1 ? "becomes" : "become", figures->inexact);
	if (sentence)
		notes_add(&plan->selection.notes, NOTE_LOW_BIT_INEXACT, figures->inexact, "%s",
			  sentence);
	free(sentence);
}

int execution_check_exact(struct execution *execution, struct err *err)
{
	const struct plan *plan = execution->plan;
	struct figures figures = { 0 }, of_shard;
	char *sentence;

	progress_begin(execution->progress, PROGRESS_CHECK, plan->totals.input_bytes);
	for (size_t i = 0; i < plan->n_shards; i++) {
		if (pipeline_shard_nowhere(execution->pipeline, i, err))
			return -1;
		pipeline_figures(execution->pipeline, i, &of_shard);
		figures_add(&figures, &of_shard);
	}
	progress_begin(execution->progress, PROGRESS_WORK, plan->totals.input_bytes);
	sentence = sentence_make(plan, &figures);
	if (!sentence)
		return 0;
	err_set(err, ERR_INPUT, "%s; omit --exact to accept that", sentence);
	free(sentence);
	return -1;
}
