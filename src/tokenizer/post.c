/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/post.h"

#include <string.h>

#include "tokenizer/json.h"

#define MAX_SPECIAL 1024 /* ids around a text */

static int add_id(struct token_ids *list, const json_t *id, const char *where, struct err *err)
{
	uint32_t value;

	if (list->n == MAX_SPECIAL)
		return err_set(err, ERR_INPUT, "%s has more than %d special tokens", where,
			       MAX_SPECIAL);
	if (json_token_id(id, where, &value, err))
		return -1;
	token_ids_add(list, value);
	return 0;
}

/* {"SpecialToken": {"id": "<s>", ...}}: its ids are in special_tokens. */
static int add_special(struct token_ids *list, const json_t *processor, const json_t *special,
		       const char *where, struct err *err)
{
	const char *name = json_member_string(special, where, "id", NULL, err);
	const json_t *token, *ids;

	if (!name)
		return -1;
	token = json_object_get(json_object_get(processor, "special_tokens"), name);
	ids = json_object_get(token, "ids");
	if (!json_is_array(ids))
		return err_set(err, ERR_INPUT, "%s has no special_tokens for '%s'", where, name);
	for (size_t i = 0; i < json_array_size(ids); i++)
		if (add_id(list, json_array_get(ids, i), where, err))
			return -1;
	return 0;
}

static int read_template(struct post_processor *post, const json_t *json, const char *where,
			 struct err *err)
{
	const json_t *single = json_member_array(json, where, "single", err);
	bool seen = false;

	if (!single)
		return -1;
	for (size_t i = 0; i < json_array_size(single); i++) {
		const json_t *piece = json_array_get(single, i);
		const json_t *special = json_object_get(piece, "SpecialToken");
		const json_t *sequence = json_object_get(json_object_get(piece, "Sequence"), "id");

		if (special) {
			if (add_special(seen ? &post->after : &post->before, json, special, where,
					err))
				return -1;
		} else if (!seen && json_is_string(sequence) &&
			   !strcmp(json_string_value(sequence), "A")) {
			seen = true;
		} else {
			return err_set(err, ERR_INPUT,
				       "single[%zu] of %s is neither a special token nor the text",
				       i, where);
		}
	}
	return seen ? 0 : err_set(err, ERR_INPUT, "%s leaves out the text", where);
}

/* "cls": ["<s>", 0], "sep": ["</s>", 2]. */
static int read_pair(struct post_processor *post, const json_t *json, const char *where,
		     struct err *err)
{
	const json_t *cls = json_object_get(json, "cls"), *sep = json_object_get(json, "sep");

	if (add_id(&post->before, json_array_get(cls, 1), where, err))
		return -1;
	return add_id(&post->after, json_array_get(sep, 1), where, err);
}

/* *n_around counts the processors that add tokens; the package takes one. */
static int read_one(struct post_processor *post, const json_t *json, const char *where,
		    int *n_around, struct err *err)
{
	const char *type = json_member_string(json, where, "type", NULL, err);

	if (!type)
		return -1;
	if (!strcmp(type, "ByteLevel")) /* offsets only */
		return 0;
	if ((*n_around)++)
		return err_set(err, ERR_INPUT, "%s: only one post-processor may add tokens", where);
	if (!strcmp(type, "TemplateProcessing"))
		return read_template(post, json, where, err);
	if (!strcmp(type, "RobertaProcessing") || !strcmp(type, "BertProcessing"))
		return read_pair(post, json, where, err);
	return err_set(err, ERR_INPUT, "%s has unsupported type '%s'", where, type);
}

int post_read(struct post_processor *post, const json_t *json, struct err *err)
{
	const json_t *type = json_object_get(json, "type"), *list;
	char where[48];
	int n_around = 0;

	if (!json || json_is_null(json))
		return 0;
	if (!json_is_string(type) || strcmp(json_string_value(type), "Sequence") != 0)
		return read_one(post, json, "post_processor", &n_around, err);
	list = json_member_array(json, "post_processor", "processors", err);
	if (!list)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		snprintf(where, sizeof where, "post_processor[%zu]", i);
		if (read_one(post, json_array_get(list, i), where, &n_around, err))
			return -1;
	}
	return 0;
}

void post_release(struct post_processor *post)
{
	token_ids_release(&post->before);
	token_ids_release(&post->after);
}
