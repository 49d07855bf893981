// registry - the only file that names every source. Members from outside are
// appended at run time and never leave.
//
// Readers take no lock: a member is written before the count that makes it visible, and
// the array never moves. Writers exclude each other by a mutex.

#include "base/opt.h"
#include "data/source/source.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define TT_SOURCE(name) extern const tt_source_def tt_source_##name;
#include "data/list.h"
#undef TT_SOURCE

enum tally {
#define TT_SOURCE(name) COUNT_##name,
#include "data/list.h"
#undef TT_SOURCE
    N_LISTED,
    MAX_ADDED = 256,
};

static const tt_source_def *all[N_LISTED + MAX_ADDED] = {
#define TT_SOURCE(name) &tt_source_##name,
#include "data/list.h"
#undef TT_SOURCE
};
static atomic_int n_all = N_LISTED;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

const tt_source_def *const *tt_source_all(int *n)
{
    *n = atomic_load(&n_all);
    return all;
}

static const tt_source_def *look_up(const char *name)
{
    const int n = atomic_load(&n_all);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

static tt_status unknown(const char *name)
{
    const char *names[N_LISTED + MAX_ADDED];
    const int n = atomic_load(&n_all);
    for (int i = 0; i < n; i++)
        names[i] = all[i]->name;
    const char *near = tt_nearest(name, names, n);
    if (near != NULL)
        return tt_fail(TT_ERR_ARG, "unknown data \"%s\"; did you mean %s?",
                       name, near);
    return tt_fail(TT_ERR_ARG,
                   "unknown data \"%s\"; `tutti list sources` names them all",
                   name);
}

tt_status tt_source_find(const char *name, const tt_source_def **def_out)
{
    const tt_source_def *def = look_up(name);
    if (def == NULL)
        return unknown(name);
    *def_out = def;
    return TT_OK;
}

static tt_status append(const tt_source_def *def)
{
    const int n = atomic_load(&n_all);
    if (look_up(def->name) != NULL)
        return tt_fail(TT_ERR_ARG, "there is a source \"%s\" already",
                       def->name);
    if (n == N_LISTED + MAX_ADDED)
        return tt_fail(TT_ERR_ARG,
                       "source %s: %d were added, there is room for no more",
                       def->name, MAX_ADDED);
    all[n] = def;
    atomic_store(&n_all, n + 1); // readers see the entry before the count
    return TT_OK;
}

tt_status tt_source_register(const tt_source_def *def)
{
    pthread_mutex_lock(&adding);
    const tt_status status = append(def);
    pthread_mutex_unlock(&adding);
    return status;
}
