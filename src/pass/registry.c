// registry - the only file that names every pass.

#include "pass/chain.h"

#include <string.h>

static const tt_pass_def *const all[] = {
#define TT_PASS(name) &tt_pass_##name,
#include "pass/list.h"
#undef TT_PASS
};

enum { N_PASSES = sizeof(all) / sizeof(all[0]) };

const tt_pass_def *const *tt_pass_all(int *n)
{
    *n = N_PASSES;
    return all;
}

const tt_pass_def *tt_pass_find(const char *name)
{
    for (int i = 0; i < N_PASSES; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

tt_status tt_pass_apply(const tt_pass_def *def, const void *params,
                        const tt_graph *in, tt_graph **out)
{
    tt_graph *made = NULL;
    tt_status status = def->apply(in, params, &made);
    if (status == TT_OK)
        status = tt_graph_verify(made);
    if (status != TT_OK) {
        tt_graph_destroy(made);
        return tt_fail_context(status, "pass %s", def->name);
    }
    *out = made;
    return TT_OK;
}
