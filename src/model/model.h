// model - a network described once: build() says what is computed, with the names
// and shapes that Hugging Face or torchvision use, and nothing about where.
//
// What belongs here: one file per family, with its options, presets and a function that
// emits the forward pass. What does not: the loss, gradients, the optimiser, precision
// and the split over ranks. Those are made from the graph, so each model has all of
// them.

#ifndef TT_MODEL_MODEL_H
#define TT_MODEL_MODEL_H

#include "graph/build.h"

typedef enum tt_model_task {
    TT_TASK_TOKENS, // ids [batch, seq] -> next token at every position
    TT_TASK_IMAGES, // pixels [batch, channels, height, width] -> class
} tt_model_task;

// Extents of one micro-batch, and what the model made of them.
//
// Decoding: the model continues from states that remember earlier tokens. The scalar
// "position" says how many these are (models that do not count tokens have no such
// scalar). There are no labels. To begin a new text, set the position to zero and the
// states to their initial values.
typedef struct tt_model_io {
    int64_t batch;
    int64_t seq;       // tokens; 0: the model's default
    int64_t image;     // height and width; 0: the model's default
    bool decodes;      // see above; only if the def can
    int64_t context;   // decoding: most tokens remembered, at most
                       // this and the model's own (0: its own);
                       // then what it is (0: any number)
    tt_val logits;     // [batch, seq, vocab] or [batch, classes]
    tt_val labels;     // the input "y"
    tt_val extra_loss; // a sum over samples that is learnt with the
                       // loss and not reported; TT_NONE: none
    const struct tt_model_def *def; // whose build this is
} tt_model_io;

// Declares the inputs "x" and "y" and emits the forward pass up to the logits;
// sets io->logits, io->labels, perhaps io->extra_loss, and the defaults it used.
typedef tt_status tt_model_build_fn(tt_builder *b, const void *params,
                                    tt_model_io *io);

typedef struct tt_model_preset {
    const char *name;    // "gpt2-124m"; NULL ends the list
    const char *options; // "layers=12 width=768 heads=12"
} tt_model_preset;

// A configuration so small that the laws train it with the reference kernels. It has at
// least 5 classes or 5 words.
typedef struct tt_model_sample {
    const char *options; // NULL ends the list
    int64_t seq, image;  // 0: not for this model
    const char *tensor;  // layout over an axis `tensor`; NULL: not split so
    bool needs_batch;    // batch norm: samples depend on each other
} tt_model_sample;

typedef struct tt_model_def {
    const char *name, *doc;
    const tt_opt *options;
    int64_t params_bytes;
    const tt_model_preset *presets;
    tt_model_task task;
    // The usual layout of this family, "filters:tensor"; NULL: that of most models.
    const char *layout;
    bool can_decode; // build knows io->decodes
    bool is_foreign; // added at run time: it need not have samples
    const tt_model_sample *samples;
    tt_model_build_fn *build;
} tt_model_def;

const tt_model_def *const *tt_model_all(int *n);

// Adds a member at run time. The def must live until the process ends; a name that
// is there already is refused. Any thread.
tt_status tt_model_register(const tt_model_def *def);

// A model or a preset by name; *preset_out is NULL for a plain model. An unknown
// name is an error that suggests the nearest.
tt_status tt_model_find(const char *name, const tt_model_def **def_out,
                        const tt_model_preset **preset_out);

#endif
