// shares_user - parts of a data set by whose its images are. Internal to shares.

#ifndef TT_DATA_SHARES_USER_H
#define TT_DATA_SHARES_USER_H

#include "data/shares.h"

// As tt__shares_by_label.
tt_status tt__shares_by_user(const tt_source *source,
                             const tt_shares_options *options, int64_t *first,
                             int64_t *index);

#endif
