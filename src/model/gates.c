/* SPDX-License-Identifier: Apache-2.0
 *
 * The gates of attention's output, by the names of an architecture and by config.json: one for each
 * head, or one for each value.  Where a row has both under one name, config.json decides.
 *
 * Source: transformers 5.23, configuration_laguna.py.
 */
#include <string.h>

#include "model/fact_types.h"
#include "model/facts.h"
#include "model/steps.h"

static bool is_named(const struct model *model, enum linear_role role)
{
	const char *name = model->arch->linear[role];

	return name && *name;
}

/* Returns the gates that `gating` asks for; GATES_NONE: its value is unknown. */
static enum gates gates_of(const json_t *gating)
{
	const char *text = json_is_string(gating) ? json_string_value(gating) : "";

	if (json_is_true(gating) || !strcmp(text, "per-head"))
		return GATES_HEADS;
	return strcmp(text, "per-element") != 0 ? GATES_NONE : GATES_VALUES;
}

int model_configure_gates(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *gating = json_object_get(facts, "gating");
	bool heads = is_named(model, LINEAR_HEAD_GATE), values = is_named(model, LINEAR_VALUE_GATE);

	model->gates = heads ? GATES_HEADS : values ? GATES_VALUES : GATES_NONE;
	if (!gating)
		return 0;
	model->gates = gates_of(gating);
	if (model->gates != GATES_NONE)
		return 0;
	return fact_refuse("gating", gating,
			   "which is not supported (supported: true, \"per-head\", "
			   "\"per-element\")",
			   err);
}
