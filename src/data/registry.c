// registry - the only file that names every source.

#include "base/registry.h"

#include "data/source/source.h"

#define TT_SOURCE(name) extern const tt_source_def tt_source_##name;
#include "data/list.h"
#undef TT_SOURCE

enum tally {
#define TT_SOURCE(name) COUNT_##name,
#include "data/list.h"
#undef TT_SOURCE
    N_LISTED,
};

static const tt_source_def *all[N_LISTED + TT_REGISTRY_ROOM] = {
#define TT_SOURCE(name) &tt_source_##name,
#include "data/list.h"
#undef TT_SOURCE
};

TT_REGISTRY_OPEN(tt_source, "a source", all, N_LISTED, tt_source_look_up)

tt_status tt_source_find(const char *name, const tt_source_def **def_out)
{
    int n = 0;
    tt_near near = {.word = name};
    const tt_source_def *def = tt_source_look_up(name);
    if (def != NULL) {
        *def_out = def;
        return TT_OK;
    }
    (void)tt_source_all(&n);
    for (int i = 0; i < n; i++)
        tt_near_try(&near, all[i]->name);
    return tt_near_unknown(&near, "data",
                           "`tutti list sources` names them all");
}
