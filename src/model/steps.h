/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of model_open(), in order: model_configure() takes the sizes and features of the model
 * from config.json; model_find_tensors() finds the tensors of each layer, and calls
 * search_experts() for a layer that has a router; model_check_features() compares both.
 */
#ifndef FP8CONV_MODEL_STEPS_H
#define FP8CONV_MODEL_STEPS_H

#include <jansson.h>

#include "names/config.h"
#include "model/search.h"

/* Returns the number of layers where a list of their kinds states it, as in Nemotron-H; else 0. */
size_t model_count_layers(const struct arch *arch, const json_t *facts);

/* Writes into the facts what they say by keys of releases: the types of layers, where a list of
 * them is missing too, and the ropes of these types.  level: the object that the facts are of.
 * ERR_INPUT with the key. */
int model_join_spellings(json_t *facts, const json_t *level, const struct positions *positions,
			 struct err *err);

/* Sets what mixes the tokens of each layer.  facts: of facts_read().  ERR_INPUT, with the key, for
 * a kind of layer that the architecture does not have, and for sizes that do not fit each other. */
int model_find_mixers(struct model *model, const json_t *facts, struct err *err);

/* Sets sizes and features, and allocates the layers, with what config.json states of each.  facts:
 * of facts_read().  ERR_INPUT with the key. */
int model_configure(struct model *model, const struct model_config *config, const json_t *facts,
		    struct err *err);

/* Read the sizes of latent attention, and which of them each layer has, whose windows are set.
 * ERR_INPUT with the key. */
int latent_configure(struct model *model, const json_t *facts, struct err *err);
int latent_configure_layers(struct model *model, const json_t *facts, struct err *err);

/* Sets the number and the size of the heads of each layer, whose windows are set.  ERR_INPUT with
 * the key. */
int model_configure_heads(struct model *model, const json_t *facts, struct err *err);

/* Sets the heads of layers with a window where they differ from the others'.  ERR_INPUT with the
 * key. */
int model_configure_window_heads(struct model *model, const json_t *facts, struct err *err);

/* Sets which gates attention's output has.  ERR_INPUT with the key. */
int model_configure_gates(struct model *model, const json_t *facts, struct err *err);

/* Sets the limits of gated values of each layer.  ERR_INPUT with the key. */
int model_configure_limits(struct model *model, const json_t *facts, struct err *err);

/* Sets which layers use the keys and values of others, and the places of what goes from layer to
 * layer.  ERR_INPUT with the key. */
int model_configure_sharing(struct model *model, const json_t *facts, struct err *err);

/* Reads the sizes of biases by distance, and sets how far they reach in each layer, whose windows
 * are set; and the width of short convolutions.  ERR_INPUT with the key. */
int distances_configure(struct model *model, const json_t *facts, struct err *err);
int short_conv_configure(struct model *model, const json_t *facts, struct err *err);

/* Reads the sizes of an indexer, and which layers choose keys by it; after their ropes.  facts: of
 * facts_read().  ERR_INPUT, with the key, for a value that is out of range. */
int indexer_configure(struct model *model, const json_t *facts, struct err *err);

/* Writes into the facts of a model with compressed keys the types of its layers, by what releases
 * have in their place, and a rope for those with compressed keys and for those without, as
 * positions.layer_ropes wants them.  ERR_INPUT with the key. */
int pools_join_spellings(json_t *facts, const json_t *level, struct err *err);

/* Sets which layers have compressed keys; after their ropes.  ERR_INPUT with the key. */
int pools_configure(struct model *model, const json_t *facts, struct err *err);

/* Reads how many vectors the residual stream has.  ERR_INPUT with the key. */
int streams_configure(struct model *model, const json_t *facts, struct err *err);

/* Reads the sizes of n-gram embeddings, and which layers have one.  ERR_INPUT with the key. */
int ngrams_configure(struct model *model, const json_t *facts, struct err *err);

/* Finds the table of a layer's n-gram embedding, and its matrices. */
int search_ngrams(struct search *search, const char *prefix, struct layer_ref *layer);
void ngrams_release(struct model *model);

/* Find the hyper-connections of low rank of a layer; and what mixes the vectors in the end. */
int search_layer_streams(struct search *search, const char *prefix, struct layer_ref *layer);
int search_streams(struct search *search, struct model *model);

/* Reads how tokens get their experts.  ERR_INPUT with the key. */
int routing_configure(struct model *model, const json_t *facts, struct err *err);

/* Reads the ropes; sets the window and the rope of each layer, and how its queries grow.  ERR_INPUT
 * with the key. */
int model_configure_ropes(struct model *model, const json_t *facts, struct err *err);
int model_configure_windows(struct model *model, const json_t *facts, struct err *err);

/* Sets the rope of each layer where config.json has a base for each; use: of the model's rope.
 * ERR_INPUT with the key. */
int model_configure_layer_ropes(struct model *model, const json_t *facts,
				const struct rope_use *use, struct err *err);
void model_release_layer_ropes(struct model *model);

/* Read the sizes of gated DeltaNet; and of Kimi Delta Attention, and which layers have it, in
 * Kimi Linear and in Ling 3.  facts: of facts_read().  ERR_INPUT, with the key, for a value that is
 * out of range. */
int delta_configure(struct model *model, const json_t *facts, struct err *err);
int kda_configure(struct model *model, const json_t *facts, struct err *err);
int ling_configure(struct model *model, const json_t *facts, struct err *err);

/* Reads the sizes of Mamba-1, and which layers have it.  facts: of facts_read().  ERR_INPUT, with
 * the key, for a value that is out of range. */
int mamba1_configure(struct model *model, const json_t *facts, struct err *err);

/* Reads the factors of a layer's values, of embeddings and of scores.  ERR_INPUT, with the key, for
 * one that is not a finite number. */
int model_read_multipliers(struct model *model, const json_t *facts, struct err *err);

/* Finds every tensor of the model by the names of its architecture.  ERR_INPUT for a tensor that is
 * missing, unexpected or of another shape than config.json implies. */
int model_find_tensors(struct model *model, const struct model_config *config, struct err *err);

/* Fails with ERR_INPUT where dense mlps have other widths than config.json says, in models whose
 * layers may have two. */
int model_check_widths(const struct model *model, const struct model_config *config,
		       const json_t *facts, struct err *err);

/* Fails with ERR_INPUT where a flag of config.json contradicts the tensors of a layer. */
int model_check_features(const struct model *model, const json_t *facts, struct err *err);

/* Finds the experts of a layer whose router is already in layer. */
int search_experts(struct search *search, const char *prefix, struct layer_ref *layer);

/* Finds the matrix that weighs biases by distance, where the model has them. */
int search_distances(struct search *search, const char *prefix, struct layer_ref *layer);

/* Returns how many channels a short convolution has. */
size_t short_conv_channels(const struct model *model, const struct layer_ref *layer, int role);

/* Finds the vectors of a layer whose mixer and experts are known. */
int search_vectors(struct search *search, const char *prefix, struct layer_ref *layer);

#endif
