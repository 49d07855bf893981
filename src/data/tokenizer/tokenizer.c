// tokenizer - finding the files of one, and ids back to text.
//
// A tokenizer file comes from elsewhere and may be damaged or hostile. Before tables
// are made of it, an upper bound of their memory is computed and compared with the
// size of the file, so that a small file cannot take all memory.

#include "data/tokenizer/tokenizer.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/str.h"
#include "data/tokenizer/tokenizer_def.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// ---- ids -----------------------------------------------------------------

tt_status tt_ids_reserve(tt_ids *ids, int64_t n)
{
    if (n <= ids->capacity - ids->n)
        return TT_OK;
    int64_t capacity = ids->capacity < 64 ? 64 : ids->capacity * 3 / 2;
    if (capacity < ids->n + n)
        capacity = ids->n + n;
    int32_t *v = tt_realloc(ids->v, ids->capacity * (int64_t)sizeof(*v),
                            capacity * (int64_t)sizeof(*v));
    if (v == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for %lld tokens",
                       (long long)capacity);
    ids->v = v;
    ids->capacity = capacity;
    return TT_OK;
}

void tt_ids_fini(tt_ids *ids)
{
    tt_free(ids->v);
    *ids = (tt_ids){0};
}

// ---- files ---------------------------------------------------------------

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_there(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

// FOLDER/NAME of the first of two names that is there.
static bool find_file(const char *folder, const char *a, const char *b,
                      char path[PATH_MAX])
{
    const char *names[] = {a, b};
    for (int i = 0; i < 2; i++) {
        const int n = snprintf(path, PATH_MAX, "%s/%s", folder, names[i]);
        if (n < PATH_MAX && is_there(path))
            return true;
    }
    return false;
}

static void folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(folder, PATH_MAX, ".");
    else
        snprintf(folder, PATH_MAX, "%.*s", (int)(slash - path), path);
}

// A tokenizer keeps the text of its file, so that it can be passed on as it is.
static tt_status keep_text(tt_tokenizer *t, const tt_map *map)
{
    t->json = tt_arena_copy(t->arena, map->data, map->bytes);
    t->json_bytes = map->bytes;
    return t->json != NULL ? TT_OK : TT_ERR_NOMEM;
}

static int64_t slots(int64_t n) // as tables of slots are made
{
    int64_t slots = 16;
    while (slots < 2 * n)
        slots *= 2;
    return slots;
}

// A tree and the tables made of it are there at the same time. An upper bound on
// the tables.
static int64_t table_bytes(int64_t tokens, int64_t merges)
{
    const int64_t fixed = 3 << 20; // ids without a token, patterns, chunks
    return fixed + tokens * (int64_t)(sizeof(tt_token) + 32) +
           slots(tokens) * (int64_t)sizeof(int32_t) +
           merges * (int64_t)sizeof(tt_pair_ids) +
           slots(merges) * (int64_t)(sizeof(tt_bpe_merge) + sizeof(uint64_t));
}

static int64_t count(const tt_json_value *v)
{
    return v != NULL ? v->n : 0;
}

// Bytes of all keys, and of the texts below them, and of a text that grows to the
// longest key.
static int64_t text_bytes(const tt_json_value *list)
{
    int64_t n = 0, longest = 0;
    const tt_json_value *v = list != NULL ? list->first : NULL;
    for (; v != NULL; v = v->next) {
        n += v->key_n;
        longest = v->key_n > longest ? v->key_n : longest;
        for (const tt_json_value *i = v->first; i != NULL; i = i->next)
            n += i->type == TT_JSON_STRING ? i->n : 0;
    }
    return n + 3 * longest;
}

static tt_status check_memory(const tt_arena *tree, int64_t tables,
                              int64_t bytes)
{
    if (tt_arena_bytes(tree) + tables <= bytes + TT_JSON_EXTRA)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "would need more memory than its own size and "
                   "%d MiB",
                   TT_JSON_EXTRA >> 20);
}

static tt_status read_hf(const tt_json_value *root, const tt_arena *tree,
                         int64_t bytes, tt_tokenizer **out)
{
    const tt_json_value *model = tt_json_get(root, "model");
    const tt_json_value *vocab = tt_json_get(model, "vocab");
    const tt_json_value *added = tt_json_get(root, "added_tokens");
    const int64_t tokens = count(vocab) + 3 * count(added);
    const int64_t merges = count(tt_json_get(model, "merges"));
    const int64_t text = text_bytes(vocab) + 2 * text_bytes(added);
    TT_TRY(check_memory(tree, text + table_bytes(tokens, merges), bytes));
    return tt__tokenizer_hf(root, out);
}

static tt_status read_gpt2(const tt_json_value *root, const tt_arena *tree,
                           int64_t bytes, const tt_map *merges,
                           tt_tokenizer **out)
{
    int64_t lines = 1;
    for (int64_t i = 0; i < merges->bytes; i++)
        lines += merges->data[i] == '\n';
    const int64_t text = text_bytes(root);
    TT_TRY(check_memory(tree, text + table_bytes(root->n, lines), bytes));
    return tt__tokenizer_gpt2(root, merges->data, merges->bytes, out);
}

static tt_status open_hf(const char *path, tt_tokenizer **out)
{
    tt_map map = {0};
    const tt_json_value *root = NULL;
    tt_tokenizer *t = NULL;
    TT_TRY(tt_map_open(path, &map));
    tt_arena *tree = tt_arena_create();
    tt_status status =
        tree != NULL ? tt_json_read(map.data, map.bytes, path, tree, &root)
                     : tt_fail(TT_ERR_NOMEM, "%s: out of memory", path);
    if (status == TT_OK) {
        status = read_hf(root, tree, map.bytes, &t);
        if (status != TT_OK)
            status = tt_fail_context(status, "%s", path);
    }
    tt_arena_destroy(tree);
    if (status == TT_OK)
        status = keep_text(t, &map);
    tt_map_close(&map);
    if (status != TT_OK) {
        tt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return TT_OK;
}

static tt_status open_gpt2(const char *vocab, const char *merges,
                           tt_tokenizer **out)
{
    tt_map ids = {0}, lines = {0};
    const tt_json_value *root = NULL;
    tt_arena *tree = tt_arena_create();
    tt_status status = TT_OK;
    if (tree == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", vocab);
    status = tt_map_open(vocab, &ids);
    if (status == TT_OK)
        status = tt_map_open(merges, &lines);
    if (status == TT_OK)
        status = tt_json_read(ids.data, ids.bytes, vocab, tree, &root);
    if (status == TT_OK) {
        status = read_gpt2(root, tree, ids.bytes + lines.bytes, &lines, out);
        if (status != TT_OK)
            status = tt_fail_context(status, "%s, %s", vocab, merges);
    }
    tt_map_close(&ids);
    tt_map_close(&lines);
    tt_arena_destroy(tree);
    return status;
}

// Files of others that are not read, and how to have one that is.
static tt_status refuse_file(const char *path)
{
    if (tt_ends_with(path, ".tiktoken"))
        return tt_fail(
            TT_ERR_UNSUPPORTED,
            "%s: tiktoken's files are not read, since the pattern that splits "
            "the text is not in them; use the model's tokenizer.json, or write "
            "one with transformers: TikTokenConverter(vocab_file=..., "
            "pattern=...).converted().save(\"tokenizer.json\")",
            path);
    return tt_fail(
        TT_ERR_UNSUPPORTED,
        "%s: sentencepiece's files are not read; use the tokenizer.json of the "
        "model, or write one with transformers: AutoTokenizer.from_pretrained("
        "FOLDER, use_fast=True).save_pretrained(OUT)",
        path);
}

static tt_status open_folder(const char *folder, tt_tokenizer **out)
{
    char vocab[PATH_MAX], merges[PATH_MAX];
    if (find_file(folder, "tokenizer.json", "tokenizer.json", vocab))
        return open_hf(vocab, out);
    if (find_file(folder, "vocab.json", "encoder.json", vocab) &&
        find_file(folder, "merges.txt", "vocab.bpe", merges))
        return open_gpt2(vocab, merges, out);
    if (find_file(folder, "tokenizer.model", "tiktoken.model", vocab) ||
        find_file(folder, "spiece.model", "qwen.tiktoken", vocab))
        return refuse_file(vocab);
    return tt_fail(TT_ERR_IO,
                   "%s: there is neither tokenizer.json nor vocab.json and "
                   "merges.txt (encoder.json and vocab.bpe) in it",
                   folder);
}

static tt_status open_file(const char *path, tt_tokenizer **out)
{
    char folder[PATH_MAX], other[PATH_MAX];
    folder_of(path, folder);
    if (tt_ends_with(path, ".tiktoken") || tt_ends_with(path, ".model"))
        return refuse_file(path);
    if (tt_ends_with(path, "vocab.json") ||
        tt_ends_with(path, "encoder.json")) {
        if (!find_file(folder, "merges.txt", "vocab.bpe", other))
            return tt_fail(TT_ERR_IO,
                           "%s: the file of its merges, merges.txt or "
                           "vocab.bpe, is not beside it",
                           path);
        return open_gpt2(path, other, out);
    }
    if (tt_ends_with(path, "merges.txt") || tt_ends_with(path, "vocab.bpe")) {
        if (!find_file(folder, "vocab.json", "encoder.json", other))
            return tt_fail(TT_ERR_IO,
                           "%s: the file of its ids, vocab.json or "
                           "encoder.json, is not beside it",
                           path);
        return open_gpt2(other, path, out);
    }
    return open_hf(path, out);
}

static tt_status open_bytes(tt_tokenizer **out)
{
    tt_tokenizer *t = tt__tokenizer_create(TT_TOKENIZER_BYTES);
    if (t == NULL)
        return TT_ERR_NOMEM;
    tt_status status = tt__tokenizer_reserve(t, 256);
    for (int i = 0; i < 256 && status == TT_OK; i++) {
        const char byte = (char)i;
        status = tt__tokenizer_set(t, i, &byte, 1, true);
    }
    if (status != TT_OK) {
        tt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return TT_OK;
}

tt_status tt_tokenizer_open(const char *spec, const char *text, int64_t n,
                            tt_tokenizer **tokenizer_out)
{
    if (strcmp(spec, "bytes") == 0)
        return open_bytes(tokenizer_out);
    if (strcmp(spec, "chars") == 0)
        return tt__tokenizer_chars(text, n, tokenizer_out);
    if (is_folder(spec))
        return open_folder(spec, tokenizer_out);
    if (!is_there(spec))
        return tt_fail(TT_ERR_IO,
                       "%s: no such tokenizer: it is \"bytes\", \"chars\", or "
                       "a folder or file with tokenizer.json or vocab.json "
                       "and merges.txt",
                       spec);
    return open_file(spec, tokenizer_out);
}

// ---- use -----------------------------------------------------------------

const char *tt_tokenizer_kind(const tt_tokenizer *t)
{
    static const char *const general[] = {"bpe", "bpe", "wordpiece", "unigram",
                                          "words"};
    return t->type == TT_TOKENIZER_BYTES   ? "bytes"
           : t->type == TT_TOKENIZER_CHARS ? "chars"
           : t->general != NULL            ? general[t->general->lookup.type]
                                           : "bpe";
}

int64_t tt_tokenizer_vocab(const tt_tokenizer *t)
{
    return t->vocab;
}

int32_t tt_tokenizer_end(const tt_tokenizer *t)
{
    return t->end;
}

const char *tt_tokenizer_token(const tt_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab ? t->token[id].bytes : NULL;
}

bool tt_tokenizer_is_special(const tt_tokenizer *t, int32_t id)
{
    for (int64_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == id && t->added[i].is_special)
            return true;
    return false;
}

tt_status tt_tokenizer_decode(const tt_tokenizer *t, const int32_t *ids,
                              int64_t n, tt_str *out)
{
    tt_detokenizer *d = NULL;
    const int64_t before = out->n;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->vocab || t->token[ids[i]].bytes == NULL)
            return tt_fail(TT_ERR_ARG,
                           "token %lld is %d, which the tokenizer does not "
                           "have: its ids are below %lld",
                           (long long)i, ids[i], (long long)t->vocab);
    TT_TRY(tt_detokenizer_open(t, &d));
    tt_status status = TT_OK;
    for (int64_t i = 0; i < n && status == TT_OK; i++)
        status = tt_detokenizer_next(d, ids[i], out);
    if (status == TT_OK)
        status = tt_detokenizer_flush(d, out);
    tt_detokenizer_close(d);
    if (status != TT_OK && out->n > before) {
        out->n = before;
        out->text[before] = '\0';
    }
    return status;
}
