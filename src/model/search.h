/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the tensors of a layer by the names of its architecture, and checks them against
 * config.json.  All functions fail with ERR_INPUT, naming the tensor.
 */
#ifndef FP8CONV_MODEL_SEARCH_H
#define FP8CONV_MODEL_SEARCH_H

#include "model/model.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A search through the layers of a model. */
struct search {
	const struct model *model;
	size_t n_found; /* tensors */
	struct err *err;
};

/* A matrix that the architecture names, of n rows and k columns (0: any). */
struct wanted {
	enum linear_role role;
	size_t n, k;
};

/* The name of a module or a tensor below its layer in this architecture; "": it has none. */
const char *search_linear_name(const struct search *search, enum linear_role role);
const char *search_vector_name(const struct search *search, enum vector_role role);
const char *search_expert_name(const struct search *search, enum expert_role role);

/* The tensor PREFIX NAME SUFFIX, or NULL. */
const struct tensor_ref *search_tensor(struct search *search, const char *prefix, const char *name,
				       const char *suffix);

/* A matrix (n, k; 0: any) with its bias; linear stays empty where the layer has none. */
int search_linear(struct search *search, const char *prefix, const char *module, size_t n, size_t k,
		  struct linear_ref *linear);
/* Several matrices, each into layer->linear[role]. */
int search_linears(struct search *search, const char *prefix, struct layer_ref *layer,
		   const struct wanted *wanted, size_t n_wanted);
/* Fails if one of the roles has no matrix. */
int search_need(const struct search *search, const char *prefix, const struct layer_ref *layer,
		const enum linear_role *roles, size_t n);

/* n, k 0: any. */
int search_check_vector(const struct tensor_ref *ref, size_t n, struct err *err);
int search_check_matrix(const struct tensor_ref *ref, size_t n, size_t k, struct err *err);

/* Errors: set the message and return -1. */
int search_bad_shape(const struct tensor_ref *ref, const char *wanted, struct err *err);
/* suffix: ".weight", or none where module is the whole name. */
int search_missing(const struct search *search, const char *prefix, const char *module,
		   const char *suffix);

#endif
