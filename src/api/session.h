// session - internal to api/: what a public session holds.

#ifndef TT_API_SESSION_H
#define TT_API_SESSION_H

#include "api/convert.h"
#include "base/settings.h"
#include "train/job.h"

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
    tt_job *job; // planned; NULL before
    tutti_type x, y;
    int64_t n_tensors;
    tt__api_tensor *tensor;
    int32_t n_feeds, feeds_capacity;
    tt__api_feed *feed;
    double count; // targets of the last step; 0 before the first
};

// Fills the list of tensors of a planned session.
tt_status tt__api_list_tensors(tutti_session *session);

// Fills types and tensors of a planned session.
tt_status tt__api_describe(tutti_session *session);

// Whether settings may still change.
tt_status tt__api_need_unplanned(const tutti_session *session);

// Whether there is memory to read and write.
tt_status tt__api_need_build(const tutti_session *session);

#endif
