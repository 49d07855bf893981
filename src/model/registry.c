// registry - the only file that names every model.

#include "base/registry.h"

#include "model/model.h"

#define TT_MODEL(name) extern const tt_model_def tt_model_##name;
#include "model/list.h"
#undef TT_MODEL

enum tally {
#define TT_MODEL(name) COUNT_##name,
#include "model/list.h"
#undef TT_MODEL
    N_LISTED,
};

static const tt_model_def *all[N_LISTED + TT_REGISTRY_ROOM] = {
#define TT_MODEL(name) &tt_model_##name,
#include "model/list.h"
#undef TT_MODEL
};

static bool is_taken(const char *name);

TT_REGISTRY_OPEN(tt_model, "a model", all, N_LISTED, is_taken)

// The model that has a preset of this name, or NULL.
static const tt_model_def *look_up_preset(const char *name,
                                          const tt_model_preset **preset_out)
{
    const int n = atomic_load(&n_tt_model);
    for (int i = 0; i < n; i++)
        for (const tt_model_preset *p = all[i]->presets; p && p->name; p++)
            if (strcmp(p->name, name) == 0) {
                *preset_out = p;
                return all[i];
            }
    return NULL;
}

static bool is_taken(const char *name)
{
    const tt_model_preset *preset = NULL;
    return tt_model_look_up(name) != NULL ||
           look_up_preset(name, &preset) != NULL;
}

static tt_status unknown(const char *name)
{
    tt_near near = {.word = name};
    const int n = atomic_load(&n_tt_model);
    for (int i = 0; i < n; i++) {
        tt_near_try(&near, all[i]->name);
        for (const tt_model_preset *p = all[i]->presets; p && p->name; p++)
            tt_near_try(&near, p->name);
    }
    return tt_near_unknown(&near, "model",
                           "`tutti list models` names them all");
}

tt_status tt_model_find(const char *name, const tt_model_def **def_out,
                        const tt_model_preset **preset_out)
{
    const tt_model_preset *preset = NULL;
    const tt_model_def *def = tt_model_look_up(name);
    if (def == NULL)
        def = look_up_preset(name, &preset);
    if (def == NULL)
        return unknown(name);
    *def_out = def;
    *preset_out = preset;
    return TT_OK;
}
