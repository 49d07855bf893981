// session - internal to api/: what a public session holds.
//
// A session moves through three states:
//
//   settings  --tutti_plan-->  planned  --tutti_build-->  built
//   tutti_set works            job != NULL                job->exec != NULL
//        ^                          |                          |
//        +------ tt__api_forget (also after a failure) --------+

#ifndef TT_API_SESSION_H
#define TT_API_SESSION_H

#include "api/convert.h"
#include "base/settings/settings.h"
#include "job/job.h"

typedef struct tt__api_tensor {
    tutti_tensor info;
    tt_tensor of; // a state of the job, or a gradient
} tt__api_tensor;

typedef struct tt__api_feed {
    const char *name;
    tutti_feed_fn *feed;
    void *user;
} tt__api_feed;

struct tutti_session {
    tt_arena *arena; // settings, names
    tt_settings settings;
    const tt_peers *peers; // the ranks, within tutti_ranks_run; else NULL
    tt_job *job;           // NULL until the session is planned
    tt_arena *job_arena;   // the settings of a job that was trained; else NULL
    tutti_type x, y;       // this rank's samples of a micro-batch
    int64_t first;         // index of the first of these samples
    // Whole samples, where this rank holds only a piece of each (of a sequence, of an
    // image); else NULL. A feed always fills in whole samples.
    void *whole_x, *whole_y;
    int64_t n_tensors;
    tt__api_tensor *tensor;
    int32_t n_feeds, feeds_capacity;
    tt__api_feed *feed;
    double count;       // targets of the last step; 0 before the first
    const char *folder; // that tutti_open has read; NULL: none
    struct tt_tokenizer *tokenizer;
    // Made when first asked for, as is the generator.
    struct tt_inference *infer;
    struct tt_generator *generator;
    // The weights have changed since these took them.
    bool infer_is_old, generator_is_old;
};

// Notes that the weights have changed, so that inference takes them anew.
void tt__api_touch(tutti_session *session);
// Closes what tutti_forward and tutti_generate have made.
void tt__api_forget_use(tutti_session *session);
// Back to the first state: settings only.
void tt__api_forget(tutti_session *session);
tt_status tt__api_build(tutti_session *session);

// Fills the list of tensors of a planned session.
tt_status tt__api_list_tensors(tutti_session *session);

// Fills types and tensors of a planned session.
tt_status tt__api_describe(tutti_session *session);

// Fails once the session is planned: settings may not change any more.
tt_status tt__api_need_unplanned(const tutti_session *session);

// Puts in the settings of the key "system", if it is set, for the ranks of the session.
tt_status tt__api_apply_system(tutti_session *session);

// Fails until the session is built: before that there is no memory to read or write.
tt_status tt__api_need_build(const tutti_session *session);

#endif
