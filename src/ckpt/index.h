/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads model.safetensors.index.json: the shard of each tensor.  plan/write_index.c writes it.
 */
#ifndef FP8CONV_CKPT_INDEX_H
#define FP8CONV_CKPT_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/err.h"
#include "base/json.h"
#include "ckpt/defect.h"
#include "ckpt/safetensors.h"

struct index_entry {
	const char *tensor;
	const char *shard; /* base name; neighbors share the string */
};

struct weight_index {
	size_t n;
	struct index_entry *entries; /* by shard, then by tensor, bytewise */
	struct arena texts;	     /* names of tensors and shards */
};

/* Reads the weight_map of an index's text.  Shard names must be plain (checkpoint_open()).  path is
 * for messages.  The caller releases the index, also on failure. */
int index_read(struct weight_index *index, struct json_text text, const char *path,
	       struct err *err);
void index_release(struct weight_index *index);

/* Returns why name cannot be a shard's, of safetensors or of torch; NULL if it can. */
const char *shard_name_problem(const char *name, bool is_torch);

/* Returns how many entries, from entries[first] on, name the same shard. */
size_t index_run(const struct weight_index *index, size_t first);

/* ERR_INPUT unless file has exactly the tensors of the index_run() that begins at entries[first].
 * With a list of defects, all differences go to the list. */
int index_compare(const struct weight_index *index, size_t first, const struct st_file *file,
		  const char *path, struct defects *defects, struct err *err);

#endif
