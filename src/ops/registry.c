// registry - the only file that names every operator. Operators from outside are
// appended at run time and never removed, so readers need no lock: they read the count,
// then entries below it.

#include "ops/ops.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum tally {
#define TT_OP(name) COUNT_##name,
#include "ops/list.h"
#undef TT_OP
    N_LISTED,
    MAX_ADDED = 256,
};

static const tt_op_def *all[N_LISTED + MAX_ADDED] = {
#define TT_OP(name) &tt_op_##name,
#include "ops/list.h"
#undef TT_OP
};
static atomic_int n_all = N_LISTED;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

const tt_op_def *const *tt_op_all(int *n)
{
    *n = atomic_load(&n_all);
    return all;
}

static tt_status append(const tt_op_def *def)
{
    const int n = atomic_load(&n_all);
    if (tt_op_find(def->name) != NULL)
        return tt_fail(TT_ERR_ARG, "there is an operator \"%s\" already",
                       def->name);
    if (n == N_LISTED + MAX_ADDED)
        return tt_fail(TT_ERR_ARG,
                       "operator %s: %d were added, there is room for no more",
                       def->name, MAX_ADDED);
    all[n] = def;
    atomic_store(&n_all, n + 1); // readers see the entry before the count
    return TT_OK;
}

tt_status tt_op_register(const tt_op_def *def)
{
    pthread_mutex_lock(&adding);
    const tt_status status = append(def);
    pthread_mutex_unlock(&adding);
    return status;
}

const tt_op_def *tt_op_find(const char *name)
{
    const int n = atomic_load(&n_all);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
