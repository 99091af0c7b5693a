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

#endif
