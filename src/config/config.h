// config - all settings of a job, read once into one struct.
//
//   settings (texts) -> tt_keys_check -> tt_config_read -> tt_config
//
// Who needs a setting takes it from the struct: its default is in its option table and
// nowhere else. Settings of data are the exception: the data read them (data/data.h).

#ifndef TT_CONFIG_CONFIG_H
#define TT_CONFIG_CONFIG_H

#include "config/distribution.h"
#include "config/exchange.h"
#include "config/job_options.h"
#include "config/options.h"
#include "model/model.h"

typedef struct tt_config {
    tt_job_options top;            // keys without a dot
    const tt_model_def *model;     // that `model` names,
    const tt_model_preset *preset; // as a preset of it; NULL: by its own name
    void *model_params;            // model.*
    const tt_optim_def *optim;     // that `optim` names
    tt_job_optim optim_params;     // optim.*
    tt_train_options train;        // train.* eval.* ... and run
    tt_distribution distribution;  // mesh.* layout.* ...
    tt_exchange exchange;          // exchange.*
} tt_config;                       // texts and model_params lie in the arena

// Checks all settings (as tt_keys_check) and reads them: defaults, the preset, then
// what is set. Each is marked as used.
tt_status tt_config_read(tt_settings *settings, const tt_opt *extra,
                         tt_arena *arena, tt_config *config_out);

// Sets one setting later, for what follows from others: in the struct and among the
// settings.
tt_status tt_config_set(tt_config *config, tt_settings *settings,
                        const tt_setting *setting, tt_arena *arena);

// A key at the top, before all is read: what is set, or its default.
const char *tt_config_text(const tt_settings *settings, const char *key);

// The model that the settings name. An error says where it was named.
tt_status tt_config_find_model(const tt_settings *settings,
                               const tt_model_def **model_out,
                               const tt_model_preset **preset_out);

// An option of the model that is a whole number; 0: it has none of this name.
int64_t tt_config_model_i64(const tt_config *config, const char *name);

#endif
