/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor of the caller, checked.
 */
#ifndef FP8CONV_LIB_TENSOR_H
#define FP8CONV_LIB_TENSOR_H

#include <fp8conv.h>

#include "base/err.h"
#include "backend/backend.h"

/* n matrices (rows, cols), whose addresses fit size_t. */
struct stack {
	unsigned char *data;
	enum dtype dtype;
	size_t n, rows, cols;
	size_t stride; /* elements from one row to the next */
	size_t next;   /* bytes from one matrix to the next */
	int device;    /* as of the tensor */
};

/* Sets *stack to the tensor, called name in messages.  ERR_USAGE where it is NULL, or not a whole
 * tensor in memory. */
int tensor_read_anywhere(const struct fp8conv_tensor *tensor, const char *name, struct stack *stack,
			 struct err *err);

/* The same for a tensor that must be on the CPU. */
int tensor_read(const struct fp8conv_tensor *tensor, const char *name, struct stack *stack,
		struct err *err);

/* The same for a tensor that must have n matrices (rows, cols) of a type, on a device. */
int tensor_read_as(const struct fp8conv_tensor *tensor, const char *name,
		   const struct stack *wanted, struct stack *stack, struct err *err);

/* Fails with ERR_USAGE unless the elements are F32, BF16 or F16. */
int stack_check_float(const struct stack *stack, const char *name, struct err *err);

/* Returns n rows of matrix i from `first` on. */
struct matrix stack_rows(const struct stack *stack, size_t i, size_t first, size_t n);

/* Returns the address of a row of matrix i. */
void *stack_at(const struct stack *stack, size_t i, size_t row);

/* Returns enum fp8conv_dtype of a type that has one. */
int dtype_to_public(enum dtype dtype);

#endif
