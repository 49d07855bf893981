// tokenizer_hf - the parts of a tokenizer.json. Internal to tokenizer_hf*.c.

#ifndef TT_DATA_TOKENIZER_TOKENIZER_HF_H
#define TT_DATA_TOKENIZER_TOKENIZER_HF_H

#include "data/tokenizer/tokenizer_def.h"

const tt_json_value *tt__hf_get(const tt_json_value *object, const char *key);
const char *tt__hf_type(const tt_json_value *v); // "" when there is none
bool tt__hf_is(const tt_json_value *v, const char *type);
tt_status tt__hf_refuse(const char *part, const tt_json_value *v);

// A copy of a text member; `fallback` when it is absent.
const char *tt__hf_copy(tt_tokenizer *t, const tt_json_value *object,
                        const char *key, const char *fallback);

// The pattern of a Split or Replace as a regular expression.
tt_status tt__hf_pattern(const tt_json_value *v, const char *part,
                         tt_splitter **splitter_out);

// Each fills a part of t->general.
tt_status tt__hf_normalizer(tt_tokenizer *t, const tt_json_value *v);
tt_status tt__hf_pre_tokenizer(tt_tokenizer *t, const tt_json_value *root);
tt_status tt__hf_decoder(tt_tokenizer *t, const tt_json_value *v);

// The model's kind and what it says beside the vocabulary.
tt_status tt__hf_check_model(const tt_json_value *model);
tt_status tt__hf_model(tt_tokenizer *t, const tt_json_value *root);

bool tt__hf_is_set(const tt_json_value *object, const char *key);
tt_status tt__hf_count_ids(const tt_json_value *added, int64_t *size);
tt_status tt__hf_added(tt_tokenizer *t, const tt_json_value *added);
bool tt__hf_pair(const tt_json_value *v, tt_merge_text *m);

#endif
