// registry - the only file that names every pass.

#include "base/registry.h"

#include "pass/chain.h"

static const tt_pass_def *const all[] = {
#define TT_PASS(name) &tt_pass_##name,
#include "pass/list.h"
#undef TT_PASS
};

TT_REGISTRY(tt_pass, all)

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
