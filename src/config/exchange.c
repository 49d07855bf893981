// exchange - the table, made for the policy that is used.

#include "config/exchange.h"

#include <string.h>

#define AT(field) offsetof(tt_exchange, field)

static const tt_exchange_policy policies[] = {
    {"allreduce", NULL}, // summed over all ranks in every step
};
enum { N_POLICIES = sizeof policies / sizeof *policies };

// `choices` are the policies' names.
static const tt_opt which[] = {
    {"policy", "allreduce", "how gradients of ranks become one", TT_OPT_CHOICE,
     AT(policy)},
    {0},
};

static const tt_opt timing[] = {
    {"bucket", "0", "bytes of gradients sent together; 0: as measured",
     TT_OPT_I64, AT(bucket), NULL, 0, 1e15},
    {"order", "fifo", "of buckets that are ready", TT_OPT_CHOICE, AT(order),
     "fifo|priority|magnitude"},
    {0},
};

const tt_exchange_policy *tt_exchange_policies(int *n_out)
{
    *n_out = N_POLICIES;
    return policies;
}

const tt_exchange_policy *tt_exchange_policy_of(const tt_settings *settings)
{
    const tt_setting *s = tt_settings_find(settings, "exchange.policy");
    const char *name = s != NULL ? s->value : which[0].fallback;
    for (int i = 0; i < N_POLICIES; i++)
        if (strcmp(policies[i].name, name) == 0)
            return &policies[i];
    return &policies[0];
}

// "allreduce|..."
static const char *list_policies(tt_arena *arena)
{
    const char *text = policies[0].name;
    for (int i = 1; i < N_POLICIES && text != NULL; i++)
        text = tt_arena_printf(arena, "%s|%s", text, policies[i].name);
    return text;
}

tt_status tt_exchange_table(const tt_exchange_policy *policy, tt_arena *arena,
                            const tt_opt **table_out)
{
    const tt_opt_part part[] = {{which, 0}, {policy->options, 0}, {timing, 0}};
    const char *names = list_policies(arena);
    tt_opt *table = NULL;
    if (names == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_opt_join(part, 3, arena, &table));
    table[0].choices = names;
    *table_out = table;
    return TT_OK;
}

tt_status tt_exchange_read(tt_settings *settings, tt_arena *arena,
                           tt_exchange *exchange_out)
{
    tt_exchange e = {0};
    const tt_opt *table = NULL;
    TT_TRY(tt_exchange_table(tt_exchange_policy_of(settings), arena, &table));
    TT_TRY(tt_opt_defaults(table, &e, arena));
    TT_TRY(tt_settings_apply(settings, "exchange", table, &e, arena));
    *exchange_out = e;
    return TT_OK;
}

bool tt_exchange_is_timing(const char *key)
{
    static const char prefix[] = "exchange.";
    const size_t n = sizeof prefix - 1;
    return strncmp(key, prefix, n) == 0 && tt_opt_find(timing, key + n) != NULL;
}
