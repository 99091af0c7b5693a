/* SPDX-License-Identifier: Apache-2.0 */
#include "format/check_config.h"

#include <stdarg.h>
#include <stdio.h>

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

void config_check_keys(const struct config_check *check)
{
	const struct detection *detection = check->detection;
	const struct format *format = config_format(detection->config);

	if (format && format->check)
		format->check(check);
	else if (!detection->declared)
		config_report(check, CONFIG_KEYS, "config.json",
			      "quant_method is '%s', which does not declare FP8: engines refuse "
			      "it or read codes as weights",
			      config_quant_method(detection->config));
}
