/* SPDX-License-Identifier: Apache-2.0
 *
 * Which format says which scheme, and which engine loads it: walks over the rows.
 */
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"
#include "format/variant.h"

struct scheme scheme_from_qspec(const struct qspec *weight, bool static_input)
{
	return (struct scheme){
		.granularity = qspec_granularity(weight),
		.tile = weight->tile,
		.fp8_format = weight->format,
		.pow2 = weight->pow2 || weight->scale_type == SCALE_E8M0,
		.static_input = static_input,
	};
}

void scheme_name(const struct scheme *scheme, char name[SCHEME_NAME_SIZE])
{
	static const char *const names[] = {
		[GRANULARITY_TENSOR] = "per-tensor",
		[GRANULARITY_CHANNEL] = "channelwise",
		[GRANULARITY_BLOCK] = "blockwise",
		[GRANULARITY_MX] = "mxfp8",
	};
	const char *word = names[scheme->granularity];

	if (scheme->granularity == GRANULARITY_TENSOR)
		snprintf(name, SCHEME_NAME_SIZE, "%s %s", word,
			 scheme->static_input ? "static" : "dynamic");
	else if (scheme->granularity == GRANULARITY_BLOCK)
		snprintf(name, SCHEME_NAME_SIZE, "%s %zux%zu", word, scheme->tile.rows,
			 scheme->tile.cols);
	else
		snprintf(name, SCHEME_NAME_SIZE, "%s", word);
}

const struct variant *variant_find(const struct format *format, const struct scheme *scheme,
				   enum engine target)
{
	const struct variant *found = NULL;

	for (const struct variant *row = format->variants; row->method; row++) {
		if (row->granularity != scheme->granularity ||
		    row->static_input != scheme->static_input)
			continue;
		if (row->tile.rows &&
		    (row->tile.rows != scheme->tile.rows || row->tile.cols != scheme->tile.cols))
			continue;
		if (row->only_for == ENGINE_ANY)
			found = found ? found : row;
		else if (row->only_for == target)
			return row;
	}
	return found;
}

/* Returns the default format of the scheme (fp8conv-formats(7)), else the first one that the target
 * loads it in, or NULL. */
static const struct format *format_default(enum engine target, const struct scheme *scheme,
					   const char *recipe)
{
	const struct format *found = NULL;
	struct err ignored;

	for (size_t i = 0; formats[i]; i++) {
		const struct format *format = formats[i];
		const struct variant *variant = variant_find(format, scheme, target);

		if (!variant || engine_check(target, format, scheme, recipe, &ignored))
			continue;
		if (variant->preferred)
			return format;
		found = found ? found : format;
	}
	return found;
}

/* Refuses a scheme that no format fits, with the reason of its default format. */
static int refuse_all(enum engine target, const struct scheme *scheme, const char *recipe,
		      struct err *err)
{
	const struct format *home = formats[0];
	size_t i = 0;

	do {
		const struct variant *variant = variant_find(formats[i], scheme, target);

		if (variant && variant->preferred) {
			home = formats[i];
			break;
		}
	} while (formats[++i]);
	return engine_check(target, home, scheme, recipe, err);
}

const struct format *format_find(const char *name)
{
	for (size_t i = 0; name && formats[i]; i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}

static const struct format *format_by_name(const char *name, struct err *err)
{
	const char **names = NULL;
	const struct format *found = format_find(name);
	size_t n = 0;

	if (found && found->configure)
		return found;
	for (size_t i = 0; formats[i]; i++) {
		ARRAY_GROW(names, n);
		if (formats[i]->configure)
			names[n++] = formats[i]->name;
	}
	ARRAY_GROW(names, n);
	names[n] = NULL;
	words_unknown("format", name, names, "fp8conv formats", err);
	free(names);
	return NULL;
}

const struct format *format_select(const char *name, enum engine target,
				   const struct scheme *scheme, const char *recipe, struct err *err)
{
	const struct format *other = format_default(target, scheme, recipe);
	const struct format *format = name ? format_by_name(name, err) : other;
	char *message;

	if (!name && !other)
		refuse_all(target, scheme, recipe, err);
	if (!format || !engine_check(target, format, scheme, recipe, err))
		return format;
	if (other) {
		message = xstrdup(err->message);
		err_set(err, ERR_USAGE, "%s; use --format %s", message, other->name);
		free(message);
	}
	return NULL;
}
