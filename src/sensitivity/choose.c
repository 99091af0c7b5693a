/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/choose.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/mem.h"
#include "ckpt/outdir.h"
#include "plan/plan.h"
#include "names/experts.h"

/* Finds a recipe in the table. */
static int find_recipe(const struct choice *choice, const struct choice_params *params,
		       const char *name, size_t *recipe, struct err *err)
{
	const struct kld_table *table = &choice->table;
	struct buf names = { 0 };

	*recipe = kld_table_find(table, name);
	if (*recipe != SIZE_MAX)
		return 0;
	for (size_t i = 0; i < table->n_recipes; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", table->recipes[i].name);
	err_set(err, ERR_USAGE, "'%s' does not measure recipe '%s', but %s", params->table, name,
		names.len ? names.data : "none");
	buf_release(&names);
	return -1;
}

/* Finds what sets may become. */
static int find_ways(struct choice *choice, const struct choice_params *params, struct err *err)
{
	size_t recipe = 0;

	if (!choice->table.n_recipes)
		return err_set(err, ERR_INPUT, "'%s' has no recipe", params->table);
	if (params->recipe && find_recipe(choice, params, params->recipe, &recipe, err))
		return -1;
	if (!recipe_find(choice->table.recipes[recipe].name, err))
		return err_wrap(err, "'%s'", params->table);
	choice->ways = xcalloc(2 + params->n_as, sizeof *choice->ways);
	choice->ways[choice->n_ways++] = recipe;
	if (!params->n_as)
		choice->ways[choice->n_ways++] = CHOICE_SKIP;
	for (size_t i = 0; i < params->n_as; i++) {
		const char *word = params->as[i];

		recipe = CHOICE_SKIP;
		if (strcmp(word, NAMED_SKIP) != 0 &&
		    find_recipe(choice, params, word, &recipe, err))
			return err_wrap(err, "option '--as'");
		if (recipe == choice->ways[0])
			return err_set(err, ERR_USAGE,
				       "option '--as': '%s' is the recipe of all other groups: "
				       "give another one",
				       word);
		choice->ways[choice->n_ways++] = recipe;
	}
	return 0;
}

/* Returns the length of the name that stands for a module in the list: "model.layers.0.mlp.experts"
 * for all experts of a layer, which engines need in one type; else its own. */
static size_t listed_len(const char *module)
{
	size_t n = experts_prefix_len(module);

	return n ? n - 1 : strlen(module);
}

static bool same_modules(const struct kld_group *a, const struct kld_group *b)
{
	if (a->n != b->n)
		return false;
	for (size_t m = 0; m < a->n; m++) {
		const struct kld_module *x = &a->modules[m], *y = &b->modules[m];

		if (strcmp(x->name, y->name) != 0 || x->rows != y->rows || x->cols != y->cols)
			return false;
	}
	return true;
}

/* The set of a group of the job's recipe: one of its own, or that of the experts of its layer. */
static struct choice_set *set_find(struct choice *choice, struct intern *keys,
				   const struct kld_group *group)
{
	const char *module = group->modules[0].name;
	size_t number = intern_add(keys, module, listed_len(module));
	struct choice_set *set;

	if (number < choice->n) {
		set = &choice->sets[number];
		if (strlen(set->name) < 64) {
			char *name = xasprintf("%s+%s", set->name, group->name);

			free(set->name);
			set->name = name;
		}
		return set;
	}
	ARRAY_GROW(choice->sets, choice->n);
	set = &choice->sets[choice->n++];
	*set = (struct choice_set){ .name = xstrdup(group->name) };
	set->options = xcalloc(choice->n_ways, sizeof *set->options);
	return set;
}

/* Adds a group of the job's recipe to its set.  twins: by way, the group of that name; NULL:
 * none. */
static void add_group(const struct choice *choice, struct choice_set *set,
		      const struct kld_group *group, const struct kld_group *const *twins)
{
	set->bf16_bytes += group->bf16_bytes;
	for (size_t w = 0; w < choice->n_ways; w++) {
		struct knapsack_option *option = &set->options[w];

		if (choice->ways[w] == CHOICE_SKIP) {
			option->n_bytes += (int64_t)group->bf16_bytes;
		} else if (w == 0 || (twins[w] && same_modules(group, twins[w]))) {
			option->n_bytes += (int64_t)(w ? twins[w] : group)->fp8_bytes;
			option->kld += (w ? twins[w] : group)->mean;
		} else {
			option->kld = INFINITY; /* never chosen */
		}
	}
}

/* Makes the sets of the groups of the job's recipe. */
static void sets_make(struct choice *choice)
{
	const struct kld_table *table = &choice->table;
	const struct kld_group **twins = NULL; /* by name and way */
	struct intern names = { 0 }, keys = { 0 };
	size_t n_ways = choice->n_ways;

	twins = xcalloc(table->n_groups * n_ways + 1, sizeof *twins);
	choice->set_of = xcalloc(table->n_groups + 1, sizeof *choice->set_of);
	for (size_t g = 0; g < table->n_groups; g++) {
		const struct kld_group *group = &table->groups[g];
		size_t name = intern_add(&names, group->name, strlen(group->name));

		for (size_t w = 1; w < n_ways; w++)
			if (choice->ways[w] == group->recipe)
				twins[name * n_ways + w] = group;
	}
	for (size_t g = 0; g < table->n_groups; g++) {
		const struct kld_group *group = &table->groups[g];
		size_t name = intern_add(&names, group->name, strlen(group->name));
		struct choice_set *set;

		choice->set_of[g] = SIZE_MAX;
		if (group->recipe != choice->ways[0])
			continue;
		set = set_find(choice, &keys, group);
		choice->set_of[g] = (size_t)(set - choice->sets);
		add_group(choice, set, group, twins + name * n_ways);
	}
	free(twins);
	intern_release(&names);
	intern_release(&keys);
}

/* Adds up what every choice has in common. */
static void add_totals(struct choice *choice)
{
	const struct kld_recipe *recipe = &choice->table.recipes[choice->ways[0]];

	choice->all_bytes = recipe->unmeasured_bf16;
	choice->n_saved = (int64_t)recipe->unmeasured_bf16 - (int64_t)recipe->unmeasured_fp8;
	for (size_t s = 0; s < choice->n; s++) {
		const struct choice_set *set = &choice->sets[s];

		choice->all_bytes += set->bf16_bytes;
		choice->n_saved += (int64_t)set->bf16_bytes - set->options[0].n_bytes;
		choice->kld_before += set->options[0].kld;
	}
}

static int check_choice(const struct choice *choice, const struct choice_params *params,
			struct err *err)
{
	bool may_skip = false;

	for (size_t w = 1; w < choice->n_ways; w++)
		may_skip |= choice->ways[w] == CHOICE_SKIP;
	if (choice->kept_bytes == choice->all_bytes && params->max_kld > 0)
		return err_set(err, ERR_USAGE,
			       "nothing would be quantized: by '%s' any group alone has a KLD "
			       "above %g: give a larger --max-kld",
			       params->table, params->max_kld);
	if (choice->kept_bytes == choice->all_bytes)
		return err_set(err, ERR_USAGE,
			       "nothing would be quantized: every group fits the budget: give a "
			       "smaller --budget");
	if (params->max_kld > 0 && choice->kld > params->max_kld && !may_skip)
		return err_set(err, ERR_USAGE,
			       "by '%s' no choice of what --as allows has a KLD of at most %g, but "
			       "%g: allow skip too, or give a larger --max-kld",
			       params->table, params->max_kld, choice->kld);
	return 0;
}

static void choose(struct choice *choice, const struct choice_params *params)
{
	struct knapsack_set *sets = xcalloc(choice->n + 1, sizeof *sets);
	const struct knapsack_limit limit = { .by_bytes = !(params->max_kld > 0),
					      .kld = params->max_kld,
					      .n_bytes = params->budget * (double)choice->n_saved };

	for (size_t s = 0; s < choice->n; s++)
		sets[s] = (struct knapsack_set){ choice->sets[s].options, choice->n_ways, 0 };
	knapsack_choose(sets, choice->n, &limit);
	for (size_t s = 0; s < choice->n; s++) {
		struct choice_set *set = &choice->sets[s];

		set->chosen = sets[s].chosen;
		choice->kld += set->options[set->chosen].kld;
		choice->n_added += set->options[set->chosen].n_bytes - set->options[0].n_bytes;
		if (choice->ways[set->chosen] == CHOICE_SKIP)
			choice->kept_bytes += set->bf16_bytes;
	}
	free(sets);
}

/* Compares the table's fingerprint with that of the model. */
static int check_model(const struct choice *choice, const struct choice_params *params,
		       struct err *err)
{
	struct plan plan = { .stream_fd = -1 };
	int rc;

	if (!params->model)
		return 0;
	rc = checkpoint_open(&plan.source, params->io, params->model, 1, err);
	rc = rc ? rc : checkpoint_rename(&plan.source, &params->renames, err);
	rc = rc ? rc : plan_check_model(&plan, params->table, choice->table.model, err);
	plan_release(&plan);
	return rc;
}

int choice_make(struct choice *choice, const struct choice_params *params, struct err *err)
{
	*choice = (struct choice){ 0 };
	if (kld_table_read(&choice->table, params->io, AT_FDCWD, params->table, false, err) ||
	    check_model(choice, params, err) || find_ways(choice, params, err))
		return -1;
	sets_make(choice);
	add_totals(choice);
	choose(choice, params);
	return check_choice(choice, params, err);
}

/* --- the list --- */

const char *choice_word(const struct choice *choice, size_t way)
{
	size_t recipe = choice->ways[way];

	return recipe == CHOICE_SKIP ? NAMED_SKIP : choice->table.recipes[recipe].name;
}

void choice_say(const struct choice *choice, struct buf *text)
{
	size_t begin = text->len;

	for (size_t w = 1; w < choice->n_ways; w++) {
		size_t n = 0;

		for (size_t s = 0; s < choice->n; s++)
			n += choice->sets[s].chosen == w;
		buf_printf(text, "%s%zu %s as %s", text->len > begin ? ", " : "", n,
			   n == 1 ? "group" : "groups", choice_word(choice, w));
	}
	buf_printf(text, ": %.1f %% of what FP8 saves, predicted KLD %.5f, was %.5f",
		   100 * (double)choice->n_added / (double)choice->n_saved, choice->kld,
		   choice->kld_before);
}

/* How each list begins. */
#define LIST_HEAD "# fp8conv sensitivity --recipe "

static void put_head(const struct choice *choice, const struct choice_params *params,
		     struct buf *text)
{
	buf_printf(text, LIST_HEAD "%s", choice_word(choice, 0));
	for (size_t w = 1; w < choice->n_ways; w++)
		buf_printf(text, "%s%s", w > 1 ? "," : " --as ", choice_word(choice, w));
	if (params->max_kld > 0)
		buf_printf(text, " --max-kld %g: ", params->max_kld);
	else
		buf_printf(text, " --budget %g%%: ", 100 * params->budget);
	choice_say(choice, text);
	buf_printf(text, "; SHA-256 of the table %s\n", choice->table.file_sha256);
}

/* Adds a line for each module of a group; experts have one line for all of a layer. */
static void put_group(const struct kld_group *group, const char *word, struct intern *listed,
		      struct buf *text)
{
	for (size_t m = 0; m < group->n; m++) {
		const char *module = group->modules[m].name;
		size_t n = listed_len(module), known = listed->n;

		if (intern_add(listed, module, n) == known)
			buf_printf(text, "%.*s=%s\n", (int)n, module, word);
	}
}

static void put_list(const struct choice *choice, const struct choice_params *params,
		     struct buf *text)
{
	struct intern listed = { 0 };

	put_head(choice, params, text);
	for (size_t g = 0; g < choice->table.n_groups; g++) {
		size_t s = choice->set_of[g];

		if (s != SIZE_MAX && choice->sets[s].chosen)
			put_group(&choice->table.groups[g],
				  choice_word(choice, choice->sets[s].chosen), &listed, text);
	}
	intern_release(&listed);
}

/* Checks a file that exists: *same tells whether it has the same text. */
static int check_file(const struct outfile *file, const struct buf *text, bool restart, bool *same,
		      struct err *err)
{
	struct buf found = { 0 };
	int rc = io_read_file(file->dir.io, file->dir.fd, file->name, NAMED_LIMIT, &found, err);

	*same = !rc && found.len == text->len && !memcmp(found.data, text->data, text->len);
	if (!rc && (found.len < strlen(LIST_HEAD) ||
		    memcmp(found.data, LIST_HEAD, strlen(LIST_HEAD)) != 0))
		rc = err_set(err, ERR_USAGE,
			     "'%s' exists and is not a list of 'fp8conv sensitivity': choose "
			     "another output or remove it",
			     file->name);
	else if (!rc && !*same && !restart)
		rc = err_set(err, ERR_USAGE,
			     "'%s' exists and has another choice: use --restart to overwrite it",
			     file->name);
	buf_release(&found);
	return rc;
}

int choice_write(const struct choice *choice, const struct choice_params *params,
		 const char *output, bool restart, struct err *err)
{
	struct outfile file;
	struct buf text = { 0 };
	bool same = false;
	int rc = outfile_open(&file, params->io, output, err);

	put_list(choice, params, &text);
	if (!rc && outdir_has(&file.dir, file.name))
		rc = check_file(&file, &text, restart, &same, err);
	if (!rc && !same)
		rc = outdir_put(&file.dir, file.name, text.data, text.len, err) ||
				     outdir_sync(&file.dir, err)
			     ? -1
			     : 0;
	outfile_close(&file);
	buf_release(&text);
	return rc;
}

void choice_release(struct choice *choice)
{
	for (size_t s = 0; s < choice->n; s++) {
		free(choice->sets[s].name);
		free(choice->sets[s].options);
	}
	free(choice->sets);
	free(choice->set_of);
	free(choice->ways);
	kld_table_release(&choice->table);
	*choice = (struct choice){ 0 };
}
