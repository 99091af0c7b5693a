/* SPDX-License-Identifier: Apache-2.0
 *
 * index_read(), and index_compare() of its first shard with a header: the input is the index, a NUL
 * byte, the header.
 */
#include <string.h>

#include "ckpt/index.h"
#include "tests/fuzz/fuzz.h"

static void check_names(const struct weight_index *index)
{
	for (size_t i = 0; i < index->n; i++) {
		const char *shard = index->entries[i].shard;

		FUZZ_CHECK(shard[0] && shard[0] != '.' && !strpbrk(shard, "/\\"));
		FUZZ_CHECK(strlen(shard) <= 255 && !st_has_control(shard));
		FUZZ_CHECK(!i || strcmp(index->entries[i - 1].shard, shard) <= 0);
	}
}

/* The header's file is as long as the header wants. */
static void compare(const struct weight_index *index, struct json_text header)
{
	struct st_file file = { 0 };
	struct err err;

	for (uint64_t n = 0; n <= 16; n += 4) {
		if (!st_parse_header(&file, header.data, header.len, 8 + header.len + n, &err)) {
			if (index_compare(index, 0, &file, "index", NULL, &err))
				fuzz_check_error(&err);
			n = 16;
		}
		st_release(&file);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_text text = fuzz_part(&data, &size);
	struct json_text header = fuzz_part(&data, &size);
	struct weight_index index;
	struct err err;

	if (index_read(&index, text, "index", &err)) {
		fuzz_check_error(&err);
		FUZZ_CHECK(err.kind == ERR_INPUT);
		return 0;
	}
	check_names(&index);
	compare(&index, header);
	index_release(&index);
	return 0;
}
