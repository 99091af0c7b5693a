/* SPDX-License-Identifier: Apache-2.0 */
#include "names/tensor_name.h"

#include <string.h>

#include "base/buf.h"

bool segment_matches(const char *pattern, size_t n, const char *text, size_t n_text)
{
	for (; n && *pattern != '*'; pattern++, n--, text++, n_text--)
		if (!n_text || *pattern != *text)
			return false;
	if (n < 2)
		return n || !n_text;
	for (size_t skip = 0; skip <= n_text; skip++)
		if (segment_matches(pattern + 1, n - 1, text + skip, n_text - skip))
			return true;
	return false;
}

bool segment_is(const struct segment *segment, const char *text)
{
	return strlen(text) == segment->n && !memcmp(segment->text, text, segment->n);
}

bool segment_ends(const struct segment *segment, const char *text)
{
	size_t n = strlen(text);

	return segment->n >= n && !memcmp(segment->text + segment->n - n, text, n);
}

bool segment_is_number(const struct segment *segment)
{
	for (size_t i = 0; i < segment->n; i++)
		if (segment->text[i] < '0' || segment->text[i] > '9')
			return false;
	return segment->n > 0;
}

static void add_segment(struct path *path, const char *text, size_t n)
{
	if (path->n == PATH_MAX_SEGMENTS) {
		path->n--;
		path->segments[path->n - 1] = path->segments[path->n];
	}
	path->segments[path->n++] = (struct segment){ text, n };
}

static int find_owner(const struct path *path)
{
	int owner = path->n - 1;

	if (!path->is_weight && !path->is_bias)
		return owner;
	/* The owner of "classifier.0.weight" is the classifier. */
	while (--owner > 0 && segment_is_number(&path->segments[owner]))
		;
	return owner;
}

static int find_experts(const struct path *path)
{
	for (int i = 0; i + 1 < path->n; i++)
		if (segment_ends(&path->segments[i], "experts") &&
		    segment_is_number(&path->segments[i + 1]))
			return i;
	for (int i = 0; i + 1 < path->n; i++)
		if (segment_is(&path->segments[i], "experts"))
			return i;
	return -1;
}

void path_split(struct path *path, const char *name)
{
	const char *dot;

	path->n = 0;
	for (; (dot = strchr(name, '.')); name = dot + 1)
		add_segment(path, name, (size_t)(dot - name));
	add_segment(path, name, strlen(name));
	path->is_weight = path->n > 1 && segment_is(&path->segments[path->n - 1], "weight");
	path->is_bias = path->n > 1 && segment_is(&path->segments[path->n - 1], "bias");
	path->owner = find_owner(path);
	path->experts = find_experts(path);
	path->numbered_expert =
		path->experts >= 0 && segment_is_number(&path->segments[path->experts + 1]);
}

bool path_in_layer(const struct path *path, int i)
{
	while (--i >= 0)
		if (segment_is_number(&path->segments[i]))
			return true;
	return false;
}

size_t module_len(const char *name)
{
	static const char suffix[] = ".weight";
	size_t n = strlen(name), n_suffix = sizeof suffix - 1;

	return n > n_suffix && !strcmp(name + n - n_suffix, suffix) ? n - n_suffix : n;
}

/* Returns the number that a segment is. */
static uint32_t segment_number(const struct segment *segment)
{
	uint32_t number = 0;

	if (segment->n > 9)
		return NO_LAYER;
	for (size_t i = 0; i < segment->n; i++)
		number = 10 * number + (uint32_t)(segment->text[i] - '0');
	return number;
}

char *name_pattern(const char *name, uint32_t *layer)
{
	struct buf pattern = { 0 };

	*layer = NO_LAYER;
	for (const char *at = name, *end; at; at = *end ? end + 1 : NULL) {
		struct segment segment = { at, strcspn(at, ".") };

		end = at + segment.n;
		if (at != name)
			buf_putc(&pattern, '.');
		if (segment_is_number(&segment)) {
			buf_putc(&pattern, '*');
			if (*layer == NO_LAYER)
				*layer = segment_number(&segment);
		} else {
			buf_add(&pattern, segment.text, segment.n);
		}
	}
	return pattern.data;
}
