// tokenizer_hf - Hugging Face's tokenizer.json. What it does not know it names.
//
// A tokenizer.json describes a pipeline: normalizer, pre-tokenizer, model, decoder,
// each a kind with options, and added tokens. There are three ways to run it:
//
//   characters       as we write them ourselves: nothing but tokens of one character
//   byte-level BPE   without a normalizer, with splits that keep all text: GPT-2 and
//                    many later models. It has a fast path (tokenizer_encode.c)
//   all other        step by step (general.h)
//
// Every file is first read for the general way. If it turns out to fit the fast one,
// the rules are handed over (is_fast, make_fast). A part that is not known is refused
// by its name: a tokenizer that is nearly right gives a model wrong input without a
// word.

#include "data/tokenizer/tokenizer_hf.h"

#include "base/utf8.h"

#include <string.h>

const tt_json_value *tt__hf_get(const tt_json_value *object, const char *key)
{
    const tt_json_value *v = tt_json_get(object, key);
    return v != NULL && v->type == TT_JSON_NULL ? NULL : v;
}

const char *tt__hf_type(const tt_json_value *v)
{
    return tt_json_text(tt__hf_get(v, "type"), "");
}

bool tt__hf_is(const tt_json_value *v, const char *type)
{
    return v != NULL && strcmp(tt__hf_type(v), type) == 0;
}

tt_status tt__hf_refuse(const char *part, const tt_json_value *v)
{
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "%s \"%.80s\" is not supported; tokenize the text elsewhere "
                   "and train from token files (data=tokens)",
                   part, tt__hf_type(v));
}

bool tt__hf_is_set(const tt_json_value *object, const char *key)
{
    const tt_json_value *v = tt__hf_get(object, key);
    if (v == NULL)
        return false;
    return v->type == TT_JSON_STRING ? v->n > 0
           : v->type == TT_JSON_BOOL ? v->is_true
                                     : tt_json_number(v, 1) != 0;
}

const char *tt__hf_copy(tt_tokenizer *t, const tt_json_value *object,
                        const char *key, const char *fallback)
{
    return tt_arena_strdup(t->arena,
                           tt_json_text(tt__hf_get(object, key), fallback));
}

// ---- tokens --------------------------------------------------------------

bool tt__hf_pair(const tt_json_value *v, tt_merge_text *m)
{
    if (v->type == TT_JSON_STRING)
        return tt__merge_cut(v->text, v->n, m);
    if (v->type != TT_JSON_ARRAY || v->n != 2 ||
        v->first->type != TT_JSON_STRING ||
        v->first->next->type != TT_JSON_STRING)
        return false;
    const tt_json_value *b = v->first->next;
    *m = (tt_merge_text){v->first->text, v->first->n, b->text, b->n};
    return true;
}

static tt_status read_merges(tt_tokenizer *t, const tt_json_value *merges)
{
    tt_str scratch = {0};
    tt_status status = TT_OK;
    int64_t i = 0;
    for (const tt_json_value *v = merges->first; v != NULL; v = v->next, i++) {
        tt_merge_text m;
        status = tt__hf_pair(v, &m)
                     ? tt__merge_read(t, &m, &scratch)
                     : tt_fail(TT_ERR_ARG, "must be \"a b\" or [\"a\", \"b\"]");
        if (status != TT_OK) {
            status =
                tt_fail_context(status, "model.merges[%lld]", (long long)i);
            break;
        }
    }
    tt_str_fini(&scratch);
    return status;
}

// The model has it too, perhaps as GPT-2's characters for bytes.
static tt_status is_in_vocab(const tt_tokenizer *t, const tt_added_token *a,
                             bool *is_known)
{
    const tt_token *k = &t->token[a->id];
    tt_str bytes = {0};
    *is_known = k->bytes != NULL && k->n == a->n &&
                memcmp(k->bytes, a->text, (size_t)a->n) == 0;
    if (k->bytes != NULL && !*is_known &&
        t->general->lookup.type == TT_LOOKUP_BYTES &&
        tt__byte_untext(a->text, a->n, &bytes))
        *is_known = bytes.n == k->n &&
                    memcmp(tt_str_text(&bytes), k->bytes, (size_t)k->n) == 0;
    const tt_status status = tt_str_status(&bytes);
    tt_str_fini(&bytes);
    return status;
}

static tt_status read_added(tt_tokenizer *t, const tt_json_value *v)
{
    const tt_json_value *content = tt__hf_get(v, "content");
    const tt_added_token a = {
        .text = tt_json_text(content, ""),
        .n = content != NULL ? content->n : 0,
        .id = (int32_t)tt_json_int(tt__hf_get(v, "id"), -1),
        .is_special = tt_json_truth(tt__hf_get(v, "special"), false),
        .eats_left = tt_json_truth(tt__hf_get(v, "lstrip"), false),
        .eats_right = tt_json_truth(tt__hf_get(v, "rstrip"), false),
        .is_normalized = tt_json_truth(tt__hf_get(v, "normalized"), false),
        .is_word = tt_json_truth(tt__hf_get(v, "single_word"), false),
    };
    if (a.text[0] == '\0' || content->type != TT_JSON_STRING)
        return tt_fail(TT_ERR_ARG, "an added token has no content");
    bool is_known = false;
    TT_TRY(is_in_vocab(t, &a, &is_known));
    if (!is_known)
        TT_TRY(tt__tokenizer_set(t, a.id, a.text, a.n, false));
    return tt__tokenizer_add(t, &a);
}

tt_status tt__hf_added(tt_tokenizer *t, const tt_json_value *added)
{
    if (added == NULL)
        return TT_OK;
    t->added = tt_arena_alloc(t->arena, added->n * (int64_t)sizeof(*t->added));
    if (t->added == NULL)
        return TT_ERR_NOMEM;
    for (const tt_json_value *v = added->first; v != NULL; v = v->next)
        TT_TRY(read_added(t, v));
    return TT_OK;
}

// The ids of added tokens may follow those of the model.
tt_status tt__hf_count_ids(const tt_json_value *added, int64_t *size)
{
    const int64_t most = *size + (added != NULL ? added->n : 0) + 65536;
    for (const tt_json_value *v = added != NULL ? added->first : NULL;
         v != NULL; v = v->next) {
        const int64_t id = tt_json_int(tt__hf_get(v, "id"), -1);
        if (id < 0 || id >= most)
            return tt_fail(TT_ERR_ARG,
                           "added token \"%.80s\": its id must be a whole "
                           "number from 0 to about the number of tokens",
                           tt_json_text(tt__hf_get(v, "content"), ""));
        if (id >= *size)
            *size = id + 1;
    }
    return TT_OK;
}

static tt_status read_tokens(tt_tokenizer *t, const tt_json_value *root)
{
    const tt_json_value *model = tt__hf_get(root, "model");
    const tt_json_value *vocab = tt__hf_get(model, "vocab");
    const tt_json_value *merges = tt__hf_get(model, "merges");
    const tt_json_value *added = tt__hf_get(root, "added_tokens");
    int64_t size = 0;
    TT_TRY(tt__vocab_size(vocab, &size));
    TT_TRY(tt__hf_count_ids(added, &size));
    TT_TRY(tt__tokenizer_reserve(t, size));
    TT_TRY(tt__merges_reserve(t, merges->n));
    TT_TRY(tt__vocab_read(t, vocab));
    TT_TRY(tt__hf_added(t, added));
    t->ignores_merges =
        tt_json_truth(tt__hf_get(model, "ignore_merges"), false);
    return read_merges(t, merges);
}

// ---- byte-level BPE ------------------------------------------------------

// The rules that the fast way knows: ByteLevel last, and before it splits that
// keep all of the text.
static bool is_fast_cut(const tt_cuts *cuts, int i)
{
    const tt_cut_rule *cut = &cuts->v[i];
    const bool keeps = cut->behavior == TT_CUT_ISOLATED ||
                       (cut->behavior == TT_CUT_REMOVED && cut->inverts);
    const bool is_plain = cut->blank == NULL && keeps &&
                          (cut->prepend == TT_PREPEND_NEVER ||
                           (cut->prepend == TT_PREPEND_ALWAYS && i == 0));
    return is_plain && (cut->splitter != NULL || i + 1 == cuts->n) &&
           !(cut->behavior == TT_CUT_ISOLATED && cut->inverts);
}

static bool is_fast(const tt_tokenizer *t)
{
    const tt_general *g = t->general;
    bool is = g->lookup.type == TT_LOOKUP_BYTES && g->norms.n == 0 &&
              g->undos.n == 1 && g->undos.v[0].type == TT_UNDO_BYTE_LEVEL &&
              g->cuts.n <= TT_STAGES_MAX;
    for (int i = 0; i < g->cuts.n && is; i++)
        is = is_fast_cut(&g->cuts, i);
    for (int64_t i = 0; i < t->n_added && is; i++)
        is = !t->added[i].is_word &&
             t->added[i].is_normalized == t->added[0].is_normalized;
    return is;
}

// Hands the rules over.
static void make_fast(tt_tokenizer *t)
{
    tt_cuts *cuts = &t->general->cuts;
    for (int i = 0; i < cuts->n; i++) {
        tt_cut_rule *cut = &cuts->v[i];
        t->adds_space |= cut->prepend == TT_PREPEND_ALWAYS;
        if (cut->splitter == NULL)
            continue;
        t->stage[t->n_stages++] =
            (tt_token_stage){.splitter = cut->splitter,
                             .is_gpt2 = cut->is_gpt2,
                             .drops_gaps = cut->behavior == TT_CUT_REMOVED};
        cut->splitter = NULL;
    }
    tt__general_fini(t->general);
    t->general = NULL;
    t->type = TT_TOKENIZER_BPE;
}

// 256 tokens, each the byte of its id, and nothing else.
static bool is_bytes(const tt_tokenizer *t)
{
    bool is =
        t->vocab == 256 && t->bpe.n == 0 && t->n_added == 0 && !t->adds_space;
    for (int i = 0; i < 256 && is; i++)
        is = t->bpe.byte_id[i] == i;
    return is;
}

static tt_status read_byte_bpe(tt_tokenizer *t, const tt_json_value *root)
{
    TT_TRY(read_tokens(t, root));
    tt__tokenizer_finish(t);
    if (!is_fast(t))
        return tt__general_finish(t);
    make_fast(t);
    if (is_bytes(t))
        t->type = TT_TOKENIZER_BYTES;
    return TT_OK;
}

// ---- whole ---------------------------------------------------------------

static tt_status read_general(tt_tokenizer *t, const tt_json_value *root)
{
    t->general = tt_arena_alloc(t->arena, sizeof(*t->general));
    if (t->general == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt__hf_normalizer(t, tt__hf_get(root, "normalizer")));
    TT_TRY(tt__hf_pre_tokenizer(t, root));
    if (t->general->lookup.type != TT_LOOKUP_BYTES)
        TT_TRY(tt__hf_model(t, root));
    TT_TRY(tt__hf_decoder(t, tt__hf_get(root, "decoder")));
    if (t->general->lookup.type == TT_LOOKUP_BYTES)
        return read_byte_bpe(t, root);
    tt__tokenizer_finish(t);
    return tt__general_finish(t);
}

// As we write a tokenizer of characters: nothing but tokens of one.
static bool is_chars(const tt_json_value *root)
{
    const tt_json_value *model = tt__hf_get(root, "model");
    const tt_json_value *added = tt__hf_get(root, "added_tokens");
    const tt_json_value *merges = tt__hf_get(model, "merges");
    if (tt__hf_get(root, "pre_tokenizer") || tt__hf_get(root, "normalizer") ||
        merges == NULL || merges->n > 0 || (added != NULL && added->n > 0) ||
        tt__hf_is_set(model, "unk_token") ||
        tt__hf_is_set(model, "byte_fallback") ||
        tt__hf_is_set(model, "end_of_word_suffix") ||
        tt__hf_is_set(model, "continuing_subword_prefix"))
        return false;
    const tt_json_value *v = tt__hf_get(model, "vocab")->first;
    for (; v != NULL; v = v->next)
        if (tt_utf8_read(v->key, v->key_n, NULL) != v->key_n)
            return false;
    return true;
}

tt_status tt__tokenizer_hf(const tt_json_value *root, tt_tokenizer **out)
{
    const tt_json_value *model = tt__hf_get(root, "model");
    const tt_json_value *added = tt__hf_get(root, "added_tokens");
    TT_TRY(tt__hf_check_model(model));
    if (added != NULL && added->type != TT_JSON_ARRAY)
        return tt_fail(TT_ERR_ARG, "added_tokens must be an array");
    if (is_chars(root))
        return tt__tokenizer_chars_of(tt__hf_get(model, "vocab"), out);
    tt_tokenizer *t = tt__tokenizer_create(TT_TOKENIZER_GENERAL);
    if (t == NULL)
        return TT_ERR_NOMEM;
    const tt_status status = read_general(t, root);
    if (status != TT_OK) {
        tt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return TT_OK;
}
