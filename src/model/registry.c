// registry - the only file that names every model.

#include "base/opt.h"
#include "model/model.h"

#include <string.h>

#define TT_MODEL(name) extern const tt_model_def tt_model_##name;
#include "model/list.h"
#undef TT_MODEL

static const tt_model_def *const all[] = {
#define TT_MODEL(name) &tt_model_##name,
#include "model/list.h"
#undef TT_MODEL
};

enum { N_MODELS = sizeof(all) / sizeof(all[0]), MAX_NAMES = 128 };

const tt_model_def *const *tt_model_all(int *n)
{
    *n = N_MODELS;
    return all;
}

static tt_status unknown(const char *name)
{
    const char *names[MAX_NAMES];
    int n = 0;
    for (int i = 0; i < N_MODELS; i++) {
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

tt_status tt_model_find(const char *name, const tt_model_def **def_out,
                        const tt_model_preset **preset_out)
{
    for (int i = 0; i < N_MODELS; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            *def_out = all[i];
            *preset_out = NULL;
            return TT_OK;
        }
        for (const tt_model_preset *p = all[i]->presets; p && p->name; p++)
            if (strcmp(p->name, name) == 0) {
                *def_out = all[i];
                *preset_out = p;
                return TT_OK;
            }
    }
    return unknown(name);
}
