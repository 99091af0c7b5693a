/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN for gemm.c, loaded at run time, because it has 40 MB of code, which no conversion needs.
 *
 * oneDNN 3 and 2 describe a layout and a product differently.  The functions at the end of this
 * file hide that difference; the version of the header at compile time chooses one.  The loaded
 * library has the major version of that header; its minor version may differ.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_ONEDNN_H
#define FP8CONV_KERNELS_CPU_FORWARD_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

#include "base/err.h"

/* The library's layout of a matrix.  The primitive descriptor that returned it owns it. */
#if DNNL_VERSION_MAJOR == 3
typedef const_dnnl_memory_desc_t onednn_layout;
#define ONEDNN_BY_STRIDES memory_desc_create_with_strides
#define ONEDNN_BY_TAG	  memory_desc_create_with_tag
#define ONEDNN_DESCRIBE(X)                 \
	X(memory_desc_create_with_strides) \
	X(memory_desc_create_with_tag)     \
	X(memory_desc_destroy)             \
	X(matmul_primitive_desc_create)
#elif DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *onednn_layout;
#define ONEDNN_BY_STRIDES memory_desc_init_by_strides
#define ONEDNN_BY_TAG	  memory_desc_init_by_tag
#define ONEDNN_DESCRIBE(X)             \
	X(memory_desc_init_by_strides) \
	X(memory_desc_init_by_tag)     \
	X(matmul_desc_init)            \
	X(primitive_desc_create)
#else
#error "unsupported version of oneDNN (supported: 2 and 3)"
#endif

/* The functions of the library that are called, by their names without "dnnl_". */
#define ONEDNN_FUNCTIONS(X)                   \
	X(engine_create)                      \
	X(engine_destroy)                     \
	X(stream_create)                      \
	X(stream_destroy)                     \
	X(memory_desc_get_size)               \
	X(memory_create)                      \
	X(memory_destroy)                     \
	X(primitive_attr_create)              \
	X(primitive_attr_destroy)             \
	X(primitive_attr_set_scratchpad_mode) \
	X(primitive_attr_set_post_ops)        \
	X(post_ops_create)                    \
	X(post_ops_append_sum)                \
	X(post_ops_destroy)                   \
	X(primitive_desc_destroy)             \
	X(primitive_desc_query_md)            \
	X(primitive_create)                   \
	X(primitive_destroy)                  \
	X(primitive_execute)                  \
	X(reorder_primitive_desc_create)      \
	ONEDNN_DESCRIBE(X)

struct onednn {
	const dnnl_version_t *version;
	dnnl_engine_t engine;
	dnnl_primitive_attr_t attr;	    /* scratch memory is the caller's */
	void (*omp_set_num_threads)(int n); /* NULL: the library has no threads */
#define ONEDNN_FIELD(name) __typeof__(&dnnl_##name) name;
	ONEDNN_FUNCTIONS(ONEDNN_FIELD)
#undef ONEDNN_FIELD
};

/* Loads the library.  ERR_SYSTEM if it is missing, with the package of this distribution in the
 * message, or if onednn_check() refuses it.  The library stays loaded after release: its threads
 * free their memory by its code when they end. */
int onednn_init(struct onednn *onednn, struct err *err);
void onednn_release(struct onednn *onednn);

/* Returns 0 if the address space has room for what the library needs to make a primitive, else
 * ERR_SYSTEM.  The library ends the process where it finds no memory for code that it generates.
 * It is called before each primitive is made. */
int onednn_room(struct err *err);

/* Returns 0, or ERR_SYSTEM if the library of that name has another major version, or threads that
 * cannot be limited to the calling one. */
int onednn_check(const dnnl_version_t *version, const char *name, struct err *err);

/* Writes how to get oneDNN of a major version on a distribution (os_release: the text of
 * os-release(5), "" if unknown) to a text of size bytes: "install the package libdnnl3.6". */
void onednn_suggest(char *text, size_t size, const char *os_release, int major);

/* Sets err to the failure of a function. */
void onednn_failed(const char *name, dnnl_status_t status, struct err *err);

/* Calls a function of the library.  On failure sets err with its name, and jumps to out. */
#define ONEDNN_CALL(...) ONEDNN_CALL_NAMED(__VA_ARGS__) /* a name may be a macro */
#define ONEDNN_CALL_NAMED(onednn, name, ...)                         \
	do {                                                         \
		dnnl_status_t status_ = (onednn)->name(__VA_ARGS__); \
		if (status_ != dnnl_success) {                       \
			onednn_failed(#name, status_, err);          \
			goto out;                                    \
		}                                                    \
	} while (0)

/* A product y (m, n) = x (m, k) w^T with the weight w (n, k), which the library gets as a matrix
 * (k, n). */
struct onednn_product {
	dnnl_data_type_t dtype; /* of x and w; y is f32 */
	dnnl_dim_t m, n, k;
};

/* Makes the primitive descriptor of a product, with rows of x and y without gaps.  weight: the
 * layout of w; NULL: the library chooses it. */
int onednn_describe_product(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			    const struct onednn_product *product, onednn_layout weight,
			    struct err *err);

/* Makes the primitive descriptor of a copy of w, with rows without gaps, to a layout. */
int onednn_describe_reorder(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			    const struct onednn_product *product, onednn_layout weight,
			    struct err *err);

/* Makes the primitive descriptor of h += a b, for matrices of any size and stride, which their
 * memory objects state.  a (m, k) and b (k, n) have dtype, h (m, n) is f32.  col_stride is 1 in b
 * and h, row_stride is 1 in a. */
int onednn_describe_sum(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			dnnl_data_type_t dtype, struct err *err);

/* A matrix whose element (i, j) is data[i * row_stride + j * col_stride]. */
struct onednn_matrix {
	dnnl_data_type_t dtype;
	dnnl_dim_t rows, cols, row_stride, col_stride;
	const void *data;
};

/* Makes the memory object of a matrix. */
int onednn_matrix_bind(dnnl_memory_t *memory, const struct onednn *onednn,
		       const struct onednn_matrix *matrix, struct err *err);

#endif
