/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/rounding.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define LIBRARY_SIZE 128 /* bytes of the library's name and version */

/* ERR_USAGE for what cannot be combined with it. */
static int check_request(const struct plan *plan, const struct quantize_params *params,
			 struct err *err)
{
	const struct convert_params *convert = &params->convert;

	if (!plan->source.directory)
		return err_set(err, ERR_USAGE,
			       "option '--rounding compensated' needs the directory of a model, "
			       "with its config.json, not '%s'",
			       convert->input);
	if (convert->output && destination_of(convert->output) != DESTINATION_DIRECTORY)
		return err_set(err, ERR_USAGE,
			       "option '--rounding compensated' needs a directory as output, not "
			       "'%s'",
			       convert->output);
	if (convert->part || convert->part_finish)
		return err_set(err, ERR_USAGE,
			       "options '--rounding compensated' and '--part' cannot be combined: "
			       "every part would need the codes of all layers");
	if (convert->exact)
		return err_set(err, ERR_USAGE,
			       "options '--rounding compensated' and '--exact' cannot be combined: "
			       "compensated codes are not the nearest");
	return 0;
}

static struct plan_rounding *rounding_new(const struct plan *plan)
{
	const struct selection *selection = &plan->selection;
	struct plan_rounding *rounding = xcalloc(1, sizeof *rounding);

	rounding->specs = xcalloc(selection->n_units + 1, sizeof *rounding->specs);
	rounding->group_amax = xcalloc(selection->n_scale_groups + 1, sizeof *rounding->group_amax);
	for (size_t u = 0; u < selection->n_units; u++)
		if (selection->units[u].recipe && !selection->units[u].table &&
		    !plan->units[u].same_codes)
			rounding->specs[u] = plan->units[u].spec;
	for (size_t g = 0; g < selection->n_scale_groups; g++)
		rounding->group_amax[g] = plan->groups[g].amax;
	return rounding;
}

int rounding_plan(struct plan *plan, const struct quantize_params *params, struct err *err)
{
	struct compensate_params request = params->compensate;
	struct compensate_units units;

	if (params->rounding == ROUNDING_NEAREST)
		return 0;
	if (check_request(plan, params, err))
		return -1;
	plan->rounding = rounding_new(plan);
	units = (struct compensate_units){ &plan->selection, plan->rounding->specs,
					   plan->rounding->group_amax };
	request.io = params->convert.io;
	request.checkpoint = &plan->source;
	request.cast = params->convert.backend;
	request.n_threads = params->convert.n_threads;
	request.max_memory = params->convert.max_memory;
	request.group = params->convert.group;
	return compensate_plan_make(&plan->rounding->plan, &request, &units, err);
}

void rounding_release(struct plan *plan)
{
	if (!plan->rounding)
		return;
	compensate_plan_release(&plan->rounding->plan);
	free(plan->rounding->specs);
	free(plan->rounding->group_amax);
	free(plan->rounding);
	plan->rounding = NULL;
}

json_t *rounding_shrink_json(float shrink)
{
	char text[32];

	for (int digits = 1; digits <= 9; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, (double)shrink);
		if (strtof(text, NULL) == shrink)
			break;
	}
	return json_real(strtod(text, NULL));
}

/* Returns the number of sequences of each domain. */
static json_t *domains_json(const struct compensate_plan *rounding)
{
	json_t *domains = json_array();

	for (size_t d = 0; d < rounding->n_domains; d++) {
		size_t first = d ? rounding->domain_ends[d - 1] : 0;

		json_array_append_new(domains,
				      json_integer((json_int_t)(rounding->domain_ends[d] - first)));
	}
	return domains;
}

json_t *rounding_identity(const struct plan *plan)
{
	const struct compensate_plan *rounding = &plan->rounding->plan;
	const struct backend *backend = rounding->params.backend;
	char library[LIBRARY_SIZE] = "";
	struct err ignored;
	json_t *json;

	backend->executor->library(library, sizeof library, &ignored);
	json = json_pack("{s:s, s:I, s:I, s:o, s:s, s:s, s:s, s:s}", "data_sha256",
			 rounding->data_sha256, "sequences", (json_int_t)rounding->data.n, "tokens",
			 (json_int_t)rounding->n_tokens, "domains", domains_json(rounding),
			 "executor", backend->executor->name, "library", library, "backend",
			 backend->name, "products", dtype_name(backend->executor->bf16_type()));
	json_object_set_new(json, "shrink",
			    rounding->params.shrink < 0
				    ? json_string("auto")
				    : rounding_shrink_json(rounding->params.shrink));
	return json;
}
