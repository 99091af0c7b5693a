/* SPDX-License-Identifier: Apache-2.0
 *
 * What the writers of configurations share.  Module names come out of JSON, so they are valid UTF-8
 * and jansson takes them.
 */
#ifndef FP8CONV_FORMAT_WRITE_CONFIG_H
#define FP8CONV_FORMAT_WRITE_CONFIG_H

#include <jansson.h>

#include "format/format.h"

/* Do sets differ in anything that a configuration says? */
bool quantization_mixed(const struct quantization *quantization);

/* Are all scales powers of two? */
bool quantization_pow2(const struct quantization *quantization);

/* The modules left alone, with lm_head among them where a tied model has no tensor of that name.  A
 * new reference. */
json_t *config_kept_json(const struct quantization *quantization);

/* Appends the text of value, which it releases. */
void config_add_json(struct buf *buf, json_t *value, size_t indent);

#endif
