/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/delta.h"

#include <inttypes.h>

#include "cli/print/json.h"
#include "cli/print/path.h"
#include "cli/print/units.h"
#include "cli/program.h"

void delta_print_json(const struct delta_counts *counts, const char *output)
{
	struct json_out out = { .stream = program.out };

	json_out_begin(&out);
	json_out_text(&out, "output", output);
	json_out_bool(&out, "already_applied", counts->already);
	json_out_text(&out, "base", counts->base);
	json_out_text(&out, "result", counts->result);
	json_out_count(&out, "tensors", counts->n_tensors);
	json_out_count(&out, "changed", counts->n_changed);
	json_out_count(&out, "elements", counts->n_elements);
	json_out_count(&out, "files", counts->n_files);
	json_out_count(&out, "delta_bytes", counts->delta_bytes);
	json_out_count(&out, "result_bytes", counts->result_bytes);
	json_out_end(&out);
}

void delta_print_summary(const struct delta_counts *counts, const char *output)
{
	struct buf text = { 0 };
	double share = counts->result_bytes
			       ? 100 * (double)counts->delta_bytes / (double)counts->result_bytes
			       : 0;

	units_size(&text, counts->delta_bytes);
	buf_printf(&text, ", %.3g %% of ", share);
	units_size(&text, counts->result_bytes);
	fprintf(program.err, "changed    %zu of %zu tensors, %" PRIu64 " elements, %zu files\n",
		counts->n_changed, counts->n_tensors, counts->n_elements, counts->n_files);
	fprintf(program.err, "delta      %s\n", text.data);
	path_print_output(output);
	buf_release(&text);
}
