// chain - see the header.

#include "pass/chain.h"

#include <assert.h>
#include <string.h>

static int place_of(const tt_pass_def *def)
{
    int n = 0, i = 0;
    const tt_pass_def *const *all = tt_pass_all(&n);
    while (i < n && all[i] != def)
        i++;
    assert(i < n && i < TT_CHAIN_MOST);
    return i;
}

void tt_chain_add(tt_chain *chain, const tt_pass_def *def, const void *params)
{
    tt_chain_link *link = &chain->link[place_of(def)];
    assert(def->params_bytes <= TT_CHAIN_PARAMS);
    link->def = def;
    if (params != NULL)
        memcpy(link->params, params, (size_t)def->params_bytes);
}

tt_status tt_chain_apply(const tt_chain *chain, tt_graph **graph)
{
    for (int i = 0; i < TT_CHAIN_MOST; i++) {
        const tt_chain_link *link = &chain->link[i];
        tt_graph *next = NULL;
        if (link->def == NULL)
            continue;
        TT_TRY(tt_pass_apply(link->def, link->params, *graph, &next));
        tt_graph_destroy(*graph);
        *graph = next;
    }
    return TT_OK;
}
