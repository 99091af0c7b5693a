/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong with a "quantization_config": the keys of each format are checked by the format's
 * own row (format.h), which reports through a callback and so knows nothing of who asks.
 */
#ifndef FP8CONV_FORMAT_CHECK_CONFIG_H
#define FP8CONV_FORMAT_CHECK_CONFIG_H

#include <jansson.h>

#include "format/detect.h"

/* What a report is about. */
enum config_part {
	CONFIG_KEYS, /* what loaders insist on */
	CONFIG_KEPT, /* the list of modules that stay in high precision */
};

struct config_check {
	const struct detection *detection; /* its config is what is checked; not NULL */
	const json_t *hf_quant_config;	   /* the file beside it; NULL: there is none */
	const json_t *kept;		   /* the list of modules; NULL: it has none */

	/* Called once for every fault; message is one line, valid during the call. */
	void (*report)(void *context, enum config_part part, const char *file, const char *message);
	void *context;
};

/* Checks a configuration that declares FP8 or stands beside FP8 weights. */
void config_check_keys(const struct config_check *check);

/* For checkers: formats the message and calls report. */
void config_report(const struct config_check *check, enum config_part part, const char *file,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
