/* SPDX-License-Identifier: Apache-2.0
 *
 * keys FOLDER N_TOKENS N_HEADS HEAD_DIM together|apart BLOCK_SIZE N_CHOSEN N_LOCAL: the sets that
 * the CPU's executor chooses, for the comparison with torch.topk.  In FOLDER, float32 without
 * headers: q (N_TOKENS, N_HEADS, HEAD_DIM), k (N_TOKENS, HEAD_DIM) and weights (N_TOKENS, N_HEADS),
 * which count together.  Writes sets there, as in struct choose_keys_args.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/dispatch.h"
#include "backend/executor.h"
#include "base/mem.h"

static void check(bool failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "keys: %s\n", what);
	exit(1);
}

static float *read_floats(const char *folder, const char *name, size_t n)
{
	char *path = xasprintf("%s/%s", folder, name);
	float *values = xcalloc(n, sizeof *values);
	FILE *file = fopen(path, "rb");

	check(!file || fread(values, sizeof *values, n, file) != n, path);
	fclose(file);
	free(path);
	return values;
}

static void write_words(const char *folder, const uint32_t *words, size_t n)
{
	char *path = xasprintf("%s/sets", folder);
	FILE *file = fopen(path, "wb");

	check(!file || fwrite(words, sizeof *words, n, file) != n || fclose(file), path);
	free(path);
}

int main(int argc, char **argv)
{
	size_t number[9] = { 0 }, n, n_sets;
	struct choose_keys_args args = { 0 };
	struct executor_stream *stream;
	struct executor *executor;
	struct err err = { 0 };

	if (argc != 9)
		return 2;
	for (int i = 2; i < argc; i++)
		number[i] = strtoul(argv[i], NULL, 10);
	n = args.n_tokens = number[2];
	args.n_heads = number[3];
	args.head_dim = number[4];
	args.block_size = number[6];
	args.n_chosen = number[7];
	args.n_local = number[8];
	args.q = read_floats(argv[1], "q", n * args.n_heads * args.head_dim);
	args.k = read_floats(argv[1], "k", n * args.head_dim);
	args.weights = read_floats(argv[1], "weights", n * args.n_heads);
	if (strcmp(argv[5], "together") != 0)
		args.weights = NULL;
	n_sets = choose_keys_n_sets(&args);
	args.sets = xcalloc(n_sets * n * KEY_WORDS(n), sizeof *args.sets);
	check(backend_select("cpu", &err)->executor->open(&executor, 0, &err), err.message);
	check(executor->ops->stream_new(&stream, executor, &err), err.message);
	args.scratch =
		xmalloc(executor->ops->scratch(&(const struct scratch_args){ .keys = &args }));
	executor->ops->choose_keys(stream, &args);
	check(executor->ops->wait(stream, &err), err.message);
	write_words(argv[1], args.sets, n_sets * n * KEY_WORDS(n));
	return 0;
}
