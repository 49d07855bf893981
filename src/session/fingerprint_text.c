// fingerprint_text - fingerprints as JSON, read back, and compared.
//
// A comparison goes from the coarse to the fine, and stops at the first difference:
// the names of files, then each group's size and content, then the tokens. So the
// user reads the cause: "a file was added", not "256 groups differ". The same code
// compares a run with its past and a rank with rank 0; only the words differ
// (struct words).

#include "session/fingerprint.h"

#include <stdio.h>
#include <string.h>

// The kind of fingerprint. One of another kind cannot be compared and is ignored.
static const char kind[] = "xxh3-128 1";

static void print(const tt_fingerprint *f, bool has_times, tt_json *json,
                  const char *key)
{
    if (f == NULL || (f->n == 0 && f->tokens[0] == '\0'))
        return;
    tt_json_open(json, key, '{');
    tt_json_str(json, "kind", kind);
    tt_json_i64(json, "files", f->files);
    tt_json_i64(json, "bytes", f->bytes);
    tt_json_bool(json, "whole", f->is_whole);
    tt_json_str(json, "names", f->names);
    if (f->tokens[0] != '\0')
        tt_json_str(json, "tokens", f->tokens);
    tt_json_open(json, "groups", '[');
    for (int64_t i = 0; i < f->n; i++) {
        const tt_fingerprint_group *g = &f->v[i];
        tt_json_open(json, NULL, '{');
        tt_json_str(json, "first", g->first);
        if (g->files > 1) {
            tt_json_str(json, "last", g->last);
            tt_json_i64(json, "files", g->files);
        }
        tt_json_i64(json, "bytes", g->bytes);
        if (has_times && g->time != 0)
            tt_json_i64(json, "time", g->time);
        tt_json_str(json, "hash", g->hash);
        tt_json_close(json, '}');
    }
    tt_json_close(json, ']');
    tt_json_close(json, '}');
}

void tt_fingerprint_print(const tt_fingerprint *f, tt_json *json,
                          const char *key)
{
    print(f, true, json, key);
}

void tt_fingerprint_text(const tt_fingerprint *f, tt_str *out)
{
    tt_json json = {.out = out};
    tt_json_open(&json, NULL, '{');
    print(f, false, &json, "data");
    tt_json_close(&json, '}');
}

// ---- reading -----------------------------------------------------------------

static void copy_hash(char to[TT_FINGERPRINT_CHARS], const tt_json_value *from)
{
    snprintf(to, TT_FINGERPRINT_CHARS, "%s", tt_json_text(from, ""));
}

static void read_group(const tt_json_value *from, tt_fingerprint_group *g)
{
    g->first = tt_json_text(tt_json_get(from, "first"), "");
    g->last = tt_json_text(tt_json_get(from, "last"), g->first);
    g->files = tt_json_int(tt_json_get(from, "files"), 1);
    g->bytes = tt_json_int(tt_json_get(from, "bytes"), 0);
    g->time = tt_json_int(tt_json_get(from, "time"), 0);
    copy_hash(g->hash, tt_json_get(from, "hash"));
}

tt_status tt_fingerprint_read(const tt_json_value *from, tt_arena *arena,
                              const tt_fingerprint **fingerprint_out)
{
    const tt_json_value *groups = tt_json_get(from, "groups");
    *fingerprint_out = NULL;
    if (strcmp(tt_json_text(tt_json_get(from, "kind"), ""), kind) != 0 ||
        groups == NULL || groups->type != TT_JSON_ARRAY)
        return TT_OK;
    tt_fingerprint *f = tt_arena_alloc(arena, sizeof *f);
    if (f == NULL)
        return TT_ERR_NOMEM;
    f->files = tt_json_int(tt_json_get(from, "files"), 0);
    f->bytes = tt_json_int(tt_json_get(from, "bytes"), 0);
    f->is_whole = tt_json_truth(tt_json_get(from, "whole"), false);
    copy_hash(f->names, tt_json_get(from, "names"));
    copy_hash(f->tokens, tt_json_get(from, "tokens"));
    f->v = tt_arena_alloc(arena, (groups->n + 1) * (int64_t)sizeof *f->v);
    if (f->v == NULL)
        return TT_ERR_NOMEM;
    for (const tt_json_value *g = groups->first; g != NULL; g = g->next)
        read_group(g, &f->v[f->n++]);
    *fingerprint_out = f;
    return TT_OK;
}

tt_status tt_fingerprint_of_state(const char *json, const char *name,
                                  tt_arena *arena,
                                  const tt_fingerprint **fingerprint_out)
{
    const tt_json_value *root = NULL;
    TT_TRY(tt_json_read(json, (int64_t)strlen(json), name, arena, &root));
    return tt_fingerprint_read(tt_json_get(root, "data"), arena,
                               fingerprint_out);
}

// ---- comparing ---------------------------------------------------------------

static tt_status refuse(const char *folder, const char *what)
{
    return tt_fail(TT_ERR_ARG,
                   "%s; --fork goes on from %s with the data of today in a new "
                   "folder, --fresh begins again, or put the old data back",
                   what, folder);
}

// Adds `text` with two numbers in place of its two '#'.
static void add_numbers(tt_str *out, const char *text, int64_t a, int64_t b)
{
    const int first = (int)strcspn(text, "#");
    const char *rest = text + first + 1;
    const int second = (int)strcspn(rest, "#");
    tt_str_addf(out, "%.*s%lld%.*s%lld%s", first, text, (long long)a, second,
                rest, (long long)b, rest + second + 1);
}

// "FILE", or "one of the 12 files from FIRST to LAST".
static void add_name(const tt_fingerprint_group *g, tt_str *out)
{
    if (g->files == 1)
        tt_str_add(out, g->first);
    else
        tt_str_addf(out, "one of the %lld files from %s to %s",
                    (long long)g->files, g->first, g->last);
}

// The words of a comparison: of two times, or of two ranks.
typedef struct words {
    const char *lost, *gained; // after a file's name
    const char *counts;        // of files, both
    const char *names;
    const char *contents, *bytes; // after a file's name; `bytes` has both
    const char *tokens;
} words;

// Names the first file that only one side has, where groups are single files.
// Otherwise the numbers of files, or just that names differ.
static void describe_names(const tt_fingerprint *then,
                           const tt_fingerprint *now, const words *w,
                           tt_str *out)
{
    int64_t i = 0;
    while (i < then->n && i < now->n && then->v[i].files == 1 &&
           now->v[i].files == 1 &&
           strcmp(then->v[i].first, now->v[i].first) == 0)
        i++;
    const bool has_then = i < then->n && then->v[i].files == 1;
    const bool has_now = i < now->n && now->v[i].files == 1;
    if (has_then && (!has_now || strcmp(then->v[i].first, now->v[i].first) < 0))
        tt_str_addf(out, "%s %s", then->v[i].first, w->lost);
    else if (has_now)
        tt_str_addf(out, "%s %s", now->v[i].first, w->gained);
    else if (then->files != now->files)
        add_numbers(out, w->counts, then->files, now->files);
    else
        tt_str_add(out, w->names);
}

// Describes the first difference in `out`; nothing if there is none.
static void describe(const tt_fingerprint *then, const tt_fingerprint *now,
                     const words *w, tt_str *out)
{
    if (strcmp(then->names, now->names) != 0 || then->n != now->n) {
        describe_names(then, now, w, out);
        return;
    }
    for (int64_t i = 0; i < now->n; i++) {
        const tt_fingerprint_group *a = &then->v[i], *b = &now->v[i];
        if (strcmp(a->hash, b->hash) == 0)
            continue;
        add_name(b, out);
        if (a->bytes == b->bytes)
            tt_str_add(out, w->contents);
        else
            add_numbers(out, w->bytes, a->bytes, b->bytes);
        return;
    }
    if (strcmp(then->tokens, now->tokens) != 0)
        tt_str_add(out, w->tokens);
}

static const words of_times = {
    .lost = "was among the data and is not now",
    .gained = "was not among the data and is now",
    .counts = "the data had # files and have #",
    .names = "the files of the data have other names",
    .contents = " has changed since the last checkpoint, though not in length",
    .bytes = " has changed since the last checkpoint, from # to # bytes",
    .tokens = "the text is the same as at the last checkpoint and its tokens "
              "are others, so the tokenizer (data.tokenizer) has changed",
};

// `then` is of the rank that differs ("there"), `now` rank 0's ("here").
static const words of_ranks = {
    .lost = "is among them there and not here",
    .gained = "is among them here and not there",
    .counts = "there are # files there and # here",
    .names = "the files have other names there",
    .contents = " has other contents there, though the same length",
    .bytes = " has # bytes there and # here",
    .tokens =
        "the text is the same and its tokens are others, so the tokenizer "
        "(data.tokenizer) is another there",
};

// A file that was written to, with the same size and the same sampled blocks. That
// may be a copy, so it is a note. Times are 0 where all bytes were hashed.
static void note_times(const tt_fingerprint *then, const tt_fingerprint *now,
                       tt_str *notes)
{
    int64_t n = 0;
    const tt_fingerprint_group *first = NULL;
    for (int64_t i = 0; i < now->n; i++)
        if (then->v[i].time != now->v[i].time && n++ == 0)
            first = &now->v[i];
    if (first == NULL)
        return;
    tt_str name = {0};
    add_name(first, &name);
    tt_str_addf(notes, "%s was written since the last checkpoint",
                tt_str_text(&name));
    if (n > 1)
        tt_str_addf(notes, " (and others of the data)");
    tt_str_add(notes, "; lengths and samples of the contents are the same, and "
                      "more than 1 GiB is not compared as a whole\n");
    tt_str_fini(&name);
}

void tt_fingerprint_describe(const tt_fingerprint *then,
                             const tt_fingerprint *now, tt_str *out)
{
    if (then != NULL && now != NULL)
        describe(then, now, &of_times, out);
}

tt_status tt_fingerprint_compare(const tt_fingerprint *then,
                                 const tt_fingerprint *now, const char *folder,
                                 tt_str *notes)
{
    tt_str what = {0};
    if (then == NULL || now == NULL)
        return TT_OK;
    describe(then, now, &of_times, &what);
    tt_status status = tt_str_status(&what);
    if (status == TT_OK && what.n > 0)
        status = refuse(folder, what.text);
    else if (status == TT_OK)
        note_times(then, now, notes);
    tt_str_fini(&what);
    return status;
}

static tt_status explain(const char *mine, const char *first, tt_arena *arena,
                         tt_str *out)
{
    const tt_fingerprint *there = NULL, *here = NULL;
    TT_TRY(tt_fingerprint_of_state(mine, "data", arena, &there));
    TT_TRY(tt_fingerprint_of_state(first, "data", arena, &here));
    if (there != NULL && here != NULL)
        describe(there, here, &of_ranks, out);
    return TT_OK;
}

void tt_fingerprint_explain(const char *mine, const char *first, tt_str *out)
{
    tt_arena *arena = tt_arena_create();
    tt_str what = {0};
    if (arena != NULL && explain(mine, first, arena, &what) == TT_OK &&
        what.n > 0)
        tt_str_addf(out, ": %s", tt_str_text(&what));
    tt_str_add(out, "; all ranks must read the same data: copy the files to "
                    "every host, or give a data.path that all of them share");
    tt_str_fini(&what);
    tt_arena_destroy(arena);
}
