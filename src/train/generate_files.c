// generate_files - a generator from a run, a checkpoint or a Hugging Face folder.

#include "base/file.h"
#include "store/pretrained.h"
#include "train/described.h"
#include "train/generator.h"

#include <stdio.h>

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
    int32_t begin, end; // special ids of a Hugging Face folder; -1: none
} opening;

// ---- settings ------------------------------------------------------------

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
    TT_TRY(tt_described_read(o->folder, o->arena, &o->settings));
    o->settings.cache = o->wishes->cache;
    for (int64_t i = 0; i < o->wishes->n; i++)
        TT_TRY(tt_settings_set(&o->settings, o->wishes->v[i].key,
                               o->wishes->v[i].value, o->wishes->v[i].origin,
                               o->arena));
    return limit_context(o);
}

// ---- the tokenizer -------------------------------------------------------

typedef tt_status id_fn(const char *text, int64_t n, const char *name,
                        tt_arena *arena, int32_t *id_out);

// What a file of the folder says, if it is there.
static tt_status read_id(const opening *o, const char *name, id_fn *read,
                         int32_t *id_out)
{
    const char *path = tt_arena_printf(o->arena, "%s/%s", o->folder, name);
    tt_str text = {0};
    if (path == NULL)
        return TT_ERR_NOMEM;
    if (!tt_file_exists(path))
        return TT_OK;
    tt_status status = tt_file_read(path, MAX_JSON, &text);
    if (status == TT_OK)
        status = read(tt_str_text(&text), text.n, path, o->arena, id_out);
    tt_str_fini(&text);
    return status;
}

static tt_status open_tokenizer(opening *o, tt_tokenizer **tokenizer_out)
{
    const char *own = tt_arena_printf(o->arena, "%s/config.yaml", o->folder);
    const char *spec = tt_described_tokenizer(o->folder, o->arena);
    if (own == NULL)
        return TT_ERR_NOMEM;
    if (!tt_file_exists(own)) { // a folder of others
        TT_TRY(read_id(o, "config.json", tt_pretrained_end, &o->end));
        TT_TRY(read_id(o, "tokenizer.json", tt_pretrained_begin, &o->begin));
    }
    if (spec != NULL)
        return tt_tokenizer_open(spec, NULL, 0, tokenizer_out);
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
        g->begin = o->begin;
        g->end = o->end >= 0 ? o->end : g->end;
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
    opening o = {.wishes = settings,
                 .arena = tt_arena_create(),
                 .notes = notes,
                 .begin = -1,
                 .end = -1};
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
