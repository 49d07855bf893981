// origin - see the header. origin.json is one object: the name of each file, and its
// text as a string.

#include "weights/origin.h"

#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"
#include "weights/model_folder.h"

#include <string.h>

enum { MAX_BYTES = 64 << 20 };

static const char *const names[] = {
    "config.json",         "generation_config.json", "tokenizer_config.json",
    "chat_template.jinja", "chat_template.json",     "special_tokens_map.json",
    "added_tokens.json",
};
enum { N_NAMES = sizeof names / sizeof *names };

static tt_status add(tt_origin *o, const char *name, const char *text,
                     int64_t n, tt_arena *arena)
{
    char *copy = tt_arena_alloc(arena, n + 1);
    if (copy == NULL)
        return TT_ERR_NOMEM;
    memcpy(copy, text, (size_t)n);
    copy[n] = '\0';
    o->file[o->n++] = (tt_origin_file){name, copy, n};
    return TT_OK;
}

static tt_status read_files(const char *folder, tt_arena *arena, tt_origin *o)
{
    for (int i = 0; i < N_NAMES; i++) {
        const char *path = tt_arena_printf(arena, "%s/%s", folder, names[i]);
        tt_str text = {0};
        if (path == NULL)
            return TT_ERR_NOMEM;
        if (!tt_file_exists(path))
            continue;
        tt_status status = tt_file_read(path, MAX_BYTES, &text);
        if (status == TT_OK)
            status = add(o, names[i], tt_str_text(&text), text.n, arena);
        tt_str_fini(&text);
        TT_TRY(status);
    }
    return TT_OK;
}

// Takes only names that are known, since they become file names again.
static tt_status read_kept(const char *path, tt_arena *arena, tt_origin *o)
{
    const tt_json_value *root = NULL;
    tt_str text = {0};
    tt_status status = tt_file_read(path, 2 * (int64_t)MAX_BYTES, &text);
    if (status == TT_OK)
        status = tt_json_read(tt_str_text(&text), text.n, path, arena, &root);
    for (int i = 0; i < N_NAMES && status == TT_OK; i++) {
        const tt_json_value *v = tt_json_get(root, names[i]);
        if (v != NULL && v->type == TT_JSON_STRING)
            status = add(o, names[i], v->text, v->n, arena);
    }
    tt_str_fini(&text);
    return status;
}

tt_status tt_origin_read(const char *folder, tt_arena *arena, tt_origin *out)
{
    const char *kept = tt_arena_printf(arena, "%s/origin.json", folder);
    *out = (tt_origin){0};
    if (kept == NULL)
        return TT_ERR_NOMEM;
    if (tt_file_exists(kept))
        return read_kept(kept, arena, out);
    return tt_model_folder_was_run(folder, arena)
               ? TT_OK
               : read_files(folder, arena, out);
}

void tt_origin_print(const tt_origin *origin, tt_str *out)
{
    tt_json json = {.out = out};
    if (origin->n == 0)
        return;
    tt_json_open(&json, NULL, '{');
    for (int i = 0; i < origin->n; i++)
        tt_json_str(&json, origin->file[i].name, origin->file[i].text);
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
}

const tt_origin_file *tt_origin_find(const tt_origin *origin, const char *name)
{
    for (int i = 0; i < origin->n; i++)
        if (strcmp(origin->file[i].name, name) == 0)
            return &origin->file[i];
    return NULL;
}

bool tt_origin_is_name(const char *name)
{
    for (int i = 0; i < N_NAMES; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}
