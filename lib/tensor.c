/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tensor.h"

#include <stdio.h>

#include "lib/context.h"
#include "num/dtype.h"

/* By enum fp8conv_dtype. */
static const enum dtype dtypes[] = { DT_F32, DT_BF16, DT_F16, DT_F8_E4M3, DT_F8_E5M2, DT_F8_E8M0 };
#define BATCH_MAX ((size_t)1 << 24)
#define N_PUBLIC  ((int)(sizeof dtypes / sizeof *dtypes))

int dtype_to_public(enum dtype dtype)
{
	int i = 0;

	while (dtypes[i] != dtype)
		i++;
	return i;
}

static size_t element_size(const struct stack *stack)
{
	return dtype_bits(stack->dtype) / 8;
}

/* Sets *bytes to what the tensor takes.  Returns false where that is more than fits an address. */
static bool stack_bytes(const struct stack *s, size_t batch_stride, size_t *bytes)
{
	size_t n = s->rows ? s->rows - 1 : 0, more;

	return !__builtin_mul_overflow(n, s->stride, &n) &&
	       !__builtin_add_overflow(n, s->cols, &n) &&
	       !__builtin_mul_overflow(s->n - 1, batch_stride, &more) &&
	       !__builtin_add_overflow(n, more, &n) &&
	       !__builtin_mul_overflow(n, element_size(s), bytes) && *bytes <= PTRDIFF_MAX;
}

/* Where its elements lie. */
static int stack_place(const struct fp8conv_tensor *t, const char *name, struct stack *s,
		       struct err *err)
{
	size_t batch_stride = t->batch_stride, matrix = 0, bytes = 0;

	if (s->n > BATCH_MAX)
		return err_set(err, ERR_USAGE, "%s: batch is %zu, more than %zu", name, s->n,
			       BATCH_MAX);
	if (s->stride < s->cols)
		return err_set(err, ERR_USAGE, "%s: row_stride is %zu, less than %zu columns", name,
			       s->stride, s->cols);
	if (s->rows == 0 || s->cols == 0)
		return 0;
	if (__builtin_mul_overflow(s->rows - 1, s->stride, &matrix) ||
	    __builtin_add_overflow(matrix, batch_stride ? s->cols : s->stride, &matrix))
		return err_set(err, ERR_USAGE, "%s: (%zu, %zu) is too large", name, s->rows,
			       s->cols);
	if (!batch_stride)
		batch_stride = matrix;
	if (s->n > 1 && batch_stride < matrix)
		return err_set(err, ERR_USAGE,
			       "%s: batch_stride is %zu, less than the %zu elements of a matrix",
			       name, batch_stride, matrix);
	if (!stack_bytes(s, batch_stride, &bytes))
		return err_set(err, ERR_USAGE, "%s: (%zu, %zu, %zu) is too large", name, s->n,
			       s->rows, s->cols);
	if (t->bytes && t->bytes < bytes)
		return err_set(err, ERR_USAGE,
			       "%s: (%zu, %zu, %zu) of %s takes %zu bytes, %zu are there", name,
			       s->n, s->rows, s->cols, dtype_name(s->dtype), bytes, t->bytes);
	if (!t->data)
		return err_set(err, ERR_USAGE, "%s: data is NULL", name);
	s->next = batch_stride * element_size(s);
	if (s->device != FP8CONV_CPU && (uintptr_t)s->data % element_size(s))
		return err_set(err, ERR_USAGE, "%s: data are not aligned to elements of %s", name,
			       dtype_name(s->dtype));
	return 0;
}

int tensor_read_anywhere(const struct fp8conv_tensor *tensor, const char *name, struct stack *stack,
			 struct err *err)
{
	if (size_check(tensor, sizeof *tensor, name, err))
		return -1;
	if (word_check(tensor->dtype, N_PUBLIC, "dtype", err))
		return err_wrap(err, "%s", name);
	if (tensor->device < FP8CONV_CPU)
		return err_set(err, ERR_USAGE, "%s: device is %d, less than 0", name,
			       tensor->device);
	*stack = (struct stack){ .data = tensor->data,
				 .dtype = dtypes[tensor->dtype],
				 .n = tensor->batch ? tensor->batch : 1,
				 .rows = tensor->rows,
				 .cols = tensor->columns,
				 .device = tensor->device,
				 .stride = tensor->row_stride ? tensor->row_stride
							      : tensor->columns };
	return stack_place(tensor, name, stack, err);
}

/* Writes "CUDA device 0" or "the CPU". */
static const char *device_text(int device, char text[32])
{
	if (device == FP8CONV_CPU)
		return "the CPU";
	snprintf(text, 32, "CUDA device %d", device - 1);
	return text;
}

static int device_check(const struct stack *stack, const char *name, int device, struct err *err)
{
	char is[32], expected[32];

	if (stack->device == device)
		return 0;
	return err_set(err, ERR_USAGE, "%s is on %s, expected %s", name,
		       device_text(stack->device, is), device_text(device, expected));
}

int tensor_read(const struct fp8conv_tensor *tensor, const char *name, struct stack *stack,
		struct err *err)
{
	if (tensor_read_anywhere(tensor, name, stack, err))
		return -1;
	return device_check(stack, name, FP8CONV_CPU, err);
}

int tensor_read_as(const struct fp8conv_tensor *tensor, const char *name,
		   const struct stack *wanted, struct stack *stack, struct err *err)
{
	if (tensor_read_anywhere(tensor, name, stack, err) ||
	    device_check(stack, name, wanted->device, err))
		return -1;
	if (stack->dtype != wanted->dtype)
		return err_set(err, ERR_USAGE, "%s has elements of %s, expected %s", name,
			       dtype_name(stack->dtype), dtype_name(wanted->dtype));
	if (stack->n != wanted->n || stack->rows != wanted->rows || stack->cols != wanted->cols)
		return err_set(err, ERR_USAGE,
			       "%s has the shape (%zu, %zu, %zu), expected (%zu, %zu, %zu)", name,
			       stack->n, stack->rows, stack->cols, wanted->n, wanted->rows,
			       wanted->cols);
	return 0;
}

int stack_check_float(const struct stack *stack, const char *name, struct err *err)
{
	if (dtype_is_float(stack->dtype))
		return 0;
	return err_set(err, ERR_USAGE, "%s has elements of %s, expected F32, BF16 or F16", name,
		       dtype_name(stack->dtype));
}

void *stack_at(const struct stack *stack, size_t i, size_t row)
{
	if (!stack->data)
		return NULL;
	return stack->data + i * stack->next + row * stack->stride * element_size(stack);
}

struct matrix stack_rows(const struct stack *stack, size_t i, size_t first, size_t n)
{
	return (struct matrix){ stack_at(stack, i, first), stack->dtype, n, stack->cols,
				stack->stride };
}
