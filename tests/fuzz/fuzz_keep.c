/* SPDX-License-Identifier: Apache-2.0
 *
 * kld_table_read(): the input is the table of `sensitivity`.  What is read is written, and read
 * again as the same text.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "sensitivity/table.h"
#include "tests/fuzz/fuzz.h"

static void write_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void check_table(const struct kld_table *table, bool unfinished)
{
	FUZZ_CHECK(table->model && table->by && table->data_sha256);
	for (size_t g = 0; g < table->n_groups; g++) {
		const struct kld_group *group = &table->groups[g];

		FUZZ_CHECK(group->recipe < table->n_recipes && group->name && group->n > 0);
		FUZZ_CHECK(group->measured || unfinished);
		FUZZ_CHECK(!group->measured || isfinite(group->mean));
		for (size_t i = 0; i < group->n; i++)
			FUZZ_CHECK(*group->modules[i].name);
	}
}

static void look(const struct kld_table *table, const char *path, bool unfinished)
{
	struct kld_table again = { 0 };
	struct buf once = { 0 }, twice = { 0 };
	struct err err = { 0 };

	check_table(table, unfinished);
	kld_table_text(table, &once);
	write_file(path, once.data, once.len);
	FUZZ_CHECK(!kld_table_read(&again, fuzz_io(), AT_FDCWD, path, unfinished, &err));
	kld_table_text(&again, &twice);
	FUZZ_CHECK(once.len == twice.len && !memcmp(once.data, twice.data, once.len));
	kld_table_release(&again);
	buf_release(&once);
	buf_release(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *path = xasprintf("%s/S.json", fuzz_folder());
	bool unfinished = size & 1;
	struct kld_table table = { 0 };
	struct err err = { 0 };

	write_file(path, data, size);
	if (kld_table_read(&table, fuzz_io(), AT_FDCWD, path, unfinished, &err)) {
		fuzz_check_error(&err);
		FUZZ_CHECK(err.kind == ERR_INPUT);
	} else {
		look(&table, path, unfinished);
	}
	kld_table_release(&table);
	free(path);
	return 0;
}
