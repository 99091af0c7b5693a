/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the writers of configurations share.  Module names are from JSON, so that they are
 * valid UTF-8, which jansson requires.
 */
#ifndef FP8CONV_FORMAT_WRITE_CONFIG_H
#define FP8CONV_FORMAT_WRITE_CONFIG_H

#include <jansson.h>

#include "format/format.h"

/* Whether sets differ in a fact that configurations state. */
bool quantization_mixed(const struct quantization *quantization);

/* Whether all scales are powers of two. */
bool quantization_pow2(const struct quantization *quantization);

/* The strategies of QuantizationArgs: of weights of the granularity, and of their inputs. */
const char *strategy_of_weights(enum granularity granularity);
const char *strategy_of_inputs(enum granularity granularity);

/* Returns the kept modules as a new reference. */
json_t *config_kept_json(const struct quantization *quantization);

/* Appends the text of value and drops the reference to it. */
void config_add_json(struct buf *buf, json_t *value, size_t indent);

/* Returns the module of the set that is the output head, "lm_head" at the end, or NULL. */
const char *module_set_head(const struct module_set *set);

#endif
