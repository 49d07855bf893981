// weights - a model's tensors from files of others, by forgiving names.
//
//   FILE.safetensors, or a file of torch.save (store/torch_file.h)
//   FOLDER with model.safetensors, or model.safetensors.index.json and its shards; the
//   same with pytorch_model.bin
//   FOLDER of a run or of checkpoints, or one checkpoint
//
// Names are compared without what wrappers put in front ("_orig_mod.", "module.")
// and without the base model's prefix ("transformer.", "model."), so GPT-2 files
// fit with and without it. Masks that old files carry (.attn.bias of a model that
// has none, rotary frequencies) and a head that equals the embedding it is
// tied to count as not there.
//
// The folder weights: models of other programs coming in. Which model a folder holds, what
// else came with it, tensors in other names and forms. Going out is port's.

#ifndef TT_WEIGHTS_WEIGHTS_H
#define TT_WEIGHTS_WEIGHTS_H

#include "config/globs.h"
#include "state/tensors.h"

typedef struct tt_weights tt_weights; // open files

typedef struct tt_weights_options {
    bool wants_best; // of a run: the best checkpoint instead of the newest
    bool wants_ema;  // NAME.ema in place of NAME where the files have it
    bool as_is;      // to look at: experts stay the tensors that files have
    const tt_globs
        *skip; // weights that are not loaded; NULL: none. Must outlive it
} tt_weights_options;

// `notes` (may be NULL) gets a sentence a line about bad checkpoints on the way.
tt_status tt_weights_open(const char *path, const tt_weights_options *options,
                          tt_str *notes, tt_weights **weights_out);
void tt_weights_close(tt_weights *weights); // NULL is fine

const char *tt_weights_path(const tt_weights *weights);   // as it was given
const char *tt_weights_folder(const tt_weights *weights); // where the files lie
int64_t tt_weights_count(const tt_weights *weights);
const tt_safetensor *tt_weights_at(const tt_weights *weights, int64_t i);

// The tensor that a model calls `name`, or NULL.
const tt_safetensor *tt_weights_find(const tt_weights *weights,
                                     const char *name);

// Its average where that is wanted and there, else the tensor itself.
const tt_safetensor *tt_weights_average(const tt_weights *weights,
                                        const tt_safetensor *tensor);

typedef struct tt_weights_fit {
    int64_t n_loaded, n_missing, n_extra;
} tt_weights_fit;

// Whether a weight of the model is not to be loaded.
bool tt_weights_skips(const tt_weights *weights, const char *name);

// Whether a tensor says nothing: a mask, or a head that is the embedding once more.
bool tt_weights_is_nothing(const tt_weights *weights,
                           const tt_safetensor *tensor);

// Loads weights and buffers of `all` (an average starts as its weight). A wrong
// shape, or a type that does not convert, is an error, and then nothing changed.
// What the files lack and what the model lacks is named in `notes`, a sentence a
// line; with notes NULL either is an error that names the first few. With notes a
// head of another number of classes counts as one that the files lack.
tt_status tt_weights_load(const tt_weights *weights, tt_exec *exec,
                          const tt_tensors *all, tt_str *notes,
                          tt_weights_fit *fit_out);

// The same but for the loading: whether it would do.
tt_status tt_weights_check(const tt_weights *weights, const tt_graph *graph,
                           const tt_tensors *all, tt_str *notes);

// What the other ranks do while rank 0 loads, or fails to.
tt_status tt_weights_receive(tt_exec *exec, const tt_tensors *all);

// Name without wrappers and base prefix: a pointer into `name`.
const char *tt_weights_plain_name(const char *name);

#endif
