// registry - the only file that names every operator.

#include "ops/ops.h"

#include <string.h>

static const tt_op_def *const all[] = {
#define TT_OP(name) &tt_op_##name,
#include "ops/list.h"
#undef TT_OP
};

enum { N_OPS = sizeof(all) / sizeof(all[0]) };

const tt_op_def *const *tt_op_all(int *n)
{
    *n = N_OPS;
    return all;
}

const tt_op_def *tt_op_find(const char *name)
{
    for (int i = 0; i < N_OPS; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
