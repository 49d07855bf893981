// session - internal to api/: what a public session holds.

#ifndef TT_API_SESSION_H
#define TT_API_SESSION_H

#include "api/convert.h"
#include "base/settings.h"
#include "job/job.h"

typedef struct tt__api_tensor {
    tutti_tensor info;
    const tt_tensor *state; // NULL: a gradient
    tt_val val;
} tt__api_tensor;

typedef struct tt__api_feed {
    const char *name;
    tutti_feed_fn *feed;
    void *user;
} tt__api_feed;

struct tutti_session {
    tt_arena *arena; // settings, names
    tt_settings settings;
    const tt_peers *peers; // while this is one of several ranks; else NULL
    tt_job *job;           // planned; NULL before
    tutti_type x, y;       // of this rank's samples of a micro-batch
    int64_t first;         // of these samples
    void *whole_x,
        *whole_y; // samples of which this rank holds a piece; else NULL
    int64_t n_tensors;
    tt__api_tensor *tensor;
    int32_t n_feeds, feeds_capacity;
    tt__api_feed *feed;
    double count;       // targets of the last step; 0 before the first
    const char *folder; // that tutti_open read; NULL: none
    struct tt_tokenizer *tokenizer;
    struct tt_inference *infer; // made when they are asked for
    struct tt_generator *generator;
    bool infer_is_old, generator_is_old; // the weights have changed since
};

// Says that weights have changed.
void tt__api_touch(tutti_session *session);
// Closes what tutti_forward and tutti_generate made.
void tt__api_forget_use(tutti_session *session);
// Back to the settings.
void tt__api_forget(tutti_session *session);
tt_status tt__api_build(tutti_session *session);

// Fills the list of tensors of a planned session.
tt_status tt__api_list_tensors(tutti_session *session);

// Fills types and tensors of a planned session.
tt_status tt__api_describe(tutti_session *session);

// Whether settings may still change.
tt_status tt__api_need_unplanned(const tutti_session *session);

// Whether there is memory to read and write.
tt_status tt__api_need_build(const tutti_session *session);

#endif
