/* SPDX-License-Identifier: Apache-2.0 */
#include "format/check_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "format/read_config.h"

void config_report(const struct config_check *check, enum config_part part, const char *file,
		   const char *format, ...)
{
	char message[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	check->report(check->context, part, file, message);
}

/* Another format beside ModelOpt's file: engines read the one or the other. */
static void check_other(const struct config_check *check, const struct format *format)
{
	const struct declaration here = config_read_declaration(check->detection->config);
	const struct declaration there = config_read_declaration(check->hf_quant_config);
	char first[SCHEME_NAME_SIZE], second[SCHEME_NAME_SIZE];

	if (!here.declared || !there.declared || !format || !strcmp(format->name, there.format) ||
	    here.scheme.granularity == there.scheme.granularity)
		return;
	scheme_name(&here.scheme, first);
	scheme_name(&there.scheme, second);
	config_report(check, CONFIG_KEYS, "hf_quant_config.json",
		      "it says %s, but config.json says %s: engines read the one or the other",
		      second, first);
}

void config_check_keys(const struct config_check *check)
{
	const struct detection *detection = check->detection;
	const struct format *format = config_format(detection->config);

	check_other(check, format);
	if (format && format->check)
		format->check(check);
	else if (!detection->declared)
		config_report(check, CONFIG_KEYS, "config.json",
			      "quant_method is '%s', which does not declare FP8: engines refuse "
			      "it or read codes as weights",
			      config_quant_method(detection->config));
}

bool config_declares_cache(const json_t *config)
{
	const json_t *keys = config_keys(config);
	const json_t *scheme = json_object_get(keys, "kv_cache_scheme");
	const json_t *group = json_object_get(json_object_get(config, "export"), "kv_cache_group");

	return json_array_size(group) ||
	       (json_is_object(scheme) && !json_is_true(json_object_get(scheme, "dynamic"))) ||
	       !strcasecmp(json_member_text(keys, "kv_cache_quant_algo"), "FP8");
}
