// model_folder - see the header. A folder is recognised by the files in it:
// config.yaml (ours) before config.json (Hugging Face's). Of a run's settings only
// those of the model are taken; how it was trained is not part of it.

#include "weights/model_folder.h"

#include "base/file.h"
#include "base/settings/yaml.h"
#include "store/pretrained.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CONFIG = 16 << 20 }; // bytes

static bool is_of_model(const char *key)
{
    static const char *const keys[] = {"model", "seq", "image", "precision"};
    for (int i = 0; i < 4; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return strncmp(key, "model.", 6) == 0;
}

static tt_status read_yaml(const char *path, tt_arena *arena,
                           tt_settings *settings)
{
    tt_settings all = {0};
    TT_TRY(tt_yaml_read(path, arena, &all));
    for (int64_t i = 0; i < all.n; i++)
        if (is_of_model(all.v[i].key))
            TT_TRY(tt_settings_set(settings, all.v[i].key, all.v[i].value,
                                   all.v[i].origin, arena));
    return TT_OK;
}

static tt_status read_json(const char *path, tt_arena *arena,
                           tt_settings *settings)
{
    tt_str text = {0};
    tt_status status = tt_file_read(path, MAX_CONFIG, &text);
    if (status == TT_OK)
        status = tt_pretrained_read(tt_str_text(&text), text.n, path, arena,
                                    settings);
    tt_str_fini(&text);
    return status;
}

tt_status tt_model_folder_read_file(const char *path, tt_arena *arena,
                                    tt_settings *settings)
{
    const size_t n = strlen(path);
    const bool is_yaml = n > 5 && strcmp(path + n - 5, ".yaml") == 0;
    return is_yaml ? read_yaml(path, arena, settings)
                   : read_json(path, arena, settings);
}

tt_status tt_model_folder_read(const char *folder, tt_arena *arena,
                               tt_settings *settings)
{
    static const char *const names[] = {"config.yaml", "config.json"};
    for (int i = 0; i < 2; i++) {
        const char *path = tt_arena_printf(arena, "%s/%s", folder, names[i]);
        if (path == NULL)
            return TT_ERR_NOMEM;
        if (tt_file_exists(path))
            return tt_model_folder_read_file(path, arena, settings);
    }
    return tt_fail(TT_ERR_ARG,
                   "%s has neither config.yaml nor config.json, so the model "
                   "is not known",
                   folder);
}

static bool has(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && n < (int)sizeof path && tt_file_exists(path);
}

int64_t tt_model_folder_longest(const tt_settings *settings)
{
    static const char *const keys[] = {"seq", "model.context", "model.window"};
    static const tt_opt number[] = {{"n", "0", "", TT_OPT_I64, 0}, {0}};
    int64_t least = 0;
    for (int i = 0; i < 3; i++) {
        const tt_setting *s = tt_settings_find(settings, keys[i]);
        int64_t n = 0;
        // What is no number is refused when all settings are read.
        if (s != NULL && tt_opt_set(number, &n, "n", s->value, NULL) == TT_OK &&
            n > 0 && (least == 0 || n < least))
            least = n;
    }
    return least;
}

bool tt_model_folder_is(const char *folder)
{
    return has(folder, "config.yaml") || has(folder, "config.json");
}

bool tt_model_folder_is_run(const char *folder)
{
    return has(folder, "state.json") || has(folder, "checkpoints") ||
           has(folder, "latest");
}

// Whether the settings are those that a run writes: all of them. A file of the
// user's own that is also called config.yaml has fewer.
static bool is_resolved(const tt_settings *all)
{
    static const char *const keys[] = {"run", "batch", "micro", "accumulate"};
    for (int i = 0; i < 4; i++)
        if (tt_settings_find(all, keys[i]) == NULL)
            return false;
    return true;
}

bool tt_model_folder_was_run(const char *folder, tt_arena *arena)
{
    tt_settings all = {0};
    if (tt_model_folder_is_run(folder) || has(folder, "metrics.jsonl"))
        return true;
    const char *path = tt_arena_printf(arena, "%s/config.yaml", folder);
    return path != NULL && tt_file_exists(path) &&
           tt_yaml_read(path, arena, &all) == TT_OK && is_resolved(&all);
}

const char *tt_model_folder_tokenizer(const char *folder, tt_arena *arena)
{
    static const char *const names[] = {"tokenizer.json", "vocab.json",
                                        "encoder.json"};
    for (int i = 0; i < 3; i++) {
        const char *path = tt_arena_printf(arena, "%s/%s", folder, names[i]);
        if (path != NULL && tt_file_exists(path))
            return i == 0 ? path : tt_arena_strdup(arena, folder);
    }
    return NULL;
}
