// port_guess - see the header.

#include "port/port_guess.h"

#include <stdio.h>
#include <string.h>

static const int64_t usual_head = 64;

static int64_t count_layers(const tt_weights *weights)
{
    char name[64];
    for (int layers = 0;; layers++) {
        snprintf(name, sizeof name, "transformer.h.%d.ln_1.weight", layers);
        if (tt_weights_find(weights, name) == NULL)
            return layers;
    }
}

static tt_status set(tt_settings *settings, const char *key, int64_t value,
                     tt_arena *arena)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    if (tt_settings_find(settings, key) != NULL) // the user knows better
        return TT_OK;
    return tt_settings_set(settings, key, text, "tensors", arena);
}

tt_status tt_port_guess(const tt_weights *weights, tt_arena *arena,
                        tt_settings *settings, tt_str *notes)
{
    const tt_safetensor *wte =
        tt_weights_find(weights, "transformer.wte.weight");
    const tt_safetensor *wpe =
        tt_weights_find(weights, "transformer.wpe.weight");
    const tt_safetensor *fc =
        tt_weights_find(weights, "transformer.h.0.mlp.c_fc.weight");
    if (wte == NULL || wpe == NULL || fc == NULL || wte->ndim != 2 ||
        wpe->ndim != 2 || fc->ndim != 2)
        return tt_fail(TT_ERR_ARG,
                       "%s: no config.json is beside it and it is no GPT-2; "
                       "say what it is with config=FILE or model=NAME "
                       "model.KEY=VALUE",
                       tt_weights_path(weights));
    const int64_t width = wte->shape[1];
    const bool has_bias =
        tt_weights_find(weights, "transformer.h.0.attn.c_attn.bias") != NULL;
    if (tt_settings_find(settings, "model.heads") == NULL)
        tt_str_addf(notes,
                    "no config.json: heads of %lld entries are assumed "
                    "(model.heads=N says otherwise)\n",
                    (long long)usual_head);
    TT_TRY(tt_settings_set(settings, "model", "gpt", "tensors", arena));
    TT_TRY(set(settings, "model.layers", count_layers(weights), arena));
    TT_TRY(set(settings, "model.width", width, arena));
    TT_TRY(set(settings, "model.heads",
               width % usual_head == 0 ? width / usual_head : 1, arena));
    TT_TRY(set(settings, "model.vocab", wte->shape[0], arena));
    TT_TRY(set(settings, "model.context", wpe->shape[0], arena));
    TT_TRY(set(settings, "model.ff", fc->shape[1], arena));
    return has_bias ? TT_OK
                    : tt_settings_set(settings, "model.bias", "false",
                                      "tensors", arena);
}
