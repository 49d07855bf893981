// pretrained - what the files of a Hugging Face folder say about a model.

#ifndef TT_STORE_PRETRAINED_H
#define TT_STORE_PRETRAINED_H

#include "base/arena.h"
#include "base/settings.h"

#include <stdint.h>

// Sets model, model.* and precision from the text of a config.json of type gpt2 or
// llama; `name` is what errors call it. What the model here cannot do (another
// activation, scaled rotary positions, biases) is refused.
tt_status tt_pretrained_read(const char *text, int64_t n, const char *name,
                             tt_arena *arena, tt_settings *settings);

// The id that ends a text, from a config.json; -1: it names none.
tt_status tt_pretrained_end(const char *text, int64_t n, const char *name,
                            tt_arena *arena, int32_t *end_out);

// The id that a tokenizer.json puts before every text; -1: none.
tt_status tt_pretrained_begin(const char *text, int64_t n, const char *name,
                              tt_arena *arena, int32_t *begin_out);

#endif
