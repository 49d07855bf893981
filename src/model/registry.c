// registry - the only file that names every model. Members from outside are
// appended at run time and never leave.

#include "base/opt.h"
#include "model/model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define TT_MODEL(name) extern const tt_model_def tt_model_##name;
#include "model/list.h"
#undef TT_MODEL

enum tally {
#define TT_MODEL(name) COUNT_##name,
#include "model/list.h"
#undef TT_MODEL
    N_LISTED,
    MAX_ADDED = 256,
    MAX_NAMES = 512,
};

static const tt_model_def *all[N_LISTED + MAX_ADDED] = {
#define TT_MODEL(name) &tt_model_##name,
#include "model/list.h"
#undef TT_MODEL
};
static atomic_int n_all = N_LISTED;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

const tt_model_def *const *tt_model_all(int *n)
{
    *n = atomic_load(&n_all);
    return all;
}

static tt_status unknown(const char *name)
{
    const char *names[MAX_NAMES];
    int n = 0;
    const int n_models = atomic_load(&n_all);
    for (int i = 0; i < n_models; i++) {
        if (n < MAX_NAMES)
            names[n++] = all[i]->name;
        for (const tt_model_preset *p = all[i]->presets; p && p->name; p++)
            if (n < MAX_NAMES)
                names[n++] = p->name;
    }
    const char *near = tt_nearest(name, names, n);
    if (near != NULL)
        return tt_fail(TT_ERR_ARG, "unknown model \"%s\"; did you mean %s?",
                       name, near);
    return tt_fail(TT_ERR_ARG,
                   "unknown model \"%s\"; `tutti list models` names them all",
                   name);
}

// Whether there is one; sets no error message.
static bool look_up(const char *name, const tt_model_def **def_out,
                    const tt_model_preset **preset_out)
{
    const int n = atomic_load(&n_all);
    for (int i = 0; i < n; i++) {
        *def_out = all[i];
        *preset_out = NULL;
        if (strcmp(all[i]->name, name) == 0)
            return true;
        for (const tt_model_preset *p = all[i]->presets; p && p->name; p++)
            if (strcmp(p->name, name) == 0) {
                *preset_out = p;
                return true;
            }
    }
    return false;
}

tt_status tt_model_find(const char *name, const tt_model_def **def_out,
                        const tt_model_preset **preset_out)
{
    const tt_model_def *def = NULL;
    const tt_model_preset *preset = NULL;
    if (!look_up(name, &def, &preset))
        return unknown(name);
    *def_out = def;
    *preset_out = preset;
    return TT_OK;
}

static tt_status append(const tt_model_def *def)
{
    const tt_model_def *old = NULL;
    const tt_model_preset *preset = NULL;
    const int n = atomic_load(&n_all);
    if (look_up(def->name, &old, &preset))
        return tt_fail(TT_ERR_ARG, "there is a model \"%s\" already",
                       def->name);
    if (n == N_LISTED + MAX_ADDED)
        return tt_fail(TT_ERR_ARG,
                       "model %s: %d were added, there is room for no more",
                       def->name, MAX_ADDED);
    all[n] = def;
    atomic_store(&n_all, n + 1); // readers see the entry before the count
    return TT_OK;
}

tt_status tt_model_register(const tt_model_def *def)
{
    pthread_mutex_lock(&adding);
    const tt_status status = append(def);
    pthread_mutex_unlock(&adding);
    return status;
}
