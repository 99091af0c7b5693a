/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `quantize` over tensors of the caller.  Deciding and converting are the command's:
 * options become its words, tensors files (plan_files.h), and units entries.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/quantize.h"
#include "execute/pipeline.h"
#include "lib/plan.h"

/* Options that decide about tensors, numbers and formats. */
static const char *const plan_options[] = {
	"recipe",    "format",	    "target",	  "tp",		  "kv-cache",	"calibration",
	"amax-algo", "uncovered",   "min-tokens", "on-nonfinite", "include",	"exclude",
	"tensor",    "tensors",	    "profile",	  "ragged",	  "requantize", "fp8-format",
	"scale-fmt", "scale-arith", "mx-scale",	  "amax-epsilon", "margin",	NULL
};

size_t plan_tensor(const struct fp8conv_plan *plan, const struct tensor_ref *ref)
{
	return plan->model_of[low_bit_index(&plan->plan.source, ref)];
}

/* Returns the tensor of the model that a unit is read from. */
static size_t unit_tensor(const struct fp8conv_plan *plan, const struct unit *unit)
{
	return plan_tensor(plan, unit->low_bit ? unit->low_bit->packed : unit->source);
}

static void tensors_match(struct fp8conv_plan *plan, const struct fp8conv_model *model)
{
	const struct checkpoint *source = &plan->plan.source;

	plan->model_of = xcalloc(plan->n, sizeof *plan->model_of);
	plan->names = xcalloc(plan->n, sizeof *plan->names);
	for (size_t i = 0; i < plan->n; i++) {
		const struct tensor_ref *ref = checkpoint_find(source, model->tensors[i].name);

		plan->model_of[low_bit_index(source, ref)] = i;
		plan->names[i] = ref->tensor->name;
	}
}

/* Lists the units by tensor, in their order. */
static void units_list(struct fp8conv_plan *plan)
{
	const struct selection *selection = &plan->plan.selection;
	size_t at = 0;

	plan->units = xcalloc(selection->n_units, sizeof *plan->units);
	for (size_t u = 0; u < selection->n_units; u++)
		plan->entries[unit_tensor(plan, &selection->units[u])].n_units++;
	for (size_t i = 0; i < plan->n; i++) {
		plan->entries[i].first_unit = at;
		at += plan->entries[i].n_units;
		plan->entries[i].n_units = 0;
	}
	for (size_t u = 0; u < selection->n_units; u++) {
		struct tensor_entry *entry =
			&plan->entries[unit_tensor(plan, &selection->units[u])];

		plan->units[entry->first_unit + entry->n_units++] = u;
	}
}

static void output_list(struct fp8conv_plan *plan, size_t output, size_t at)
{
	const struct st_tensor *tensor = &plan->plan.shards[0].tensors[output];

	plan->outputs[at] = output;
	plan->items[at] = (struct fp8conv_item){ .size = sizeof plan->items[at],
						 .name = tensor->name,
						 .dtype = dtype_name(tensor->dtype),
						 .n_dims = (size_t)tensor->n_dims,
						 .shape = tensor->shape };
}

/* Lists the outputs by tensor; those of a unit follow each other in the shard. */
static void outputs_list(struct fp8conv_plan *plan)
{
	const struct output_shard *shard = &plan->plan.shards[0];
	size_t at = 0;

	plan->outputs = xcalloc(shard->n_tensors, sizeof *plan->outputs);
	plan->items = xcalloc(shard->n_tensors, sizeof *plan->items);
	for (size_t i = 0; i < plan->n; i++) {
		struct tensor_entry *entry = &plan->entries[i];

		entry->first_output = at;
		for (size_t k = 0; k < entry->n_units; k++) {
			size_t u = plan->units[entry->first_unit + k];
			size_t output = plan->plan.units[u].first_output;

			for (; output < shard->n_tensors && shard->outputs[output].unit == u;
			     output++)
				output_list(plan, output, at++);
		}
		entry->n_outputs = at - entry->first_output;
	}
}

static int plan_make(struct fp8conv_plan *plan, const struct fp8conv_model *model,
		     const char *options, struct err *err)
{
	words_add(&plan->words, xstrdup("quantize"));
	if (plan_files_init(&plan->files, model, err) ||
	    words_make(&plan->words, options, plan_options, err))
		return -1;
	words_add(&plan->words, xstrdup("--"));
	words_add(&plan->words, xstrdup(PLAN_PATH));
	plan->params = (struct convert_params){ .io = &plan->files.io,
						.backend = plan->context->backend,
						.n_threads = plan->context->n_threads };
	if (quantize_plan_words(&plan->plan, &plan->params, (int)plan->words.n, plan->words.list,
				err))
		return -1;
	plan->n = model->n_tensors;
	plan->entries = xcalloc(plan->n, sizeof *plan->entries);
	plan->seen = xcalloc(plan->n, sizeof *plan->seen);
	tensors_match(plan, model);
	units_list(plan);
	outputs_list(plan);
	for (size_t i = 0; i < plan->plan.selection.notes.n; i++)
		buf_printf(&plan->notes, "%s\n", plan->plan.selection.notes.list[i].message);
	plan_files_forget(&plan->files);
	memory_file_lay(&plan->files.output, plan->plan.shards[0].tensors,
			plan->plan.shards[0].n_tensors, plan->plan.shards[0].header_size);
	return 0;
}

EXPORTED void fp8conv_plan_destroy(struct fp8conv_plan *plan)
{
	if (!plan)
		return;
	pipeline_free(plan->pipeline);
	plan_release(&plan->plan);
	for (size_t i = 0; plan->entries && i < plan->n; i++)
		free(plan->entries[i].needed);
	words_release(&plan->words);
	free(plan->names);
	free(plan->model_of);
	free(plan->entries);
	free(plan->units);
	free(plan->outputs);
	free(plan->items);
	free(plan->seen);
	free(plan->amax);
	buf_release(&plan->notes);
	plan_files_release(&plan->files);
	free(plan);
}

static int plan_create(struct fp8conv_context *context, const struct fp8conv_model *model,
		       const char *options, struct fp8conv_plan **plan, struct err *err)
{
	struct fp8conv_plan *made;

	if (size_check(model, sizeof *model, "model", err))
		return -1;
	if (!plan || (model->n_tensors && !model->tensors))
		return err_set(err, ERR_USAGE, "%s is NULL", plan ? "tensors" : "plan");
	made = xcalloc(1, sizeof *made);
	made->context = context;
	made->plan.stream_fd = -1;
	if (plan_make(made, model, options, err)) {
		fp8conv_plan_destroy(made);
		return -1;
	}
	*plan = made;
	return 0;
}

/* Adds a tensor to what tensor i needs, once. */
static void need(struct fp8conv_plan *plan, size_t i, const struct tensor_ref *ref)
{
	struct tensor_entry *entry = &plan->entries[i];
	size_t other = ref ? plan_tensor(plan, ref) : 0;

	if (!ref || plan->seen[other] == i + 1)
		return;
	plan->seen[other] = i + 1;
	ARRAY_GROW(entry->needed, entry->n_needed);
	entry->needed[entry->n_needed++] = other;
}

static void need_unit(struct fp8conv_plan *plan, size_t i, size_t u)
{
	const struct unit *unit = &plan->plan.selection.units[u];
	const struct low_bit_weight *low_bit = unit->low_bit;

	need(plan, i, low_bit ? low_bit->packed : unit->source);
	need(plan, i, low_bit ? low_bit->scale : unit->source_scale.scale);
	need(plan, i, low_bit ? low_bit->global : NULL);
}

/* Adds the weights with which a unit shares a scale that must be found. */
static void need_group(struct fp8conv_plan *plan, size_t i, size_t u)
{
	const struct plan_unit *planned = &plan->plan.units[u];
	const struct unit *unit = &plan->plan.selection.units[u];
	const struct plan_group *group = &plan->plan.groups[unit->scale_group];

	if (!unit->recipe || planned->same_codes || planned->spec->tile.rows != WHOLE ||
	    !isnan(group->amax))
		return;
	for (size_t m = group->first; m != NO_UNIT; m = plan->plan.units[m].next_in_group)
		need_unit(plan, i, m);
}

const struct tensor_entry *plan_needs(struct fp8conv_plan *plan, size_t i)
{
	const struct tensor_entry *entry = &plan->entries[i];

	if (entry->n_needed)
		return entry;
	for (size_t k = 0; k < entry->n_units; k++) {
		need_unit(plan, i, plan->units[entry->first_unit + k]);
		need_group(plan, i, plan->units[entry->first_unit + k]);
	}
	return entry;
}

static int entry_fill(struct fp8conv_plan *plan, size_t i, struct fp8conv_entry *entry,
		      struct err *err)
{
	const struct tensor_entry *own;
	const struct unit *unit;

	if (size_check(entry, sizeof *entry, "entry", err))
		return -1;
	if (i >= plan->n)
		return err_set(err, ERR_USAGE, "the model has %zu tensors, and no number %zu",
			       plan->n, i);
	own = plan_needs(plan, i);
	*entry = (struct fp8conv_entry){ .size = sizeof *entry,
					 .action = "drop",
					 .n_outputs = own->n_outputs,
					 .outputs = plan->items + own->first_output,
					 .n_needed = own->n_needed,
					 .needed = own->needed };
	if (!own->n_units)
		return 0;
	unit = &plan->plan.selection.units[plan->units[own->first_unit]];
	entry->action = unit->recipe ? "quantize" : "keep";
	entry->recipe = unit->recipe ? unit->recipe->name : NULL;
	entry->reason = unit->reason;
	entry->source = unit->rule_source;
	return 0;
}

static int conversion_read(struct fp8conv_plan *plan, const struct fp8conv_conversion *conversion,
			   struct err *err)
{
	size_t i = conversion->tensor;

	if (size_check(conversion, sizeof *conversion, "a conversion", err))
		return -1;
	if (i >= plan->n)
		return err_set(err, ERR_USAGE, "the model has %zu tensors, and no number %zu",
			       plan->n, i);
	for (size_t k = 0; conversion->outputs && k < plan->entries[i].n_outputs; k++) {
		size_t at = plan->entries[i].first_output + k;

		if (!conversion->outputs[k])
			return err_set(err, ERR_USAGE, "the memory of output '%s' is NULL",
				       plan->items[at].name);
		memory_file_set(&plan->files.output, plan->outputs[at], conversion->outputs[k]);
	}
	return plan_files_give(&plan->files, conversion, plan->names[i], err);
}

void plan_forget(struct fp8conv_plan *plan, const struct fp8conv_conversion *conversion)
{
	const struct tensor_entry *entry = &plan->entries[conversion->tensor];

	memory_file_set(&plan->files.model, conversion->tensor, NULL);
	for (size_t k = 0; k < entry->n_outputs; k++)
		memory_file_set(&plan->files.output, plan->outputs[entry->first_output + k], NULL);
}

/* Checks that all tensors are there that an entry needs. */
static int check_needed(struct fp8conv_plan *plan, size_t i, struct err *err)
{
	const struct tensor_entry *entry = plan_needs(plan, i);

	for (size_t k = 0; entry->needed && k < entry->n_needed; k++)
		if (plan->files.sizes[entry->needed[k]] &&
		    !memory_file_get(&plan->files.model, entry->needed[k]))
			return err_set(err, ERR_USAGE,
				       "the conversion of tensor '%s' needs '%s' too: give both in "
				       "one call",
				       plan->names[i], plan->names[entry->needed[k]]);
	return 0;
}

static int convert(struct fp8conv_plan *plan, const struct output_set *set, struct err *err)
{
	const struct output_shard *shard = &plan->plan.shards[0];
	struct writer writer = { 0 };
	int rc;

	if (!plan->pipeline &&
	    pipeline_new(&plan->pipeline, &plan->plan, &plan->params, &plan->progress, err))
		return -1;
	rc = writer_open_anonymous(&writer, &plan->files.io, PLAN_PATH, &(struct buf){ 0 },
				   shard->header_size + shard->data_size, err);
	rc = rc ? rc : pipeline_outputs(plan->pipeline, 0, set, &writer, err);
	writer_release(&writer);
	return rc;
}

/* Converts on the CPU what the files have. */
static int apply_read(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		      struct err *err)
{
	struct output_set set = { 0 };
	size_t *outputs = NULL;
	int rc = 0;

	for (size_t c = 0; c < n; c++) {
		const struct tensor_entry *entry = &plan->entries[list[c].tensor];

		if (!list[c].outputs)
			continue;
		for (size_t k = 0; k < entry->n_outputs; k++) {
			ARRAY_GROW(outputs, set.n);
			outputs[set.n++] = plan->outputs[entry->first_output + k];
		}
	}
	set.list = outputs;
	if (set.n)
		rc = convert(plan, &set, err);
	free(outputs);
	return rc;
}

/* Moves the F32 scales of a conversion. */
static void scales_to_columns(const struct fp8conv_plan *plan,
			      const struct fp8conv_conversion *conversion)
{
	const struct tensor_entry *entry = &plan->entries[conversion->tensor];
	const struct output_shard *shard = &plan->plan.shards[0];

	for (size_t k = 0; k < entry->n_outputs; k++) {
		size_t output = plan->outputs[entry->first_output + k];

		if (shard->outputs[output].is_scale && shard->tensors[output].dtype == DT_F32)
			memory_by_columns(conversion->outputs[k], &shard->tensors[output]);
	}
}

int plan_list_read(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		   size_t *n_read, struct err *err)
{
	for (*n_read = 0; *n_read < n; ++*n_read)
		if (conversion_read(plan, &list[*n_read], err))
			return -1;
	for (size_t c = 0; c < n; c++)
		if (list[c].outputs && check_needed(plan, list[c].tensor, err))
			return -1;
	return 0;
}

int plan_apply_here(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		    struct err *err)
{
	size_t n_read;
	int rc = plan_list_read(plan, list, n, &n_read, err);

	rc = rc ? rc : apply_read(plan, list, n, err);
	for (size_t c = 0; c < n_read; c++)
		plan_forget(plan, &list[c]);
	for (size_t c = 0; !rc && c < n; c++)
		if (list[c].scales_by_columns && list[c].outputs)
			scales_to_columns(plan, &list[c]);
	return rc;
}

static int apply(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		 struct err *err)
{
	if (n && !list)
		return err_set(err, ERR_USAGE, "list is NULL");
	for (size_t c = 0; c < n; c++) {
		if (size_check(&list[c], sizeof list[c], "a conversion", err))
			return -1;
		if (list[c].device < FP8CONV_CPU || list[c].device != list[0].device)
			return err_set(err, ERR_USAGE,
				       "device of conversion %zu is %d, of conversion 0 %d", c,
				       list[c].device, list[0].device);
	}
	return n && list[0].device != FP8CONV_CPU ? plan_apply_there(plan, list, n, err)
						  : plan_apply_here(plan, list, n, err);
}

EXPORTED int fp8conv_plan_create(struct fp8conv_context *context, const struct fp8conv_model *model,
				 const char *options, struct fp8conv_plan **plan,
				 struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = context_take(context, &err);

	if (!rc) {
		rc = plan_create(context, model, options, plan, &err);
		context_leave(context);
	}
	return error_out(rc, &err, error);
}

static int plan_take(const struct fp8conv_plan *plan, struct err *err)
{
	if (plan)
		return context_take(plan->context, err);
	err_set(err, ERR_USAGE, "the plan is NULL");
	return -1;
}

EXPORTED int fp8conv_plan_entry(struct fp8conv_plan *plan, size_t i, struct fp8conv_entry *entry,
				struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = plan_take(plan, &err);

	if (!rc) {
		rc = entry_fill(plan, i, entry, &err);
		context_leave(plan->context);
	}
	return error_out(rc, &err, error);
}

EXPORTED int fp8conv_plan_apply(struct fp8conv_plan *plan, const struct fp8conv_conversion *list,
				size_t n, struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = plan_take(plan, &err);

	if (!rc) {
		rc = apply(plan, list, n, &err);
		context_leave(plan->context);
	}
	return error_out(rc, &err, error);
}

static const struct buf *plan_text(const struct fp8conv_plan *plan, const char *name)
{
	const struct plan_texts *files = &plan->plan.files;
	const struct {
		const char *name;
		const struct buf *text;
	} texts[] = { { CONFIG_NAME, &files->config },
		      { HF_QUANT_CONFIG_NAME, &files->hf_quant_config },
		      { PARAMS_NAME, &files->params },
		      { "quantization_config", &files->quantization },
		      { "notes", &plan->notes } };

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (!strcmp(texts[i].name, name))
			return texts[i].text;
	return NULL;
}

EXPORTED const char *fp8conv_plan_text(const struct fp8conv_plan *plan, const char *name)
{
	const struct buf *text = plan && name ? plan_text(plan, name) : NULL;

	return text && text->len ? text->data : NULL;
}
