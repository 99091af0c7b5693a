/* SPDX-License-Identifier: Apache-2.0
 *
 * What a manifest of ours, or the user, says of the numbers: options that no table of arithmetics
 * can list, and that explain what would otherwise look wrong.
 */
#include <string.h>

#include "base/words.h"
#include "ckpt/manifest.h"
#include "verify/steps.h"
#include "recipe/recipe.h"

static int word_index(const json_t *object, const char *key, const char *words)
{
	return words_find(words, json_string_value(json_object_get(object, key)));
}

static bool same_rule(const struct qspec *a, const struct qspec *b)
{
	return a->pow2 == b->pow2 && a->arith == b->arith && a->mx_rule == b->mx_rule;
}

/* Sets the name to that of the row with the same rule. */
static void take_name(struct arithmetic *arithmetic)
{
	for (const struct arithmetic *row = arithmetics; row->name && !arithmetic->name; row++)
		if (!row->quantize && row->scale_type == arithmetic->scale_type &&
		    same_rule(&row->spec, &arithmetic->spec))
			arithmetic->name = row->name;
}

/* Reads the record of our own files, which may have a margin or an epsilon, as no row has;
 * manifest_read() has checked types and ranges. */
static void take_record(const json_t *scales, enum scale_type type, struct arithmetic *recorded)
{
	int arith = word_index(scales, "scale_arith", SCALE_ARITH_WORDS);
	int mx_rule = word_index(scales, "mx_scale", MX_RULE_WORDS);

	if (arith < 0 || mx_rule < 0)
		return;
	recorded->spec = (struct qspec){
		.pow2 = json_is_true(json_object_get(scales, "pow2")),
		.arith = (enum scale_arith)arith,
		.mx_rule = (enum mx_rule)mx_rule,
		.amax_epsilon = (float)json_number_value(json_object_get(scales, "amax_epsilon")),
		.margin = (int)json_integer_value(json_object_get(scales, "margin")),
	};
	recorded->scale_type = type;
	take_name(recorded);
}

/* Returns the scale type of the recipe of the job; its rules may have others. */
static enum scale_type recorded_type(const json_t *options)
{
	const char *name = json_string_value(json_object_get(options, "recipe"));
	struct err ignored;
	const struct recipe *recipe = name ? recipe_find(name, &ignored) : NULL;

	return recipe ? recipe->weight.scale_type : SCALE_F32;
}

static int take_given(struct verify *verify, struct err *err)
{
	const struct recipe *recipe = recipe_find(verify->params->recipe, err);
	struct arithmetic *given = &verify->opened.given;

	if (!recipe || recipe_weight_spec(recipe, &verify->params->tuning, &given->spec, err))
		return -1;
	given->scale_type = given->spec.scale_type;
	given->pow2 = given->spec.pow2;
	take_name(given);
	if (!given->name)
		given->name = recipe->name;
	return 0;
}

int recorded_read(struct verify *verify, struct err *err)
{
	const json_t *options;

	if (manifest_read(&verify->opened.manifest, verify->opened.checkpoint, err))
		return -1;
	options = json_object_get(verify->opened.manifest, "options");
	take_record(json_object_get(options, "scales"), recorded_type(options),
		    &verify->opened.recorded);
	verify->opened.compensated = manifest_is_compensated(verify->opened.manifest);
	return verify->params->recipe ? take_given(verify, err) : 0;
}
