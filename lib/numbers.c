/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of fp8conv.h on matrices: shapes, amax, quantize and dequantize.
 */
#include "lib/device.h"
#include "lib/quantize.h"

#define N_ROLES (FP8CONV_GRAD_INPUT + 1)

static const struct qspec *role_spec(const struct fp8conv_recipe *recipe, int role)
{
	if (role >= FP8CONV_GRAD_OUTPUT)
		return &recipe->row.grad;
	return role == FP8CONV_W ? &recipe->row.weight : &recipe->row.input;
}

static int recipe_role_check(const struct fp8conv_recipe *recipe, int role, struct err *err)
{
	if (!recipe)
		return err_set(err, ERR_USAGE, "recipe is NULL");
	return word_check(role, N_ROLES, "role", err);
}

static int shape_of(const struct fp8conv_recipe *recipe, const struct fp8conv_copy *copy,
		    const size_t of[2], struct fp8conv_shape *shape, struct err *err)
{
	const struct qspec *spec;
	struct scale_grid grid;
	bool columnwise, along;

	if (size_check(copy, sizeof *copy, "copy", err) ||
	    size_check(shape, sizeof *shape, "shape", err) ||
	    recipe_role_check(recipe, copy->role, err) ||
	    word_check(copy->layout, SCALES_GEMM + 1, "layout", err))
		return -1;
	spec = role_spec(recipe, copy->role);
	columnwise = copy->columnwise;
	along = columnwise && spec->scale_type == SCALE_E8M0;
	grid = scale_grid_of(spec, of[columnwise], of[!columnwise], columnwise,
			     (enum scale_order)copy->layout);
	*shape = (struct fp8conv_shape){
		.size = sizeof *shape,
		.codes_rows = of[columnwise && !along],
		.codes_columns = of[!columnwise || along],
		.scale_rows = grid.rows,
		.scale_columns = grid.cols,
		.block_rows = spec->tile.rows,
		.block_columns = spec->tile.cols,
		.codes_dtype = spec->format == FP8_E4M3 ? FP8CONV_E4M3 : FP8CONV_E5M2,
		.scale_dtype = spec->scale_type == SCALE_E8M0 ? FP8CONV_E8M0 : FP8CONV_F32,
	};
	return 0;
}

EXPORTED int fp8conv_scale_shape(const struct fp8conv_recipe *recipe,
				 const struct fp8conv_copy *copy, size_t rows, size_t columns,
				 struct fp8conv_shape *shape, struct fp8conv_error *error)
{
	const size_t of[] = { rows, columns };
	struct err err = { 0 };

	return error_out(shape_of(recipe, copy, of, shape, &err), &err, error);
}

static int amax(struct fp8conv_context *context, const struct fp8conv_tensor *x, float *found,
		struct err *err)
{
	struct device_work work;
	struct stack stack;

	if (tensor_read_anywhere(x, "x", &stack, err) || stack_check_float(&stack, "x", err))
		return -1;
	if (!found)
		return err_set(err, ERR_USAGE, "amax is NULL");
	if (device_work_begin(context, x, "x", &work, err))
		return -1;
	if (!work.ops)
		return amax_stack(context, &stack, found, err);
	device_work_amax(&work, &stack, found, false);
	return device_work_end(&work, 0, err);
}

EXPORTED int fp8conv_amax(struct fp8conv_context *context, const struct fp8conv_tensor *x,
			  float *found, struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = context_take(context, &err);

	if (!rc) {
		rc = amax(context, x, found, &err);
		context_leave(context);
	}
	return error_out(rc, &err, error);
}

static int quantize(struct fp8conv_context *context, const struct fp8conv_recipe *recipe, int role,
		    const struct fp8conv_tensor *x, struct fp8conv_quantized *out, struct err *err)
{
	struct quantizer q = { 0 };

	if (recipe_role_check(recipe, role, err))
		return -1;
	q.spec = *role_spec(recipe, role);
	return quantize_stack(context, &q, x, out, err);
}

EXPORTED int fp8conv_quantize(struct fp8conv_context *context, const struct fp8conv_recipe *recipe,
			      int role, const struct fp8conv_tensor *x,
			      struct fp8conv_quantized *out, struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = context_take(context, &err);

	if (!rc) {
		rc = quantize(context, recipe, role, x, out, &err);
		context_leave(context);
	}
	return error_out(rc, &err, error);
}

EXPORTED int fp8conv_dequantize(struct fp8conv_context *context, const struct fp8conv_quantized *q,
				const struct fp8conv_tensor *y, struct fp8conv_error *error)
{
	struct err err = { 0 };
	int rc = context_take(context, &err);

	if (!rc) {
		rc = dequantize_stack(context, q, y, &err);
		context_leave(context);
	}
	return error_out(rc, &err, error);
}
