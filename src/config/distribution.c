// distribution - the tables, and reading them.

#include "config/distribution.h"

#include "backend/cpu/isa.h"
#include "comm/coll/coll.h"
#include "config/exchange.h"
#include "graph/place.h"

#include <string.h>

#define AT(field) offsetof(tt_distribution, field)

const char *const tt_offload_name[TT_OFFLOAD_ALL + 1] = {"none", "optimiser",
                                                         "activations", "all"};

#define CHOICE(id, name, between_hosts) "|" name

static const tt_opt top[] = {
    {"zero", "0", "what ranks share out: 1 optimiser, 2 gradients, 3 weights",
     TT_OPT_I64, AT(zero), NULL, 0, 3},
    {"offload", "none", "what lies in the host's memory beside a device's",
     TT_OPT_CHOICE, AT(offload), "none|optimiser|activations|all"},
    {"collective", "auto", "algorithm: see `tutti list collectives`",
     TT_OPT_STR, AT(collective)},
    {"transport", "auto", "between ranks", TT_OPT_CHOICE, AT(transport),
     "auto" TT_TRANSPORTS(CHOICE)},
    {"isa", "auto", "the processor's instructions that are used, at most",
     TT_OPT_CHOICE, AT(isa), TT_ISA_CHOICES},
    {"system", "", "a published system's settings: see `tutti list systems`",
     TT_OPT_STR, AT(system)},
    {0},
};

static const tt_opt mesh[] = {
    {"data", "0", "ranks that share the batch; 0: all that are left",
     TT_OPT_I64, AT(axis[TT_AXIS_DATA]), NULL, 0, 65536},
    {"expert", "0", "ranks that share the experts of a layer", TT_OPT_I64,
     AT(axis[TT_AXIS_EXPERT]), NULL, 0, 65536},
    {"space", "0", "ranks that share an image", TT_OPT_I64,
     AT(axis[TT_AXIS_SPACE]), NULL, 0, 65536},
    {"context", "0", "ranks that share a sequence", TT_OPT_I64,
     AT(axis[TT_AXIS_CONTEXT]), NULL, 0, 65536},
    {"tensor", "0", "ranks that share matrices", TT_OPT_I64,
     AT(axis[TT_AXIS_TENSOR]), NULL, 0, 65536},
    {"pipe", "0", "ranks that share the layers: stages, one after another",
     TT_OPT_I64, AT(axis[TT_AXIS_PIPE]), NULL, 0, TT_MAX_AT},
    {"order", TT_USUAL_ORDER,
     "of the axes: ranks that differ in the last are neighbours", TT_OPT_STR,
     AT(axes)},
    {0},
};

#define CUTS "auto|none|data|expert|space|context|tensor"
#define TT_DIM(name, axis)                                                     \
    {                                                                          \
        #name,                                                                 \
        "auto",                                                                \
        "axis that cuts it",                                                   \
        TT_OPT_CHOICE,                                                         \
        AT(dim[TT_DIM_##name]),                                                \
        CUTS},
static const tt_opt layout[] = {
    TT_DISTRIBUTION_DIMS(TT_DIM)
#undef TT_DIM
        {"rules", "",
         "more, of any dimension and layers: DIM:AXIS LAYERS/DIM:AXIS",
         TT_OPT_STR, AT(rules)},
    {"zigzag", "true",
     "ranks of a causal sequence hold an early and a late piece each",
     TT_OPT_BOOL, AT(zigzag)},
    {"attention", "ring",
     "to a sequence that is cut: keys go round, or heads are cut instead",
     TT_OPT_CHOICE, AT(attention), "ring|all_to_all"},
    {"terms", "auto",
     "what ranks add in a forward pass of 16 bits is rounded before (narrow, "
     "half "
     "the bytes) or not (wide); auto: wide if the model has jumps",
     TT_OPT_CHOICE, AT(terms), "auto|narrow|wide"},
    {"codec", "none",
     "what ranks that share layers send of activations and their gradients: "
     "none, fp16, bf16, int8, natural or ternary",
     TT_OPT_STR, AT(codec)},
    {0},
};

static const tt_opt pipe[] = {
    {"chunks", "1", "runs of layers that a stage has (virtual stages)",
     TT_OPT_I64, AT(pipe_chunks), NULL, 1, 1024},
    {"cut", "auto",
     "layers that begin a run, as h.3,h.6; auto: as even as it goes",
     TT_OPT_STR, AT(pipe_cut)},
    {"schedule", "auto",
     "order of micro-batches: see `tutti list schedules`, or a file; auto: "
     "1f1b, with chunks interleaved",
     TT_OPT_STR, AT(pipe_schedule)},
    {"steps", "0",
     "of pipedream, 2bw and predict: steps until the pipe is emptied; 0: until "
     "the next evaluation, sample or checkpoint, at most 100",
     TT_OPT_I64, AT(pipe_steps), NULL, 0, 65536},
    {0},
};

static const tt_opt loss[] = {
    {"chunks", "0",
     "pieces in which logits are computed; 0: alone, as few as fit", TT_OPT_I64,
     AT(chunks), NULL, 0, 1 << 20},
    {0},
};

static const tt_opt trial[] = {
    {"pace", "",
     "speeds of the ranks, as 1,1,0.5: each row takes its modelled seconds "
     "divided by that, mostly asleep; for trials on few cores",
     TT_OPT_STR, AT(pace)},
    {0},
};

static const tt_opt comm[] = {
    {"deadline", "30", "seconds without a sign of life of a rank", TT_OPT_F64,
     AT(deadline), NULL, 0.1, 1e6},
    {"slow_rate", "0", "bytes per second of a link, for trials; 0: its own",
     TT_OPT_F64, AT(slow_rate), NULL, 0, 1e15},
    {"slow_latency", "0", "seconds of a message, for trials", TT_OPT_F64,
     AT(slow_latency), NULL, 0, 3600},
    {"fault", "", "what goes wrong on purpose, for trials", TT_OPT_STR,
     AT(fault)},
    {0},
};

const tt_section tt_distribution_sections[] = {
    {"", top},      {"mesh", mesh}, {"layout", layout}, {"pipe", pipe},
    {"comm", comm}, {"loss", loss}, {"trial", trial},   {NULL, NULL},
};

static const char prefix[] = "layout.";
static const char codec_key[] = "layout.codec";

// layout.codec, or one of its options.
static bool is_codec(const char *key)
{
    const size_t n = sizeof codec_key - 1;
    return strncmp(key, codec_key, n) == 0 && (key[n] == '\0' || key[n] == '.');
}

bool tt_distribution_has(const char *key)
{
    if (is_codec(key))
        return false;
    for (const tt_section *s = tt_distribution_sections; s->table != NULL;
         s++) {
        const size_t n = strlen(s->prefix);
        if (n > 0 ? strncmp(key, s->prefix, n) == 0 && key[n] == '.'
                  : tt_opt_find(s->table, key) != NULL)
            return true;
    }
    return tt_exchange_is_timing(key);
}

bool tt_distribution_needs(const tt_settings *settings, const char *key)
{
    return tt_distribution_has(key) || tt_exchange_is_of_stages(settings, key);
}

static tt_status check_collective(const char *name)
{
    int n = 0;
    tt_near near = {.word = name};
    const tt_coll_def *const *all = tt_coll_all(&n);
    if (name == NULL || strcmp(name, "auto") == 0 || tt_coll_find(name) != NULL)
        return TT_OK;
    tt_near_try(&near, "auto");
    for (int i = 0; i < n; i++)
        tt_near_try(&near, all[i]->name);
    if (near.best != NULL)
        return tt_fail(TT_ERR_ARG,
                       "collective=%s: there is no such algorithm; did you "
                       "mean %s?",
                       name, near.best);
    return tt_fail(TT_ERR_ARG,
                   "collective=%s: there is no such algorithm; `tutti list "
                   "collectives` names them, and auto chooses",
                   name);
}

// ---- layout.codec --------------------------------------------------------

const tt_codec_def *tt_distribution_codec_of(const tt_settings *settings)
{
    const tt_setting *s = tt_settings_find(settings, codec_key);
    const tt_codec_def *def = s == NULL ? NULL : tt_codec_find(s->value);
    return def != NULL ? def : tt_codec_find("none");
}

tt_status tt_distribution_codec_room(const tt_settings *settings,
                                     tt_arena *arena, tt_distribution *d)
{
    d->codec_params = tt_arena_alloc(
        arena, tt_distribution_codec_of(settings)->params_bytes + 1);
    return d->codec_params != NULL ? TT_OK : TT_ERR_NOMEM;
}

const tt_codec_def *tt_distribution_codec(const tt_distribution *d)
{
    return d->codec == NULL || strcmp(d->codec, "none") == 0
               ? NULL
               : tt_codec_find(d->codec);
}

static tt_status check_codec(const char *name)
{
    int n = 0;
    tt_near near = {.word = name};
    const tt_codec_def *const *all = tt_codec_all(&n);
    if (name == NULL || tt_codec_find(name) != NULL)
        return TT_OK;
    for (int i = 0; i < n; i++)
        tt_near_try(&near, all[i]->name);
    return tt_fail(TT_ERR_ARG, "%s=%s: there is no such codec; %s%s%s",
                   codec_key, name, near.best != NULL ? "did you mean " : "",
                   near.best != NULL ? near.best
                                     : "`tutti list codecs` names "
                                       "them",
                   near.best != NULL ? "?" : "");
}

// ---- rules for some layers -----------------------------------------------

bool tt_distribution_is_rule(const char *key)
{
    const size_t n = sizeof prefix - 1;
    return strncmp(key, prefix, n) == 0 && strchr(key + n, '.') != NULL &&
           !is_codec(key);
}

tt_status tt_distribution_check_rule(const tt_setting *setting)
{
    const char *axis = setting->value;
    const char *dim = strrchr(setting->key, '.') + 1;
    if (strcmp(axis, "none") != 0 && tt_axis_find(axis) < 0)
        return tt_fail_context(tt_axis_unknown(setting->key, axis), "%s",
                               setting->origin);
    return strlen(dim) < TT_NAME_BYTES
               ? TT_OK
               : tt_fail(TT_ERR_ARG, "%s: %s: no dimension has so long a name",
                         setting->origin, setting->key);
}

// Appends layout.LAYERS.DIM=AXIS to the rules, as LAYERS/DIM:AXIS.
static tt_status read_rules(tt_settings *settings, tt_arena *arena,
                            tt_distribution *w)
{
    tt_str rules = {0};
    tt_str_add(&rules, w->rules);
    for (int64_t i = 0; i < settings->n; i++) {
        tt_setting *s = &settings->v[i];
        if (!tt_distribution_is_rule(s->key))
            continue;
        const char *layers = s->key + sizeof prefix - 1;
        const char *dim = strrchr(layers, '.') + 1;
        tt_str_addf(&rules, "%s%.*s/%s:%s", rules.n > 0 ? " " : "",
                    (int)(dim - 1 - layers), layers, dim, s->value);
        s->used = true;
    }
    w->rules = tt_str_keep(&rules, arena);
    return w->rules == NULL
               ? TT_ERR_NOMEM
               : tt_layout_parse(w->rules, "layout.rules", arena, &w->written);
}

tt_status tt_distribution_finish(tt_settings *settings, tt_arena *arena,
                                 tt_distribution *d)
{
    const tt_setting *data = tt_settings_find(settings, "mesh.data");
    d->is_counted = data != NULL && strncmp(data->origin, "-n", 2) == 0;
    d->has_data = d->axis[TT_AXIS_DATA] > 0 &&
                  (data == NULL || strcmp(data->origin, "-n") != 0);
    TT_TRY(read_rules(settings, arena, d));
    TT_TRY(check_codec(d->codec));
    return check_collective(d->collective);
}

tt_status tt_distribution_read(tt_settings *settings, tt_arena *arena,
                               tt_distribution *distribution_out)
{
    tt_distribution d = {0};
    const tt_opt *own = tt_distribution_codec_of(settings)->options;
    TT_TRY(tt_distribution_codec_room(settings, arena, &d));
    for (const tt_section *s = tt_distribution_sections; s->table != NULL;
         s++) {
        TT_TRY(tt_opt_defaults(s->table, &d, arena));
        TT_TRY(tt_settings_apply(settings, s->prefix, s->table, &d, arena));
    }
    if (own != NULL) {
        TT_TRY(tt_opt_defaults(own, d.codec_params, arena));
        TT_TRY(
            tt_settings_apply(settings, codec_key, own, d.codec_params, arena));
    }
    TT_TRY(tt_distribution_finish(settings, arena, &d));
    *distribution_out = d;
    return TT_OK;
}
