/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/matchers.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/words.h"
#include "format/skip_match.h"

enum {
	EXACT = 1 << 0,	  /* the whole module */
	FUSED = 1 << 1,	  /* or the layer that it is merged into */
	WITHIN = 1 << 2,  /* whole segments anywhere in it; dots at the end do not count */
	DOT_END = 1 << 3, /* whole segments at its end */
	ANY_END = 1 << 4, /* any end of it */
	START = 1 << 5,	  /* whole segments at its start */
	PATTERN = 1 << 6, /* "re:" and a regular expression */
	/* a regular expression without "re:", from the start to the end of a segment; the dots of
	 * other entries are taken for dots */
	BARE = 1 << 7,
};

static const struct {
	const char *format;
	enum engine engine;
	unsigned how;
	const char *models; /* model_types; NULL: all that no row before has */
} rows[] = {
	{ "hf", ENGINE_VLLM, EXACT | DOT_END, "bailing_hybrid|bailing_moe_v3" },
	{ "hf", ENGINE_VLLM, EXACT | FUSED, NULL },
	{ "hf", ENGINE_SGLANG, WITHIN, NULL },
	{ "hf", ENGINE_TRANSFORMERS, START | ANY_END | BARE, NULL },
	{ "fbgemm", ENGINE_VLLM, EXACT | FUSED, NULL },
	{ "compressed-tensors", ENGINE_VLLM, EXACT | FUSED | PATTERN, NULL },
	{ "compressed-tensors", ENGINE_SGLANG, EXACT | DOT_END | PATTERN, NULL },
	{ "compressed-tensors", ENGINE_TRANSFORMERS, EXACT | PATTERN, NULL },
};

/* packed_modules_mapping of vLLM's models. */
static const struct {
	const char *part, *layer;
} fused[] = {
	{ "q_proj", "qkv_proj" },
	{ "k_proj", "qkv_proj" },
	{ "v_proj", "qkv_proj" },
	{ "gate_proj", "gate_up_proj" },
	{ "up_proj", "gate_up_proj" },
	{ "in_proj_qkv", "in_proj_qkvz" },
	{ "in_proj_z", "in_proj_qkvz" },
	{ "in_proj_b", "in_proj_ba" },
	{ "in_proj_a", "in_proj_ba" },
	{ "q_a_proj", "fused_qkv_a_proj" },
	{ "kv_a_proj_with_mqa", "fused_qkv_a_proj" },
};

static bool is_of(const struct model_config *model, const char *models)
{
	for (size_t i = 0; models && i < model->n_model_types; i++)
		if (words_find(models, model->model_types[i]) >= 0)
			return true;
	return !models;
}

static unsigned how_of(const struct verify *verify, enum engine engine)
{
	const struct format *format = verify->lists.format;

	for (size_t i = 0; format && i < sizeof rows / sizeof *rows; i++)
		if (rows[i].engine == engine && !strcmp(rows[i].format, format->name) &&
		    is_of(&verify->opened.model, rows[i].models))
			return rows[i].how;
	return 0;
}

/* Whether the engine looks for the part of a module from the begin of a segment to `end`, which is
 * the end of one, or behind its dot. */
static bool is_sought(const char *module, size_t begin, size_t end, unsigned how)
{
	if (!module[end])
		how &= begin ? WITHIN | DOT_END | ANY_END
			     : WITHIN | DOT_END | ANY_END | START | EXACT;
	else if (module[end] == '.')
		how &= WITHIN | (begin ? 0 : START);
	else
		how &= begin ? 0 : START;
	return how;
}

/* Looks for an entry without wildcards, from one place to another of the module. */
static const char *find_plain(const struct part_set *entries, struct part_text *parts,
			      const char *module, unsigned how)
{
	size_t n = strlen(module), n_begins = how & ~(EXACT | START | FUSED) ? n : 1;
	const char *entry = NULL;

	part_set_read(parts, module, n);
	for (size_t begin = 0; !entry && begin < n_begins; begin++) {
		if (begin && module[begin - 1] != '.') {
			entry = how & ANY_END ? part_set_find(entries, parts, begin, n) : NULL;
			continue;
		}
		for (size_t end = begin + 1; !entry && end <= n; end++)
			if ((!module[end] || module[end] == '.' || module[end - 1] == '.') &&
			    is_sought(module, begin, end, how))
				entry = part_set_find(entries, parts, begin, end);
	}
	return entry;
}

/* Returns the layer that engines merge the module into, which the caller frees, or NULL. */
static char *layer_of(const char *module)
{
	const char *part = text_after(module, '.');

	for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
		if (!strcmp(fused[i].part, part))
			return xasprintf("%.*s%s", (int)(part - module), module, fused[i].layer);
	return NULL;
}

static const char *find_entry(const struct verify *verify, const char *module, unsigned how)
{
	const struct verify_lists *lists = &verify->lists;
	struct part_text parts = { 0 };
	struct part_set none = { 0 };
	const char *entry = find_plain(&lists->entries, &parts, module, how);

	if (!entry && how & WITHIN)
		entry = find_plain(&lists->undotted, &parts, module, how);
	if (!entry && how & PATTERN)
		entry = skip_match_lists(lists->patterns, module);
	if (!entry && how & BARE)
		entry = skip_match_lists(lists->bare, module);
	part_set_release(&none, &parts);
	return entry;
}

bool matchers_know(const struct verify *verify, enum engine engine, const char *module)
{
	return how_of(verify, engine) && !strstr(module, "experts");
}

const char *matchers_find(const struct verify *verify, enum engine engine, const char *module)
{
	const unsigned how = how_of(verify, engine);
	const char *entry = find_entry(verify, module, how);
	char *layer = !entry && how & FUSED ? layer_of(module) : NULL;

	if (layer)
		entry = find_entry(verify, layer, how);
	free(layer);
	return entry;
}
