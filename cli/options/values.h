/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of options: strict, and each refusal (ERR_USAGE) names the option, the value and what is
 * right. option is as the user writes it: "--threads".
 */
#ifndef FP8CONV_CLI_OPTIONS_VALUES_H
#define FP8CONV_CLI_OPTIONS_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "select/select.h"

/* Decimal digits only, from min to max. */
int opt_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *value,
	       struct err *err);

/* Bytes: "4096", "64K", "512M", "2G" (binary), at least 1. */
int opt_size(const char *option, const char *text, uint64_t *bytes, struct err *err);

/* One of "a|b|c": *index counts from 0. */
int opt_choice(const char *option, const char *text, const char *choices, int *index,
	       struct err *err);

/* --tensor RE=RECIPE or RE=skip, split at the last '='.  rule->pattern is the caller's to free. */
int opt_rule(const char *option, const char *text, struct select_rule *rule, struct err *err);

/* A recipe by its name. */
const struct recipe *opt_recipe(const char *option, const char *name, struct err *err);

/* --part I/N, I from 1, or "finish". */
int opt_part(const char *option, const char *text, int *part, int *n_parts, bool *finish,
	     struct err *err);

/* Where streams are spooled: $TMPDIR, or /tmp. */
const char *opt_temp_dir(void);

/* CPUs that this process may run on. */
int online_cpus(void);

#endif
