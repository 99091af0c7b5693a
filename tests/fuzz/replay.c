/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a target over the files of the folders that are named, for machines without libFuzzer.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_LIMIT (1u << 20) /* bytes */

static int run_file(const char *path)
{
	struct buf text = { 0 };
	struct err err;

	if (io_read_file(&io_system, AT_FDCWD, path, INPUT_LIMIT, &text, &err)) {
		printf("%s\n", err.message);
		return -1;
	}
	printf("%s\n", path); /* the last one printed is the one that failed */
	fflush(stdout);
	alarm(20);
	LLVMFuzzerTestOneInput((const uint8_t *)text.data, text.len);
	buf_release(&text);
	return 0;
}

static int run_folder(const char *folder)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, NULL, alphasort);
	int n_run = 0;
	int rc = 0;

	for (int i = 0; i < n; i++) {
		char *path = xasprintf("%s/%s", folder, entries[i]->d_name);

		if (entries[i]->d_name[0] != '.') {
			rc |= run_file(path);
			n_run++;
		}
		free(path);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	if (n_run == 0)
		printf("'%s' holds no inputs\n", folder);
	return n_run ? rc : -1;
}

int main(int argc, char **argv)
{
	int rc = 0;

	for (int i = 1; i < argc; i++)
		rc |= run_folder(argv[i]);
	return rc || argc < 2 ? 1 : 0;
}
