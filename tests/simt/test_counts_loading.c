/* SPDX-License-Identifier: Apache-2.0
 *
 * How a calibration loads weights to a GPU: beside the sequences of the layer before, and once
 * where they fit.
 */
#include "tests/simt/counted_job.h"

/* The 7 weights of a layer are copied between the sequences of the layer before it, also where each
 * sequence is a step of its own. */
static void weights_are_loaded_beside_sequences(void **state)
{
	static const char *const named[] = { NULL, "blockwise", "delayed" };

	(void)state;
	for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
		struct folder folder = folder_new();
		const struct job layer = fp8_layer_of(folder.path, 5, 0, named[i]);

		folder_remove(folder);
		print_message("%s: ", named[i] ? named[i] : "in high precision");
		at_most("runs of copies of a layer that are missing",
			5 - (double)layer.counts.n_copies_between, 0);
	}
}

/* Returns how often the weights of a model of 2 layers are copied to the device, in bytes of
 * them. */
static double loads_of(struct job job)
{
	struct folder folder = folder_new();
	size_t size = model_write(folder.path, (struct model_shape){ 2, 0 });

	job.model = folder.path;
	job_run(folder.path, &job);
	folder_remove(folder);
	return (double)job.counts.n_bytes_in / (double)size;
}

static void weights_are_loaded_once(void **state)
{
	(void)state;
	at_most("loads of the weights", loads_of((struct job){ .n_sequences = 6, .n_threads = 2 }),
		1.1);
	at_most("loads of the weights, in memory for a few sequences",
		loads_of((struct job){ .n_sequences = 6, .n_threads = 1, .max_memory = 1200000 }),
		6.1);
	at_most("loads of the weights in FP8",
		loads_of((struct job){ .n_sequences = 6, .n_threads = 2, .recipe = "blockwise" }),
		1.1);
	at_most("loads of the weights in FP8 with scales of fp32",
		loads_of((struct job){ .n_sequences = 6, .n_threads = 2, .recipe = "delayed" }),
		2.1);
	at_most("loads of the weights in FP8, which fit on the device beside a few sequences",
		loads_of((struct job){ .n_sequences = 6,
				       .n_threads = 1,
				       .recipe = "blockwise",
				       .device = 70000000 }),
		1.1);
	at_most("loads of the weights, which fit on the device beside a few sequences",
		loads_of((struct job){ .n_sequences = 6, .n_threads = 1, .device = 69600000 }),
		1.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_are_loaded_beside_sequences),
		cmocka_unit_test(weights_are_loaded_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
