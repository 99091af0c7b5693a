/* SPDX-License-Identifier: Apache-2.0
 *
 * Products and layouts as oneDNN 2 describes them: memory descriptors are structs of the caller,
 * and a primitive descriptor is made from a descriptor of the operation.
 */
#include "kernels/cpu/forward/onednn.h"

#if DNNL_VERSION_MAJOR == 2

int onednn_describe_product(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			    const struct onednn_product *product, onednn_layout weight,
			    struct err *err)
{
	const dnnl_dims_t x_dims = { product->m, product->k };
	const dnnl_dims_t w_dims = { product->k, product->n };
	const dnnl_dims_t y_dims = { product->m, product->n };
	dnnl_memory_desc_t x, w, y;
	dnnl_matmul_desc_t matmul;

	ONEDNN_CALL(onednn, memory_desc_init_by_tag, &x, 2, x_dims, product->dtype, dnnl_ab);
	ONEDNN_CALL(onednn, memory_desc_init_by_tag, &w, 2, w_dims, product->dtype,
		    dnnl_format_tag_any);
	ONEDNN_CALL(onednn, memory_desc_init_by_tag, &y, 2, y_dims, dnnl_f32, dnnl_ab);
	ONEDNN_CALL(onednn, matmul_desc_init, &matmul, &x, weight ? weight : &w, NULL, &y);
	ONEDNN_CALL(onednn, primitive_desc_create, desc, &matmul, onednn->attr, onednn->engine,
		    NULL);
	return 0;
out:
	return -1;
}

int onednn_describe_reorder(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			    const struct onednn_product *product, onednn_layout weight,
			    struct err *err)
{
	const dnnl_dims_t dims = { product->k, product->n };
	const dnnl_dims_t strides = { 1, product->k };
	dnnl_memory_desc_t rows;

	ONEDNN_CALL(onednn, memory_desc_init_by_strides, &rows, 2, dims, product->dtype, strides);
	ONEDNN_CALL(onednn, reorder_primitive_desc_create, desc, &rows, onednn->engine, weight,
		    onednn->engine, onednn->attr);
	return 0;
out:
	return -1;
}

int onednn_describe_sum(dnnl_primitive_desc_t *desc, const struct onednn *onednn,
			dnnl_data_type_t dtype, struct err *err)
{
	const dnnl_dims_t dims = { DNNL_RUNTIME_DIM_VAL, DNNL_RUNTIME_DIM_VAL };
	const dnnl_dims_t rows = { DNNL_RUNTIME_DIM_VAL, 1 }, cols = { 1, DNNL_RUNTIME_DIM_VAL };
	dnnl_memory_desc_t a, b, h;
	dnnl_matmul_desc_t matmul;
	dnnl_primitive_attr_t attr = NULL;
	dnnl_post_ops_t sum = NULL;
	int rc = -1;

	ONEDNN_CALL(onednn, memory_desc_init_by_strides, &a, 2, dims, dtype, cols);
	ONEDNN_CALL(onednn, memory_desc_init_by_strides, &b, 2, dims, dtype, rows);
	ONEDNN_CALL(onednn, memory_desc_init_by_strides, &h, 2, dims, dnnl_f32, rows);
	ONEDNN_CALL(onednn, post_ops_create, &sum);
	ONEDNN_CALL(onednn, post_ops_append_sum, sum, 1);
	ONEDNN_CALL(onednn, primitive_attr_create, &attr);
	ONEDNN_CALL(onednn, primitive_attr_set_scratchpad_mode, attr, dnnl_scratchpad_mode_user);
	ONEDNN_CALL(onednn, primitive_attr_set_post_ops, attr, sum);
	ONEDNN_CALL(onednn, matmul_desc_init, &matmul, &a, &b, NULL, &h);
	ONEDNN_CALL(onednn, primitive_desc_create, desc, &matmul, attr, onednn->engine, NULL);
	rc = 0;
out:
	if (attr)
		onednn->primitive_attr_destroy(attr);
	if (sum)
		onednn->post_ops_destroy(sum);
	return rc;
}

int onednn_matrix_bind(dnnl_memory_t *memory, const struct onednn *onednn,
		       const struct onednn_matrix *matrix, struct err *err)
{
	const dnnl_dims_t dims = { matrix->rows, matrix->cols };
	const dnnl_dims_t strides = { matrix->row_stride, matrix->col_stride };
	dnnl_memory_desc_t layout;

	ONEDNN_CALL(onednn, memory_desc_init_by_strides, &layout, 2, dims, matrix->dtype, strides);
	ONEDNN_CALL(onednn, memory_create, memory, &layout, onednn->engine, (void *)matrix->data);
	return 0;
out:
	return -1;
}

#endif
