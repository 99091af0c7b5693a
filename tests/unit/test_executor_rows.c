/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h: rows that are copied, picked, normed and rotated, and the loss of each, bit
 * for bit against plain loops over num/, on the executor of every backend.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/exp.h"
#include "num/fp8.h"
#include "support/executor_sides.h"

static void rows_are_copied_and_repeated(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * 6; i++) {
		size_t n = edge_sizes[i / 6], repeat = 1 + i % 3, n_rows = 7,
		       more = i % 2 ? 3 : 4 * (i % 3);
		struct values x = values_new((n_rows + repeat - 1) / repeat * (n + 4), i % 4 == 3);
		struct values y = values_new(n_rows * (n + more), 0);

		for (size_t k = 0; k < n_rows * n; k++)
			y.wanted[k / n * (n + more) + k % n] =
				x.given[k / n / repeat * (n + 4) + k % n];
		EACH_SIDE(s)
		{
			float *x_there = values_send(s, &x), *y_there = values_send(s, &y);

			s->ops->copy(s->stream,
				     &(const struct copy_args){ .y = { y_there, n + more },
								.x = { x_there, n + 4 },
								.repeat = repeat,
								.n_rows = n_rows,
								.n_cols = n });
			values_check(s, &x, x_there, "what was copied");
			values_check(s, &y, y_there, "copy");
		}
		values_free(&x);
		values_free(&y);
	}
}

static void pairs_are_deinterleaved(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * 4; i++) {
		size_t n = 2 * edge_sizes[i / 4], n_rows = 3, more = 4 * (i % 2);
		struct values x = values_new(n_rows * (n + more), i / 2 % 2),
			      y = values_new(n_rows * (n + 4), 0);

		for (size_t k = 0; k < n_rows * n; k++) {
			size_t row = k / n, col = k % n;

			y.wanted[row * (n + 4) + col / 2 + col % 2 * (n / 2)] =
				x.given[row * (n + more) + col];
		}
		EACH_SIDE(s)
		{
			float *x_there = values_send(s, &x), *y_there = values_send(s, &y);

			s->ops->copy(s->stream,
				     &(const struct copy_args){ .y = { y_there, n + 4 },
								.x = { x_there, n + more },
								.repeat = 1,
								.n_rows = n_rows,
								.n_cols = n,
								.pairs = true });
			values_check(s, &x, x_there, "what was parted");
			values_check(s, &y, y_there, "copy of pairs");
		}
		values_free(&x);
		values_free(&y);
	}
}

static void rows_are_gathered(void **state)
{
	static const uint32_t rows[] = { 4, 0, 7, 8, 2 };

	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes) * 2; i++) {
		size_t n = edge_sizes[i / 2];
		struct values x = values_new(9 * n, i % 2), y = values_new(5 * n, 0);

		for (size_t k = 0; k < 5 * n; k++)
			y.wanted[k] = x.given[rows[k / n] * n + k % n];
		EACH_SIDE(s)
		{
			float *x_there = values_send(s, &x), *y_there = values_send(s, &y);
			uint32_t *rows_there = side_put(s, rows, sizeof rows);
			const struct copy_args args = { .y = { y_there, n },
							.x = { x_there, n },
							.n_rows = 5,
							.n_cols = n,
							.rows = rows_there };

			s->ops->copy(s->stream, &args);
			values_check(s, &y, y_there, "copy of rows");
			values_check(s, &x, x_there, "what was copied");
			s->ops->memory_free(s->executor, rows_there);
		}
		values_free(&x);
		values_free(&y);
	}
}

/* The numbers of a norm. */
struct norm {
	bool centered;
	float offset, eps;
};

static void plain_norm(const float *x, const float *weight, struct norm norm, size_t n, float *y)
{
	float sums[16] = { 0 }, squares[16] = { 0 }, mean = 0, factor;

	for (size_t i = 0; i < n; i++)
		sums[i % 16] += x[i];
	if (norm.centered)
		mean = plain_lanes_sum(sums) / (float)n;
	for (size_t i = 0; i < n; i++)
		squares[i % 16] += (x[i] - mean) * (x[i] - mean);
	factor = 1.0f / sqrtf(plain_lanes_sum(squares) / (float)n + norm.eps);
	for (size_t i = 0; i < n; i++)
		y[i] = (x[i] - mean) * factor * (norm.offset + weight[i]);
}

/* To y with the weight as an offset from 1, and in place with the weight as it is. */
static void norm_at(size_t n_rows, size_t n, size_t more, size_t shift, bool centered)
{
	const struct norm norms[] = { { centered, 1, 1e-5f }, { centered, 0, 1e-6f } };
	size_t x_stride = n + more, y_stride = n + 2 * more;
	struct values x = values_new(n_rows * x_stride, shift),
		      y = values_new(n_rows * y_stride, 0), weight = values_new(n, 0);

	for (size_t r = 0; r < n_rows; r++) {
		plain_norm(x.given + r * x_stride, weight.given, norms[0], n,
			   y.wanted + r * y_stride);
		plain_norm(x.given + r * x_stride, weight.given, norms[1], n,
			   x.wanted + r * x_stride);
	}
	EACH_SIDE(s)
	{
		float *at = values_send(s, &x), *y_there = values_send(s, &y),
		      *weight_there = values_send(s, &weight);

		struct rms_norm_args args = { .x = { at, x_stride },
					      .weight = weight_there,
					      .centered = centered,
					      .offset = 1,
					      .eps = 1e-5f,
					      .n_rows = n_rows,
					      .n_cols = n,
					      .y = { y_there, y_stride } };

		s->ops->rms_norm(s->stream, &args);
		args.offset = 0;
		args.eps = 1e-6f;
		args.y = (struct rows_out){ at, x_stride };
		s->ops->rms_norm(s->stream, &args);
		values_check(s, &y, y_there, "rms_norm");
		values_check(s, &x, at, "rms_norm in place");
		values_check(s, &weight, weight_there, "a weight");
	}
	values_free(&x);
	values_free(&y);
	values_free(&weight);
}

static void norms_equal_plain_loops(void **state)
{
	static const size_t more_sizes[] = { 511, 512, 513, 2047, 2048, 2049, 2050, 5000 };

	(void)state;
	for (int centered = 0; centered < 2; centered++) {
		for (size_t i = 0; i < N_OF(edge_sizes); i++)
			norm_at(1 + 13 * (i % 3), edge_sizes[i], i % 5, i % 2, centered);
		for (size_t i = 0; i < N_OF(more_sizes); i++)
			norm_at(3, more_sizes[i], 4 * (i % 2), i % 2, centered);
		norm_at(35, 64, 0, 0, centered);
	}
}

/* Of heads whose rotating part is all of them, or has others behind it. */
static void rope_at(size_t n, size_t head_dim, size_t n_heads, size_t more, size_t shift)
{
	size_t half = n / 2, n_tokens = 5, stride = n_heads * head_dim + more;
	struct values x = values_new(n_tokens * stride, shift),
		      angles = values_new(n_tokens * n, 0);
	const float *cosines = angles.given, *sines = angles.given + n_tokens * half;

	for (size_t i = 0; i < n_tokens * n_heads * half; i++) {
		size_t token = i / half / n_heads,
		       a = token * stride + i / half % n_heads * head_dim + i % half, b = a + half;
		float c = cosines[token * half + i % half], s = sines[token * half + i % half];

		x.wanted[a] = x.given[a] * c - x.given[b] * s;
		x.wanted[b] = x.given[b] * c + x.given[a] * s;
	}
	EACH_SIDE(s)
	{
		float *x_there = values_send(s, &x), *angles_there = values_send(s, &angles);

		s->ops->rope(s->stream,
			     &(const struct rope_args){ .x = { x_there, stride },
							.n_tokens = n_tokens,
							.n_heads = n_heads,
							.head_dim = head_dim,
							.cosines = angles_there,
							.sines = angles_there + n_tokens * half,
							.rope_dim = n });
		values_check(s, &x, x_there, "rope");
		values_check(s, &angles, angles_there, "angles");
	}
	values_free(&x);
	values_free(&angles);
}

static void rotations_equal_plain_loops(void **state)
{
	static const size_t rotating[] = { 2, 4, 6, 8, 30, 32, 64, 66 };

	(void)state;
	for (size_t i = 0; i < N_OF(rotating) * 4; i++)
		rope_at(rotating[i / 4], rotating[i / 4] + (i % 2 ? 0 : 4), 1 + i % 4, i % 3 * 2,
			i % 2);
}

/* --- loss --- */

#define ROWS 7

static float plain_log_sum(const float *x, size_t n)
{
	float most = -INFINITY, lanes[16] = { 0 };

	for (size_t i = 0; i < n; i++)
		most = x[i] > most ? x[i] : most;
	for (size_t i = 0; i < n; i++)
		lanes[i % 16] += f32_exp(x[i] - most);
	return most + logf(plain_lanes_sum(lanes));
}

/* Near to libm's too. */
static void plain_cap(const struct values *logits, float softcap)
{
	for (size_t i = 0; softcap > 0 && i < logits->n; i++) {
		logits->wanted[i] = plain_softcap(logits->given[i], softcap);
		assert_true(fabsf(logits->wanted[i] - softcap * tanhf(logits->given[i] / softcap)) <
			    1e-5f);
	}
}

/* A logarithm may have another last bit. */
static bool within_ulp(float got, float wanted)
{
	return got == wanted || nextafterf(got, wanted) == wanted;
}

static void entropy_there(const struct side *s, const struct cross_entropy_args *args,
			  const struct values *logits, const struct values *picked,
			  const float *wanted)
{
	struct cross_entropy_args there = *args;
	uint32_t *labels = side_put(s, args->labels, ROWS * sizeof *labels);
	float log_sums[ROWS];

	there.logits = values_send(s, logits);
	there.labels = labels;
	there.log_sums = side_memory_new(s, sizeof log_sums);
	there.label_logits = values_send(s, picked);
	s->ops->cross_entropy(s->stream, &there);
	side_take(s, there.log_sums, log_sums, sizeof log_sums);
	for (size_t r = 0; r < ROWS; r++) {
		if (!within_ulp(log_sums[r], wanted[r]))
			fail_msg("%s, cross_entropy: %zu columns, row %zu: %a, not %a",
				 s->ops->name, args->n_cols, r, (double)log_sums[r],
				 (double)wanted[r]);
	}
	values_check(s, logits, there.logits, "logits");
	values_check(s, picked, there.label_logits, "picked");
	s->ops->memory_free(s->executor, labels);
}

/* Labels of all columns' begin, of those here, and of none. */
static void entropy_at(size_t n_cols, float softcap, size_t first)
{
	struct values logits = values_new(ROWS * n_cols, 0), picked = values_new(ROWS, 0);
	const uint32_t labels[ROWS] = { 0,
					(uint32_t)first,
					(uint32_t)(first + n_cols - 1),
					(uint32_t)(first + n_cols),
					(uint32_t)(first + n_cols / 2),
					UINT32_MAX,
					(uint32_t)first - 1 };
	const struct cross_entropy_args args = { .n_rows = ROWS,
						 .n_cols = n_cols,
						 .first = first,
						 .softcap = softcap,
						 .labels = labels };
	float wanted[ROWS];

	for (size_t r = 0; r < ROWS; r += 2) /* its exponential is too large for fp32 */
		values_set(&logits, r * n_cols + (r * 300 + 299) % n_cols, 200);
	plain_cap(&logits, softcap);
	for (size_t r = 0; r < ROWS; r++) {
		const float *row = logits.wanted + r * n_cols;

		wanted[r] = plain_log_sum(row, n_cols);
		if (labels[r] >= first && labels[r] - first < n_cols)
			picked.wanted[r] = row[labels[r] - first];
	}
	EACH_SIDE(s)
	entropy_there(s, &args, &logits, &picked, wanted);
	values_free(&logits);
	values_free(&picked);
}

static void no_tokens_have_no_entropy(void **state)
{
	struct values x = values_new(16, 0);

	(void)state;
	EACH_SIDE(s)
	{
		float *there = values_send(s, &x);
		const struct cross_entropy_args args = { there, 0,    4, 0, 2, (uint32_t *)there,
							 there, there };

		s->ops->cross_entropy(s->stream, &args);
		values_check(s, &x, there, "no rows");
	}
	values_free(&x);
}

static void entropies_equal_plain_loops(void **state)
{
	static const size_t more_sizes[] = { 255, 256, 257, 2047, 2048, 2049, 5000 };

	(void)state;
	for (size_t i = 0; i < N_OF(edge_sizes); i++)
		entropy_at(edge_sizes[i], i % 2 ? 0 : 2.5f, i % 3 * 1000);
	for (size_t i = 0; i < N_OF(more_sizes); i++)
		entropy_at(more_sizes[i], i % 2 ? 3 : 0, i % 2 * 16384);
}

static void caches_are_rounded_by_head(void **state)
{
	static const struct {
		size_t n_rows, n_heads, head_dim;
	} sizes[] = { { 1, 1, 1 }, { 3, 2, 5 }, { 5, 3, 64 }, { 2, 4, 100 } };

	(void)state;
	for (size_t i = 0; i < N_OF(sizes); i++) {
		size_t n_heads = sizes[i].n_heads, head_dim = sizes[i].head_dim;
		struct values x = values_new(sizes[i].n_rows * n_heads * head_dim, i % 2);
		const float scales[] = { 0.01f, 0.25f, 1e-4f, 3 };

		values_set(&x, 0, 1000); /* saturates */
		for (size_t k = 0; k < x.n; k++) {
			float scale = scales[k / head_dim % n_heads];

			x.wanted[k] =
				fp8_e4m3_to_f32(fp8_e4m3_from_f32(x.given[k] / scale)) * scale;
		}
		EACH_SIDE(s)
		{
			float *there = values_send(s, &x);
			float *scales_there = side_put(s, scales, n_heads * sizeof *scales);

			s->ops->round_e4m3(s->stream, &(const struct round_e4m3_args){
							      .x = there,
							      .n_rows = sizes[i].n_rows,
							      .n_heads = n_heads,
							      .head_dim = head_dim,
							      .scales = scales_there });
			values_check(s, &x, there, "round_e4m3");
			s->ops->memory_free(s->executor, scales_there);
		}
		values_free(&x);
	}
}

/* Of one row, by the words of the contract. */
static struct divergence_sums plain_divergence(const float *p, const float *q, size_t n,
					       size_t first)
{
	struct divergence_sums sums = { .max_p = -INFINITY, .max_q = -INFINITY };
	double lanes[4][16] = { { 0 } }, *const sums_of[] = { &sums.sum_p, &sums.sum_q,
							      &sums.cross_p, &sums.cross_q };

	for (size_t i = n; i-- > 0;) {
		if (p[i] >= sums.max_p) {
			sums.max_p = p[i];
			sums.top_p = (uint32_t)(first + i);
		}
		if (q[i] >= sums.max_q) {
			sums.max_q = q[i];
			sums.top_q = (uint32_t)(first + i);
		}
	}
	for (size_t i = 0; i < n; i++) {
		float difference = p[i] - q[i];
		double of_p = (double)f32_exp(p[i] - sums.max_p);
		double of_q = (double)f32_exp(q[i] - sums.max_q);

		lanes[0][i % 16] += of_p;
		lanes[1][i % 16] += of_q;
		lanes[2][i % 16] += of_p * (double)difference;
		lanes[3][i % 16] += of_q * (double)-difference;
	}
	for (int s = 0; s < 4; s++) {
		for (int step = 8; step > 0; step /= 2)
			for (int i = 0; i < step; i++)
				lanes[s][i] += lanes[s][i + step];
		*sums_of[s] = lanes[s][0];
	}
	return sums;
}

static void divergence_there(const struct side *s, const struct divergence_args *args,
			     const struct values *p, const struct values *q)
{
	struct divergence_args there = *args;
	struct divergence_sums found[ROWS];
	float *p_there = values_send(s, p), *q_there = values_send(s, q);

	there.p = p_there;
	there.q = q_there;
	there.sums = side_memory_new(s, sizeof found);
	s->ops->divergence(s->stream, &there);
	side_take(s, there.sums, found, sizeof found);
	for (size_t r = 0; r < ROWS; r++) {
		size_t at = r * args->n_cols;
		struct divergence_sums wanted =
			plain_divergence(p->given + at, q->given + at, args->n_cols, args->first);

		if (memcmp(&found[r], &wanted, sizeof wanted))
			fail_msg("%s, divergence: %zu columns, row %zu: %a %a %u %u, not %a %a %u "
				 "%u",
				 s->ops->name, args->n_cols, r, found[r].sum_p, found[r].cross_q,
				 found[r].top_p, found[r].top_q, wanted.sum_p, wanted.cross_q,
				 wanted.top_p, wanted.top_q);
	}
	values_check(s, p, p_there, "logits of p");
	values_check(s, q, q_there, "logits of q");
}

static void divergences_equal_plain_loops(void **state)
{
	static const size_t n_cols[] = { 1, 2, 15, 16, 17, 255, 257, 1023, 1024, 1025, 3000 };

	(void)state;
	for (size_t i = 0; i < N_OF(n_cols); i++) {
		struct values p = values_new(ROWS * n_cols[i], i % 2);
		struct values q = values_new(ROWS * n_cols[i], 0);
		const struct divergence_args args = { .n_rows = ROWS,
						      .n_cols = n_cols[i],
						      .first = i * 1000 };

		/* The largest twice; logits so far apart that exponentials are 0. */
		values_set(&p, 0, 5);
		values_set(&p, n_cols[i] - 1, 5);
		values_set(&q, ROWS * n_cols[i] - 1, 300);
		EACH_SIDE(s)
		divergence_there(s, &args, &p, &q);
		values_free(&p);
		values_free(&q);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_copied_and_repeated),
		cmocka_unit_test(pairs_are_deinterleaved),
		cmocka_unit_test(rows_are_gathered),
		cmocka_unit_test(norms_equal_plain_loops),
		cmocka_unit_test(rotations_equal_plain_loops),
		cmocka_unit_test(entropies_equal_plain_loops),
		cmocka_unit_test(no_tokens_have_no_entropy),
		cmocka_unit_test(divergences_equal_plain_loops),
		cmocka_unit_test(caches_are_rounded_by_head),
	};

	sides_begin(argc, argv);
	return cmocka_run_group_tests(tests, sides_open, sides_close);
}
