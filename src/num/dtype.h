/* SPDX-License-Identifier: Apache-2.0
 *
 * The element types of a safetensors file.  Source: safetensors (crate), dtype.rs.  The enumerators
 * have the order in which the reference serializer lays out tensors: comparing two values sorts a
 * file.
 */
#ifndef FP8CONV_NUM_DTYPE_H
#define FP8CONV_NUM_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

enum dtype {
	DT_U64,
	DT_I64,
	DT_F64,
	DT_C64,
	DT_F32,
	DT_U32,
	DT_I32,
	DT_BF16,
	DT_F16,
	DT_U16,
	DT_I16,
	DT_F8_E5M2FNUZ,
	DT_F8_E4M3FNUZ,
	DT_F8_E8M0,
	DT_F8_E4M3,
	DT_F8_E5M2,
	DT_I8,
	DT_U8,
	DT_F6_E3M2,
	DT_F6_E2M3,
	DT_F4,
	DT_BOOL,
	N_DTYPES,

	/* Low-bit weights: a file has their codes packed into tensors of other types, and their
	 * scales in tensors beside (format/low_bit.h).  No header has these names. */
	DT_MXFP4 = N_DTYPES, /* E2M1, a power of two for each 32 elements */
	DT_NVFP4,	     /* E2M1, an E4M3 number for each 16, an F32 number for the tensor */
	DT_INT4,	     /* -8 to 7, a BF16 or F16 number for each 32 */
	N_ALL_DTYPES
};

const char *dtype_name(enum dtype dtype); /* the word in a file's header: "BF16" */
unsigned dtype_bits(enum dtype dtype);	  /* bits of an element: 4, 6, 8, 16, 32 or 64 */

/* Finds the type of a header with the name of n bytes.  Returns false if no type has it. */
bool dtype_from_name(enum dtype *dtype, const char *name, size_t n);

/* Is it F32, BF16 or F16? */
static inline bool dtype_is_float(enum dtype dtype)
{
	return dtype == DT_F32 || dtype == DT_BF16 || dtype == DT_F16;
}

/* Is it E4M3 or E5M2, the two FP8 types that this program writes? */
static inline bool dtype_is_fp8(enum dtype dtype)
{
	return dtype == DT_F8_E4M3 || dtype == DT_F8_E5M2;
}

/* Is it an FP8 type, including those that no supported engine reads (FNUZ)? */
static inline bool dtype_is_any_fp8(enum dtype dtype)
{
	return dtype_is_fp8(dtype) || dtype == DT_F8_E4M3FNUZ || dtype == DT_F8_E5M2FNUZ;
}

/* Is it a type of low-bit weights? */
static inline bool dtype_is_low_bit(enum dtype dtype)
{
	return dtype >= N_DTYPES;
}

#endif
