/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/gpu/forward/forward.h: what it says beyond src/backend/executor.h.  The values are those
 * of tests/unit/test_executor*.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/gpu/forward/forward.h"
#include "tests/simt/counts.h"

/* Of n elements that are nowhere. */
static void run_all(size_t n)
{
	struct device_stream *stream = device_stream_here();
	const struct attention_args attention = {
		.n_tokens = n, .n_heads = 1, .n_kv_heads = 1, .head_dim = 4, .value_dim = 4
	};
	const struct cross_entropy_args entropy = { .n_rows = n, .n_cols = 4 };
	const struct divergence_args divergence = { .n_rows = n, .n_cols = 4 };
	struct value_stats stats;
	uint64_t counts[1];

	gpu_measure(stream,
		    &(const struct measure_args){ .n = n, .stats = &stats, .counts = counts });
	gpu_round(stream, &(const struct round_args){ .n = n, .rounded = { .stats = &stats } });
	gpu_round(stream, &(const struct round_args){ .n = n });
	gpu_add(stream, &(const struct add_args){ .n_rows = n, .n = 4 });
	gpu_gate(stream, &(const struct gate_args){ .activation = ACT_SILU,
						    .gate = { NULL, 4 },
						    .up = { NULL, 4 },
						    .n_rows = n,
						    .n_cols = 4,
						    .y = { NULL, 4 } });
	gpu_gate(stream, &(const struct gate_args){ .n_rows = n, .n_cols = 4 });
	gpu_scale(stream, &(const struct scale_args){ .x = { NULL, 4 }, .n_rows = n, .n_cols = 4 });
	gpu_gate(stream, &(const struct gate_args){ .pairs = true, .n_rows = n, .n_cols = 4 });
	gpu_copy(stream, &(const struct copy_args){ .y = { NULL, 4 },
						    .x = { NULL, 4 },
						    .repeat = 1,
						    .n_rows = n,
						    .n_cols = 4 });
	gpu_copy(stream, &(const struct copy_args){ .n_rows = n, .n_cols = 4, .pairs = true });
	gpu_rms_norm(stream, &(const struct rms_norm_args){ .x = { NULL, 4 },
							    .offset = 0,
							    .eps = 0,
							    .n_rows = n,
							    .n_cols = 4,
							    .y = { NULL, 4 } });
	gpu_rope(stream, &(const struct rope_args){ .x = { NULL, 4 },
						    .n_tokens = n,
						    .n_heads = 1,
						    .head_dim = 4,
						    .rope_dim = 4 });
	gpu_round_e4m3(stream,
		       &(const struct round_e4m3_args){ .n_rows = n, .n_heads = 1, .head_dim = 4 });
	gpu_attention(stream, &attention);
	gpu_scan(stream, &(const struct scan_args){
				 .n_tokens = n, .n_heads = 1, .head_dim = 4, .n_groups = 1 });
	gpu_scan_channels(stream, &(const struct scan_channels_args){
					  .n_tokens = n, .n_channels = 4, .state_size = 2 });
	gpu_cross_entropy(stream, &entropy);
	gpu_divergence(stream, &divergence);
}

/* No kernel is launched where there is nothing to do, or where the stream has stopped. */
static void nothing_launches_no_kernel(void **state)
{
	struct err err;

	(void)state;
	run_all(0);
	assert_int_equal(device_stream_failed(device_stream_here(), &err), 0);
	device_fail(device_stream_here(), "a call", "it failed");
	run_all(4);
	assert_int_equal(device_stream_failed(device_stream_here(), &err), -1);
	assert_string_equal(err.message, "a call on GPU 0: it failed");
}

/* Scores in 64 MiB, or of 64 queries if they take more, or of all; and a total of each query. */
static void attention_scratch_is_bounded(void **state)
{
	struct attention_args args = {
		.n_tokens = 8192, .n_heads = 128, .n_kv_heads = 8, .head_dim = 64, .value_dim = 64
	};

	(void)state;
	assert_int_equal(gpu_attention_scratch(&args), (64 + 1) * 128 * 8192 * 4);
	args.n_tokens = 5;
	assert_int_equal(gpu_attention_scratch(&args), 64 * 128 * 65 * 4);
	args.n_tokens = 0;
	assert_int_equal(gpu_attention_scratch(&args), 0);
	args.n_tokens = 4162; /* of one head: 3968 queries, then 194 */
	args.n_heads = 1;
	assert_int_equal(gpu_attention_scratch(&args), (64 << 20) + 4224 * 4);
}

/* 4096 scores of 4096 queries are 64 MiB: scores, softmax and sums of values are a kernel each. */
static void attention_that_fits_is_one_chunk(void **state)
{
	struct device_stream *stream = device_stream_here();
	struct attention_args args = { .n_tokens = 4096,
				       .n_heads = 1,
				       .n_kv_heads = 1,
				       .head_dim = 1,
				       .value_dim = 1,
				       .window = 1,
				       .scale = 1 };
	uint64_t before;
	struct err err;

	(void)state;
	device_begin(stream);
	args.scratch = device_take(stream, gpu_attention_scratch(&args));
	args.y = device_take(stream, args.n_tokens * sizeof *args.y);
	args.q = args.k = args.v = device_take(stream, args.n_tokens * sizeof *args.q);
	before = simt_counts.n_launches;
	gpu_attention(stream, &args);
	assert_int_equal(device_stream_failed(stream, &err), 0);
	assert_int_equal(simt_counts.n_launches - before, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_launches_no_kernel),
		cmocka_unit_test(attention_scratch_is_bounded),
		cmocka_unit_test(attention_that_fits_is_one_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
