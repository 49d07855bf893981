// generate - text from a language model.
//
//   tt_generator_open(job, tokenizer) -> tt_generator_sync | tt_generator_load
//   tt_generator_open_files(path)        has its weights already
//   -> tt_generate ..
//
// When the model's context is full, it is read anew from the last half of it on: the
// text goes on, and what is older is forgotten. One thread at a time.
//
// The folder text: a model that writes: decoding token by token, sampling, characters.
// Tokenizers are data's.

#ifndef TT_TEXT_GENERATE_H
#define TT_TEXT_GENERATE_H

#include "data/tokenizer/tokenizer.h"
#include "job/job.h"
#include "text/decode.h"
#include "text/sampler.h"
#include "weights/weights.h"

#include <signal.h>

typedef struct tt_generator tt_generator;

// The model of a configured job, on its backend; no weights yet. Job and tokenizer
// must outlive it. Without a tokenizer (NULL) texts are ids, with blanks between.
tt_status tt_generator_open(const tt_job *job, const tt_tokenizer *tokenizer,
                            tt_generator **generator_out);
void tt_generator_close(tt_generator *generator); // NULL is fine

// Weights of a started job as they are now; with use_ema the averages where there
// are some.
tt_status tt_generator_sync(tt_generator *generator, const tt_job *job,
                            bool use_ema);

// From files, which must have all of them. `notes` may be NULL.
tt_status tt_generator_load(tt_generator *generator, const tt_weights *weights,
                            tt_str *notes);

// Model, tokenizer and weights of a run, a checkpoint or a Hugging Face folder.
// `settings` may have precision, device, threads and seq, which replace those of the
// folder. What the user should know is added to `notes`, a sentence a line.
tt_status tt_generator_open_files(const char *path, bool wants_best,
                                  const tt_settings *settings, tt_str *notes,
                                  tt_generator **generator_out);

// What a folder in the form of others says begins and ends a text.
tt_status tt_generator_describe(tt_generator *generator, const char *folder);

// Gets whole characters, as soon as they are known. An error ends the text.
typedef tt_status tt_generate_fn(void *user, const char *text, int64_t n);

typedef struct tt_generate_request {
    const char *prompt; // UTF-8, not terminated; empty: the beginning of a text
    int64_t n_prompt;
    int64_t tokens; // most new ones
    tt_sampler_options sampler;
    int64_t number; // of the text: others with the same seed are different
    tt_generate_fn *write;
    void *user;
    const volatile sig_atomic_t *stop; // not 0: end here; NULL: never
} tt_generate_request;

typedef struct tt_generate_result {
    int64_t n_prompt; // tokens of the prompt
    int64_t n_cut;    // of these, left out in front: longer than the context
    int64_t n_tokens; // new ones
    bool is_end;      // the end-of-text token came
    double prompt_seconds, token_seconds; // reading, writing
} tt_generate_result;

// `result_out` may be NULL.
tt_status tt_generate(tt_generator *generator,
                      const tt_generate_request *request,
                      tt_generate_result *result_out);

// The same without text: `n` ids are continued, `token` is called for each new one.
typedef tt_status tt_generate_token_fn(void *user, int32_t id);

typedef struct tt_generate_ids {
    const int32_t *prompt; // at least one
    int64_t n_prompt;
    int64_t tokens;
    int64_t vocab;             // only ids below; 0: all of the model's
    int32_t end;               // ends the text; -1: none
    const int32_t *other_ends; // and any of these
    int64_t n_other_ends;
    tt_sampler_options sampler;
    int64_t number;
    tt_generate_token_fn *token;
    void *user;
    const volatile sig_atomic_t *stop;
} tt_generate_ids;

tt_status tt_decoder_generate(tt_decoder *decoder, const tt_generate_ids *ids,
                              tt_generate_result *result_out);

#endif
