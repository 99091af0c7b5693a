/* SPDX-License-Identifier: Apache-2.0
 *
 * A selection as text, one line a unit: "NAME RECIPE" or "NAME: REASON".  Tests write down what
 * they expect.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_SELECTION_CHECK_H
#define FP8CONV_TESTS_UNIT_SUPPORT_SELECTION_CHECK_H

#include "select/select.h"

#define NO_OPTIONS ((struct select_options){ 0 })
#define LIST(...)           \
	(const char *[])    \
	{                   \
		__VA_ARGS__ \
	}

/* The recipe of that name; the test fails if there is none. */
const struct recipe *recipe_named(const char *name);

/* The units of a selection, a line each; the caller frees it. */
char *selection_text(const struct selection *selection);

/* The test fails, and prints both, where the selection is not the expected text. */
void selection_assert(const struct selection *selection, const char *expected);

/* Keeps a unit for that reason, settles, and compares with the expected text. */
void selection_keeps(struct selection *selection, size_t unit, const char *reason,
		     const char *expected);

/* Selects of the tensors (memory_checkpoint.h), with the options and by that recipe, and compares
 * with the expected text.  _config: with the text of a config.json. */
void selection_gives(const char *tensors, const char *recipe, struct select_options options,
		     const char *expected);
void selection_gives_config(const char *config, const char *tensors, const char *recipe,
			    struct select_options options, const char *expected);

/* The selection must fail, with this kind and exactly this message. */
void selection_refuses(const char *tensors, const char *recipe, struct select_options options,
		       enum err_kind kind, const char *message);
void selection_refuses_config(const char *config, const char *tensors, const char *recipe,
			      struct select_options options, enum err_kind kind,
			      const char *message);

#endif
