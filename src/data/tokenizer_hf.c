// tokenizer_hf - Hugging Face's tokenizer.json: byte-level BPE, and the two forms
// that we write for characters and bytes. What it does not know it names.

#include "base/alloc.h"
#include "data/tokenizer_def.h"

#include <string.h>

static const tt_json_value *get(const tt_json_value *object, const char *key)
{
    const tt_json_value *v = tt_json_get(object, key);
    return v != NULL && v->type == TT_JSON_NULL ? NULL : v;
}

static const char *type_of(const tt_json_value *v)
{
    return tt_json_text(get(v, "type"), "");
}

static bool is_type(const tt_json_value *v, const char *type)
{
    return v != NULL && strcmp(type_of(v), type) == 0;
}

static tt_status refuse(const char *part, const tt_json_value *v)
{
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "%s \"%.80s\" is not supported; byte-level BPE is", part,
                   type_of(v));
}

// ---- model ---------------------------------------------------------------

static bool is_set(const tt_json_value *model, const char *key)
{
    const tt_json_value *v = get(model, key);
    if (v == NULL)
        return false;
    return v->type == TT_JSON_STRING ? v->n > 0
           : v->type == TT_JSON_BOOL ? v->is_true
                                     : tt_json_number(v, 1) != 0;
}

static tt_status check_model(const tt_json_value *model)
{
    static const char *const never[] = {"dropout", "continuing_subword_prefix",
                                        "end_of_word_suffix", "byte_fallback"};
    const char *type = type_of(model);
    // Older files do not name the type.
    if (strcmp(type, "BPE") != 0 && (type[0] != '\0' || !get(model, "merges")))
        return refuse("model", model);
    for (int i = 0; i < 4; i++)
        if (is_set(model, never[i]))
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "model.%s is not supported; byte-level BPE without "
                           "it is",
                           never[i]);
    const tt_json_value *vocab = get(model, "vocab");
    const tt_json_value *merges = get(model, "merges");
    if (vocab == NULL || vocab->type != TT_JSON_OBJECT || vocab->n == 0)
        return tt_fail(TT_ERR_ARG, "model.vocab must be an object of ids");
    if (merges == NULL || merges->type != TT_JSON_ARRAY)
        return tt_fail(TT_ERR_ARG, "model.merges must be an array");
    return TT_OK;
}

static bool read_pair(const tt_json_value *v, tt_merge_text *m)
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
        status = read_pair(v, &m)
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

// ---- added tokens --------------------------------------------------------

static tt_status read_added(tt_tokenizer *t, const tt_json_value *v)
{
    const tt_json_value *content = get(v, "content");
    const tt_added_token a = {
        .text = tt_json_text(content, ""),
        .n = content != NULL ? content->n : 0,
        .id = (int32_t)tt_json_int(get(v, "id"), -1),
        .is_special = tt_json_truth(get(v, "special"), false),
        .eats_left = tt_json_truth(get(v, "lstrip"), false),
        .eats_right = tt_json_truth(get(v, "rstrip"), false),
    };
    if (a.text[0] == '\0' || content->type != TT_JSON_STRING)
        return tt_fail(TT_ERR_ARG, "an added token has no content");
    if (is_set(v, "single_word"))
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "added token \"%.80s\": single_word is not supported",
                       a.text);
    TT_TRY(tt__tokenizer_set(t, a.id, a.text, a.n, false));
    return tt__tokenizer_add(t, &a);
}

// The ids of added tokens may follow those of the model.
static tt_status count_ids(const tt_json_value *added, int64_t *size)
{
    const int64_t most = *size + (added != NULL ? added->n : 0) + 65536;
    for (const tt_json_value *v = added != NULL ? added->first : NULL;
         v != NULL; v = v->next) {
        const int64_t id = tt_json_int(get(v, "id"), -1);
        if (id < 0 || id >= most)
            return tt_fail(TT_ERR_ARG,
                           "added token \"%.80s\": its id must be a whole "
                           "number from 0 to about the number of tokens",
                           tt_json_text(get(v, "content"), ""));
        if (id >= *size)
            *size = id + 1;
    }
    return TT_OK;
}

static tt_status read_tokens(tt_tokenizer *t, const tt_json_value *root)
{
    const tt_json_value *model = get(root, "model");
    const tt_json_value *vocab = get(model, "vocab");
    const tt_json_value *merges = get(model, "merges");
    const tt_json_value *added = get(root, "added_tokens");
    int64_t size = 0;
    if (added != NULL && added->type != TT_JSON_ARRAY)
        return tt_fail(TT_ERR_ARG, "added_tokens must be an array");
    TT_TRY(tt__vocab_size(vocab, &size));
    TT_TRY(count_ids(added, &size));
    TT_TRY(tt__tokenizer_reserve(t, size));
    TT_TRY(tt__merges_reserve(t, merges->n));
    if (added != NULL) {
        t->added =
            tt_arena_alloc(t->arena, added->n * (int64_t)sizeof(*t->added));
        if (t->added == NULL)
            return TT_ERR_NOMEM;
        for (const tt_json_value *v = added->first; v != NULL; v = v->next)
            TT_TRY(read_added(t, v));
    }
    TT_TRY(tt__vocab_read(t, vocab));
    return read_merges(t, merges);
}

// ---- pre-tokenizers ------------------------------------------------------

static void add_literal(const char *text, tt_str *out)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (strchr("\\^$.|?*+()[]{}-#", *p) != NULL)
            tt_str_add(out, "\\");
        tt_str_add_bytes(out, p, 1);
    }
}

static tt_status read_split(tt_tokenizer *t, const tt_json_value *v)
{
    const tt_json_value *pattern = get(v, "pattern");
    const char *regex = tt_json_text(get(pattern, "Regex"), NULL);
    const char *literal = tt_json_text(get(pattern, "String"), NULL);
    const char *behavior = tt_json_text(get(v, "behavior"), "");
    const bool inverts = tt_json_truth(get(v, "invert"), false);
    const bool removes = strcmp(behavior, "Removed") == 0;
    if (regex == NULL && literal == NULL)
        return tt_fail(TT_ERR_ARG, "pre_tokenizer Split has no pattern");
    if (removes ? !inverts : inverts || strcmp(behavior, "Isolated") != 0)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "pre_tokenizer Split with behavior \"%.40s\"%s is not "
                       "supported; Isolated is",
                       behavior, inverts ? ", inverted," : "");
    tt_str text = {0};
    if (literal != NULL)
        add_literal(literal, &text);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = tt__tokenizer_stage(
            t, literal != NULL ? tt_str_text(&text) : regex, removes);
    tt_str_fini(&text);
    return status;
}

static tt_status read_byte_level(tt_tokenizer *t, const tt_json_value *v)
{
    t->adds_space = tt_json_truth(get(v, "add_prefix_space"), true);
    if (t->adds_space && t->n_stages > 0)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "pre_tokenizer ByteLevel with add_prefix_space behind "
                       "another one is not supported");
    if (!tt_json_truth(get(v, "use_regex"), true))
        return TT_OK;
    return tt__tokenizer_stage(t, TT_SPLIT_GPT2, false);
}

static tt_status read_one(tt_tokenizer *t, const tt_json_value *v)
{
    if (is_type(v, "ByteLevel"))
        return read_byte_level(t, v);
    if (is_type(v, "Split"))
        return read_split(t, v);
    if (is_type(v, "Digits")) {
        const bool each = tt_json_truth(get(v, "individual_digits"), false);
        return tt__tokenizer_stage(t, each ? "\\p{N}" : "\\p{N}+", false);
    }
    return refuse("pre_tokenizer", v);
}

static tt_status read_pre_tokenizer(tt_tokenizer *t, const tt_json_value *v)
{
    bool is_byte_level = false;
    if (!is_type(v, "Sequence")) {
        TT_TRY(read_one(t, v));
        is_byte_level = is_type(v, "ByteLevel");
    } else {
        const tt_json_value *list = get(v, "pretokenizers");
        const tt_json_value *i = list != NULL ? list->first : NULL;
        for (; i != NULL; i = i->next) {
            if (is_byte_level)
                return tt_fail(TT_ERR_UNSUPPORTED,
                               "pre_tokenizer \"%.80s\" behind ByteLevel is "
                               "not supported",
                               type_of(i));
            TT_TRY(read_one(t, i));
            is_byte_level = is_type(i, "ByteLevel");
        }
    }
    if (!is_byte_level)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "a pre_tokenizer without ByteLevel is not supported");
    return TT_OK;
}

// ---- whole ---------------------------------------------------------------

static tt_status check_normalizer(const tt_json_value *v)
{
    const tt_json_value *list = get(v, "normalizers");
    if (v == NULL || (is_type(v, "Sequence") && list != NULL && list->n == 0))
        return TT_OK;
    return refuse("normalizer", v);
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
    TT_TRY(read_pre_tokenizer(t, get(root, "pre_tokenizer")));
    t->ignores_merges =
        tt_json_truth(get(get(root, "model"), "ignore_merges"), false);
    tt__tokenizer_finish(t);
    if (is_bytes(t))
        t->type = TT_TOKENIZER_BYTES;
    return TT_OK;
}

tt_status tt__tokenizer_hf(const tt_json_value *root, tt_tokenizer **out)
{
    const tt_json_value *model = get(root, "model");
    const tt_json_value *added = get(root, "added_tokens");
    TT_TRY(check_normalizer(get(root, "normalizer")));
    TT_TRY(check_model(model));
    if (get(root, "pre_tokenizer") == NULL) {
        if (get(model, "merges")->n > 0 || (added != NULL && added->n > 0))
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "BPE without a pre_tokenizer is not supported; "
                           "byte-level BPE is");
        return tt__tokenizer_chars_of(get(model, "vocab"), out);
    }
    tt_tokenizer *t = tt__tokenizer_create(TT_TOKENIZER_BPE);
    if (t == NULL)
        return TT_ERR_NOMEM;
    const tt_status status = read_byte_bpe(t, root);
    if (status != TT_OK) {
        tt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return TT_OK;
}
