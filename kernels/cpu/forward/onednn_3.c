/* SPDX-License-Identifier: Apache-2.0
 *
 * Products and layouts as oneDNN 3 describes them: memory descriptors are objects of the library,
 * and a primitive descriptor is made at once.
 */
#include "kernels/cpu/forward/onednn.h"

#if DNNL_VERSION_MAJOR == 3

int onednn_describe_product(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			    const struct onednn_product *product, onednn_layout weight,
			    struct err *err)
{
	const dnnl_dims_t x_dims = { product->m, product->k };
	const dnnl_dims_t w_dims = { product->k, product->n };
	const dnnl_dims_t y_dims = { product->m, product->n };
	dnnl_memory_desc_t x = NULL, w = NULL, y = NULL;
	int rc = -1;

	ONEDNN_CALL(onednn, memory_desc_create_with_tag, &x, 2, x_dims, product->dtype, dnnl_ab);
	ONEDNN_CALL(onednn, memory_desc_create_with_tag, &w, 2, w_dims, product->dtype,
		    dnnl_format_tag_any);
	ONEDNN_CALL(onednn, memory_desc_create_with_tag, &y, 2, y_dims, dnnl_f32, dnnl_ab);
	ONEDNN_CALL(onednn, matmul_primitive_desc_create, desc, onednn->engine, x,
		    weight ? weight : w, NULL, y, onednn->attr);
	rc = 0;
out:
	onednn->memory_desc_destroy(x);
	onednn->memory_desc_destroy(w);
	onednn->memory_desc_destroy(y);
	return rc;
}

int onednn_describe_reorder(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			    const struct onednn_product *product, onednn_layout weight,
			    struct err *err)
{
	const dnnl_dims_t dims = { product->k, product->n };
	const dnnl_dims_t strides = { 1, product->k };
	dnnl_memory_desc_t rows = NULL;
	int rc = -1;

	ONEDNN_CALL(onednn, memory_desc_create_with_strides, &rows, 2, dims, product->dtype,
		    strides);
	ONEDNN_CALL(onednn, reorder_primitive_desc_create, desc, rows, onednn->engine, weight,
		    onednn->engine, onednn->attr);
	rc = 0;
out:
	onednn->memory_desc_destroy(rows);
	return rc;
}

/* The library takes the type of the sum from h.  If the type is stated, even as h's own, only the
 * library's reference supports bf16, a thousand times slower. */
static int sum_attr_new(dnnl_primitive_attr_t *attr, const struct onednn *onednn, struct err *err)
{
	dnnl_post_ops_t sum = NULL;
	int rc = -1;

	ONEDNN_CALL(onednn, post_ops_create, &sum);
	ONEDNN_CALL(onednn, post_ops_append_sum, sum, 1, 0, dnnl_data_type_undef);
	ONEDNN_CALL(onednn, primitive_attr_create, attr);
	ONEDNN_CALL(onednn, primitive_attr_set_scratchpad_mode, *attr, dnnl_scratchpad_mode_user);
	ONEDNN_CALL(onednn, primitive_attr_set_post_ops, *attr, sum);
	rc = 0;
out:
	if (sum)
		onednn->post_ops_destroy(sum);
	return rc;
}

int onednn_describe_sum(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			dnnl_data_type_t dtype, struct err *err)
{
	const dnnl_dims_t dims = { DNNL_RUNTIME_DIM_VAL, DNNL_RUNTIME_DIM_VAL };
	const dnnl_dims_t rows = { DNNL_RUNTIME_DIM_VAL, 1 }, cols = { 1, DNNL_RUNTIME_DIM_VAL };
	dnnl_memory_desc_t a = NULL, b = NULL, h = NULL;
	dnnl_primitive_attr_t attr = NULL;
	int rc = -1;

	ONEDNN_CALL(onednn, memory_desc_create_with_strides, &a, 2, dims, dtype, cols);
	ONEDNN_CALL(onednn, memory_desc_create_with_strides, &b, 2, dims, dtype, rows);
	ONEDNN_CALL(onednn, memory_desc_create_with_strides, &h, 2, dims, dnnl_f32, rows);
	if (sum_attr_new(&attr, onednn, err))
		goto out;
	ONEDNN_CALL(onednn, matmul_primitive_desc_create, desc, onednn->engine, a, b, NULL, h,
		    attr);
	rc = 0;
out:
	if (attr)
		onednn->primitive_attr_destroy(attr);
	onednn->memory_desc_destroy(a);
	onednn->memory_desc_destroy(b);
	onednn->memory_desc_destroy(h);
	return rc;
}

int onednn_matrix_bind(dnnl_memory_t *memory, const struct onednn *onednn,
		       const struct onednn_matrix *matrix, struct err *err)
{
	const dnnl_dims_t dims = { matrix->rows, matrix->cols };
	const dnnl_dims_t strides = { matrix->row_stride, matrix->col_stride };
	dnnl_memory_desc_t layout = NULL;
	int rc = -1;

	ONEDNN_CALL(onednn, memory_desc_create_with_strides, &layout, 2, dims, matrix->dtype,
		    strides);
	ONEDNN_CALL(onednn, memory_create, memory, layout, onednn->engine, (void *)matrix->data);
	rc = 0;
out:
	onednn->memory_desc_destroy(layout);
	return rc;
}

#endif
