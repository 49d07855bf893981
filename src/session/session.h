// session - one configuration, understood: data opened, model fitted to it, all
// settings resolved. Nothing is allocated for training yet and nothing written.
//
// The folder session: a configuration before anything runs: data and their fingerprint,
// settings that follow from them, every setting resolved, doubts about them, and whether
// all ranks mean the same. What does not belong here: what changes while a run goes on.

#ifndef TT_SESSION_SESSION_H
#define TT_SESSION_SESSION_H

#include "config/config.h"
#include "data/data.h"
#include "data/loader.h"
#include "job/job.h"
#include "session/fingerprint.h"

typedef struct tt_session {
    tt_arena *arena;
    tt_settings settings;     // a copy, with what followed from the data
    tt_config config;         // what they say, read once
    tt_train_options options; // config.train
    tt_data *data;
    tt_job *job;              // planned
    tt_loader_options loader; // from position 0, in this rank's micro-batches
    tt_shares *shares;        // of a federation's clients; NULL: there are none
    int64_t epoch;            // samples; 0: the training split is not open
    int64_t steps;            // wanted; 0: nobody said
    tt_settings resolved;     // every setting there is, with its value
    const tt_fingerprint *fingerprint; // of the data, once training has begun
} tt_session;

// model.vocab, model.classes, model.channels and image follow from the data where
// they are not set. `extra` as for tt_keys_check. Without `wants_train` only the
// validation split is opened.
tt_status tt_session_open(const tt_settings *settings, const tt_opt *extra,
                          bool wants_train, tt_session **session_out);
// The same as one of several ranks: see tt_job_configure_peers.
tt_status tt_session_open_peers(const tt_settings *settings,
                                const tt_opt *extra, bool wants_train,
                                const tt_peers *peers,
                                tt_session **session_out);
void tt_session_close(tt_session *session); // NULL is fine

// The origin of settings that follow from the data.
extern const char tt_session_from_data[];
// The origin of settings that nobody gave and that suit the data.
extern const char tt_session_chosen[];

// Fails when neither train.steps nor train.epochs is set.
tt_status tt_session_need_length(const tt_session *session);

// What is resolved, as YAML that reads back to the same settings.
void tt_settings_print(const tt_settings *settings, tt_str *out);

// "gpt: 4 layers, width 128, ..." and "text: 1003854 tokens, ...": for people, in
// the session's arena.
const char *tt_session_model_text(tt_session *session);
const char *tt_session_data_text(tt_session *session);
const char *tt_session_optim_text(tt_session *session);

#endif
