/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/selection_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "tests/unit/support/memory_checkpoint.h"

const struct recipe *recipe_named(const char *name)
{
	struct err err = { 0 };
	const struct recipe *recipe = recipe_find(name, &err);

	if (!recipe)
		fail_msg("%s", err.message);
	return recipe;
}

char *selection_text(const struct selection *selection)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < selection->n_units; i++) {
		const struct unit *unit = &selection->units[i];

		if (unit->recipe)
			buf_printf(&text, "%s %s\n", unit->name, unit->recipe->name);
		else
			buf_printf(&text, "%s: %s\n", unit->name, unit->reason);
	}
	return text.data;
}

void selection_assert(const struct selection *selection, const char *expected)
{
	char *text = selection_text(selection);

	if (strcmp(text, expected) != 0)
		fail_msg("\nexpected:\n%s\nselected:\n%s", expected, text);
	free(text);
}

void selection_keeps(struct selection *selection, size_t unit, const char *reason,
		     const char *expected)
{
	struct err err = { 0 };

	selection_keep(selection, unit, reason);
	assert_int_equal(selection_settle(selection, &err), 0);
	selection_assert(selection, expected);
}

void selection_gives_config(const char *config, const char *tensors, const char *recipe,
			    struct select_options options, const char *expected)
{
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	memory_checkpoint_init(&checkpoint, config, tensors);
	options.recipe = recipe_named(recipe);
	if (selection_make(&selection, &checkpoint, &options, &err))
		fail_msg("%s", err.message);
	selection_assert(&selection, expected);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

void selection_gives(const char *tensors, const char *recipe, struct select_options options,
		     const char *expected)
{
	selection_gives_config(NULL, tensors, recipe, options, expected);
}

void selection_refuses_config(const char *config, const char *tensors, const char *recipe,
			      struct select_options options, enum err_kind kind,
			      const char *message)
{
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	memory_checkpoint_init(&checkpoint, config, tensors);
	options.recipe = recipe_named(recipe);
	if (!selection_make(&selection, &checkpoint, &options, &err))
		fail_msg("not refused: %s", selection_text(&selection));
	assert_string_equal(err.message, message);
	assert_int_equal(err.kind, kind);
	memory_checkpoint_release(&checkpoint);
}

void selection_refuses(const char *tensors, const char *recipe, struct select_options options,
		       enum err_kind kind, const char *message)
{
	selection_refuses_config(NULL, tensors, recipe, options, kind, message);
}
