/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in pieces.  Element i of a tensor is i; each is put at its place in a file by the formula
 * of strides, and every range must come back as counting does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "view/view.h"

#define MAX_PIECES 18
#define FILE_SIZE  (1 << 20)

struct memory {
	unsigned char files[2][FILE_SIZE];
	size_t n_reads;
};

static int read_memory(void *context, size_t file, uint64_t offset, size_t n, void *data,
		       struct err *err)
{
	struct memory *memory = context;

	(void)err;
	assert_true(file < 2 && offset <= FILE_SIZE && n <= FILE_SIZE - offset);
	memcpy(data, memory->files[file] + offset, n);
	memory->n_reads++;
	return 0;
}

static const char *file_name(const void *context, size_t file)
{
	(void)context;
	return file ? "two" : "one";
}

/* Puts the elements of a piece to their places. */
static void fill(struct memory *memory, const struct tensor_view *view,
		 const struct view_piece *piece)
{
	uint64_t n = 1;

	for (int d = 0; d < view->n_dims; d++)
		n *= piece->sizes[d];
	for (uint64_t i = 0; i < n; i++) {
		uint64_t rest = i, at = piece->at, number = 0, weight = 1;

		for (int d = view->n_dims - 1; d >= 0; d--) {
			uint64_t index = rest % piece->sizes[d];

			rest /= piece->sizes[d];
			at += index * piece->strides[d];
			/* a broadcast element is the first one */
			if (piece->strides[d])
				number += (piece->offsets[d] + index) * weight;
			weight *= view->shape[d];
		}
		for (uint64_t b = 0; b < view->element; b++)
			memory->files[piece->file][at + b] = (unsigned char)(number >> 8 * b);
	}
}

static unsigned char expected_byte(const struct tensor_view *view, uint64_t byte)
{
	uint64_t rest = byte / view->element, number = 0, weight = 1;

	for (int d = view->n_dims - 1; d >= 0; d--) {
		const struct view_piece *piece = &view->pieces[0];

		if (view->n_pieces > 1 || piece->strides[d])
			number += rest % view->shape[d] * weight;
		rest /= view->shape[d];
		weight *= view->shape[d];
	}
	return (unsigned char)(number >> 8 * (byte % view->element));
}

static void check_range(struct memory *memory, const struct tensor_view *view, uint64_t begin,
			uint64_t n)
{
	unsigned char *data = malloc(n + 2);
	struct err err = { 0 };

	data[0] = data[n + 1] = 0xA5;
	assert_int_equal(view_read(view, &(struct view_range){ begin, n, data + 1 }, read_memory,
				   memory, &err),
			 0);
	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(data[1 + i], expected_byte(view, begin + i));
	assert_int_equal(data[0], 0xA5);
	assert_int_equal(data[n + 1], 0xA5);
	free(data);
}

static void check_view(struct tensor_view *view, struct view_piece *pieces)
{
	static struct memory memory;
	const struct view_names names = { "t", file_name, NULL };
	struct err err = { 0 };
	uint64_t size = view->element;

	memset(memory.files, 0xEE, sizeof memory.files);
	for (int d = 0; d < view->n_dims; d++)
		size *= view->shape[d];
	assert_int_equal(view_check(view, pieces, &names, &err), 0);
	for (size_t i = 0; i < view->n_pieces; i++)
		fill(&memory, view, &pieces[i]);
	check_range(&memory, view, 0, size);
	for (uint64_t begin = 0; begin < size; begin += 1 + size / 61)
		for (uint64_t n = 1; n <= size - begin; n += 1 + size / 53)
			check_range(&memory, view, begin, n);
}

/* A grid of slices, each in rows without gaps, dealt to two files in reverse. */
static void slices_become_one_tensor(void **state)
{
	static const struct {
		uint64_t shape[3], cut[3];
	} rows[] = {
		{ { 12, 5, 4 }, { 3, 5, 4 } },	  { { 12, 5, 4 }, { 12, 2, 4 } },
		{ { 12, 5, 4 }, { 12, 5, 1 } },	  { { 7, 6, 5 }, { 3, 4, 2 } },
		{ { 1, 1, 9 }, { 1, 1, 2 } },	  { { 9, 1, 1 }, { 4, 1, 1 } },
		{ { 2, 300, 7 }, { 1, 299, 3 } },
	};

	(void)state;
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		for (uint64_t element = 1; element <= 8; element *= 2) {
			uint64_t offsets[MAX_PIECES][3], sizes[MAX_PIECES][3];
			uint64_t strides[MAX_PIECES][3], at = 3, index[3] = { 0 };
			struct view_piece pieces[MAX_PIECES];
			struct tensor_view view = { 3, rows[r].shape, element, 0, pieces };
			int d = 0;

			while (d >= 0) {
				size_t i = view.n_pieces++;

				assert_true(i < MAX_PIECES);
				for (d = 0; d < 3; d++) {
					uint64_t left = rows[r].shape[d] - index[d];

					offsets[i][d] = index[d];
					sizes[i][d] = left < rows[r].cut[d] ? left : rows[r].cut[d];
				}
				strides[i][2] = element;
				strides[i][1] = sizes[i][2] * element;
				strides[i][0] = sizes[i][1] * strides[i][1];
				pieces[i] = (struct view_piece){ i % 2, at, offsets[i], sizes[i],
								 strides[i] };
				at += sizes[i][0] * strides[i][0] + 1;
				for (d = 2; d >= 0; d--) {
					index[d] += rows[r].cut[d];
					if (index[d] < rows[r].shape[d])
						break;
					index[d] = 0;
				}
			}
			for (size_t i = 0; i < view.n_pieces / 2; i++) {
				struct view_piece other = pieces[i];

				pieces[i] = pieces[view.n_pieces - 1 - i];
				pieces[view.n_pieces - 1 - i] = other;
			}
			check_view(&view, pieces);
		}
	}
}

/* Transposed, with gaps, broadcast, in columns: strides in elements. */
static void strides_become_rows(void **state)
{
	static const struct {
		uint64_t shape[4], strides[4];
		int n_dims;
	} rows[] = {
		{ { 6, 5 }, { 5, 1 }, 2 },
		{ { 6, 5 }, { 1, 6 }, 2 },
		{ { 6, 5 }, { 10, 2 }, 2 },
		{ { 6, 5 }, { 100, 1 }, 2 },
		{ { 6, 5 }, { 0, 1 }, 2 },
		{ { 6, 5 }, { 1, 0 }, 2 },
		{ { 6, 5 }, { 0, 0 }, 2 },
		{ { 2, 3, 4, 5 }, { 1, 2, 6, 24 }, 4 },
		{ { 2, 3, 4, 5 }, { 60, 5, 15, 1 }, 4 },
		{ { 2, 3, 4, 5 }, { 0, 40, 1, 5 }, 4 },
		{ { 1, 5 }, { 77, 1 }, 2 },
		{ { 5, 1 }, { 1, 77 }, 2 },
		{ { 1 }, { 1 }, 1 },
		{ { 0 }, { 0 }, 0 },
		{ { 300, 90 }, { 1, 300 }, 2 },
		{ { 40, 3000 }, { 3000, 1 }, 2 },
		{ { 40, 1500 }, { 3000, 1 }, 2 },
	};
	static const uint64_t zeros[4];

	(void)state;
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		for (uint64_t element = 1; element <= 4; element *= 2) {
			uint64_t strides[4];
			struct view_piece piece = { 1, 5, zeros, rows[r].shape, strides };
			struct tensor_view view = { rows[r].n_dims, rows[r].shape, element, 1,
						    &piece };

			for (int d = 0; d < 4; d++)
				strides[d] = rows[r].strides[d] * element;
			check_view(&view, &piece);
		}
	}
}

/* 4,000 rows of 6 bytes, of 8, in a few reads. */
static void rows_with_small_gaps_are_read_together(void **state)
{
	static const uint64_t zeros[2], shape[] = { 4000, 3 }, strides[] = { 8, 2 };
	static struct memory memory;
	static unsigned char data[24000];
	struct view_piece piece = { 0, 0, zeros, shape, strides };
	const struct tensor_view view = { 2, shape, 2, 1, &piece };
	struct err err;

	(void)state;
	assert_int_equal(view_read(&view, &(struct view_range){ 0, sizeof data, data }, read_memory,
				   &memory, &err),
			 0);
	assert_true(memory.n_reads <= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_become_one_tensor),
		cmocka_unit_test(strides_become_rows),
		cmocka_unit_test(rows_with_small_gaps_are_read_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
