/* SPDX-License-Identifier: Apache-2.0
 *
 * What headers show: each weight with its scales, each scale with its weight, and what engines
 * merge.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/variant.h"
#include "format/scale_names.h"
#include "verify/steps.h"
#include "model/fusion.h"
#include "model/tensor_name.h"

const char *verify_file(const struct verify *verify, const struct tensor_ref *ref)
{
	return verify->checkpoint->shards[ref->shard].name;
}

char *verify_module(const char *weight)
{
	return xstrndup(weight, module_len(weight));
}

static void report(struct verify *verify, enum problem_kind kind, const struct tensor_ref *ref,
		   const char *message)
{
	problem_add(&verify->result->problems, kind, ref->tensor->name, verify_file(verify, ref),
		    "%s", message);
}

/* No engine quantizes these, whatever the configuration says. */
static bool never_quantized(enum role role)
{
	return role == ROLE_LM_HEAD || role == ROLE_EMBEDDING;
}

static bool same_shape(const struct st_tensor *tensor, const struct scale_decl *decl)
{
	if (tensor->n_dims != decl->n_dims)
		return false;
	for (int i = 0; i < decl->n_dims; i++)
		if (tensor->shape[i] != decl->shape[i])
			return false;
	return true;
}

static bool is_float(enum dtype dtype)
{
	return dtype == DT_F32 || dtype == DT_BF16 || dtype == DT_F16;
}

/* The variants of the format that have such scales; *shape_fits, *type_fits: one of them has this
 * shape, this type.  False: none has a scale of that name. */
static bool compare_variants(const struct verify *verify, const struct checked *weight,
			     const struct scheme *scheme, bool *shape_fits, bool *type_fits)
{
	const struct st_tensor *scale = weight->unit.source_scale.scale->tensor;
	const char *name = weight->unit.name;
	bool known = false;

	*shape_fits = *type_fits = false;
	for (const struct variant *row = verify->format->variants; row->method; row++) {
		struct scale_decl decl;
		bool same_type;

		if (row->granularity != scheme->granularity ||
		    strncmp(scale->name, name, strlen(name)) ||
		    strcmp(scale->name + strlen(name), row->weight_scale))
			continue;
		known = true;
		variant_scale(row, scheme->tile, name, weight->unit.rows, weight->unit.cols, &decl);
		same_type = row->dtype == DT_U8 ? scale->dtype == DT_U8 : is_float(scale->dtype);
		*type_fits |= same_type;
		*shape_fits |= same_shape(scale, &decl);
		free(decl.name);
	}
	return known;
}

static void check_scale(struct verify *verify, const struct tensor_ref *ref,
			const struct checked *weight, const struct scheme *scheme)
{
	const struct tensor_ref *scale = weight->unit.source_scale.scale;
	struct buf shape = { 0 };
	char words[SCHEME_NAME_SIZE];
	bool shape_fits, type_fits;

	scheme_name(scheme, words);
	if (!verify->format || ref->tensor->n_dims != 2)
		return;
	st_shape_format(&shape, scale->tensor->shape, scale->tensor->n_dims);
	buf_puts(&shape, " for a weight of ");
	st_shape_format(&shape, ref->tensor->shape, 2);
	if (!compare_variants(verify, weight, scheme, &shape_fits, &type_fits))
		problem_add(&verify->result->problems, PROBLEM_SCALE_MISSING, ref->tensor->name,
			    verify_file(verify, ref),
			    "format '%s' keeps the scale of '%s' under another name than '%s'",
			    verify->format->name, ref->tensor->name, scale->tensor->name);
	else if (!type_fits)
		problem_add(&verify->result->problems, PROBLEM_SCALE_DTYPE, scale->tensor->name,
			    verify_file(verify, scale),
			    "scale '%s' is %s, which format '%s' does not have there",
			    scale->tensor->name, dtype_name(scale->tensor->dtype),
			    verify->format->name);
	else if (!shape_fits)
		problem_add(&verify->result->problems, PROBLEM_SCALE_SHAPE, scale->tensor->name,
			    verify_file(verify, scale),
			    "scale '%s' is %s, not the shape that format '%s' has for %s",
			    scale->tensor->name, shape.data, verify->format->name, words);
	buf_release(&shape);
}

/* The rows of a weight of all experts lie on top of each other, and tiles do not straddle two of
 * them. */
static bool weight_unit(struct checked *weight, const struct tensor_ref *ref,
			const struct weight_scale *scale)
{
	const struct st_tensor *tensor = ref->tensor;
	uint64_t experts = tensor->n_dims == 3 ? tensor->shape[0] : 1;
	uint64_t rows = tensor->shape[tensor->n_dims - 2];

	weight->unit = (struct unit){ .name = tensor->name,
				      .source = ref,
				      .source_scale = *scale,
				      .rows = experts * rows,
				      .cols = tensor->shape[tensor->n_dims - 1] };
	weight->unit.stack = experts > 1 ? rows : 0;
	weight->unit.slice = (struct slice){ 0, weight->unit.cols, 1 };
	return experts == 1 || (scale->tile.rows != WHOLE && rows % scale->tile.rows == 0);
}

/* Of what engines merge; SIZE_MAX: it is not merged. */
static size_t group_number(struct verify *verify, const struct st_tensor *tensor, int *position)
{
	struct fusion fusion;
	struct buf key = { 0 };
	size_t number;

	if (tensor->n_dims != 2 || !fusion_of_name(&fusion, tensor->name))
		return SIZE_MAX;
	*position = fusion.position;
	buf_putc(&key, fusion.kind);
	buf_add(&key, tensor->name, fusion.parent_len);
	number = intern_add(&verify->groups, key.data, key.len);
	buf_release(&key);
	return number;
}

/* Adds the weight to those whose values are read. */
static struct checked *add_weight(struct verify *verify, const struct tensor_ref *ref,
				  const struct weight_scale *scale)
{
	struct checked *weight;

	ARRAY_GROW(verify->weights, verify->n_weights);
	weight = &verify->weights[verify->n_weights++];
	*weight = (struct checked){ .granularity = weight_scale_granularity(scale) };
	weight->group = group_number(verify, ref->tensor, &weight->position);
	weight->scanned = weight_unit(weight, ref, scale) && ref->tensor->end > ref->tensor->begin;
	return weight;
}

/* What is wrong with a scale that fits no tiling. */
static enum problem_kind unreadable(const struct weight_scale *scale)
{
	enum dtype dtype;

	if (!scale->scale)
		return PROBLEM_SCALE_MISSING;
	dtype = scale->scale->tensor->dtype;
	return is_float(dtype) || dtype == DT_U8 || dtype == DT_F8_E8M0 ? PROBLEM_SCALE_SHAPE
									: PROBLEM_SCALE_DTYPE;
}

static void check_codes(struct verify *verify, const struct tensor_ref *ref, const char *module,
			bool skipped)
{
	const struct detection *detection = verify->detection;
	const struct scheme scheme = verify_scheme(verify, module);
	struct weight_scale scale;
	struct err err;

	if (skipped)
		report(verify, PROBLEM_DTYPE_MISMATCH, ref,
		       "weight is FP8, but no engine quantizes its module, or the configuration "
		       "says that it is not");
	if (detection_scale(detection, ref, &scale, &err)) {
		report(verify, unreadable(&scale), ref, err.message);
		return;
	}
	check_scale(verify, ref, add_weight(verify, ref, &scale), &scheme);
	if (detection->declared && scheme.static_input &&
	    !scale_name_beside(verify->checkpoint, ref->tensor->name, SCALE_OF_INPUT))
		report(verify, PROBLEM_INPUT_SCALE_MISSING, ref,
		       "the configuration says that activations have static scales, and there is "
		       "no input_scale");
}

/* A weight in high precision where engines expect codes.  Roles that recipes keep are known to
 * engines too, but a list that names some of them should name all: engines and versions differ in
 * what they know. */
static void check_plain(struct verify *verify, const struct tensor_ref *ref,
			const struct role_facts *facts)
{
	const struct st_tensor *tensor = ref->tensor;

	if (!verify->detection->declared || tensor->n_dims != 2 || !facts->linear ||
	    !is_float(tensor->dtype))
		return;
	if (facts->role == ROLE_LINEAR)
		problem_add(&verify->result->problems, PROBLEM_DTYPE_MISMATCH, tensor->name,
			    verify_file(verify, ref),
			    "weight '%s' is %s, but the configuration does not leave it out",
			    tensor->name, dtype_name(tensor->dtype));
	if (verify->skipped)
		problem_add(&verify->result->problems, PROBLEM_CONFIG_IGNORE, tensor->name,
			    verify_file(verify, ref),
			    "weight '%s' is %s, but its module is not in the list of those that "
			    "stay so",
			    tensor->name, dtype_name(tensor->dtype));
}

static void check_stray(struct verify *verify, const struct tensor_ref *ref,
			const struct scale_name *word)
{
	const struct tensor_ref *weight =
		scaled_weight(verify->checkpoint, ref->tensor->name, word);
	struct role_facts facts;
	char *module;

	if (word->role != SCALE_OF_WEIGHT && word->role != SCALE_OF_INPUT)
		return;
	if (!weight || !detection_is_weight(weight)) {
		if (!word->tool)
			report(verify, PROBLEM_SCALE_STRAY, ref,
			       weight ? "scale of a weight that is not FP8"
				      : "scale without a weight");
		return;
	}
	module = verify_module(weight->tensor->name);
	role_of_name(&facts, weight->tensor->name);
	if (never_quantized(facts.role) || config_skips(verify, module))
		report(verify, PROBLEM_SCALE_STRAY, ref,
		       "scale of a module that engines do not quantize");
	free(module);
}

/* "X.self_attn.k_scale" wants "X.self_attn.v_scale", "X.k_proj.k_scale" wants
 * "X.v_proj.v_scale". */
static void check_kv_pair(struct verify *verify, const struct tensor_ref *ref)
{
	const char *name = ref->tensor->name;
	size_t n = strlen(name);
	char *other;
	char *at;

	if (n < 8 || strcmp(name + n - 6, "_scale") || (name[n - 7] != 'k' && name[n - 7] != 'v') ||
	    name[n - 8] != '.')
		return;
	other = xstrdup(name);
	other[n - 7] = name[n - 7] == 'k' ? 'v' : 'k';
	at = n >= 15 ? other + n - 14 : NULL;
	if (at && at[-1] == '.' && !strncmp(at + 1, "_proj.", 6) && *at == name[n - 7])
		*at = other[n - 7];
	if (!checkpoint_find(verify->checkpoint, other))
		problem_add(&verify->result->problems, PROBLEM_KV_SCALE_PAIR, name,
			    verify_file(verify, ref), "'%s' is there, and '%s' is not", name,
			    other);
	free(other);
}

static void check_tensor(struct verify *verify, const struct tensor_ref *ref)
{
	const char *name = ref->tensor->name;
	const struct scale_name *word = scale_name_find(name);
	struct role_facts facts;
	char *module;
	bool skipped;

	if (word) {
		check_stray(verify, ref, word);
		check_kv_pair(verify, ref);
		return;
	}
	role_of_name(&facts, name);
	module = verify_module(name);
	skipped = config_skips(verify, module);
	if (detection_is_weight(ref))
		check_codes(verify, ref, module, skipped || never_quantized(facts.role));
	else if (!skipped)
		check_plain(verify, ref, &facts);
	free(module);
}

/* What of a group is FP8, and the first member that is not. */
struct members {
	const struct tensor_ref *fp8, *other;
};

static void check_groups(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->checkpoint;
	size_t *group_of = xcalloc(checkpoint->n_tensors, sizeof *group_of);
	struct members *groups;
	int position;

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		group_of[i] = group_number(verify, checkpoint->by_name[i].tensor, &position);
	groups = xcalloc(verify->groups.n, sizeof *groups);
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		struct members *group;

		if (group_of[i] == SIZE_MAX)
			continue;
		group = &groups[group_of[i]];
		if (detection_is_weight(ref))
			group->fp8 = ref;
		else if (is_float(ref->tensor->dtype) && !group->other)
			group->other = ref;
	}
	for (size_t i = 0; i < verify->groups.n; i++)
		if (groups[i].fp8 && groups[i].other)
			problem_add(&verify->result->problems, PROBLEM_GROUP_PARTIAL,
				    groups[i].other->tensor->name,
				    verify_file(verify, groups[i].other),
				    "'%s' is %s, and '%s' is %s", groups[i].other->tensor->name,
				    dtype_name(groups[i].other->tensor->dtype),
				    groups[i].fp8->tensor->name,
				    dtype_name(groups[i].fp8->tensor->dtype));
	free(groups);
	free(group_of);
}

void verify_tensors(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->checkpoint;

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		check_tensor(verify, &checkpoint->by_name[i]);
	check_groups(verify);
}
