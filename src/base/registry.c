// registry - what does not depend on the kind.

#include "base/registry.h"

tt_status tt_registry_check(const char *kind, const char *name, bool is_taken,
                            int n_added)
{
    if (is_taken)
        return tt_fail(TT_ERR_ARG, "there is %s \"%s\" already", kind, name);
    if (n_added == TT_REGISTRY_ROOM)
        return tt_fail(TT_ERR_ARG,
                       "%s %s: %d were added, there is room for no more",
                       strchr(kind, ' ') + 1, name, TT_REGISTRY_ROOM);
    return TT_OK;
}
