/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/engine_cast.h"

#include "recipe/recipe.h"

struct input_cast engine_cast_dynamic(enum granularity granularity, enum fp8_format format,
				      size_t cols, bool pow2, enum mx_rule mx_rule)
{
	struct input_cast cast = { .spec = recipe_of_scheme(granularity, false)->input,
				   .stats = SIZE_MAX };

	cast.spec.format = format;
	cast.spec.mx_rule = mx_rule;
	if (granularity == GRANULARITY_BLOCK) {
		cast.spec.tile.cols = cols;
		cast.spec.pow2 = pow2;
	}
	return cast;
}

void engine_cast_static(struct input_cast *cast, float scale_inv)
{
	cast->spec.tile = (struct tile){ WHOLE, WHOLE };
	cast->spec.arith = ARITH_GIVEN;
	cast->spec.pow2 = false;
	cast->scale = 1 / scale_inv;
	cast->scale_inv = scale_inv;
}
