/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the tensors of a layer by the names of its architecture, and checks their shapes against
 * config.json.  All functions fail with ERR_INPUT and the name of the tensor, in the err of their
 * search.  prefix is the part of names in front of a module: "model.layers.0.".
 */
#ifndef FP8CONV_MODEL_SEARCH_H
#define FP8CONV_MODEL_SEARCH_H

#include "names/config.h"
#include "model/model.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A search through the layers of a model. */
struct search {
	const struct model *model;
	const struct model_config *config;
	size_t n_found; /* tensors with a role, to be compared with all tensors of the layers */
	struct err *err;
};

/* A matrix that the architecture names, of n rows and k columns (0: any), and whether a layer must
 * have it: 0 or 1, or by whether it has another matrix. */
struct expected {
	enum linear_role role;
	size_t n, k;
	int needed;
};

#define UNLESS(other) (-1 - (int)(other)) /* fused with others */
#define BESIDE(other) (2 + (int)(other))

/* Returns the name of a module or tensor below its layer, or "" where this architecture does not
 * have it. */
const char *search_linear_name(const struct search *search, enum linear_role role);
const char *search_vector_name(const struct search *search, enum vector_role role);
const char *search_expert_name(const struct search *search, enum expert_role role);
/* A tensor of all experts. */
const char *search_stack_name(const struct search *search, enum expert_role role);

/* Returns the tensor PREFIX NAME SUFFIX and counts it as found, or returns NULL. */
const struct tensor_ref *search_tensor(struct search *search, const char *prefix, const char *name,
				       const char *suffix);

/* Finds a matrix (n, k; 0: any) and its bias.  linear stays empty where the layer has neither. */
int search_linear(struct search *search, const char *prefix, const char *module, size_t n, size_t k,
		  struct linear_ref *linear);
/* Finds several matrices, each into layer->linear[role].  Fails if a needed one is missing. */
int search_linears(struct search *search, const char *prefix, struct layer_ref *layer,
		   const struct expected *expected, size_t n_expected);
/* Fails if the layer lacks the matrix of one of the n roles. */
int search_need(const struct search *search, const char *prefix, const struct layer_ref *layer,
		const enum linear_role *roles, size_t n);

/* Fails for a tensor of a layer that has no role. */
int search_check_leftovers(const struct search *search);

/* Check that the tensor is (n) or (n, k); 0 stands for any size. */
int search_check_vector(const struct tensor_ref *ref, size_t n, struct err *err);
int search_check_matrix(const struct tensor_ref *ref, size_t n, size_t k, struct err *err);

/* Sets the message of a tensor whose shape differs, and returns -1. */
int search_bad_shape(const struct tensor_ref *ref, const char *expected, struct err *err);
/* Sets the message of a missing tensor, and returns -1.  suffix is ".weight", or "" where module is
 * the whole name. */
int search_missing(const struct search *search, const char *prefix, const char *module,
		   const char *suffix);

#endif
