// decode - a model that reads a text token by token and remembers what it read.
//
//   tt_decoder_open -> weights into its states -> feed, look at the logits, feed ..
//
// A prompt is read in chunks by a second plan that exists only for that time and
// leaves its keys and values to the first; without memory for it, token by token.
// A model that cannot decode is run over a window of its whole context for every
// token, which is the same for causal models, only slower. One thread at a time.

#ifndef TT_TEXT_DECODE_H
#define TT_TEXT_DECODE_H

#include "backend/backend.h"
#include "exec/exec.h"
#include "model/model.h"

typedef struct tt_decoder_options {
    tt_backend *backend;       // must outlive the decoder, as
    const tt_model_def *model; // must these
    const void *params;
    tt_dtype dtype, master; // of activations and matrices; of vectors
    int64_t context;        // most tokens; 0: as many as the model can
    int64_t chunk;          // tokens of a prompt at once; 0: a good number
} tt_decoder_options;

typedef struct tt_decoder tt_decoder;

tt_status tt_decoder_open(const tt_decoder_options *options,
                          tt_decoder **decoder_out);
void tt_decoder_close(tt_decoder *decoder); // NULL is fine

// Its states, to write weights into: every PARAM of the graph, and every BUFFER
// that is not memory of the text.
tt_exec *tt_decoder_exec(tt_decoder *decoder);
const tt_graph *tt_decoder_graph(const tt_decoder *decoder);
bool tt_decoder_is_memory(const tt_decoder *decoder, tt_val state);

int64_t tt_decoder_vocab(const tt_decoder *decoder);
int64_t tt_decoder_context(const tt_decoder *decoder);  // 0: any number
int64_t tt_decoder_position(const tt_decoder *decoder); // tokens read

// Forgets the text, not the weights.
tt_status tt_decoder_reset(tt_decoder *decoder);

// Reads n more tokens, at least one; together at most its context.
tt_status tt_decoder_feed(tt_decoder *decoder, const int32_t *ids, int64_t n);

// The logits after the last token, valid until the next feed.
const double *tt_decoder_logits(const tt_decoder *decoder);

#endif
