/* SPDX-License-Identifier: Apache-2.0
 *
 * What a manifest of ours says of the numbers: options that no table of arithmetics can list, and that explain what would
 * otherwise look wrong.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/manifest.h"
#include "job/verify_internal.h"

#define RECORD_LIMIT ((size_t)256 << 20) /* bytes of a manifest */

static int word_index(const json_t *object, const char *key, const char *const *words, int n)
{
	const char *text = json_string_value(json_object_get(object, key));

	for (int i = 0; text && i < n; i++)
		if (!strcmp(words[i], text))
			return i;
	return -1;
}

static bool same_rule(const struct qspec *a, const struct qspec *b)
{
	return a->pow2 == b->pow2 && a->arith == b->arith && a->mx_rule == b->mx_rule;
}

/* Our own files say it themselves: options that no table can list, a margin or an epsilon. */
static void take_record(const json_t *scales, enum scale_type type, struct arithmetic *recorded)
{
	static const char *const ariths[] = { "te", "deepseek", "deepgemm" };
	static const char *const mx_rules[] = { "up", "floor", "even" };
	int arith = word_index(scales, "scale_arith", ariths, 3);
	int mx_rule = word_index(scales, "mx_scale", mx_rules, 3);

	if (arith < 0 || mx_rule < 0)
		return;
	recorded->spec = (struct qspec){
		.pow2 = json_is_true(json_object_get(scales, "pow2")),
		.arith = (enum scale_arith)arith,
		.mx_rule = (enum mx_rule)mx_rule,
		.amax_epsilon = (float)json_number_value(json_object_get(scales, "amax_epsilon")),
		.margin = (int)json_integer_value(json_object_get(scales, "margin")),
	};
	recorded->scale_type = type;
	for (const struct arithmetic *row = arithmetics; row->name && !recorded->name; row++)
		if (!row->quantize && row->scale_type == type && same_rule(&row->spec, &recorded->spec))
			recorded->name = row->name;
}

void verify_record(struct verify *verify)
{
	const char *directory = verify->checkpoint->directory;
	char *path = xasprintf("%s/" MANIFEST_NAME, directory ? directory : ".");
	struct buf text = { 0 };
	struct err ignored;
	json_t *manifest = NULL;

	if (directory && !io_read_file(verify->params->io, AT_FDCWD, path, RECORD_LIMIT, &text, &ignored))
		manifest = json_decode((struct json_text){ text.data, text.len }, &ignored);
	take_record(json_object_get(json_object_get(manifest, "options"), "scales"),
		    verify->recognition->scheme.grain == GRAIN_MX ? SCALE_E8M0 : SCALE_F32, &verify->recorded);
	json_decref(manifest);
	buf_release(&text);
	free(path);
}
