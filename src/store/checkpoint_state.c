// checkpoint_state - state.json: printed, and read with suspicion.
//
//   {"format": 1, "step": 200,      ("passing": true, where it was saved in passing)
//    "files": {"model.safetensors": {"bytes": 1234, "xxh3": "...",
//                                    "header": "...", "sums": ["...", ...]}, ...},
//    "state": {...},
//    "xxh3": "..."}
//
// The last member is the hash of everything before its comma, so that damage is
// found in this file as in the others. The line breaks are fixed: the trainer's
// state is found by the text around it and given back byte by byte, without being
// parsed and printed again.

#include "base/json.h"
#include "base/json_read.h"
#include "store/checkpoint_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1, SUM_CHARS = 17 };

static const char state_mark[] = ",\n \"state\": ";
static const char tail_form[] = ",\n \"xxh3\": \"%s\"}\n";
enum { TAIL_BYTES = sizeof(tail_form) - 1 - 2 + TT_HASH_CHARS - 1 };

static void print_sums(tt_json *json, const tt__checkpoint_file *file)
{
    char text[SUM_CHARS];
    if (file->header == NULL)
        return;
    tt_json_str(json, "header", file->header);
    tt_json_open(json, "sums", '[');
    for (int64_t i = 0; i < file->n_sums; i++) {
        snprintf(text, sizeof text, "%016llx",
                 (unsigned long long)file->sum[i]);
        tt_json_str(json, NULL, text);
    }
    tt_json_close(json, ']');
}

void tt__checkpoint_print(const tt__checkpoint_state *state, tt_str *out)
{
    char hash[TT_HASH_CHARS];
    tt_json json = {.out = out};
    tt_str_addf(out, "{\"format\": %d, \"step\": %lld,%s\n \"files\": ", FORMAT,
                (long long)state->step,
                state->is_passing ? " \"passing\": true," : "");
    tt_json_open(&json, NULL, '{');
    for (int64_t i = 0; i < state->n_files; i++) {
        tt_json_open(&json, state->file[i].name, '{');
        tt_json_i64(&json, "bytes", state->file[i].bytes);
        tt_json_str(&json, "xxh3", state->file[i].hash);
        print_sums(&json, &state->file[i]);
        tt_json_close(&json, '}');
    }
    tt_json_close(&json, '}');
    tt_str_addf(out, "%s%s", state_mark, state->state);
    tt_hash_text(tt_str_text(out), out->n, hash);
    tt_str_addf(out, tail_form, hash);
}

static tt_status check_tail(const char *text, int64_t n)
{
    char hash[TT_HASH_CHARS], want[TAIL_BYTES + 1];
    const int64_t body = n - TAIL_BYTES;
    if (body <= 0)
        return tt_fail(TT_ERR_ARG, "state.json is cut short");
    tt_hash_text(text, body, hash);
    snprintf(want, sizeof(want), tail_form, hash);
    if (memcmp(text + body, want, TAIL_BYTES) != 0)
        return tt_fail(TT_ERR_ARG, "state.json is damaged: its hash is wrong");
    return TT_OK;
}

static tt_status read_sums(const tt_json_value *from, tt_arena *arena,
                           tt__checkpoint_file *file)
{
    const tt_json_value *sums = tt_json_get(from, "sums");
    file->header = tt_json_text(tt_json_get(from, "header"), NULL);
    if (file->header == NULL)
        return TT_OK;
    if (sums == NULL || sums->type != TT_JSON_ARRAY ||
        strlen(file->header) != TT_HASH_CHARS - 1)
        return tt_fail(TT_ERR_ARG, "state.json: \"sums\" makes no sense");
    uint64_t *sum = tt_arena_alloc(arena, (sums->n + 1) * (int64_t)sizeof *sum);
    if (sum == NULL)
        return TT_ERR_NOMEM;
    for (const tt_json_value *v = sums->first; v != NULL; v = v->next) {
        const char *text = tt_json_text(v, "");
        if (strlen(text) != SUM_CHARS - 1 ||
            strspn(text, "0123456789abcdef") != SUM_CHARS - 1)
            return tt_fail(TT_ERR_ARG, "state.json: \"sums\" makes no sense");
        sum[file->n_sums++] = strtoull(text, NULL, 16);
    }
    file->sum = sum;
    return TT_OK;
}

static tt_status read_files(const tt_json_value *files, tt_arena *arena,
                            tt__checkpoint_state *out)
{
    if (files == NULL || files->type != TT_JSON_OBJECT)
        return tt_fail(TT_ERR_ARG, "state.json: \"files\" is missing");
    tt__checkpoint_file *file =
        tt_arena_alloc(arena, files->n * (int64_t)sizeof(*file));
    if (file == NULL)
        return TT_ERR_NOMEM;
    out->file = file;
    for (const tt_json_value *f = files->first; f != NULL; f = f->next) {
        file->name = f->key;
        file->bytes = tt_json_int(tt_json_get(f, "bytes"), -1);
        file->hash = tt_json_text(tt_json_get(f, "xxh3"), "");
        if ((int64_t)strlen(f->key) != f->key_n ||
            !tt__checkpoint_is_name(f->key) || file->bytes < 0 ||
            strlen(file->hash) != TT_HASH_CHARS - 1)
            return tt_fail(TT_ERR_ARG, "state.json: \"files\" makes no sense");
        TT_TRY(read_sums(f, arena, file));
        file++;
        out->n_files++;
    }
    return TT_OK;
}

// The trainer's text between the marks, as it was given.
static tt_status find_state(const char *text, int64_t n, tt_arena *arena,
                            tt__checkpoint_state *out)
{
    const int64_t mark = sizeof(state_mark) - 1;
    const char *found = memmem(text, (size_t)n, state_mark, (size_t)mark);
    if (found == NULL || found + mark > text + n - TAIL_BYTES)
        return tt_fail(TT_ERR_ARG, "state.json: \"state\" is missing");
    const int64_t bytes = text + n - TAIL_BYTES - (found + mark);
    char *copy = tt_arena_alloc(arena, bytes + 1);
    if (copy == NULL)
        return TT_ERR_NOMEM;
    memcpy(copy, found + mark, (size_t)bytes);
    out->state = copy;
    return TT_OK;
}

tt_status tt__checkpoint_parse(const char *text, int64_t n, tt_arena *arena,
                               tt__checkpoint_state *out)
{
    const tt_json_value *root = NULL;
    tt__checkpoint_state read = {0};
    TT_TRY(check_tail(text, n));
    TT_TRY(tt_json_read(text, n, "state.json", arena, &root));
    const int64_t format = tt_json_int(tt_json_get(root, "format"), -1);
    if (format != FORMAT)
        return tt_fail(TT_ERR_ARG,
                       "state.json has format %lld, but this program reads "
                       "format %d",
                       (long long)format, FORMAT);
    read.step = tt_json_int(tt_json_get(root, "step"), -1);
    if (read.step < 0)
        return tt_fail(TT_ERR_ARG, "state.json: \"step\" makes no sense");
    read.is_passing = tt_json_truth(tt_json_get(root, "passing"), false);
    const tt_json_value *state = tt_json_get(root, "state");
    if (state == NULL || state->type != TT_JSON_OBJECT)
        return tt_fail(TT_ERR_ARG, "state.json: \"state\" is missing");
    TT_TRY(read_files(tt_json_get(root, "files"), arena, &read));
    TT_TRY(find_state(text, n, arena, &read));
    *out = read;
    return TT_OK;
}
