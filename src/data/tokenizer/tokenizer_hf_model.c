// tokenizer_hf_model - the models of a tokenizer.json whose tokens are texts.

#include "data/tokenizer/tokenizer_hf.h"

#include <string.h>

// ---- what it must be -----------------------------------------------------

static tt_status check_vocab(const tt_json_value *model, bool is_list)
{
    const tt_json_value *vocab = tt__hf_get(model, "vocab");
    const tt_json_type type = is_list ? TT_JSON_ARRAY : TT_JSON_OBJECT;
    if (vocab == NULL || vocab->type != type || vocab->n == 0)
        return tt_fail(TT_ERR_ARG,
                       is_list ? "model.vocab must be an array of tokens and "
                                 "their scores"
                               : "model.vocab must be an object of ids");
    return TT_OK;
}

static tt_status check_bpe(const tt_json_value *model)
{
    const tt_json_value *merges = tt__hf_get(model, "merges");
    if (tt__hf_is_set(model, "dropout"))
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "model.dropout is not supported: ids would be drawn by "
                       "chance; set it to null");
    TT_TRY(check_vocab(model, false));
    if (merges == NULL || merges->type != TT_JSON_ARRAY)
        return tt_fail(TT_ERR_ARG, "model.merges must be an array");
    return TT_OK;
}

tt_status tt__hf_check_model(const tt_json_value *model)
{
    if (tt__hf_is(model, "Unigram"))
        return check_vocab(model, true);
    if (tt__hf_is(model, "WordPiece") || tt__hf_is(model, "WordLevel"))
        return check_vocab(model, false);
    // Older files do not name the type.
    const bool is_old =
        tt__hf_type(model)[0] == '\0' && tt__hf_get(model, "merges") != NULL;
    if (tt__hf_is(model, "BPE") || is_old)
        return check_bpe(model);
    return tt__hf_refuse("model", model);
}

// ---- tokens --------------------------------------------------------------

static tt_status read_vocab(tt_tokenizer *t, const tt_json_value *vocab)
{
    for (const tt_json_value *v = vocab->first; v != NULL; v = v->next)
        TT_TRY(
            tt__tokenizer_set(t, tt_json_int(v, -1), v->key, v->key_n, true));
    return TT_OK;
}

// A Unigram's vocabulary: ["token", score] by id.
static tt_status read_scores(tt_tokenizer *t, const tt_json_value *vocab)
{
    tt_lookup *look = &t->general->lookup;
    double least = 0;
    int64_t id = 0;
    look->score =
        tt_arena_alloc(t->arena, t->vocab * (int64_t)sizeof(*look->score));
    if (look->score == NULL)
        return TT_ERR_NOMEM;
    for (const tt_json_value *v = vocab->first; v != NULL; v = v->next, id++) {
        const tt_json_value *text = v->type == TT_JSON_ARRAY ? v->first : NULL;
        if (v->n != 2 || text == NULL || text->type != TT_JSON_STRING ||
            text->next->type != TT_JSON_NUMBER)
            return tt_fail(TT_ERR_ARG,
                           "model.vocab[%lld] must be a token and its score",
                           (long long)id);
        look->score[id] = tt_json_number(text->next, 0);
        least = id == 0 || look->score[id] < least ? look->score[id] : least;
        TT_TRY(tt__tokenizer_set(t, id, text->text, text->n, true));
    }
    look->unknown_score = least - 10;
    return TT_OK;
}

// `b` loses the mark of what continues a word.
static tt_status read_merge(tt_tokenizer *t, const tt_json_value *v,
                            tt_str *both)
{
    const int64_t prefix = (int64_t)strlen(t->general->lookup.prefix);
    tt_merge_text m;
    if (!tt__hf_pair(v, &m))
        return tt_fail(TT_ERR_ARG, "must be \"a b\" or [\"a\", \"b\"]");
    const int64_t cut = prefix < m.b_n ? prefix : m.b_n;
    tt_str_clear(both);
    tt_str_add_bytes(both, m.a, m.a_n);
    tt_str_add_bytes(both, m.b + cut, m.b_n - cut);
    TT_TRY(tt_str_status(both));
    const int32_t a = tt__tokenizer_find(t, m.a, m.a_n);
    const int32_t b = tt__tokenizer_find(t, m.b, m.b_n);
    const int32_t ab = tt__tokenizer_find(t, tt_str_text(both), both->n);
    if (a < 0 || b < 0 || ab < 0)
        return tt_fail(TT_ERR_ARG, "\"%.*s\" and \"%.*s\"%s in the vocabulary",
                       (int)(m.a_n < 80 ? m.a_n : 80), m.a,
                       (int)(m.b_n < 80 ? m.b_n : 80), m.b,
                       a < 0 || b < 0 ? " are not both" : " together are not");
    return tt__tokenizer_merge(t, a, b, ab);
}

static tt_status read_merges(tt_tokenizer *t, const tt_json_value *merges)
{
    tt_str both = {0};
    tt_status status = TT_OK;
    int64_t i = 0;
    for (const tt_json_value *v = merges->first; v != NULL; v = v->next, i++) {
        status = read_merge(t, v, &both);
        if (status != TT_OK) {
            status =
                tt_fail_context(status, "model.merges[%lld]", (long long)i);
            break;
        }
    }
    tt_str_fini(&both);
    return status;
}

// ---- kinds ---------------------------------------------------------------

static tt_status read_unknown(tt_tokenizer *t, const tt_json_value *model)
{
    tt_lookup *look = &t->general->lookup;
    const tt_json_value *text = tt__hf_get(model, "unk_token");
    look->unknown = -1;
    if (look->type == TT_LOOKUP_UNIGRAM) {
        const int64_t id = tt_json_int(tt__hf_get(model, "unk_id"), -1);
        if (id >= t->vocab)
            return tt_fail(TT_ERR_ARG, "model.unk_id is no token");
        look->unknown = (int32_t)id;
        return TT_OK;
    }
    if (text == NULL || text->type != TT_JSON_STRING)
        return TT_OK;
    look->unknown = tt__tokenizer_find(t, text->text, text->n);
    if (look->unknown < 0)
        return tt_fail(TT_ERR_ARG,
                       "model.unk_token \"%.80s\" is not in the vocabulary",
                       text->text);
    return TT_OK;
}

static tt_status read_options(tt_tokenizer *t, const tt_json_value *model)
{
    tt_lookup *look = &t->general->lookup;
    const bool is_pieces = look->type == TT_LOOKUP_WORDPIECE;
    look->prefix = tt__hf_copy(t, model, "continuing_subword_prefix",
                               is_pieces ? "##" : "");
    look->suffix = tt__hf_copy(t, model, "end_of_word_suffix", "");
    if (look->prefix == NULL || look->suffix == NULL)
        return TT_ERR_NOMEM;
    look->fuses_unknown = tt_json_truth(tt__hf_get(model, "fuse_unk"),
                                        look->type == TT_LOOKUP_UNIGRAM);
    look->falls_to_bytes =
        tt_json_truth(tt__hf_get(model, "byte_fallback"), false);
    look->max_chars =
        tt_json_int(tt__hf_get(model, "max_input_chars_per_word"), 100);
    t->ignores_merges =
        look->type == TT_LOOKUP_BPE &&
        tt_json_truth(tt__hf_get(model, "ignore_merges"), false);
    return TT_OK;
}

tt_status tt__hf_model(tt_tokenizer *t, const tt_json_value *root)
{
    const tt_json_value *model = tt__hf_get(root, "model");
    const tt_json_value *vocab = tt__hf_get(model, "vocab");
    const tt_json_value *merges = tt__hf_get(model, "merges");
    const tt_json_value *added = tt__hf_get(root, "added_tokens");
    const tt_lookup_type type = t->general->lookup.type;
    const bool is_bpe = type == TT_LOOKUP_BPE;
    int64_t size = vocab->n;
    if (type != TT_LOOKUP_UNIGRAM)
        TT_TRY(tt__vocab_size(vocab, &size));
    TT_TRY(tt__hf_count_ids(added, &size));
    TT_TRY(tt__tokenizer_reserve(t, size));
    TT_TRY(tt__merges_reserve(t, is_bpe ? merges->n : 0));
    TT_TRY(type == TT_LOOKUP_UNIGRAM ? read_scores(t, vocab)
                                     : read_vocab(t, vocab));
    TT_TRY(read_options(t, model));
    TT_TRY(read_unknown(t, model));
    TT_TRY(tt__hf_added(t, added));
    return is_bpe ? read_merges(t, merges) : TT_OK;
}
