/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: packed_modules_mapping and the stacked_params_mapping tables of vLLM's models.
 */
#include "names/fusion.h"

#include "names/tensor_name.h"

static const struct {
	const char *module;
	char kind;
	int position;
} members[] = {
	{ "q_proj", 'q', 0 },	   { "k_proj", 'q', 1 },
	{ "v_proj", 'q', 2 },	   { "gate_proj", 'g', 0 },
	{ "up_proj", 'g', 1 },	   { "w1", 'w', 0 }, /* gate, in Mixtral's naming */
	{ "w3", 'w', 1 },			     /* up */
	{ "q_a_proj", 'a', 0 },	   { "kv_a_proj_with_mqa", 'a', 1 },
	{ "in_proj_qkv", 'z', 0 }, { "in_proj_z", 'z', 1 },
	{ "in_proj_b", 'b', 0 },   { "in_proj_a", 'b', 1 },
	{ "wq", 'n', 0 }, /* Mistral's own files, InternLM */
	{ "wk", 'n', 1 },	   { "wv", 'n', 2 },
	{ "wq_a", 'd', 0 }, /* DeepSeek-V4; Mistral's own files */
	{ "wkv", 'd', 1 },	   { "wkv_a_with_mqa", 'd', 1 },
	{ "query", 'e', 0 }, /* BERT */
	{ "key", 'e', 1 },	   { "value", 'e', 2 },
};

bool fusion_of_name(struct fusion *fusion, const char *name)
{
	const struct segment *owner;
	struct path path;

	path_split(&path, name);
	owner = &path.segments[path.owner];
	if (!path.is_weight || path.owner != path.n - 2)
		return false;
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		if (segment_is(owner, members[i].module)) {
			fusion->kind = members[i].kind;
			fusion->parent_len = (size_t)(owner->text - name);
			fusion->position = members[i].position;
			return true;
		}
	return false;
}
