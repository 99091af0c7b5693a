/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a model: finds its architecture, and releases it.
 */
#include "model/model.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "names/role.h"
#include "model/steps.h"

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (names[i] && !strcmp(names[i], name))
			return true;
	return false;
}

static bool arch_serves(const struct arch *arch, const char *architecture)
{
	return is_one_of(architecture, arch->architectures,
			 sizeof arch->architectures / sizeof *arch->architectures);
}

static bool arch_has_text_type(const struct arch *arch, const char *type)
{
	return is_one_of(type, arch->text_types,
			 sizeof arch->text_types / sizeof *arch->text_types);
}

/* The row may be of the language model inside of a model with towers. */
const struct arch *arch_of(const struct model_config *config)
{
	const char *architecture = config->architecture ? config->architecture : "";
	const char *inside =
		config->n_model_types > 1 ? config->model_types[config->n_model_types - 1] : "";

	const char *type = config->n_model_types ? config->model_types[0] : "";
	const struct arch *found = NULL;

	/* several families may have one class: then the model_type decides */
	for (size_t i = 0; archs[i]; i++)
		if ((arch_serves(archs[i], architecture) || arch_has_text_type(archs[i], inside)) &&
		    (!found || !strcmp(archs[i]->name, type)))
			found = archs[i];
	return found;
}

/* Is one of the words, with blanks between, the name?  A name that ends in * finds beginnings. */
static bool is_named(const char *words, const char *name)
{
	size_t length = strcspn(name, "*");

	for (const char *word = words; word && *word; word += strspn(word, " ")) {
		size_t n = strcspn(word, " ");

		if ((n == length || (n > length && name[length])) && !strncmp(word, name, length))
			return true;
		word += n;
	}
	return false;
}

/* Is the class that of a whole whose model_type is one of the words?  transformers names it by
 * that: Qwen3_5ForConditionalGeneration. */
static bool is_class_of(const char *words, const char *class)
{
	const char *end = strstr(class, "ForConditionalGeneration");

	for (const char *word = words; end && word && *word; word += strspn(word, " ")) {
		const char *own = word, *at = class;

		for (; at < end; own++, at++) {
			own += *own == '_';
			at += *at == '_';
			if (*own != tolower((unsigned char)*at))
				break;
		}
		word += strcspn(word, " ");
		if (at == end && own == word)
			return true;
	}
	return false;
}

static bool one_is_named(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (is_named(list[i], name))
			return true;
	return false;
}

const struct arch *arch_named(const char *family)
{
	for (size_t i = 0; archs[i]; i++) {
		const struct arch *arch = archs[i];
		size_t n_classes = sizeof arch->architectures / sizeof *arch->architectures;
		size_t n_types = sizeof arch->text_types / sizeof *arch->text_types;

		if (is_named(arch->name, family) || is_class_of(arch->name, family) ||
		    is_named(arch->holders, family) || is_class_of(arch->holders, family) ||
		    one_is_named(arch->architectures, n_classes, family) ||
		    one_is_named(arch->text_types, n_types, family))
			return arch;
	}
	return NULL;
}

static int arch_find(struct model *model, const struct model_config *config, struct err *err)
{
	const char *expected = config->architecture;

	if (!expected)
		return err_set(err, ERR_INPUT,
			       "config.json of '%s' has no 'architectures', which names the model",
			       model->checkpoint->path);
	model->arch = arch_of(config);
	if (model->arch)
		return 0;
	return err_set(err, ERR_INPUT,
		       "architecture '%s' in config.json of '%s' is not supported "
		       "(see 'fp8conv families')%s",
		       expected, model->checkpoint->path, model->advice);
}

/* The steps after config.json is read. */
static int open_steps(struct model *model, const struct model_config *config, const json_t *root,
		      struct err *err)
{
	json_t *facts;
	int rc = -1;

	if (arch_find(model, config, err))
		return -1;
	facts = facts_read(model_config_level(root), &model->arch->facts, err);
	if (facts &&
	    !model_join_spellings(facts, model_config_level(root), &model->arch->positions, err) &&
	    !model_configure(model, config, facts, err) && !model_find_tensors(model, config, err))
		rc = model_check_widths(model, config, facts, err) ||
		     model_check_features(model, facts, err);
	json_decref(facts);
	return rc;
}

static int open_model(struct model *model, struct err *err)
{
	const struct buf *text = &model->checkpoint->config;
	struct model_config config = { 0 };
	json_t *root = NULL;
	int rc = -1;

	if (text->len == 0)
		return err_set(err, ERR_INPUT, "'%s' has no config.json, which names the model",
			       model->checkpoint->path);
	if (!model_config_read(&config, text, err)) {
		root = json_decode_python((struct json_text){ text->data, text->len }, err);
		rc = root ? open_steps(model, &config, root, err) : -1;
	}
	json_decref(root);
	model_config_release(&config);
	if (rc)
		model_release(model);
	return rc;
}

int model_open(struct model *model, const struct checkpoint *checkpoint, const char *advice,
	       struct err *err)
{
	*model = (struct model){ .checkpoint = checkpoint, .advice = advice };
	return open_model(model, err);
}

int model_check(const struct checkpoint *checkpoint, struct err *err)
{
	struct model model = { .checkpoint = checkpoint, .advice = "", .first_expert = true };
	int rc = open_model(&model, err);

	model_release(&model);
	return rc;
}

static void layer_ref_release(struct layer_ref *layer)
{
	free(layer->mixer_module);
	for (size_t i = 0; i < layer_n_linears(layer); i++)
		free(layer_linear_ref(layer, i)->module);
	free(layer->experts);
}

void model_release(struct model *model)
{
	for (size_t i = 0; model->layers && i < model->n_layers; i++)
		layer_ref_release(&model->layers[i]);
	free(model->layers);
	free(model->head.module);
	rope_release(&model->rope);
	rope_release(&model->rope_local);
	model_release_layer_ropes(model);
	ngrams_release(model);
	*model = (struct model){ 0 };
}

size_t model_count_towers(const struct model *model)
{
	struct role_cache roles = { 0 };
	size_t n = 0;

	for (size_t i = 0; model->checkpoint && i < model->checkpoint->n_tensors; i++)
		n += role_cache_find(&roles, model->checkpoint->tensors[i].tensor->name).tower;
	role_cache_release(&roles);
	return n;
}
