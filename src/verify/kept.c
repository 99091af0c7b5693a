/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/kept.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "select/engine_names.h"
#include "select/skip_list.h"
#include "verify/lists.h"
#include "verify/tensors.h"

/* Returns the entry that the target needs for such a module, unless a regular expression of the
 * list matches it, or NULL. */
static char *missing_entry(const struct verify *verify, const char *name, const char *module)
{
	const struct verify_lists *lists = &verify->lists;
	char *entry = NULL;

	if (verify->opened.target != ENGINE_ANY)
		entry = engine_entry_of(&lists->profile, lists->on, name);
	if (!entry || (!part_set_get(&lists->entries, entry, strlen(entry)) &&
		       !lists_skip_by_pattern(verify, module)))
		return entry;
	free(entry);
	return NULL;
}

/* Returns the first name that engines look for and the configuration does not skip, though it
 * quantizes such modules; NULL where all is well.  The caller frees it.  Where engines look for
 * experts by number, each has to be named. */
static char *missing_experts(const struct verify *verify, const char *name, const char *module,
			     bool numbered)
{
	const struct verify_lists *lists = &verify->lists;
	char *prefix = skip_experts_prefix(name), *missing = NULL;
	bool quantized = lists_quantize(verify, module);

	if (numbered && lists->format && lists->format->kept_experts &&
	    !lists_skip_engine(verify, module))
		missing = lists_engine_name(verify, module);
	if (!missing)
		missing = missing_entry(verify, name, module);
	for (const char *const *end = skip_experts_endings(lists->format); *end; end++) {
		char *entry = xasprintf("%s%s", prefix, *end);

		quantized |= lists_quantize(verify, entry);
		if (!missing && !lists_skip_engine(verify, entry))
			missing = lists_engine_name(verify, entry);
		free(entry);
	}
	free(prefix);
	if (quantized)
		return missing;
	free(missing);
	return NULL;
}

/* The same for a module.  Engines build routers, heads and towers in high precision by themselves,
 * under whatever name; transformers does not. */
static char *missing_module(const struct verify *verify, const char *name, const char *module,
			    enum role role)
{
	bool named = role == ROLE_LINEAR || verify->opened.target == ENGINE_TRANSFORMERS
			     ? lists_skip_engine(verify, module)
			     : lists_skip(verify, module);

	if (!lists_quantize(verify, module))
		return NULL;
	return named ? missing_entry(verify, name, module) : lists_engine_name(verify, module);
}

/* Without a list, engines know by themselves which routers, heads and towers they build in high
 * precision; of linear weights and experts they do not. */
static bool is_known(const struct verify *verify, const struct role_facts *facts,
		     enum skip_need need)
{
	return !verify->lists.kept && facts->role != ROLE_LINEAR && need != SKIP_EXPERTS;
}

/* Does a row of the model's family say that engines build the module so? */
static bool is_bare(const struct verify *verify, const char *name)
{
	const struct verify_lists *lists = &verify->lists;
	const struct profile_row *row = profile_find(&lists->profile, name, lists->on).row;

	return row && row->action == PROFILE_BARE;
}

/* Reports an integer weight without a scale in a checkpoint of 4-bit weights.  Other integers are
 * free. */
static void check_integers(struct verify *verify, const struct tensor_ref *ref,
			   const struct role_facts *facts, const char *module)
{
	const struct st_tensor *tensor = ref->tensor;

	if (!verify->low_bit.n || (tensor->dtype != DT_I8 && tensor->dtype != DT_U8) ||
	    tensor->n_dims < 2 || !facts->weight || facts->role != ROLE_LINEAR ||
	    lists_skip(verify, module) || !lists_quantize(verify, module) ||
	    low_bit_of(&verify->low_bit, low_bit_index(verify->opened.checkpoint, ref)))
		return;
	verify_report(verify, PROBLEM_SCALE_MISSING, ref,
		      "weight '%s' is %s, and no scale makes 4-bit elements of it", tensor->name,
		      dtype_name(tensor->dtype));
}

/* Reports a norm, embedding or head of integers, or a norm in FP8: no engine has a scale for it. */
static void check_type(struct verify *verify, const struct tensor_ref *ref,
		       const struct role_facts *facts)
{
	const struct st_tensor *tensor = ref->tensor;
	const bool integers =
		tensor->dtype == DT_I64 || tensor->dtype == DT_I32 || tensor->dtype == DT_I16;

	if ((facts->role != ROLE_NORM && facts->role != ROLE_EMBEDDING &&
	     facts->role != ROLE_LM_HEAD) ||
	    !facts->weight || tensor->n_dims < 1 ||
	    !(integers || (dtype_is_fp8(tensor->dtype) && tensor->n_dims == 1)) ||
	    low_bit_is_part(&verify->low_bit, low_bit_index(verify->opened.checkpoint, ref)))
		return;
	verify_report(verify, PROBLEM_DTYPE_MISMATCH, ref,
		      "weight '%s' is %s, which engines have no scale for", tensor->name,
		      dtype_name(tensor->dtype));
}

void verify_kept(struct verify *verify, const struct tensor_ref *ref,
		 const struct role_facts *facts, const char *module)
{
	const char *name = ref->tensor->name, *type = dtype_name(ref->tensor->dtype);
	const enum skip_need need = skip_need(ref->tensor, facts);
	bool table = lists_table(verify, module);
	char *missing;

	check_type(verify, ref, facts);
	if (!verify->opened.declared)
		return;
	check_integers(verify, ref, facts, module);
	if ((need == SKIP_FREE && !table) || is_known(verify, facts, need) ||
	    (!table && is_bare(verify, name)))
		return;
	missing = need == SKIP_EXPERTS ? missing_experts(verify, name, module, facts->expert)
				       : missing_module(verify, name, module, facts->role);
	if (missing && need == SKIP_EXPERTS)
		verify_report(verify, PROBLEM_DTYPE_MISMATCH, ref,
			      "weight '%s' is %s, but the configuration does not exclude its "
			      "experts by '%s'",
			      name, type, missing);
	else if (missing && strcmp(missing, module) != 0)
		verify_report(verify, PROBLEM_DTYPE_MISMATCH, ref,
			      "weight '%s' is %s, but the configuration does not exclude '%s', as "
			      "engines call it",
			      name, type, missing);
	else if (missing)
		verify_report(verify, PROBLEM_DTYPE_MISMATCH, ref,
			      "weight '%s' is %s, but the configuration does not exclude it", name,
			      type);
	free(missing);
}
