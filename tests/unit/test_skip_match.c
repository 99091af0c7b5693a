/* SPDX-License-Identifier: Apache-2.0
 *
 * Which entries match which modules: rows that follow from the engines' code, then short names by
 * the thousand against the same matchers written plainly, one entry at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "format/skip_match.h"

#define MOE "model.layers.1.mlp.experts"

static const struct {
	const char *entry, *module;
	bool conflict, lists;
} rows[] = {
	/* vLLM: exact.  SGLang and transformers: a module above. */
	{ "model.layers.1.mlp.gate", "model.layers.1.mlp.gate", true, true },
	{ "model.layers.1", "model.layers.1.mlp.up_proj", true, true },
	{ "model.layers.1", "model.layers.11.mlp.up_proj", false, false },
	{ "model.layers.1.mlp.gate", "model.layers.1.mlp.gate_proj", false, false },
	{ "model.layers.1.mlp.gate", "model.layers.1.mlp", false, false },
	{ "", "model.layers.1.mlp", false, false },
	/* vLLM for Ling: the end of the path. */
	{ "eh_proj", "model.layers.4.eh_proj", true, true },
	/* SGLang: whole segments anywhere. */
	{ "mlp", "model.layers.1.mlp.up_proj", true, false },
	{ "layers.1", "model.layers.1.mlp.up_proj", true, false },
	{ "ayers.1", "model.layers.1.mlp.up_proj", false, false },
	/* transformers: full_name.endswith(key), at no boundary. */
	{ "proj", "model.layers.1.self_attn.q_proj", true, false },
	{ "n.q_proj", "model.layers.1.self_attn.q_proj", true, false },
	{ "model.layers.0.q_proj", "language_model.layers.0.q_proj", true, false },
	{ "q_pro", "model.layers.1.self_attn.q_proj", false, false },
	{ ".q_proj", "model.layers.1.self_attn.q_proj", true, false },
	/* transformers replaces the module of all experts: its path counts too. */
	{ "p.experts", MOE ".0.up_proj", true, false },
	{ "p.experts", "model.layers.1.mlp.up_proj", false, false },
	/* transformers: re.match(key), in which a dot is any character. */
	{ "model.layers.1.0", "model.layers.100.mlp.up_proj", true, false },
	{ "model.layers.1.0", "model.layers.1000.mlp.up_proj", false, false },
	{ "visual.proj", "visual_proj", true, false },
	{ "visual_proj", "visual.proj", false, false },
	{ "visual.proj", "my.visual_proj", false, false },
	{ "model.layers.1.", "model.layers.1.mlp.up_proj", true, false },
	{ "model.layers.", "model.layers.1.mlp.up_proj", true, false },
	/* vLLM: the prefix of a layer's experts anywhere in an entry. */
	{ MOE, MOE ".3.up_proj", true, true },
	{ MOE ".0.gate_proj", MOE ".3.up_proj", true, false },
	{ "language_" MOE ".0.gate_proj", MOE ".3.up_proj", true, false },
	{ "model.layers.2.mlp.experts.0.gate_proj", MOE ".3.up_proj", false, false },
	{ "model.layers.11.mlp.experts.0.gate_proj", MOE ".3.up_proj", false, false },
	{ MOE ".0.gate_proj", MOE, true, false },
	{ MOE "_router", MOE ".3.up_proj", true, false },
	{ MOE ".gate_up_proj", MOE ".down_proj", true, false },
	{ "model.layers.1.mlp.shared_experts.gate_proj",
	  "model.layers.1.mlp.shared_experts.up_proj", false, false },
	{ "model.layers.1.mlp.shared_experts.gate_proj", MOE ".0.gate_proj", false, false },
	/* TensorRT-LLM and ModelOpt: fnmatch of the whole path. */
	{ "*.mixer.conv*", "backbone.layers.1.mixer.conv1d", true, true },
	{ "*lm_head*", "lm_head", true, true },
	{ "mtp*", "mtp.layers.0.q_proj", true, true },
	{ "*.gate", "model.layers.1.mlp.gate_proj", false, false },
	{ "*.mlp.experts", MOE ".0.up_proj", true, false },
	{ "model.layers.[0-2].mlp", "model.layers.1.mlp", true, true },
	/* transformers: re.match(key) up to a boundary. */
	{ "model.layers.*.self_attn", "model.layers.7.self_attn.q_proj", true, true },
	{ "model.layers.*.mlp.gate", "model.layers.7.mlp.gate_proj", false, false },
	{ "layers.(0|1).mlp", "layers.1.mlp.up_proj", true, true },
	{ "layers.(0|1).mlp", "model.layers.1.mlp.up_proj", false, false },
	/* compressed-tensors: re.match() from the start, to anywhere. */
	{ "re:.*self_attn.*", "model.layers.7.self_attn.q_proj", true, true },
	{ "re:.*gate$", "model.layers.7.mlp.gate", true, true },
	{ "re:.*gate$", "model.layers.7.mlp.gate_proj", false, false },
	{ "re:gate", "model.layers.7.mlp.gate", false, false },
	{ "re:model.layers.7.mlp.ga", "model.layers.7.mlp.gate", true, true },
	{ "re:(", "model.layers.7.mlp.gate", false, false },
};

static void rows_of_the_engines(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *const list[] = { "model.layers.99.other.gate", rows[i].entry,
					     "model.layers.99.other.router" };
		struct skip_match *match = skip_match_make(list, 3);
		const char *conflict = skip_match_conflict(match, rows[i].module);
		const char *lists = skip_match_lists(match, rows[i].module);

		if (conflict != (rows[i].conflict ? rows[i].entry : NULL) ||
		    lists != (rows[i].lists ? rows[i].entry : NULL))
			fail_msg("'%s' on '%s': conflict '%s', lists '%s'", rows[i].entry,
				 rows[i].module, conflict ? conflict : "", lists ? lists : "");
		skip_match_free(match);
	}
}

static void an_empty_list_matches_nothing(void **state)
{
	struct skip_match *match = skip_match_make(NULL, 0);

	(void)state;
	assert_null(skip_match_conflict(match, "lm_head"));
	assert_null(skip_match_conflict(match, ""));
	assert_null(skip_match_lists(match, "lm_head"));
	skip_match_free(match);
	skip_match_free(NULL);
}

static void long_names_match(void **state)
{
	char entry[1200], module[1300];
	const char *const list[] = { entry };
	struct skip_match *match;

	(void)state;
	memset(entry, 'x', sizeof entry);
	entry[600] = '.';
	entry[sizeof entry - 1] = '\0';
	snprintf(module, sizeof module, "%s.proj", entry);
	match = skip_match_make(list, 1);
	assert_ptr_equal(skip_match_conflict(match, "x"), NULL);
	assert_ptr_equal(skip_match_conflict(match, module), entry);
	module[600] = '_'; /* the regular expression has a dot there */
	assert_ptr_equal(skip_match_conflict(match, module), entry);
	module[601] = '_';
	assert_null(skip_match_conflict(match, module));
	skip_match_free(match);
}

/* --- the matchers, plainly --- */

static bool at_boundary(const char *module, size_t n)
{
	return !module[n] || module[n] == '.';
}

static bool ends_with(const char *text, size_t n, const char *end)
{
	size_t n_end = strlen(end);

	return n_end <= n && !memcmp(text + n - n_end, end, n_end);
}

static bool segments_match(const char *entry, const char *module)
{
	size_t n = strlen(entry);

	for (const char *at = module; (at = strstr(at, entry)); at++)
		if ((at == module || at[-1] == '.') && at_boundary(at, n))
			return true;
	return false;
}

static bool expression_matches(const char *entry, const char *module)
{
	size_t n = strlen(entry);

	if (n > strlen(module))
		return false;
	for (size_t i = 0; i < n; i++)
		if (entry[i] != '.' && entry[i] != module[i])
			return false;
	return at_boundary(module, n) || module[n - 1] == '.';
}

/* The length of "...experts" where a number or nothing follows, or of "....experts"; 0: none. */
static size_t experts_length(const char *module)
{
	for (const char *at = module; (at = strstr(at, "experts")); at++) {
		bool whole = at == module || at[-1] == '.';

		if (!at[7] || (at[7] == '.' && (whole || (at[8] >= '0' && at[8] <= '9'))))
			return (size_t)(at + 7 - module);
	}
	return 0;
}

static bool experts_match(const char *entry, const char *module, size_t n)
{
	for (size_t i = 0; entry[i] && n; i++)
		if (!strncmp(entry + i, module, n))
			return true;
	return false;
}

static bool plain_conflict(const char *entry, const char *module)
{
	size_t experts = experts_length(module);

	return segments_match(entry, module) || expression_matches(entry, module) ||
	       ends_with(module, strlen(module), entry) ||
	       (experts && ends_with(module, experts, entry)) ||
	       experts_match(entry, module, experts);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

/* One to four segments of one to two letters, some of them "experts" and numbers. */
static void random_name(char name[64], uint64_t *seed)
{
	static const char *const segments[] = { "a", "b",  "ab", "ba",	    "aa",
						"0", "10", "1",	 "experts", "bexperts" };
	size_t n = 1 + next_random(seed) % 4;

	*name = '\0';
	for (size_t i = 0; i < n; i++) {
		strcat(name, i ? next_random(seed) % 8 ? "." : "_" : "");
		strcat(name, segments[next_random(seed) % 10]);
	}
}

/* Keeps some bytes of the name, as the next one of a sorted list does, and changes the others. */
static void random_neighbor(char name[64], uint64_t *seed)
{
	char other[64];
	size_t kept = next_random(seed) % (strlen(name) + 1);

	random_name(other, seed);
	snprintf(name + kept, 64 - kept, "%s", other);
}

/* Asks for one module; returns whether an entry matches it. */
static bool ask(struct skip_match *match, const char *module, const char *const *list, size_t n)
{
	const char *found = skip_match_conflict(match, module);
	bool expected = false;

	for (size_t i = 0; i < n; i++)
		expected |= plain_conflict(list[i], module);
	if ((found != NULL) != expected || (found && !plain_conflict(found, module)))
		fail_msg("'%s': found '%s', of '%s' and %zu more", module, found ? found : "",
			 list[0], n - 1);
	return expected;
}

/* A question for what lists the module must not depend on the questions before. */
static void ask_lists(struct skip_match *match, const char *module, const char *const *list,
		      size_t n)
{
	struct skip_match *alone = skip_match_make(list, n);

	if (!skip_match_lists(match, module) != !skip_match_lists(alone, module))
		fail_msg("'%s': listed by '%s' and %zu more, or not", module, list[0], n - 1);
	skip_match_free(alone);
}

static void names_by_the_thousand(void **state)
{
	char names[16][64], module[64];
	const char *list[16];
	uint64_t seed = 1;
	size_t n_found = 0;

	(void)state;
	for (size_t i = 0; i < 16; i++)
		list[i] = names[i];
	for (int round = 0; round < 40000; round++) {
		size_t n = 1 + next_random(&seed) % 4;
		struct skip_match *match;

		for (size_t i = 0; i < n; i++)
			random_name(names[i], &seed);
		random_name(module, &seed);
		match = skip_match_make(list, n);
		for (int i = 0; i < 6; i++) {
			n_found += ask(match, module, list, n);
			if (next_random(&seed) % 4 == 0)
				ask_lists(match, module, list, n);
			random_neighbor(module, &seed);
		}
		skip_match_free(match);
	}
	assert_in_range(n_found, 30000, 210000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_the_engines),
		cmocka_unit_test(an_empty_list_matches_nothing),
		cmocka_unit_test(long_names_match),
		cmocka_unit_test(names_by_the_thousand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
