/* SPDX-License-Identifier: Apache-2.0
 *
 * The circumstances of each kind of command.
 */
#ifndef FP8CONV_TESTS_FAULT_PLACES_H
#define FP8CONV_TESTS_FAULT_PLACES_H

#include "tests/fault/commands.h"

/* Of conversions. */
/* clang-format off */
static const struct place places[] = {
	{ "directory", "model", "out", .n_threads = 1 },
	{ "directory and preserved", "model", "out", "kept", true, .n_threads = 1 },
	{ "directory, 3 threads", "model", "out", "kept", .n_threads = 3 },
	{ "file", "one/model.safetensors", "out/x.safetensors", .n_threads = 1 },
	{ "file and preserved", "one/model.safetensors", "out/x.safetensors", "kept", true,
	  .n_threads = 1 },
	{ "stream", "-", "-", .n_threads = 1 },
	{ "resumed", "model", "out", .start = START_HALF, .n_threads = 1 },
	{ "resumed and preserved", "model", "out", "kept", true, .start = START_HALF,
	  .n_threads = 1 },
	{ "a shard cut short", "model", "out", .start = START_CUT, .n_threads = 1 },
	{ "a shard of other bytes", "model", "out", "kept", .start = START_ROTTEN, .n_threads = 1 },
	{ "restart over another job", "model", "out", "kept", .start = START_OTHER, .restart = true,
	  .n_threads = 1 },
	{ "hashes", "model", "out", .hashes = true, .n_threads = 1 },
	{ "last part", "model", "out", .start = START_HALF, .part = 2, .n_threads = 1 },
};
/* clang-format on */

/* clang-format off */
/* Of conversions that take a directory to a directory, layer by layer. */
static const struct place layer_places[] = {
	{ "layers", "model", "out", .n_threads = 1 },
	{ "layers, 3 threads", "model", "out", .n_threads = 3 },
	{ "stopped after a layer", "model", "out", .start = START_STOPPED, .n_threads = 1 },
	{ "layers, a shard cut short", "model", "out", .start = START_CUT, .n_threads = 1 },
	{ "layers, restart over another job", "model", "out", .start = START_OTHER, .restart = true,
	  .n_threads = 1 },
};
/* clang-format on */

/* clang-format off */
/* Of jobs that make a history. */
static const struct place history_places[] = {
	{ "history", .output = "out/s.amax", .n_threads = 1 },
	{ "history, 3 threads", .output = "out/s.amax", .n_threads = 3 },
	{ "resumed history", .output = "out/s.amax", .start = START_HALF, .n_threads = 1 },
	{ "history over another", .output = "out/s.amax", .start = START_OTHER, .restart = true,
	  .n_threads = 1 },
};
/* clang-format on */

/* clang-format off */
/* Of conversions of what trainers write. */
static const struct place trainer_places[] = {
	{ ".distcp", "distcp/.metadata", "out", .n_threads = 1 },
	{ ".distcp, hashes, 3 threads", "distcp/.metadata", "out", .hashes = true, .n_threads = 3 },
	{ ".bin with a state", "bin/pytorch_model.bin", "out", .n_threads = 1 },
	{ ".bin over another job", "bin/pytorch_model.bin", "out", .start = START_OTHER,
	  .restart = true, .n_threads = 1 },
};
/* clang-format on */

/* Of jobs that write nothing. */
static const struct place reading_places[] = {
	{ "numbers", .output = "out/numbers", .n_threads = 1 },
	{ "numbers, 3 threads", .output = "out/numbers", .n_threads = 3 },
};

/* Of deltas. */
static const struct place delta_places[] = {
	{ "delta", .output = "out/D.safetensors", .n_threads = 1 },
	{ "delta, 3 threads", .output = "out/D.safetensors", .n_threads = 3 },
	{ "delta over another", .output = "out/D.safetensors", .start = START_OTHER,
	  .n_threads = 1 },
};

/* Of deltas that are applied, beside their base or to it. */
static const struct place apply_places[] = {
	{ "beside", "fp8", "out", .n_threads = 1 },
	{ "beside, 3 threads", "fp8", "out", .n_threads = 3 },
	{ "beside, resumed", "fp8", "out", .start = START_STOPPED, .n_threads = 1 },
	{ "in place", .output = "out", .start = START_BASE, .n_threads = 1 },
	{ "in place, 3 threads", .output = "out", .start = START_BASE, .n_threads = 3 },
	{ "in place, resumed", .output = "out", .start = START_STOPPED, .n_threads = 1 },
};

#define PLACES(list) (*n = sizeof(list) / sizeof *(list), (list))

static inline const struct place *places_of(const struct command *command, size_t *n)
{
	if (command->of_trainer)
		return PLACES(trainer_places);
	if (command->plan == plan_compensated)
		return PLACES(layer_places);
	if (command->makes_delta)
		return PLACES(delta_places);
	if (command->applies)
		return PLACES(apply_places);
	if (command->reads_only)
		return PLACES(reading_places);
	return command->run ? PLACES(history_places) : PLACES(places);
}

#endif
