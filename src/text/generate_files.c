// generate_files - a generator from files: a run, a checkpoint or a Hugging Face
// folder.
//
// The settings of the model come from the folder; the user's own (device,
// precision, seq) replace them. What ends a text comes from config.json and
// generation_config.json, which a run keeps in origin.json, so a fine-tuned chat
// model stops where the original did.

#include "base/file.h"
#include "store/pretrained.h"
#include "text/generator.h"
#include "weights/model_folder.h"
#include "weights/origin.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_JSON = 256 << 20, // bytes
    MAX_CONTEXT = 8192,   // tokens, where nobody asked for more
};

typedef struct opening {
    const char *folder; // where the weights lie
    const tt_settings *wishes;
    tt_arena *arena; // of settings and names
    tt_settings settings;
    tt_str *notes;
    int32_t begin; // special id of a Hugging Face folder; -1: none
    tt_pretrained_ids ends;
} opening;

// ---- settings ------------------------------------------------------------

// Limits the context of models that can read very long texts: the cache is
// allocated for the whole context, and would fill the memory.
static tt_status limit_context(opening *o)
{
    const int64_t n = tt_model_folder_longest(&o->settings);
    if (n <= MAX_CONTEXT || tt_settings_find(&o->settings, "seq") != NULL)
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
    TT_TRY(tt_model_folder_read(o->folder, o->arena, &o->settings));
    o->settings.cache = o->wishes->cache;
    for (int64_t i = 0; i < o->wishes->n; i++)
        TT_TRY(tt_settings_set(&o->settings, o->wishes->v[i].key,
                               o->wishes->v[i].value, o->wishes->v[i].origin,
                               o->arena));
    return limit_context(o);
}

// ---- the tokenizer -------------------------------------------------------

static tt_status read_begin(opening *o)
{
    const char *path =
        tt_arena_printf(o->arena, "%s/tokenizer.json", o->folder);
    tt_str text = {0};
    if (path == NULL)
        return TT_ERR_NOMEM;
    if (!tt_file_exists(path))
        return TT_OK;
    tt_status status = tt_file_read(path, MAX_JSON, &text);
    if (status == TT_OK)
        status = tt_pretrained_begin(tt_str_text(&text), text.n, path, o->arena,
                                     &o->begin);
    tt_str_fini(&text);
    return status;
}

// The ids that end a text, from both files.
static tt_status read_ends(opening *o)
{
    static const char *const names[] = {"config.json",
                                        "generation_config.json"};
    tt_origin origin;
    TT_TRY(tt_origin_read(o->folder, o->arena, &origin));
    for (int i = 0; i < 2; i++) {
        const tt_origin_file *file = tt_origin_find(&origin, names[i]);
        if (file != NULL)
            TT_TRY(tt_pretrained_ends(file->text, file->n, file->name, o->arena,
                                      &o->ends));
    }
    return TT_OK;
}

static tt_status open_tokenizer(opening *o, tt_tokenizer **tokenizer_out)
{
    const char *spec = tt_model_folder_tokenizer(o->folder, o->arena);
    TT_TRY(read_ends(o));
    if (!tt_model_folder_is_run(o->folder)) // a folder of Hugging Face
        TT_TRY(read_begin(o));
    if (spec != NULL)
        return tt_tokenizer_open(spec, NULL, 0, tokenizer_out);
    tt_str_addf(o->notes,
                "%s has no tokenizer.json: prompt and text are ids of tokens\n",
                o->folder);
    return TT_OK;
}

// ---- all of it -----------------------------------------------------------

// The first id that ends texts is also used to begin a text without a prompt.
static tt_status set_ends(tt_generator *g, const tt_pretrained_ids *ends)
{
    if (ends->n == 0)
        return TT_OK;
    int32_t *others =
        tt_arena_alloc(g->arena, ends->n * (int64_t)sizeof *others);
    if (others == NULL)
        return TT_ERR_NOMEM;
    memcpy(others, ends->v, (size_t)ends->n * sizeof *others);
    g->end = others[0];
    g->other_ends = others + 1;
    g->n_other_ends = ends->n - 1;
    return TT_OK;
}

tt_status tt_generator_describe(tt_generator *g, const char *folder)
{
    opening o = {.folder = folder, .arena = tt_arena_create(), .begin = -1};
    if (o.arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a model");
    tt_status status = TT_OK;
    if (!tt_model_folder_is_run(folder)) {
        status = read_ends(&o);
        if (status == TT_OK)
            status = read_begin(&o);
        g->begin = o.begin;
        if (status == TT_OK)
            status = set_ends(g, &o.ends);
    }
    tt_arena_destroy(o.arena);
    return status;
}

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
        g->begin = o->begin;
        status = set_ends(g, &o->ends);
    }
    if (status == TT_OK) {
        status = tt_generator_load(g, weights, o->notes);
    }
    if (g == NULL) {
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
    opening o = {.wishes = settings,
                 .arena = tt_arena_create(),
                 .notes = notes,
                 .begin = -1};
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
