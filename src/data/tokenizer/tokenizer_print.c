// tokenizer_print - a tokenizer as files that others read: Hugging Face's
// tokenizer.json, GPT-2's vocab.json and merges.txt.

#include "data/tokenizer/tokenizer_def.h"

#include <string.h>

static void add_quoted(tt_str *out, const char *text, int64_t n)
{
    tt_str_add(out, "\"");
    for (int64_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            tt_str_addf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            tt_str_addf(out, "\\u%04x", c);
        else
            tt_str_add_bytes(out, text + i, 1);
    }
    tt_str_add(out, "\"");
}

static const tt_added_token *added_of(const tt_tokenizer *t, int64_t id)
{
    for (int64_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == id)
            return &t->added[i];
    return NULL;
}

static void add_vocab(const tt_tokenizer *t, const char *between, tt_str *out)
{
    tt_str text = {0};
    const char *comma = "";
    tt_str_add(out, "{");
    for (int64_t id = 0; id < t->vocab; id++) {
        const tt_token *token = &t->token[id];
        if (token->bytes == NULL)
            continue;
        tt_str_clear(&text);
        if (t->type == TT_TOKENIZER_CHARS || added_of(t, id) != NULL)
            tt_str_add_bytes(&text, token->bytes, token->n);
        else
            tt__byte_text(token->bytes, token->n, &text);
        tt_str_inherit(out, &text); // before the next token clears it
        tt_str_addf(out, "%s%s", comma, between);
        add_quoted(out, tt_str_text(&text), text.n);
        tt_str_addf(out, ": %lld", (long long)id);
        comma = ",";
    }
    tt_str_add(out, "}");
    tt_str_fini(&text);
}

static void add_merge(const tt_tokenizer *t, int64_t rank, tt_str *out)
{
    const tt_token *a = &t->token[t->merge[rank].a];
    const tt_token *b = &t->token[t->merge[rank].b];
    tt__byte_text(a->bytes, a->n, out);
    tt_str_add(out, " ");
    tt__byte_text(b->bytes, b->n, out);
}

static void add_merges(const tt_tokenizer *t, tt_str *out)
{
    tt_str text = {0};
    tt_str_add(out, "[");
    for (int64_t i = 0; i < t->bpe.n; i++) {
        tt_str_clear(&text);
        add_merge(t, i, &text);
        tt_str_inherit(out, &text);
        tt_str_add(out, i > 0 ? ",\n      " : "\n      ");
        add_quoted(out, tt_str_text(&text), text.n);
    }
    tt_str_add(out, "]");
    tt_str_fini(&text);
}

static const char *truth(bool is_true)
{
    return is_true ? "true" : "false";
}

static void add_added(const tt_tokenizer *t, tt_str *out)
{
    const char *comma = "";
    tt_str_add(out, "[");
    for (int64_t id = 0; id < t->vocab; id++) { // readers want them by id
        const tt_added_token *a = added_of(t, id);
        if (a == NULL)
            continue;
        tt_str_addf(out, "%s\n    {\"id\": %lld, \"content\": ", comma,
                    (long long)id);
        add_quoted(out, a->text, a->n);
        tt_str_addf(out,
                    ", \"single_word\": false, \"lstrip\": %s, \"rstrip\": %s, "
                    "\"normalized\": false, \"special\": %s}",
                    truth(a->eats_left), truth(a->eats_right),
                    truth(a->is_special));
        comma = ",";
    }
    tt_str_add(out, "]");
}

static void add_byte_level(bool uses_regex, tt_str *out)
{
    tt_str_addf(out,
                "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                "\"trim_offsets\": true, \"use_regex\": %s}",
                truth(uses_regex));
}

static void add_pre_tokenizer(const tt_tokenizer *t, tt_str *out)
{
    if (t->type == TT_TOKENIZER_CHARS) {
        tt_str_add(out, "null");
    } else if (t->n_stages == 0 || t->stage[0].is_gpt2) {
        add_byte_level(t->n_stages > 0, out);
    } else {
        const char *pattern = tt_splitter_pattern(t->stage[0].splitter);
        tt_str_add(out, "{\"type\": \"Sequence\", \"pretokenizers\": [\n    "
                        "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
        add_quoted(out, pattern, (int64_t)strlen(pattern));
        tt_str_add(out, "}, \"behavior\": \"Isolated\", \"invert\": false},"
                        "\n    ");
        add_byte_level(false, out);
        tt_str_add(out, "]}");
    }
}

void tt_tokenizer_print(const tt_tokenizer *t, tt_str *out)
{
    const bool is_chars = t->type == TT_TOKENIZER_CHARS;
    if (t->json != NULL) {
        tt_str_add_bytes(out, t->json, t->json_bytes);
        return;
    }
    tt_str_add(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  "
                    "\"padding\": null,\n  \"added_tokens\": ");
    add_added(t, out);
    tt_str_add(out, ",\n  \"normalizer\": null,\n  \"pre_tokenizer\": ");
    add_pre_tokenizer(t, out);
    tt_str_add(out, ",\n  \"post_processor\": ");
    if (is_chars)
        tt_str_add(out, "null");
    else
        add_byte_level(t->n_stages > 0, out);
    tt_str_add(out, ",\n  \"decoder\": ");
    if (is_chars)
        tt_str_add(out, "{\"type\": \"Fuse\"}");
    else
        add_byte_level(true, out);
    tt_str_add(out,
               ",\n  \"model\": {\n    \"type\": \"BPE\", \"dropout\": null, "
               "\"unk_token\": null, \"continuing_subword_prefix\": null,\n    "
               "\"end_of_word_suffix\": null, \"fuse_unk\": false, "
               "\"byte_fallback\": false, \"ignore_merges\": false,\n    "
               "\"vocab\": ");
    add_vocab(t, "\n      ", out);
    tt_str_add(out, ",\n    \"merges\": ");
    add_merges(t, out);
    tt_str_add(out, "\n  }\n}\n");
}

tt_status tt_tokenizer_print_gpt2(const tt_tokenizer *t, tt_str *vocab_json,
                                  tt_str *merges_txt)
{
    if (t->type != TT_TOKENIZER_BPE)
        return tt_fail(TT_ERR_ARG,
                       "a tokenizer of %s has no vocab.json and merges.txt",
                       tt_tokenizer_kind(t));
    add_vocab(t, "", vocab_json);
    tt_str_add(vocab_json, "\n");
    tt_str_add(merges_txt, "#version: 0.2\n");
    for (int64_t i = 0; i < t->bpe.n; i++) {
        add_merge(t, i, merges_txt);
        tt_str_add(merges_txt, "\n");
    }
    TT_TRY(tt_str_status(vocab_json));
    return tt_str_status(merges_txt);
}
