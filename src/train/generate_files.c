// generate_files - a generator from a run, a checkpoint or a Hugging Face folder.

#include "base/alloc.h"
#include "base/file.h"
#include "base/yaml.h"
#include "train/generator.h"
#include "train/pretrained.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_CONFIG = 16 << 20, // bytes
    MAX_CONTEXT = 8192,    // tokens, where nobody asked for more
};

typedef struct opening {
    const char *folder; // where the weights lie
    const tt_settings *wishes;
    tt_arena *arena; // of settings and names
    tt_settings settings;
    tt_str *notes;
} opening;

static const char *path_in(const opening *o, const char *name)
{
    return tt_arena_printf(o->arena, "%s/%s", o->folder, name);
}

// ---- settings ------------------------------------------------------------

// What of a run's settings says which model it is.
static bool is_of_model(const char *key)
{
    static const char *const keys[] = {"model", "seq", "precision"};
    for (int i = 0; i < 3; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return strncmp(key, "model.", 6) == 0;
}

static tt_status read_yaml(opening *o, const char *path)
{
    tt_settings all = {0};
    TT_TRY(tt_yaml_read(path, o->arena, &all));
    for (int64_t i = 0; i < all.n; i++)
        if (is_of_model(all.v[i].key))
            TT_TRY(tt_settings_set(&o->settings, all.v[i].key, all.v[i].value,
                                   all.v[i].origin, o->arena));
    return TT_OK;
}

static tt_status read_json(opening *o, const char *path)
{
    tt_str text = {0};
    tt_status status = tt_file_read(path, MAX_CONFIG, &text);
    if (status == TT_OK)
        status = tt_pretrained_read(tt_str_text(&text), text.n, path, o->arena,
                                    &o->settings);
    tt_str_fini(&text);
    return status;
}

// Keys and values for a context that nobody needs would fill the memory.
static tt_status limit_context(opening *o)
{
    const tt_setting *context = tt_settings_find(&o->settings, "model.context");
    const tt_opt number[] = {{"n", "0", "", TT_OPT_I64, 0}, {0}};
    int64_t n = 0;
    if (context == NULL || tt_settings_find(&o->settings, "seq") != NULL ||
        tt_opt_set(number, &n, "n", context->value, o->arena) != TT_OK ||
        n <= MAX_CONTEXT)
        return TT_OK;
    tt_str_addf(o->notes,
                "the model reads up to %lld tokens; this remembers %d (seq=N "
                "changes that)\n",
                (long long)n, MAX_CONTEXT);
    char text[32];
    snprintf(text, sizeof text, "%d", MAX_CONTEXT);
    return tt_settings_set(&o->settings, "seq", text, "limit", o->arena);
}

static tt_status read_settings(opening *o)
{
    const char *yaml = path_in(o, "config.yaml");
    const char *json = path_in(o, "config.json");
    if (yaml == NULL || json == NULL)
        return TT_ERR_NOMEM;
    if (tt_file_exists(yaml))
        TT_TRY(read_yaml(o, yaml));
    else if (tt_file_exists(json))
        TT_TRY(read_json(o, json));
    else
        return tt_fail(TT_ERR_ARG,
                       "%s has neither config.yaml nor config.json, so the "
                       "model is not known",
                       o->folder);
    for (int64_t i = 0; i < o->wishes->n; i++)
        TT_TRY(tt_settings_set(&o->settings, o->wishes->v[i].key,
                               o->wishes->v[i].value, o->wishes->v[i].origin,
                               o->arena));
    return limit_context(o);
}

// ---- the tokenizer -------------------------------------------------------

static tt_status open_tokenizer(opening *o, tt_tokenizer **tokenizer_out)
{
    static const char *const names[] = {"tokenizer.json", "vocab.json",
                                        "encoder.json"};
    for (int i = 0; i < 3; i++) {
        const char *path = path_in(o, names[i]);
        if (path == NULL)
            return TT_ERR_NOMEM;
        if (tt_file_exists(path))
            return tt_tokenizer_open(i == 0 ? path : o->folder, NULL, 0,
                                     tokenizer_out);
    }
    tt_str_addf(o->notes,
                "%s has no tokenizer.json: prompt and text are ids of tokens\n",
                o->folder);
    return TT_OK;
}

// ---- all of it -----------------------------------------------------------

static tt_status open_parts(opening *o, const tt_weights *weights,
                            tt_generator **generator_out)
{
    tt_job *job = NULL;
    tt_tokenizer *tokenizer = NULL;
    tt_generator *g = NULL;
    TT_TRY(read_settings(o));
    tt_status status = tt_job_configure(&o->settings, NULL, &job);
    if (status == TT_OK && job->note != NULL)
        tt_str_addf(o->notes, "%s\n", job->note);
    if (status == TT_OK)
        status = open_tokenizer(o, &tokenizer);
    if (status == TT_OK)
        status = tt_generator_open(job, tokenizer, &g);
    if (status == TT_OK) {
        g->own_job = job;
        g->own_tokenizer = tokenizer;
        status = tt_generator_load(g, weights, o->notes);
    } else {
        tt_tokenizer_close(tokenizer);
        tt_job_close(job);
    }
    if (status == TT_OK)
        *generator_out = g;
    else
        tt_generator_close(g);
    return status;
}

tt_status tt_generator_open_files(const char *path, bool wants_best,
                                  const tt_settings *settings, tt_str *notes,
                                  tt_generator **generator_out)
{
    const tt_weights_options options = {.wants_best = wants_best,
                                        .wants_ema = true};
    tt_weights *weights = NULL;
    opening o = {
        .wishes = settings, .arena = tt_arena_create(), .notes = notes};
    if (o.arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a model");
    tt_status status = tt_weights_open(path, &options, notes, &weights);
    if (status == TT_OK) {
        o.folder = tt_weights_folder(weights);
        status = open_parts(&o, weights, generator_out);
    }
    tt_weights_close(weights);
    tt_arena_destroy(o.arena);
    return status;
}
