/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of a "quantization_config".  The row of each format (format.h) checks the keys of that
 * format and reports through a callback, so that formats do not know their callers.
 */
#ifndef FP8CONV_FORMAT_CHECK_CONFIG_H
#define FP8CONV_FORMAT_CHECK_CONFIG_H

#include <jansson.h>

#include "format/detect.h"

/* The subject of a report. */
enum config_part {
	CONFIG_KEYS, /* keys that loaders require */
	CONFIG_KEPT, /* the list of modules in high precision */
};

struct config_check {
	const struct detection *detection; /* whose config, not NULL, is checked */
	const json_t *hf_quant_config;	   /* hf_quant_config.json; NULL: missing */
	const json_t *kept;	/* the list of modules in high precision; NULL: missing */
	const bool *fp8_groups; /* of each group of modules: it has FP8 weights */
	enum engine target;	/* checks what this engine reads; ENGINE_ANY: what any does */

	/* Called once for each problem.  message is one line, valid during the call. */
	void (*report)(void *context, enum config_part part, const char *file, const char *message);
	void *context;
};

/* Checks the configuration of a checkpoint that declares FP8 or has FP8 weights. */
void config_check_keys(const struct config_check *check);

/* Whether a configuration declares scales of the KV cache in the files: not where they are found as
 * the cache fills, as compressed-tensors may say.  config may be NULL. */
bool config_declares_cache(const json_t *config);

/* For checkers: formats the message and calls report. */
void config_report(const struct config_check *check, enum config_part part, const char *file,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
