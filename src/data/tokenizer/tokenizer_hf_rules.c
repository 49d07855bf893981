// tokenizer_hf_rules - normalizers, pre-tokenizers and decoders of a
// tokenizer.json, each of them one or a list.

#include "data/tokenizer/tokenizer_hf.h"

#include <stdio.h>
#include <string.h>

// Calls `fn` for each member of a Sequence, or for the one that it is.
typedef tt_status rule_fn(tt_tokenizer *t, const tt_json_value *v);

enum { DEPTH_MAX = 8 };

// NOLINTNEXTLINE(misc-no-recursion): at most DEPTH_MAX deep
static tt_status for_each(tt_tokenizer *t, const tt_json_value *v,
                          const char *list, rule_fn *fn, int depth)
{
    if (!tt__hf_is(v, "Sequence"))
        return fn(t, v);
    if (depth == DEPTH_MAX)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "a Sequence in %d others is not supported", DEPTH_MAX);
    const tt_json_value *members = tt__hf_get(v, list);
    const tt_json_value *i = members != NULL ? members->first : NULL;
    for (; i != NULL; i = i->next)
        TT_TRY(for_each(t, i, list, fn, depth + 1));
    return TT_OK;
}

static void add_literal(const tt_json_value *text, tt_str *out)
{
    for (int64_t i = 0; i < text->n; i++) {
        if (text->text[i] != '\0' &&
            strchr("\\^$.|?*+()[]{}-#", text->text[i]) != NULL)
            tt_str_add(out, "\\");
        tt_str_add_bytes(out, text->text + i, 1);
    }
}

tt_status tt__hf_pattern(const tt_json_value *v, const char *part,
                         tt_splitter **splitter_out)
{
    const tt_json_value *pattern = tt__hf_get(v, "pattern");
    const tt_json_value *literal = tt__hf_get(pattern, "String");
    const char *regex = tt_json_text(tt__hf_get(pattern, "Regex"), NULL);
    const bool is_literal = literal != NULL && literal->type == TT_JSON_STRING;
    tt_str text = {0};
    if (regex == NULL && !is_literal)
        return tt_fail(TT_ERR_ARG, "%s %s has no pattern", part,
                       tt__hf_type(v));
    if (is_literal)
        add_literal(literal, &text);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = tt_splitter_open(is_literal ? tt_str_text(&text) : regex,
                                  splitter_out);
    tt_str_fini(&text);
    return status;
}

// ---- normalizers ---------------------------------------------------------

enum { NORMS_MAX = 32 };

static tt_status add_norm(tt_tokenizer *t, const tt_norm *norm)
{
    tt_norms *norms = &t->general->norms;
    const bool needs_tables =
        norm->type == TT_NORM_FORM || norm->type == TT_NORM_LOWER ||
        norm->type == TT_NORM_ACCENTS || norm->type == TT_NORM_NONSPACING;
    if (norms->v == NULL)
        norms->v = tt_arena_alloc(t->arena, NORMS_MAX * sizeof(*norms->v));
    tt_status status = norms->v == NULL ? TT_ERR_NOMEM : TT_OK;
    if (norms->n == NORMS_MAX)
        status =
            tt_fail(TT_ERR_UNSUPPORTED,
                    "more than %d normalizers are not supported", NORMS_MAX);
    if (status == TT_OK && needs_tables && norms->unicode == NULL)
        status = tt_unicode_open(t->arena, &norms->unicode);
    if (status != TT_OK) {
        tt_splitter_close(norm->splitter);
        return status;
    }
    norms->v[norms->n++] = *norm;
    return TT_OK;
}

static tt_status add_bert(tt_tokenizer *t, const tt_json_value *v)
{
    tt_norms *norms = &t->general->norms;
    const bool lowers = tt_json_truth(tt__hf_get(v, "lowercase"), true);
    if (norms->controls == NULL)
        TT_TRY(tt_splitter_open("[^\\P{Cc}\\t\\n\\r]|[\\p{Cf}\\p{Co}\\x{fffd}]",
                                &norms->controls));
    if (tt_json_truth(tt__hf_get(v, "clean_text"), true))
        TT_TRY(add_norm(t, &(tt_norm){.type = TT_NORM_CLEAN}));
    if (tt_json_truth(tt__hf_get(v, "handle_chinese_chars"), true))
        TT_TRY(add_norm(t, &(tt_norm){.type = TT_NORM_CHINESE}));
    if (tt_json_truth(tt__hf_get(v, "strip_accents"), lowers)) {
        TT_TRY(add_norm(
            t, &(tt_norm){.type = TT_NORM_FORM, .form = TT_UNICODE_NFD}));
        TT_TRY(add_norm(t, &(tt_norm){.type = TT_NORM_NONSPACING}));
    }
    return lowers ? add_norm(t, &(tt_norm){.type = TT_NORM_LOWER}) : TT_OK;
}

static tt_status add_text_norm(tt_tokenizer *t, const tt_json_value *v)
{
    const bool replaces = tt__hf_is(v, "Replace");
    const char *key = replaces ? "content" : "prepend";
    const tt_json_value *text = tt__hf_get(v, key);
    tt_norm norm = {.type = replaces ? TT_NORM_REPLACE : TT_NORM_PREPEND};
    if (text == NULL || text->type != TT_JSON_STRING)
        return tt_fail(TT_ERR_ARG, "normalizer %s has no %s", tt__hf_type(v),
                       key);
    norm.text = tt_arena_copy(t->arena, text->text, text->n + 1);
    norm.n = text->n;
    if (norm.text == NULL)
        return TT_ERR_NOMEM;
    if (replaces)
        TT_TRY(tt__hf_pattern(v, "normalizer", &norm.splitter));
    return add_norm(t, &norm);
}

static tt_status add_normalizer(tt_tokenizer *t, const tt_json_value *v)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    tt_norm norm = {.type = TT_NORM_FORM};
    for (int i = 0; i < 4; i++)
        if (tt__hf_is(v, forms[i])) {
            norm.form = (tt_unicode_form)i;
            return add_norm(t, &norm);
        }
    if (tt__hf_is(v, "BertNormalizer"))
        return add_bert(t, v);
    if (tt__hf_is(v, "Replace") || tt__hf_is(v, "Prepend"))
        return add_text_norm(t, v);
    if (tt__hf_is(v, "Lowercase")) {
        norm.type = TT_NORM_LOWER;
    } else if (tt__hf_is(v, "StripAccents")) {
        norm.type = TT_NORM_ACCENTS;
    } else if (tt__hf_is(v, "Nmt")) {
        norm.type = TT_NORM_NMT;
    } else if (tt__hf_is(v, "ByteLevel")) {
        norm.type = TT_NORM_BYTES;
    } else if (tt__hf_is(v, "Strip")) {
        norm.type = TT_NORM_STRIP;
        norm.strips_left = tt_json_truth(tt__hf_get(v, "strip_left"), true);
        norm.strips_right = tt_json_truth(tt__hf_get(v, "strip_right"), true);
    } else {
        return tt__hf_refuse("normalizer", v);
    }
    return add_norm(t, &norm);
}

tt_status tt__hf_normalizer(tt_tokenizer *t, const tt_json_value *v)
{
    return v != NULL ? for_each(t, v, "normalizers", add_normalizer, 0) : TT_OK;
}

// ---- pre-tokenizers ------------------------------------------------------

static tt_status add_cut(tt_tokenizer *t, const tt_cut_rule *cut)
{
    tt_cuts *cuts = &t->general->cuts;
    if (cuts->n == TT_CUTS_MAX) {
        tt_splitter_close(cut->splitter);
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "more than %d pre_tokenizers one after another are not "
                       "supported",
                       TT_CUTS_MAX);
    }
    cuts->v[cuts->n] = *cut;
    if (cut->prefix == NULL)
        cuts->v[cuts->n].prefix = "";
    cuts->n++;
    return TT_OK;
}

static tt_status add_pattern(tt_tokenizer *t, const char *pattern,
                             tt_cut_behavior behavior, bool inverts)
{
    tt_cut_rule cut = {.behavior = behavior, .inverts = inverts};
    TT_TRY(tt_splitter_open(pattern, &cut.splitter));
    cut.is_gpt2 = strcmp(pattern, TT_SPLIT_GPT2) == 0;
    return add_cut(t, &cut);
}

static tt_status read_behavior(const tt_json_value *v, const char *fallback,
                               tt_cut_behavior *behavior_out)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous",
                                        "MergedWithPrevious", "MergedWithNext"};
    const char *name = tt_json_text(tt__hf_get(v, "behavior"), fallback);
    for (int i = 0; i < 5; i++)
        if (strcmp(name, names[i]) == 0) {
            *behavior_out = (tt_cut_behavior)i;
            return TT_OK;
        }
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "pre_tokenizer %s with behavior \"%.40s\" is not supported",
                   tt__hf_type(v), name);
}

static tt_status add_split(tt_tokenizer *t, const tt_json_value *v)
{
    tt_cut_rule cut = {.inverts =
                           tt_json_truth(tt__hf_get(v, "invert"), false)};
    TT_TRY(read_behavior(v, "", &cut.behavior));
    TT_TRY(tt__hf_pattern(v, "pre_tokenizer", &cut.splitter));
    cut.is_gpt2 = strcmp(tt_splitter_pattern(cut.splitter), TT_SPLIT_GPT2) == 0;
    return add_cut(t, &cut);
}

static tt_status add_byte_level(tt_tokenizer *t, const tt_json_value *v)
{
    const bool adds = tt_json_truth(tt__hf_get(v, "add_prefix_space"), true);
    tt_cut_rule cut = {.prepend = adds ? TT_PREPEND_ALWAYS : TT_PREPEND_NEVER,
                       .prefix = " "};
    t->general->lookup.type = TT_LOOKUP_BYTES;
    if (tt_json_truth(tt__hf_get(v, "use_regex"), true)) {
        TT_TRY(tt_splitter_open(TT_SPLIT_GPT2, &cut.splitter));
        cut.is_gpt2 = true;
    }
    return add_cut(t, &cut);
}

// Files of before prepend_scheme have add_prefix_space.
static tt_status read_scheme(const tt_json_value *v, tt_cut_prepend *out)
{
    const bool adds = tt_json_truth(tt__hf_get(v, "add_prefix_space"), true);
    const char *name = tt_json_text(tt__hf_get(v, "prepend_scheme"),
                                    adds ? "always" : "never");
    if (strcmp(name, "always") == 0)
        *out = TT_PREPEND_ALWAYS;
    else if (strcmp(name, "first") == 0)
        *out = TT_PREPEND_FIRST;
    else if (strcmp(name, "never") == 0)
        *out = TT_PREPEND_NEVER;
    else
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "Metaspace with prepend_scheme \"%.40s\" is not "
                       "supported",
                       name);
    return TT_OK;
}

static tt_status add_metaspace(tt_tokenizer *t, const tt_json_value *v)
{
    tt_cut_rule cut = {.behavior = TT_CUT_WITH_NEXT};
    cut.blank = cut.prefix = tt__hf_copy(t, v, "replacement", "\xe2\x96\x81");
    if (cut.blank == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(read_scheme(v, &cut.prepend));
    if (tt_json_truth(tt__hf_get(v, "split"), true)) {
        char pattern[64];
        snprintf(pattern, sizeof pattern, "\\Q%.40s\\E", cut.blank);
        TT_TRY(tt_splitter_open(pattern, &cut.splitter));
    }
    return add_cut(t, &cut);
}

static tt_status add_delimiter(tt_tokenizer *t, const tt_json_value *v)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\\Q%.40s\\E",
             tt_json_text(tt__hf_get(v, "delimiter"), ""));
    return add_pattern(t, pattern, TT_CUT_REMOVED, false);
}

static tt_status add_fixed(tt_tokenizer *t, const tt_json_value *v)
{
    const int64_t n = tt_json_int(tt__hf_get(v, "length"), 5);
    char pattern[64];
    if (n < 1 || n > 65535)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "pre_tokenizer FixedLength takes a length from 1 to "
                       "65535");
    snprintf(pattern, sizeof pattern, "(?m:.{1,%lld})", (long long)n);
    return add_pattern(t, pattern, TT_CUT_ISOLATED, false);
}

static tt_status add_punctuation(tt_tokenizer *t, tt_cut_behavior behavior)
{
    tt_str pattern = {0};
    tt_str_add(&pattern, "[$+<=>^`|~");
    tt_unicode_add_punctuation(&pattern);
    tt_str_add(&pattern, "]");
    tt_status status = tt_str_status(&pattern);
    if (status == TT_OK)
        status = add_pattern(t, tt_str_text(&pattern), behavior, false);
    tt_str_fini(&pattern);
    return status;
}

static tt_status add_pre_tokenizer(tt_tokenizer *t, const tt_json_value *v)
{
    if (t->general->lookup.type == TT_LOOKUP_BYTES)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "pre_tokenizer \"%.80s\" after ByteLevel is not "
                       "supported",
                       tt__hf_type(v));
    if (tt__hf_is(v, "ByteLevel"))
        return add_byte_level(t, v);
    if (tt__hf_is(v, "Split"))
        return add_split(t, v);
    if (tt__hf_is(v, "Metaspace"))
        return add_metaspace(t, v);
    if (tt__hf_is(v, "Digits")) {
        const bool each =
            tt_json_truth(tt__hf_get(v, "individual_digits"), false);
        return add_pattern(t, each ? "\\p{N}" : "\\p{N}+", TT_CUT_ISOLATED,
                           false);
    }
    if (tt__hf_is(v, "Punctuation")) {
        tt_cut_behavior behavior = TT_CUT_ISOLATED;
        TT_TRY(read_behavior(v, "Isolated", &behavior));
        return add_punctuation(t, behavior);
    }
    if (tt__hf_is(v, "Whitespace"))
        return add_pattern(t, "[" TT_SPLIT_WORD "]+|[^" TT_SPLIT_WORD "\\s]+",
                           TT_CUT_REMOVED, true);
    if (tt__hf_is(v, "WhitespaceSplit"))
        return add_pattern(t, "\\s", TT_CUT_REMOVED, false);
    if (tt__hf_is(v, "BertPreTokenizer")) {
        TT_TRY(add_pattern(t, "\\s", TT_CUT_REMOVED, false));
        return add_punctuation(t, TT_CUT_ISOLATED);
    }
    if (tt__hf_is(v, "CharDelimiterSplit"))
        return add_delimiter(t, v);
    if (tt__hf_is(v, "FixedLength"))
        return add_fixed(t, v);
    return tt__hf_refuse("pre_tokenizer", v);
}

// Bytes go to BPE of bytes only.
static tt_status check_bytes(const tt_json_value *model)
{
    static const char *const never[] = {"continuing_subword_prefix",
                                        "end_of_word_suffix"};
    if (tt__hf_is(model, "Unigram") || tt__hf_is(model, "WordPiece") ||
        tt__hf_is(model, "WordLevel"))
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "pre_tokenizer ByteLevel with model \"%.80s\" is not "
                       "supported; with BPE it is",
                       tt__hf_type(model));
    for (int i = 0; i < 2; i++)
        if (tt__hf_is_set(model, never[i]))
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "model.%s with pre_tokenizer ByteLevel is not "
                           "supported; byte-level BPE without it is",
                           never[i]);
    return TT_OK;
}

tt_status tt__hf_pre_tokenizer(tt_tokenizer *t, const tt_json_value *root)
{
    const tt_json_value *model = tt__hf_get(root, "model");
    const tt_json_value *v = tt__hf_get(root, "pre_tokenizer");
    tt_lookup *look = &t->general->lookup;
    look->prefix = look->suffix = "";
    look->unknown = -1;
    look->type = tt__hf_is(model, "Unigram")     ? TT_LOOKUP_UNIGRAM
                 : tt__hf_is(model, "WordPiece") ? TT_LOOKUP_WORDPIECE
                 : tt__hf_is(model, "WordLevel") ? TT_LOOKUP_WORDS
                                                 : TT_LOOKUP_BPE;
    if (v != NULL)
        TT_TRY(for_each(t, v, "pretokenizers", add_pre_tokenizer, 0));
    return look->type == TT_LOOKUP_BYTES ? check_bytes(model) : TT_OK;
}

// ---- decoders ------------------------------------------------------------

static tt_status add_undo(tt_tokenizer *t, const tt_undo *undo)
{
    tt_undos *undos = &t->general->undos;
    if (undos->n == TT_UNDOS_MAX) {
        tt_splitter_close(undo->splitter);
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "more than %d decoders one after another are not "
                       "supported",
                       TT_UNDOS_MAX);
    }
    undos->v[undos->n++] = *undo;
    return TT_OK;
}

typedef struct named_undo {
    const char *name;
    tt_undo_type type;
    const char *key, *fallback; // of its text
} named_undo;

static const named_undo named[] = {
    {"Replace", TT_UNDO_REPLACE, "content", ""},
    {"ByteFallback", TT_UNDO_BYTE_FALLBACK, "", ""},
    {"Fuse", TT_UNDO_FUSE, "", ""},
    {"Strip", TT_UNDO_STRIP, "content", " "},
    {"Metaspace", TT_UNDO_METASPACE, "replacement", "\xe2\x96\x81"},
    {"ByteLevel", TT_UNDO_BYTE_LEVEL, "", ""},
    {"WordPiece", TT_UNDO_WORDPIECE, "prefix", "##"},
    {"BPEDecoder", TT_UNDO_SUFFIX, "suffix", "</w>"},
};

static tt_status add_decoder(tt_tokenizer *t, const tt_json_value *v)
{
    const int n = sizeof(named) / sizeof(named[0]);
    int i = 0;
    tt_cut_prepend scheme = TT_PREPEND_NEVER;
    while (i < n && !tt__hf_is(v, named[i].name))
        i++;
    if (i == n)
        return tt__hf_refuse("decoder", v);
    tt_undo undo = {
        .type = named[i].type,
        .text = tt__hf_copy(t, v, named[i].key, named[i].fallback),
        .left = tt_json_int(tt__hf_get(v, "start"), 0),
        .right = tt_json_int(tt__hf_get(v, "stop"), 0),
        .cleans = tt_json_truth(tt__hf_get(v, "cleanup"), true),
    };
    if (undo.text == NULL)
        return TT_ERR_NOMEM;
    undo.n = (int64_t)strlen(undo.text);
    if (undo.type == TT_UNDO_METASPACE)
        TT_TRY(read_scheme(v, &scheme));
    undo.drops_first = scheme != TT_PREPEND_NEVER;
    if (undo.type == TT_UNDO_REPLACE)
        TT_TRY(tt__hf_pattern(v, "decoder", &undo.splitter));
    return add_undo(t, &undo);
}

// Tokens of bytes are bytes without a decoder too; texts get blanks between them.
tt_status tt__hf_decoder(tt_tokenizer *t, const tt_json_value *v)
{
    const bool is_bytes = t->general->lookup.type == TT_LOOKUP_BYTES;
    if (v != NULL)
        return for_each(t, v, "decoders", add_decoder, 0);
    return add_undo(
        t, &(tt_undo){.type = is_bytes ? TT_UNDO_BYTE_LEVEL : TT_UNDO_JOIN,
                      .text = ""});
}
