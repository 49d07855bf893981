// exchange - the tables: one for every policy, and those of the policy and the codec that
// are used.

#include "config/exchange.h"

#include <string.h>

#define AT(field) offsetof(tt_exchange, field)

// `choices` are the policies' names.
static const tt_opt which[] = {
    {"policy", "allreduce",
     "how replicas come to agree; see `tutti list policies`", TT_OPT_CHOICE,
     AT(policy)},
    {0},
};

// `choices` are the codecs' names.
static const tt_opt coding[] = {
    {"codec", "none", "what is sent of a gradient; see `tutti list codecs`",
     TT_OPT_CHOICE, AT(codec)},
    {"feedback", "auto",
     "what a code does not say is added to the next gradient; auto: where the "
     "codec needs it",
     TT_OPT_CHOICE, AT(feedback), "auto|true|false"},
    {"replicas", "0",
     "replicas that send codes or have weights of their own; any number of "
     "ranks along data that divides it carries them; 0: as many as ranks",
     TT_OPT_I64, AT(replicas), NULL, 0, 65535},
    {"group", "0",
     "replicas in a group: exchange.policy is for those of one group, "
     "exchange.outer.policy between groups; 0: there are no groups",
     TT_OPT_I64, AT(group), NULL, 0, 65535},
    {0},
};

// `choices` are the names of static policies.
static const tt_opt outer[] = {
    {"policy", "none", "how groups of replicas come to agree with each other",
     TT_OPT_CHOICE, offsetof(tt_exchange_outer, policy)},
    {0},
};

static const tt_opt timing[] = {
    {"meet", "0",
     "steps after which replicas with weights of their own tell each other "
     "losses and wishes at the latest; 0: log.every",
     TT_OPT_I64, AT(meet), NULL, 0, 1e9},
    {"bucket", "0", "bytes of gradients sent together; 0: as measured",
     TT_OPT_I64, AT(bucket), NULL, 0, 1e15},
    {"order", "fifo", "of buckets that are ready", TT_OPT_CHOICE, AT(order),
     "fifo|priority|magnitude"},
    {"chunks", "1",
     "of layers: sums of gradients may end in the next step, before the "
     "forward pass of their chunk; 1: before the step ends",
     TT_OPT_I64, AT(chunks), NULL, 1, 4096},
    {"sparse", "auto",
     "lists of entries are gathered, or added up on the way (a sparse "
     "all-reduce); auto: as sends fewer bytes",
     TT_OPT_CHOICE, AT(sparse), "auto|gather|merge"},
    {0},
};

static const char *list_policies(tt_arena *arena)
{
    int n = 0;
    const tt_policy_def *const *all = tt_policy_all(&n);
    const char *text = all[0]->name;
    for (int i = 1; i < n && text != NULL; i++)
        text = tt_arena_printf(arena, "%s|%s", text, all[i]->name);
    return text;
}

static const char *list_outer(tt_arena *arena)
{
    int n = 0;
    const tt_policy_def *const *all = tt_policy_all(&n);
    const char *text = outer[0].fallback;
    for (int i = 0; i < n && text != NULL; i++)
        if (all[i]->kind == TT_POLICY_STATIC)
            text = tt_arena_printf(arena, "%s|%s", text, all[i]->name);
    return text;
}

static const char *list_codecs(tt_arena *arena)
{
    int n = 0;
    const tt_codec_def *const *all = tt_codec_all(&n);
    const char *text = all[0]->name;
    for (int i = 1; i < n && text != NULL; i++)
        text = tt_arena_printf(arena, "%s|%s", text, all[i]->name);
    return text;
}

const tt_policy_def *tt_exchange_policy_of(const tt_settings *settings)
{
    const tt_setting *s = tt_settings_find(settings, "exchange.policy");
    const tt_policy_def *def = s == NULL ? NULL : tt_policy_find(s->value);
    return def != NULL ? def : tt_policy_find(which[0].fallback);
}

const tt_codec_def *tt_exchange_codec_of(const tt_settings *settings)
{
    const tt_setting *s = tt_settings_find(settings, "exchange.codec");
    const tt_codec_def *def = s == NULL ? NULL : tt_codec_find(s->value);
    return def != NULL ? def : tt_codec_find(coding[0].fallback);
}

const tt_policy_def *tt_exchange_outer_of(const tt_settings *settings)
{
    const tt_setting *s = tt_settings_find(settings, "exchange.outer.policy");
    const tt_policy_def *def = s == NULL ? NULL : tt_policy_find(s->value);
    return def != NULL && def->kind == TT_POLICY_STATIC ? def : NULL;
}

const tt_policy_def *tt_exchange_outer_policy(const tt_exchange *exchange)
{
    int n = 0, before = exchange->outer.policy;
    const tt_policy_def *const *all = tt_policy_all(&n);
    for (int i = 0; i < n && before > 0; i++)
        if (all[i]->kind == TT_POLICY_STATIC && --before == 0)
            return all[i];
    return NULL;
}

tt_status tt_exchange_room(const tt_settings *settings, tt_arena *arena,
                           tt_exchange *exchange)
{
    exchange->codec_params =
        tt_arena_alloc(arena, tt_exchange_codec_of(settings)->params_bytes + 1);
    return exchange->codec_params != NULL ? TT_OK : TT_ERR_NOMEM;
}

const tt_policy_def *tt_exchange_policy(const tt_exchange *exchange)
{
    int n = 0;
    return tt_policy_all(&n)[exchange->policy];
}

bool tt_exchange_differs(const tt_exchange *exchange)
{
    return tt_exchange_policy(exchange)->kind != TT_POLICY_SUM ||
           exchange->outer.policy > 0;
}

bool tt_exchange_is_static(const tt_exchange *exchange)
{
    return tt_exchange_differs(exchange) &&
           tt_exchange_policy(exchange)->kind != TT_POLICY_DYNAMIC;
}

const tt_codec_def *tt_exchange_codec(const tt_exchange *exchange)
{
    int n = 0;
    return tt_codec_all(&n)[exchange->codec];
}

bool tt_exchange_is_coded(const tt_exchange *exchange)
{
    return exchange->codec != 0; // the first is none
}

bool tt_exchange_has_feedback(const tt_exchange *exchange)
{
    const tt_codec_def *codec = tt_exchange_codec(exchange);
    return exchange->feedback == TT_FEEDBACK_ON ||
           (exchange->feedback == TT_FEEDBACK_AUTO && codec->needs_feedback);
}

tt_status tt_exchange_table(const tt_policy_def *policy, tt_arena *arena,
                            const tt_opt **table_out)
{
    const tt_opt_part part[] = {
        {which, 0},
        {coding, 0},
        {timing, 0},
        {policy != NULL ? policy->options : NULL, AT(policy_params)}};
    const char *names = list_policies(arena), *codecs = list_codecs(arena);
    tt_opt *table = NULL;
    if (names == NULL || codecs == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_opt_join(part, 4, arena, &table));
    table[0].choices = names;
    table[1].choices = codecs;
    *table_out = table;
    return TT_OK;
}

tt_status tt_exchange_outer_table(const tt_policy_def *policy, tt_arena *arena,
                                  const tt_opt **table_out)
{
    const tt_opt_part part[] = {{outer, 0},
                                {policy != NULL ? policy->options : NULL,
                                 offsetof(tt_exchange_outer, params)}};
    const char *names = list_outer(arena);
    tt_opt *table = NULL;
    if (names == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_opt_join(part, 2, arena, &table));
    table[0].choices = names;
    *table_out = table;
    return TT_OK;
}

static tt_status read_own(tt_settings *settings, const char *prefix,
                          const tt_opt *options, void *params, tt_arena *arena)
{
    if (options == NULL)
        return TT_OK;
    TT_TRY(tt_opt_defaults(options, params, arena));
    return tt_settings_apply(settings, prefix, options, params, arena);
}

// ---- options of others -----------------------------------------------------

typedef struct owner { // of options: a policy or a codec
    const char *name;
    const tt_opt *options;
} owner;
enum { OWNERS_MAX = 64 };

// Of exchange.codec, or of exchange.policy, or of exchange.outer.policy.
static int list_owners(const char *what, owner *out)
{
    const bool is_outer = strcmp(what, "exchange.outer.policy") == 0;
    int n = 0, n_out = 0;
    if (strcmp(what, "exchange.codec") == 0) {
        const tt_codec_def *const *codec = tt_codec_all(&n);
        for (int i = 0; i < n; i++)
            out[n_out++] = (owner){codec[i]->name, codec[i]->options};
        return n_out;
    }
    const tt_policy_def *const *policy = tt_policy_all(&n);
    for (int i = 0; i < n; i++)
        if (!is_outer || policy[i]->kind == TT_POLICY_STATIC)
            out[n_out++] = (owner){policy[i]->name, policy[i]->options};
    return n_out;
}

// An option without its policy or codec: "unknown" would say too little.
static tt_status check_option(const tt_setting *s, const char *option,
                              const char *what, const owner *used)
{
    owner all[OWNERS_MAX];
    tt_str others = {0};
    const int n = list_owners(what, all);
    for (int i = 0; i < n; i++)
        if (tt_opt_find(all[i].options, option) != NULL)
            tt_str_addf(&others, "%s%s", others.n > 0 ? ", " : "", all[i].name);
    tt_status status = TT_OK;
    if (others.n > 0 && tt_opt_find(used->options, option) == NULL)
        status = tt_fail(
            TT_ERR_ARG, "%s: %s: %s=%s has no such option; these have it: %s",
            s->origin, s->key, what, used->name, tt_str_text(&others));
    tt_str_fini(&others);
    return status;
}

tt_status tt_exchange_check_options(const tt_settings *settings)
{
    static const char first[] = "exchange.", second[] = "codec.",
                      third[] = "outer.";
    const tt_policy_def *between = tt_exchange_outer_of(settings);
    const tt_policy_def *policy = tt_exchange_policy_of(settings);
    const tt_codec_def *codec = tt_exchange_codec_of(settings);
    for (int64_t i = 0; i < settings->n; i++) {
        const tt_setting *s = &settings->v[i];
        const char *option = s->key + sizeof first - 1;
        if (strncmp(s->key, first, sizeof first - 1) != 0)
            continue;
        if (strncmp(option, second, sizeof second - 1) == 0)
            TT_TRY(check_option(s, option + sizeof second - 1, "exchange.codec",
                                &(owner){codec->name, codec->options}));
        else if (strncmp(option, third, sizeof third - 1) == 0)
            TT_TRY(check_option(
                s, option + sizeof third - 1, "exchange.outer.policy",
                &(owner){between != NULL ? between->name : "none",
                         between != NULL ? between->options : NULL}));
        else
            TT_TRY(check_option(s, option, "exchange.policy",
                                &(owner){policy->name, policy->options}));
    }
    return TT_OK;
}

tt_status tt_exchange_read(tt_settings *settings, tt_arena *arena,
                           tt_exchange *exchange_out)
{
    tt_exchange e = {0};
    const tt_opt *table = NULL;
    TT_TRY(tt_exchange_check_options(settings));
    TT_TRY(tt_exchange_table(tt_exchange_policy_of(settings), arena, &table));
    TT_TRY(tt_opt_defaults(table, &e, arena));
    TT_TRY(tt_settings_apply(settings, "exchange", table, &e, arena));
    TT_TRY(tt_exchange_room(settings, arena, &e));
    TT_TRY(read_own(settings, "exchange.codec",
                    tt_exchange_codec_of(settings)->options, e.codec_params,
                    arena));
    TT_TRY(
        tt_exchange_outer_table(tt_exchange_outer_of(settings), arena, &table));
    TT_TRY(read_own(settings, "exchange.outer", table, &e.outer, arena));
    *exchange_out = e;
    return TT_OK;
}

static bool is_in(const tt_opt *table, const char *key)
{
    static const char prefix[] = "exchange.";
    const size_t n = sizeof prefix - 1;
    return strncmp(key, prefix, n) == 0 && table != NULL &&
           tt_opt_find(table, key + n) != NULL;
}

bool tt_exchange_is_timing(const char *key)
{
    return is_in(timing, key);
}

bool tt_exchange_is_of_stages(const tt_settings *settings, const char *key)
{
    const tt_policy_def *policy = tt_exchange_policy_of(settings);
    return policy->kind == TT_POLICY_SUM && is_in(policy->options, key);
}
