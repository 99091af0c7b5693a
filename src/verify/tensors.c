/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "expect/expect.h"
#include "format/foreign.h"
#include "format/scale_names.h"
#include "names/tensor_name.h"
#include "verify/kept.h"
#include "verify/lists.h"
#include "verify/scales.h"

void verify_report(struct verify *verify, enum problem_kind kind, const struct tensor_ref *ref,
		   const char *format, ...)
{
	va_list args;

	va_start(args, format);
	problem_addv(&verify->result->problems, kind, ref->tensor->name,
		     verify->opened.checkpoint->shards[ref->shard].name, format, args);
	va_end(args);
}

void verify_report_values(struct verify *verify, enum problem_kind kind,
			  const struct tensor_ref *ref, const struct finding *finding, uint64_t n,
			  const char *what)
{
	if (finding->n)
		verify_report(verify, kind, ref,
			      "%" PRIu64 " of %" PRIu64
			      " values of '%s' %s; the first is %g at %" PRIu64,
			      finding->n, n, ref->tensor->name, what, (double)finding->value,
			      finding->first);
}

char *verify_module(const char *weight)
{
	return xstrndup(weight, module_len(weight));
}

/* Whether engines build the module in high precision. */
static bool is_skipped(struct verify *verify, const char *weight, const char *module)
{
	enum role role = role_cache_find(&verify->roles, weight).role;

	if (role == ROLE_EMBEDDING)
		return !lists_table(verify, module);
	return (role == ROLE_LM_HEAD && !lists_head(verify, module)) ||
	       lists_skip_target(verify, module) || !lists_quantize(verify, module);
}

/* The kind of the sets of a table's parts. */
#define TABLE 'T'

/* Returns the number of the fused set of a tensor, or of one expert in it; SIZE_MAX where engines
 * do not merge it.  The parts of a table are a set. */
static size_t fused_set_number(struct verify *verify, const struct st_tensor *tensor,
			       uint64_t expert, int *position)
{
	struct profile_match match;
	struct fusion fusion;
	struct buf key = { 0 };
	size_t number;
	char *table;

	if (tensor->n_dims < 2 || tensor->n_dims > 3)
		return SIZE_MAX;
	table = scale_table(tensor->name);
	match = profile_find(&verify->lists.profile, tensor->name, verify->lists.on);
	if (table)
		fusion = (struct fusion){ .kind = TABLE, .parent_len = strlen(table) };
	free(table);
	if (!table && !profile_fusion(&match, tensor->name, &fusion))
		return SIZE_MAX;
	*position = fusion.position;
	buf_putc(&key, fusion.kind);
	buf_add(&key, tensor->name, fusion.parent_len);
	if (tensor->n_dims == 3)
		buf_printf(&key, "#%" PRIu64, expert);
	number = intern_add(&verify->weights.fused_sets, key.data, key.len);
	buf_release(&key);
	return number;
}

/* Adds a matrix of the tensor to the weights whose values are read. */
static void add_matrix(struct verify *verify, const struct tensor_ref *ref,
		       const struct weight_scale *scale, uint64_t expert)
{
	const struct st_tensor *tensor = ref->tensor, *scales = scale->scale->tensor;
	const uint64_t *sides = tensor->shape + tensor->n_dims - 2;
	uint64_t n_scales =
		tile_count(sides[0], scale->tile.rows) * tile_count(sides[1], scale->tile.cols);
	struct verify_weight *weight;

	ARRAY_GROW(verify->weights.list, verify->weights.n);
	weight = &verify->weights.list[verify->weights.n++];
	*weight = (struct verify_weight){
		.granularity = weight_scale_granularity(scale),
		.scanned = tensor->end > tensor->begin,
		.unit = { .name = tensor->name,
			  .source = ref,
			  .table = scale_is_shared(tensor->name, scales->name),
			  .source_scale = *scale,
			  .rows = sides[0],
			  .cols = sides[1],
			  .slice = { expert * sides[0] * sides[1], sides[1], 1 } },
	};
	weight->fused_set = fused_set_number(verify, tensor, expert, &weight->fused_position);
	if (st_n_elements(scales->shape, scales->n_dims) != n_scales)
		weight->first_scale = expert * n_scales;
}

#define MAX_EXPERTS 65536 /* as quantize accepts */

static void add_weight(struct verify *verify, const struct tensor_ref *ref,
		       const struct weight_scale *scale)
{
	uint64_t n = ref->tensor->n_dims == 3 ? ref->tensor->shape[0] : 1;

	if (n > MAX_EXPERTS)
		verify_report(verify, PROBLEM_SCALE_SHAPE, ref,
			      "'%s' has %" PRIu64 " experts, more than %d: it is not checked",
			      ref->tensor->name, n, MAX_EXPERTS);
	for (uint64_t e = 0; n <= MAX_EXPERTS && e < n; e++)
		add_matrix(verify, ref, scale, e);
}

size_t verify_weight_run(const struct verify *verify, size_t w)
{
	const struct tensor_ref *ref = verify->weights.list[w].unit.source;
	size_t n = 1;

	while (w + n < verify->weights.n && verify->weights.list[w + n].unit.source == ref)
		n++;
	return n;
}

/* Returns the kind of problem of a scale that fits no tiling. */
static enum problem_kind unreadable(const struct weight_scale *scale)
{
	enum dtype dtype;

	if (!scale->scale)
		return PROBLEM_SCALE_MISSING;
	dtype = scale->scale->tensor->dtype;
	return dtype_is_float(dtype) || dtype == DT_U8 || dtype == DT_F8_E8M0 ? PROBLEM_SCALE_SHAPE
									      : PROBLEM_SCALE_DTYPE;
}

static void check_codes(struct verify *verify, const struct tensor_ref *ref, const char *module)
{
	const struct detection *detection = verify->opened.detection;
	const struct scheme scheme = verify_scheme(verify, module);
	struct weight_scale scale;
	struct err err;

	if (is_skipped(verify, ref->tensor->name, module))
		verify_report(verify, PROBLEM_DTYPE_MISMATCH, ref,
			      "weight '%s' is %s, but no engine quantizes its module, or the "
			      "configuration excludes it",
			      ref->tensor->name, dtype_name(ref->tensor->dtype));
	else
		lists_check_conflict(verify, ref, module);
	if (detection_scale(detection, ref, &scale, &err)) {
		verify_report(verify, unreadable(&scale), ref, "%s", err.message);
		return;
	}
	add_weight(verify, ref, &scale);
	verify_scale(verify, ref, &scale, &scheme);
	if (verify->opened.declared && scheme.static_input &&
	    !scale_is_shared(ref->tensor->name, scale.scale->tensor->name) &&
	    !scale_name_beside(verify->opened.checkpoint, ref->tensor->name, SCALE_OF_INPUT))
		verify_report(verify, PROBLEM_INPUT_SCALE_MISSING, ref,
			      "weight '%s' has no input_scale, but the configuration declares "
			      "static scales of activations",
			      ref->tensor->name);
}

static void report_stray(struct verify *verify, const struct tensor_ref *ref,
			 const struct tensor_ref *weight, const char *why)
{
	verify_report(verify, PROBLEM_SCALE_STRAY, ref, "scale '%s' belongs to '%s' (%s %s), %s",
		      ref->tensor->name, weight->tensor->name, dtype_name(weight->tensor->dtype),
		      st_shape(weight->tensor).text, why);
}

/* DeepSeek-V4's "hc_attn_scale" ends as scales of fused experts do, and scales no weight. */
static bool is_parameter(const char *name, const struct scale_name *word)
{
	return !strcmp(word->word, "weight_scale") && strcmp(text_after(name, '.'), word->word);
}

/* Reports a scale under a name that no engine reads: what it says of a weight or cache is lost. */
static void check_unread(struct verify *verify, const struct tensor_ref *ref)
{
	const struct tensor_ref *weight;

	if (!verify->opened.detection->n_weights ||
	    !detection_is_unread(verify->opened.checkpoint, ref, &weight))
		return;
	if (weight)
		report_stray(verify, ref, weight, "whose scales no engine reads by that name");
	else
		verify_report(
			verify, PROBLEM_SCALE_STRAY, ref,
			"'%s' has the name of a scale of cached keys or values that no engine "
			"reads",
			ref->tensor->name);
}

static void check_stray(struct verify *verify, const struct tensor_ref *ref,
			const struct scale_name *word)
{
	const struct tensor_ref *weight =
		scaled_weight(verify->opened.checkpoint, ref->tensor->name, word);
	char *module;

	if (word->role == SCALE_ZERO_POINT && weight && detection_is_weight(weight))
		report_stray(verify, ref, weight, "of which no engine reads a zero point");
	if ((word->role != SCALE_OF_WEIGHT && word->role != SCALE_OF_INPUT) ||
	    low_bit_is_part(&verify->low_bit, low_bit_index(verify->opened.checkpoint, ref)))
		return;
	if (!weight || !detection_is_weight(weight)) {
		if (!word->tool && weight)
			report_stray(verify, ref, weight, "which is not FP8");
		else if (!word->tool && !is_parameter(ref->tensor->name, word))
			verify_report(verify, PROBLEM_SCALE_STRAY, ref,
				      "scale '%s' belongs to no weight", ref->tensor->name);
		else
			check_unread(verify, ref);
		return;
	}
	module = verify_module(weight->tensor->name);
	if (is_skipped(verify, weight->tensor->name, module))
		report_stray(verify, ref, weight, "whose module engines do not quantize");
	free(module);
}

/* Reports a weight that another tool packed, unless the configuration is that of this tool or of no
 * FP8. */
static void check_foreign(struct verify *verify, const struct tensor_ref *ref)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	const struct detection *detection = verify->opened.detection;
	const json_t *method = json_object_get(detection->config, "quant_method");
	const char *tool = foreign_tool(checkpoint, ref->tensor);

	if (tool && (!method || (detection->declared && strcmp(json_string_value(method), tool))) &&
	    !low_bit_of(&verify->low_bit, low_bit_index(checkpoint, ref)))
		verify_report(
			verify, PROBLEM_TENSOR_NAME, ref,
			"tensor '%s' is %s, as %s packs weights, but config.json does not say "
			"so",
			ref->tensor->name, dtype_name(ref->tensor->dtype), tool);
}

static void check_tensor(struct verify *verify, const struct tensor_ref *ref)
{
	const char *name = ref->tensor->name;
	const struct scale_name *word = scale_name_find(name);
	struct role_facts facts;
	char *module;

	if (word) {
		check_stray(verify, ref, word);
		return;
	}
	check_foreign(verify, ref);
	check_unread(verify, ref);
	facts = role_cache_find(&verify->roles, name);
	module = verify_module(name);
	if (detection_is_weight(ref))
		check_codes(verify, ref, module);
	else
		verify_kept(verify, ref, &facts, module);
	free(module);
}

/* The last member of a fused set that is FP8, and the first that is not. */
struct members {
	const struct tensor_ref *fp8, *other;
};

static void check_fused_sets(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	size_t *set_of = xcalloc(checkpoint->n_tensors, sizeof *set_of);
	struct members *sets;
	int position;

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		set_of[i] = fused_set_number(verify, checkpoint->by_name[i].tensor, 0, &position);
	sets = xcalloc(verify->weights.fused_sets.n, sizeof *sets);
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		struct members *set;

		if (set_of[i] == SIZE_MAX)
			continue;
		set = &sets[set_of[i]];
		if (detection_is_weight(ref))
			set->fp8 = ref;
		else if (dtype_is_float(ref->tensor->dtype) && !set->other)
			set->other = ref;
	}
	for (size_t i = 0; i < verify->weights.fused_sets.n; i++)
		if (sets[i].fp8 && sets[i].other)
			verify_report(verify, PROBLEM_GROUP_PARTIAL, sets[i].other,
				      "'%s' is %s, but '%s' is %s", sets[i].other->tensor->name,
				      dtype_name(sets[i].other->tensor->dtype),
				      sets[i].fp8->tensor->name,
				      dtype_name(sets[i].fp8->tensor->dtype));
	free(sets);
	free(set_of);
}

void verify_tensors(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	struct err bad = { 0 };

	if (low_bit_find(&verify->low_bit, checkpoint, &bad))
		problem_add(&verify->result->problems, PROBLEM_SCALE_MISSING, NULL, NULL, "%s",
			    bad.message);
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		check_tensor(verify, &checkpoint->by_name[i]);
	verify_scale_names(verify);
	check_fused_sets(verify);
}

static const enum problem_kind kinds[] = {
	[EXPECT_LAYER] = PROBLEM_LAYER_MISSING, [EXPECT_TENSOR] = PROBLEM_TENSOR_LACKING,
	[EXPECT_SHAPE] = PROBLEM_TENSOR_SHAPE,	[EXPECT_NAME] = PROBLEM_TENSOR_NAME,
	[EXPECT_MTP] = PROBLEM_MTP_MISSING,
};

/* Is a file left out, so that its tensors would all be missing? */
static bool is_partial(const struct problems *problems)
{
	for (size_t i = 0; i < problems->n; i++)
		if (problems->list[i].kind == PROBLEM_FILE_INVALID ||
		    problems->list[i].kind == PROBLEM_UNFINISHED)
			return true;
	return false;
}

void verify_missing(struct verify *verify)
{
	struct problems *problems = &verify->result->problems;
	struct expect_gaps gaps;
	struct err bad = { 0 };

	/* an invalid config.json is reported already */
	if (is_partial(problems) || expect_find(&gaps, verify->opened.checkpoint, &bad))
		return;
	for (size_t i = 0; i < gaps.n; i++)
		problem_add(problems, kinds[gaps.list[i].kind], gaps.list[i].tensor, NULL, "%s",
			    gaps.list[i].message);
	if (expect_elements(verify->opened.checkpoint, &bad))
		problem_add(problems, PROBLEM_TENSOR_SHAPE, NULL, NULL, "%s", bad.message);
	expect_release(&gaps);
}
