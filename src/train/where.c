// where - the tables, and reading them.

#include "train/where.h"

#include "comm/coll/coll.h"

#include <string.h>

#define AT(field) offsetof(tt_where, field)

static const tt_opt top[] = {
    {"zero", "0", "what ranks share out: 1 optimiser, 2 gradients, 3 weights",
     TT_OPT_I64, AT(zero), NULL, 0, 3},
    {"collective", "auto", "algorithm: see `tutti list collectives`",
     TT_OPT_STR, AT(collective)},
    {"transport", "auto", "between ranks", TT_OPT_CHOICE, AT(transport),
     "auto|self|shm|mpi"},
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
    {"order", "data,expert,space,context,tensor",
     "of the axes: ranks that differ in the last are neighbours", TT_OPT_STR,
     AT(axes)},
    {0},
};

#define CUTS "auto|none|data|expert|space|context|tensor"
#define DIM(name, i)                                                           \
    {                                                                          \
        name, "auto", "axis that cuts it", TT_OPT_CHOICE, AT(dim[i]), CUTS     \
    }
// In the order of dims[] in grid.c.
static const tt_opt layout[] = {
    DIM("batch", 0),
    DIM("heads", 1),
    DIM("kv_heads", 2),
    DIM("ff", 3),
    DIM("vocab", 4),
    DIM("hidden", 5),
    DIM("seq", 6),
    DIM("height", 7),
    DIM("width", 8),
    DIM("filters", 9),
    DIM("channels", 10),
    DIM("embed", 11),
    DIM("classes", 12),
    DIM("experts", 13),
    {"rules", "", "more of them, for any dimension: NAME:AXIS NAME:AXIS",
     TT_OPT_STR, AT(rules)},
    {0},
};

static const tt_opt exchange[] = {
    {"policy", "allreduce", "how gradients of ranks become one", TT_OPT_CHOICE,
     AT(policy), "allreduce"},
    {"bucket", "0", "bytes of gradients sent together; 0: as measured",
     TT_OPT_I64, AT(bucket), NULL, 0, 1e15},
    {"order", "fifo", "of buckets that are ready", TT_OPT_CHOICE, AT(order),
     "fifo|priority|magnitude"},
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

const tt_section tt_where_sections[] = {
    {"", top},      {"mesh", mesh}, {"layout", layout}, {"exchange", exchange},
    {"comm", comm}, {NULL, NULL},
};

bool tt_where_has(const char *key)
{
    for (const tt_section *s = tt_where_sections; s->table != NULL; s++) {
        const size_t n = strlen(s->prefix);
        if (n > 0 ? strncmp(key, s->prefix, n) == 0 && key[n] == '.'
                  : tt_opt_find(s->table, key) != NULL)
            return true;
    }
    return false;
}

static tt_status check_collective(const char *name)
{
    const char *names[32] = {"auto"};
    int n = 0, n_names = 1;
    const tt_coll_def *const *all = tt_coll_all(&n);
    if (name == NULL || strcmp(name, "auto") == 0 || tt_coll_find(name) != NULL)
        return TT_OK;
    for (int i = 0; i < n && n_names < 32; i++)
        names[n_names++] = all[i]->name;
    const char *near = tt_nearest(name, names, n_names);
    if (near != NULL)
        return tt_fail(TT_ERR_ARG,
                       "unknown collective \"%s\"; did you mean %s?", name,
                       near);
    return tt_fail(TT_ERR_ARG,
                   "unknown collective \"%s\"; `tutti list collectives` names "
                   "them, and auto chooses",
                   name);
}

tt_status tt_where_read(tt_settings *settings, tt_arena *arena,
                        tt_where *where_out)
{
    tt_where w = {0};
    for (const tt_section *s = tt_where_sections; s->table != NULL; s++) {
        TT_TRY(tt_opt_defaults(s->table, &w, arena));
        TT_TRY(tt_settings_apply(settings, s->prefix, s->table, &w, arena));
    }
    TT_TRY(check_collective(w.collective));
    *where_out = w;
    return TT_OK;
}
