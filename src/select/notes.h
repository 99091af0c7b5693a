/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes: what a user should know of a plan that is right all the same.
 */
#ifndef FP8CONV_SELECT_NOTES_H
#define FP8CONV_SELECT_NOTES_H

#include <stddef.h>

/* In the order in which notes are told. */
enum note_kind {
	NOTE_MOSTLY_KEPT,
	NOTE_EXPERTS_UNKNOWN,
	NOTE_LOW_BIT_INEXACT,
	NOTE_NOT_LOADED,
	NOTE_FORMAT_NOT_LOADED, /* an engine does not load the scheme in this format */
	NOTE_OTHER_NAMES,	/* an engine looks for other names of scales */
	NOTE_PARTIAL_BLOCKS,	/* transformers reads weights of partial blocks wrong */
	NOTE_OVERRIDES_ENGINE,
	NOTE_CALIBRATION_UNFINISHED,
	NOTE_UNCOVERED,	      /* calibration has too few tokens of modules */
	NOTE_INVERTED,	      /* the source's scales divide */
	NOTE_SCALES_LEFT_OUT, /* scales and zero points that a format has not */
	NOTE_ACTIVATIONS,     /* engines quantize activations now */
	NOTE_PATTERN_UNUSED,
	NOTE_OUTPUT_INSIDE,  /* the output lies inside the model */
	NOTE_OUTPUT_BESIDE,  /* weight files of others lie in the output */
	NOTE_NO_CONFIG,	     /* the source has no config.json, so none is written */
	NOTE_README_COPIED,  /* the output gets the source's README.md */
	NOTE_POINTER_COPIED, /* the output gets a Git LFS pointer in the place of a file */
	NOTE_INDEX_STALE,    /* the source's index names files of another build */
	NOTE_FILES_LEFT_OUT, /* files beside the model are not copied */
	NOTE_INCOMPLETE,     /* the source lacks tensors that its config.json asks for */
	NOTE_SMALL_WEIGHTS,  /* engines' kernels refuse quantized weights */
	N_NOTE_KINDS
};

struct note {
	enum note_kind kind;
	char *tensor;  /* the first one that it is about; NULL: about no tensor */
	char *message; /* one line */
};

/* By kind, and within a kind as they were added.  Zeroed: empty. */
struct notes {
	size_t n;
	struct note *list;
};

/* Returns the word that programs read: "mostly-kept". */
const char *note_kind_name(enum note_kind kind);

/* Adds a note with a copy of tensor, which may be NULL. */
void notes_add(struct notes *notes, enum note_kind kind, const char *tensor, const char *format,
	       ...) __attribute__((format(printf, 4, 5)));

void notes_release(struct notes *notes);

#endif
