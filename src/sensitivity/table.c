/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/table.h"

#include <math.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "num/float16.h"

#define VERSION_KEY "fp8conv_sensitivity"
#define VERSION	    1
#define MAX_COUNT   ((json_int_t)1 << 42) /* sums over all groups of a file have 63 bits */
#define LEAST_KLD   (-1e-3)		  /* fp32 logits miss a divergence of 0 by far less */

struct kld_recipe *kld_table_add_recipe(struct kld_table *table, const char *name)
{
	struct kld_recipe *recipe;

	ARRAY_GROW(table->recipes, table->n_recipes);
	recipe = &table->recipes[table->n_recipes++];
	*recipe = (struct kld_recipe){ .name = xstrdup(name) };
	return recipe;
}

struct kld_group *kld_table_add_group(struct kld_table *table, const char *name)
{
	struct kld_group *group;

	ARRAY_GROW(table->groups, table->n_groups);
	group = &table->groups[table->n_groups++];
	*group = (struct kld_group){ .name = xstrdup(name) };
	return group;
}

void kld_group_add(struct kld_group *group, const char *module, uint64_t rows, uint64_t cols)
{
	ARRAY_GROW(group->modules, group->n);
	group->modules[group->n++] = (struct kld_module){ xstrdup(module), rows, cols };
}

size_t kld_table_find(const struct kld_table *table, const char *recipe)
{
	for (size_t i = 0; i < table->n_recipes; i++)
		if (!strcmp(table->recipes[i].name, recipe))
			return i;
	return SIZE_MAX;
}

void kld_table_release(struct kld_table *table)
{
	for (size_t i = 0; i < table->n_groups; i++) {
		struct kld_group *group = &table->groups[i];

		for (size_t m = 0; m < group->n; m++)
			free(group->modules[m].name);
		free(group->modules);
		free(group->name);
	}
	for (size_t i = 0; i < table->n_recipes; i++) {
		struct kld_recipe *recipe = &table->recipes[i];

		for (size_t m = 0; m < recipe->n_unmeasured; m++)
			free(recipe->unmeasured[m]);
		free(recipe->unmeasured);
		free(recipe->name);
		json_decref(recipe->options);
	}
	free(table->groups);
	free(table->recipes);
	free(table->model);
	free(table->by);
	free(table->precision);
	free(table->backend);
	free(table->data_sha256);
	*table = (struct kld_table){ 0 };
}

/* --- to JSON --- */

static json_t *bytes_json(uint64_t bf16, uint64_t fp8)
{
	return json_pack("{s:I, s:I}", "bf16", (json_int_t)bf16, "fp8", (json_int_t)fp8);
}

static json_t *recipe_json(const struct kld_table *table, size_t i)
{
	const struct kld_recipe *recipe = &table->recipes[i];
	json_t *unmeasured = json_array();
	double sum = 0;
	json_t *json;

	for (size_t m = 0; m < recipe->n_unmeasured; m++)
		json_array_append_new(unmeasured, json_string(recipe->unmeasured[m]));
	for (size_t g = 0; g < table->n_groups; g++)
		if (table->groups[g].recipe == i)
			sum += table->groups[g].measured ? table->groups[g].mean : NAN;
	json = json_pack("{s:s, s:O, s:o, s:o}", "recipe", recipe->name, "options", recipe->options,
			 "kld_sum", json_finite(sum), "unmeasured", unmeasured);
	if (recipe->unmeasured_bf16)
		json_object_set_new(json, "unmeasured_bytes",
				    bytes_json(recipe->unmeasured_bf16, recipe->unmeasured_fp8));
	return json;
}

static json_t *group_json(const struct kld_table *table, const struct kld_group *group)
{
	json_t *modules = json_array(), *kld = json_null();

	for (size_t m = 0; m < group->n; m++) {
		const struct kld_module *module = &group->modules[m];

		json_array_append_new(modules, json_pack("{s:s, s:[I, I]}", "name", module->name,
							 "shape", (json_int_t)module->rows,
							 (json_int_t)module->cols));
	}
	if (group->measured)
		kld = json_pack("{s:o, s:o}", "mean", json_finite(group->mean), "se",
				json_finite(group->se));
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "recipe",
			 table->recipes[group->recipe].name, "group", group->name, "layer",
			 group->layer == SIZE_MAX ? json_null()
						  : json_integer((json_int_t)group->layer),
			 "modules", modules, "bytes",
			 bytes_json(group->bf16_bytes, group->fp8_bytes), "kld", kld);
}

void kld_table_text(const struct kld_table *table, struct buf *text)
{
	json_t *recipes = json_array(), *groups = json_array(), *root;
	char *dump;

	for (size_t i = 0; i < table->n_recipes; i++)
		json_array_append_new(recipes, recipe_json(table, i));
	for (size_t i = 0; i < table->n_groups; i++)
		json_array_append_new(groups, group_json(table, &table->groups[i]));
	root = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}",
			 VERSION_KEY, VERSION, "tool", "fp8conv " FP8CONV_VERSION, "model",
			 table->model, "by", table->by, "precision", table->precision, "backend",
			 table->backend, "data_sha256", table->data_sha256, "sequences",
			 (json_int_t)table->n_sequences, "seq_len", (json_int_t)table->seq_len,
			 "tokens", (json_int_t)table->n_tokens, "recipes", recipes, "groups",
			 groups);
	dump = json_dumps(root, JSON_INDENT(1));
	buf_puts(text, dump);
	buf_putc(text, '\n');
	free(dump);
	json_decref(root);
}

/* --- from JSON --- */

/* Fails for a member that is missing or is not what it should be. */
static int refuse(const char *member, const char *what, struct err *err)
{
	return err_set(err, ERR_INPUT, "member '%s' is missing or is not %s", member, what);
}

static int get_text(const json_t *object, const char *key, char **text, struct err *err)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_string(value))
		return refuse(key, "a text", err);
	*text = xstrdup(json_string_value(value));
	return 0;
}

static int get_count(const json_t *object, const char *key, uint64_t *count, struct err *err)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > MAX_COUNT)
		return refuse(key, "a count", err);
	*count = (uint64_t)json_integer_value(value);
	return 0;
}

static int get_bytes(const json_t *bytes, uint64_t *bf16, uint64_t *fp8, struct err *err)
{
	return get_count(bytes, "bf16", bf16, err) || get_count(bytes, "fp8", fp8, err) ? -1 : 0;
}

static int get_array(const json_t *object, const char *key, const json_t **array, struct err *err)
{
	*array = json_object_get(object, key);
	return json_is_array(*array) ? 0 : refuse(key, "a list", err);
}

static int read_recipe(struct kld_table *table, const json_t *from, struct err *err)
{
	json_t *options = json_object_get(from, "options");
	const json_t *bytes = json_object_get(from, "unmeasured_bytes"), *unmeasured;
	const char *name = json_string_value(json_object_get(from, "recipe"));
	struct kld_recipe *recipe;

	if (!name)
		return refuse("recipe", "a text", err);
	if (kld_table_find(table, name) != SIZE_MAX)
		return refuse("recipe", "another one in each of 'recipes'", err);
	recipe = kld_table_add_recipe(table, name);
	if (!json_is_object(options))
		return refuse("options", "an object", err);
	recipe->options = json_incref(options);
	if (get_array(from, "unmeasured", &unmeasured, err))
		return -1;
	for (size_t i = 0; i < json_array_size(unmeasured); i++) {
		const json_t *module = json_array_get(unmeasured, i);

		if (!json_is_string(module))
			return refuse("unmeasured", "a list of names", err);
		ARRAY_GROW(recipe->unmeasured, recipe->n_unmeasured);
		recipe->unmeasured[recipe->n_unmeasured++] = xstrdup(json_string_value(module));
	}
	return bytes ? get_bytes(bytes, &recipe->unmeasured_bf16, &recipe->unmeasured_fp8, err) : 0;
}

static int read_modules(struct kld_group *group, const json_t *from, struct err *err)
{
	const json_t *modules;

	if (get_array(from, "modules", &modules, err))
		return -1;
	for (size_t i = 0; i < json_array_size(modules); i++) {
		const json_t *module = json_array_get(modules, i);
		const json_t *shape = json_object_get(module, "shape");
		json_int_t rows = json_integer_value(json_array_get(shape, 0));
		json_int_t cols = json_integer_value(json_array_get(shape, 1));
		const char *name = json_string_value(json_object_get(module, "name"));

		/* each name becomes a line of a list */
		if (!name || !*name || *name == '#' || strpbrk(name, "\r\n") ||
		    json_array_size(shape) != 2 || rows <= 0 || cols <= 0)
			return refuse("modules", "a list of names with their shapes", err);
		kld_group_add(group, name, (uint64_t)rows, (uint64_t)cols);
	}
	return group->n ? 0 : refuse("modules", "a list of at least one", err);
}

/* Reads the divergence of a group: a mean of at least about 0, which rounding can miss.  Sums of
 * such means are finite. */
static int read_kld(struct kld_group *group, const json_t *from, bool unfinished, struct err *err)
{
	const json_t *kld = json_object_get(from, "kld"), *se;

	if (unfinished && json_is_null(kld))
		return 0;
	se = json_object_get(kld, "se");
	if (!json_is_number(json_object_get(kld, "mean")) ||
	    !((json_is_number(se) && json_number_value(se) >= 0) || json_is_null(se)))
		return refuse("kld", "a mean with its error", err);
	group->measured = true;
	group->mean = json_number_value(json_object_get(kld, "mean"));
	group->se = json_is_null(se) ? NAN : json_number_value(se);
	if (group->mean < LEAST_KLD || group->mean > F32_MAX)
		return refuse("mean", "a number from 0 to 3.4e38", err);
	return 0;
}

static int read_group(struct kld_table *table, const json_t *from, bool unfinished, struct err *err)
{
	const json_t *layer = json_object_get(from, "layer");
	const char *name = json_string_value(json_object_get(from, "group"));
	const char *recipe = json_string_value(json_object_get(from, "recipe"));
	struct kld_group *group;

	if (!name)
		return refuse("group", "a text", err);
	if (!recipe)
		return refuse("recipe", "a text", err);
	group = kld_table_add_group(table, name);
	group->recipe = kld_table_find(table, recipe);
	if (group->recipe == SIZE_MAX)
		return refuse("recipe", "one of 'recipes'", err);
	if (!json_is_null(layer) && !(json_is_integer(layer) && json_integer_value(layer) >= 0))
		return refuse("layer", "a number or null", err);
	group->layer = json_is_null(layer) ? SIZE_MAX : (size_t)json_integer_value(layer);
	if (get_bytes(json_object_get(from, "bytes"), &group->bf16_bytes, &group->fp8_bytes, err) ||
	    read_modules(group, from, err))
		return -1;
	return read_kld(group, from, unfinished, err);
}

static int read_head(struct kld_table *table, const json_t *root, struct err *err)
{
	const json_t *version = json_object_get(root, VERSION_KEY);

	if (!json_is_integer(version))
		return err_set(err, ERR_INPUT, "it was not written by 'fp8conv sensitivity'");
	if (json_integer_value(version) != VERSION)
		return err_set(err, ERR_INPUT,
			       "its version is %" JSON_INTEGER_FORMAT ", but this program reads %d",
			       json_integer_value(version), VERSION);
	if (get_text(root, "model", &table->model, err) || get_text(root, "by", &table->by, err) ||
	    get_text(root, "precision", &table->precision, err) ||
	    get_text(root, "backend", &table->backend, err) ||
	    get_text(root, "data_sha256", &table->data_sha256, err) ||
	    get_count(root, "sequences", &table->n_sequences, err) ||
	    get_count(root, "seq_len", &table->seq_len, err))
		return -1;
	return get_count(root, "tokens", &table->n_tokens, err);
}

static int read_root(struct kld_table *table, const json_t *root, bool unfinished, struct err *err)
{
	const json_t *recipes, *groups;

	if (read_head(table, root, err) || get_array(root, "recipes", &recipes, err) ||
	    get_array(root, "groups", &groups, err))
		return -1;
	for (size_t i = 0; i < json_array_size(recipes); i++)
		if (read_recipe(table, json_array_get(recipes, i), err))
			return err_wrap(err, "recipe %zu", i);
	for (size_t i = 0; i < json_array_size(groups); i++)
		if (read_group(table, json_array_get(groups, i), unfinished, err))
			return err_wrap(err, "group %zu", i);
	return 0;
}

int kld_table_read(struct kld_table *table, const struct io *io, int dirfd, const char *path,
		   bool unfinished, struct err *err)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	struct buf text = { 0 };
	json_t *root;
	int rc;

	*table = (struct kld_table){ 0 };
	if (io_read_file(io, dirfd, path, KLD_TABLE_LIMIT, &text, err)) {
		buf_release(&text);
		return -1;
	}
	SHA256((const unsigned char *)text.data, text.len, digest);
	text_hex(table->file_sha256, digest, sizeof digest);
	root = json_decode((struct json_text){ text.data, text.len }, err);
	rc = root ? read_root(table, root, unfinished, err) : -1;
	json_decref(root);
	buf_release(&text);
	if (!rc)
		return 0;
	kld_table_release(table);
	return err_wrap(err, "cannot read '%s' as a table of divergences", path);
}
