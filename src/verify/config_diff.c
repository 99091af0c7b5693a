/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects are compared through a list of pairs, without recursion over the input.
 *
 * Source: PreTrainedConfig.save_pretrained() of transformers 4.57 and 5.24 for what a rewritten
 * file changes.
 */
#include "verify/config_diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"

#define SHOWN 80 /* bytes of a value in a message */

/* What a conversion writes, and what no loader computes with. */
static const char passed_over[] =
	"quantization_config|compression_config|expert_dtype|quantization|transformers_version|"
	"_name_or_path|_attn_implementation|_from_model_config|use_cache|auto_map";

/* A pair of objects to compare. */
struct object_pair {
	char *path; /* "" or "text_config." */
	const json_t *was, *is;
};

struct diff {
	struct problems *problems;
	const struct config_pair *files;
	size_t n;
	struct object_pair *pairs;
	size_t n_gone; /* keys that a rewritten file leaves out */
	char *gone;    /* the first one */
};

static bool same_value(const json_t *was, const json_t *is)
{
	if (json_is_number(was) && json_is_number(is))
		return json_number_value(was) == json_number_value(is);
	if (json_is_array(was) && json_array_size(was) == json_array_size(is)) {
		for (size_t i = 0; i < json_array_size(was); i++) {
			const json_t *x = json_array_get(was, i), *y = json_array_get(is, i);
			bool numbers = json_is_number(x) && json_is_number(y);

			if (numbers ? json_number_value(x) != json_number_value(y)
				    : !json_equal((json_t *)x, (json_t *)y))
				return false;
		}
		return true;
	}
	return json_equal((json_t *)was, (json_t *)is);
}

/* Returns a value as text, cut where it is long; the caller frees it. */
static char *shown(const json_t *value)
{
	char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))
			   : xstrdup("missing");

	if (!text)
		return xstrdup("unreadable");
	if (strlen(text) > SHOWN)
		memcpy(text + SHOWN - 3, "...", sizeof "...");
	return text;
}

static void report(struct problems *problems, const char *file, const char *path, const char *key,
		   const json_t *values[2])
{
	char *was = shown(values[0]), *is = shown(values[1]);

	problem_add(problems, PROBLEM_CONFIG_CHANGED, NULL, file,
		    "'%s%s' is %s, but %s in the source", path, key, is, was);
	free(was);
	free(is);
}

/* Returns the value that transformers 5 has in another place: dtype, and the members of
 * rope_parameters. */
static const json_t *find_moved(const json_t *object, const char *key)
{
	const json_t *rope = json_object_get(object, "rope_parameters");

	if (!strcmp(key, "torch_dtype"))
		return json_object_get(object, "dtype");
	return !strcmp(key, "rope_scaling") ? rope : json_object_get(rope, key);
}

/* Is the window of attention unused in both, so that its size says nothing? */
static bool is_unused(const struct object_pair *pair, const char *key)
{
	return (!strcmp(key, "sliding_window") || !strcmp(key, "max_window_layers")) &&
	       json_is_false(json_object_get(pair->was, "use_sliding_window")) &&
	       json_is_false(json_object_get(pair->is, "use_sliding_window"));
}

static void add_pair(struct diff *diff, char *path, const json_t *was, const json_t *is)
{
	ARRAY_GROW(diff->pairs, diff->n);
	diff->pairs[diff->n++] = (struct object_pair){ path, was, is };
}

/* Counts a key that a rewritten file leaves out, or reports it. */
static void take_gone(struct diff *diff, const struct object_pair *pair, const char *key,
		      const json_t *was)
{
	if (json_is_null(was))
		return;
	if (!diff->files->rewritten) {
		report(diff->problems, diff->files->file, pair->path, key,
		       (const json_t *[]){ was, NULL });
		return;
	}
	if (!diff->n_gone++)
		diff->gone = xasprintf("%s%s", pair->path, key);
}

/* Is it what transformers 5 writes where there is no rope_scaling? */
static bool is_default_rope(const json_t *value)
{
	const char *type = json_string_value(json_object_get(value, "rope_type"));

	return type && !strcmp(type, "default");
}

static void compare_key(struct diff *diff, const struct object_pair *pair, const char *key,
			const json_t *was)
{
	const json_t *is = json_object_get(pair->is, key);

	if (!is)
		is = find_moved(pair->is, key);
	if (json_is_null(was) && is_default_rope(is))
		return;
	if (!is && !strcmp(key, "type")) /* of rope_scaling */
		is = json_object_get(pair->is, "rope_type");
	if (!is)
		take_gone(diff, pair, key, was);
	else if (json_is_object(was) && json_is_object(is))
		add_pair(diff, xasprintf("%s%s.", pair->path, key), was, is);
	else if (!same_value(was, is))
		report(diff->problems, diff->files->file, pair->path, key,
		       (const json_t *[]){ was, is });
}

static void compare_pair(struct diff *diff, const struct object_pair *pair)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)pair->was, key,
			    value) if (words_find(passed_over, key) < 0 && !is_unused(pair, key))
		compare_key(diff, pair, key, value);
	json_object_foreach((json_t *)pair->is, key, value)
	{
		if (json_object_get(pair->was, key) || words_find(passed_over, key) >= 0 ||
		    json_is_null(value) ||
		    (!strcmp(key, "dtype") && json_object_get(pair->was, "torch_dtype")))
			continue;
		if (!diff->files->rewritten)
			report(diff->problems, diff->files->file, pair->path, key,
			       (const json_t *[]){ NULL, value });
	}
}

bool config_is_rewritten(const json_t *was, const json_t *is)
{
	const json_t *version = json_object_get(is, "transformers_version");

	return version &&
	       !json_equal((json_t *)version, json_object_get(was, "transformers_version"));
}

void config_diff(struct problems *problems, const struct config_pair *files)
{
	struct diff diff = { .problems = problems, .files = files };

	add_pair(&diff, xstrdup(""), files->was, files->is);
	while (diff.n) {
		struct object_pair pair = diff.pairs[--diff.n];

		compare_pair(&diff, &pair);
		free(pair.path);
	}
	if (diff.n_gone)
		problem_add(problems, PROBLEM_CONFIG_REWRITTEN, NULL, files->file,
			    "transformers wrote it anew: %zu keys of the source are gone, as '%s'",
			    diff.n_gone, diff.gone);
	free(diff.gone);
	free(diff.pairs);
}

/* Returns the text of a token: a string, or the content of an added token. */
static const json_t *token_of(const json_t *value)
{
	const json_t *content = json_object_get(value, "content");

	return content ? content : value;
}

void config_diff_members(struct problems *problems, const struct config_pair *pair,
			 const char *const *members, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *was = json_object_get(pair->was, members[i]);
		const json_t *is = json_object_get(pair->is, members[i]);

		if (was && is && !json_is_null(was) && !same_value(token_of(was), token_of(is)))
			report(problems, pair->file, "", members[i], (const json_t *[]){ was, is });
	}
}
