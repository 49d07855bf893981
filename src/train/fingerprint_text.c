// fingerprint_text - written to JSON, read back, and compared.

#include "train/fingerprint.h"

#include <stdio.h>
#include <string.h>

// What is hashed and how; a fingerprint of another kind says nothing.
static const char kind[] = "xxh3-128 1";

void tt_fingerprint_print(const tt_fingerprint *f, tt_json *json,
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
        if (g->time != 0)
            tt_json_i64(json, "time", g->time);
        tt_json_str(json, "hash", g->hash);
        tt_json_close(json, '}');
    }
    tt_json_close(json, ']');
    tt_json_close(json, '}');
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

// "FILE", or "one of the 12 files from FIRST to LAST".
static void add_name(const tt_fingerprint_group *g, tt_str *out)
{
    if (g->files == 1)
        tt_str_add(out, g->first);
    else
        tt_str_addf(out, "one of the %lld files from %s to %s",
                    (long long)g->files, g->first, g->last);
}

// The first name that one has and the other has not, as far as names are kept.
static void describe_names(const tt_fingerprint *then,
                           const tt_fingerprint *now, tt_str *out)
{
    int64_t i = 0;
    while (i < then->n && i < now->n && then->v[i].files == 1 &&
           now->v[i].files == 1 &&
           strcmp(then->v[i].first, now->v[i].first) == 0)
        i++;
    const bool has_then = i < then->n && then->v[i].files == 1;
    const bool has_now = i < now->n && now->v[i].files == 1;
    if (has_then && (!has_now || strcmp(then->v[i].first, now->v[i].first) < 0))
        tt_str_addf(out, "%s was among the data and is not now",
                    then->v[i].first);
    else if (has_now)
        tt_str_addf(out, "%s was not among the data and is now",
                    now->v[i].first);
    else if (then->files != now->files)
        tt_str_addf(out, "the data had %lld files and have %lld",
                    (long long)then->files, (long long)now->files);
    else
        tt_str_add(out, "the files of the data have other names");
}

// Says in `out` what differs; nothing: they are the same.
static void describe(const tt_fingerprint *then, const tt_fingerprint *now,
                     tt_str *out)
{
    if (strcmp(then->names, now->names) != 0 || then->n != now->n) {
        describe_names(then, now, out);
        return;
    }
    for (int64_t i = 0; i < now->n; i++) {
        const tt_fingerprint_group *a = &then->v[i], *b = &now->v[i];
        if (strcmp(a->hash, b->hash) == 0)
            continue;
        add_name(b, out);
        if (a->bytes == b->bytes)
            tt_str_add(out, " has changed since the last checkpoint, though "
                            "not in length");
        else
            tt_str_addf(out,
                        " has changed since the last checkpoint, from %lld to "
                        "%lld bytes",
                        (long long)a->bytes, (long long)b->bytes);
        return;
    }
    if (strcmp(then->tokens, now->tokens) != 0)
        tt_str_add(out, "the text is the same as at the last checkpoint and "
                        "its tokens are others, so the tokenizer "
                        "(data.tokenizer) has changed");
}

// Only where not all was hashed.
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

tt_status tt_fingerprint_compare(const tt_fingerprint *then,
                                 const tt_fingerprint *now, const char *folder,
                                 tt_str *notes)
{
    tt_str what = {0};
    if (then == NULL || now == NULL)
        return TT_OK;
    describe(then, now, &what);
    tt_status status = tt_str_status(&what);
    if (status == TT_OK && what.n > 0)
        status = refuse(folder, what.text);
    else if (status == TT_OK)
        note_times(then, now, notes);
    tt_str_fini(&what);
    return status;
}
