// session - internal to api/: what a public session holds.

#ifndef TT_API_SESSION_H
#define TT_API_SESSION_H

#include "api/convert.h"
#include "base/settings.h"
#include "train/job.h"

typedef struct tt__api_tensor {
    tutti_tensor info;
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

// The tensor of this name; an error that suggests the nearest.
tt_status tt__api_find_tensor(const tutti_session *session, const char *name,
                              const tt__api_tensor **tensor_out);

// Whether there is memory to read and write.
tt_status tt__api_need_build(const tutti_session *session);

// A weight or other state from and to dense memory in its own type.
tt_status tt__api_read(tutti_session *session, const tt__api_tensor *tensor,
                       void *data);
tt_status tt__api_write(tutti_session *session, const tt__api_tensor *tensor,
                        const void *data);

#endif
