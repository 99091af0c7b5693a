/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of other converters (llm-compressor, ModelOpt, llama.cpp, rsync) for what has another
 * name here, or is another tool's work.
 */
#ifndef FP8CONV_CLI_PEERS_H
#define FP8CONV_CLI_PEERS_H

/* Where a word stands; PEER_ADVICE is an option that has another form here. */
enum peer_kind {
	PEER_COMMAND,
	PEER_OPTION,
	PEER_ADVICE,
	PEER_RECIPE,
	PEER_FORMAT,
	PEER_TARGET,
	PEER_VALUE,
};

/* Returns the word of fp8conv for it, or what to do, or NULL.  Case does not count, and '_' is
 * '-'. */
const char *peer_word(enum peer_kind kind, const char *word);

/* Returns which tool makes it, for a recipe or format of another kind than FP8; NULL: unknown. */
const char *peer_tool(const char *recipe);

#endif
