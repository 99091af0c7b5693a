/* SPDX-License-Identifier: Apache-2.0
 *
 * Products and layouts as oneDNN describes them.  In version 3 memory descriptors are objects of
 * the library, and a primitive descriptor is made at once; in version 2 memory descriptors are
 * structs of the caller, and a primitive descriptor is made from a descriptor of the operation.
 */
#include "kernels/cpu/forward/onednn.h"

/* The operands of c = a b, or c += a b. */
struct operands {
	dnnl_memory_desc_t a, b, c;
};

#if DNNL_VERSION_MAJOR == 3

static onednn_layout layout_of(const dnnl_memory_desc_t *desc)
{
	return *desc;
}

static void release(const struct onednn *onednn, struct operands *of)
{
	onednn->memory_desc_destroy(of->a);
	onednn->memory_desc_destroy(of->b);
	onednn->memory_desc_destroy(of->c);
}

static int matmul(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
		  const struct operands *of, onednn_layout b, dnnl_primitive_attr_t attr,
		  struct err *err)
{
	ONEDNN_CALL(onednn, matmul_primitive_desc_create, desc, onednn->engine, of->a, b, NULL,
		    of->c, attr);
	return 0;
out:
	return -1;
}

/* The library takes the type of the sum from h.  If the type is stated, even as h's own, only the
 * library's reference supports bf16, a thousand times slower. */
#define TYPE_OF_SUM , 0, dnnl_data_type_undef

#else

static onednn_layout layout_of(const dnnl_memory_desc_t *desc)
{
	return desc;
}

static void release(const struct onednn *onednn, struct operands *of)
{
	(void)onednn, (void)of;
}

static int matmul(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
		  const struct operands *of, onednn_layout b, dnnl_primitive_attr_t attr,
		  struct err *err)
{
	dnnl_matmul_desc_t matmul;

	ONEDNN_CALL(onednn, matmul_desc_init, &matmul, &of->a, b, NULL, &of->c);
	ONEDNN_CALL(onednn, primitive_desc_create, desc, &matmul, attr, onednn->engine, NULL);
	return 0;
out:
	return -1;
}

#define TYPE_OF_SUM

#endif

static int describe(dnnl_memory_desc_t *desc, const struct onednn *onednn,
		    const struct onednn_matrix *matrix, struct err *err)
{
	const dnnl_dims_t dims = { matrix->rows, matrix->cols };
	const dnnl_dims_t strides = { matrix->row_stride, matrix->col_stride };

	ONEDNN_CALL(onednn, ONEDNN_BY_STRIDES, desc, 2, dims, matrix->dtype, strides);
	return 0;
out:
	return -1;
}

int onednn_describe_product(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			    const struct onednn_product *product, onednn_layout weight,
			    struct err *err)
{
	const dnnl_dim_t m = product->m, n = product->n, k = product->k;
	const dnnl_dims_t w_dims = { k, n };
	const struct onednn_matrix x = { product->dtype, m, k, k, 1, NULL };
	const struct onednn_matrix y = { dnnl_f32, m, n, n, 1, NULL };
	struct operands of = { 0 };
	int rc = -1;

	ONEDNN_CALL(onednn, ONEDNN_BY_TAG, &of.b, 2, w_dims, product->dtype, dnnl_format_tag_any);
	if (!describe(&of.a, onednn, &x, err) && !describe(&of.c, onednn, &y, err))
		rc = matmul(desc, onednn, &of, weight ? weight : layout_of(&of.b), onednn->attr,
			    err);
out:
	release(onednn, &of);
	return rc;
}

int onednn_describe_reorder(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			    const struct onednn_product *product, onednn_layout weight,
			    struct err *err)
{
	const struct onednn_matrix rows = { product->dtype, product->k, product->n, 1,
					    product->k,	    NULL };
	struct operands of = { 0 };
	int rc = -1;

	if (describe(&of.a, onednn, &rows, err))
		goto out;
	ONEDNN_CALL(onednn, reorder_primitive_desc_create, desc, layout_of(&of.a), onednn->engine,
		    weight, onednn->engine, onednn->attr);
	rc = 0;
out:
	release(onednn, &of);
	return rc;
}

int onednn_describe_sum(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			dnnl_data_type_t dtype, struct err *err)
{
	const dnnl_dim_t any = DNNL_RUNTIME_DIM_VAL;
	const struct onednn_matrix a = { dtype, any, any, 1, any, NULL };
	const struct onednn_matrix b = { dtype, any, any, any, 1, NULL };
	const struct onednn_matrix h = { dnnl_f32, any, any, any, 1, NULL };
	dnnl_primitive_attr_t attr = NULL;
	dnnl_post_ops_t sum = NULL;
	struct operands of = { 0 };
	int rc = -1;

	ONEDNN_CALL(onednn, post_ops_create, &sum);
	ONEDNN_CALL(onednn, post_ops_append_sum, sum, 1 TYPE_OF_SUM);
	ONEDNN_CALL(onednn, primitive_attr_create, &attr);
	ONEDNN_CALL(onednn, primitive_attr_set_scratchpad_mode, attr, dnnl_scratchpad_mode_user);
	ONEDNN_CALL(onednn, primitive_attr_set_post_ops, attr, sum);
	if (!describe(&of.a, onednn, &a, err) && !describe(&of.b, onednn, &b, err) &&
	    !describe(&of.c, onednn, &h, err))
		rc = matmul(desc, onednn, &of, layout_of(&of.b), attr, err);
out:
	if (attr)
		onednn->primitive_attr_destroy(attr);
	if (sum)
		onednn->post_ops_destroy(sum);
	release(onednn, &of);
	return rc;
}

int onednn_matrix_bind(dnnl_memory_t *memory, const struct onednn *onednn,
		       const struct onednn_matrix *matrix, struct err *err)
{
	struct operands of = { 0 };
	int rc = -1;

	if (describe(&of.a, onednn, matrix, err))
		goto out;
	ONEDNN_CALL(onednn, memory_create, memory, layout_of(&of.a), onednn->engine,
		    (void *)matrix->data);
	rc = 0;
out:
	release(onednn, &of);
	return rc;
}
