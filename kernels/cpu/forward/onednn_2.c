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

#endif
