// shares_label - parts of a data set by the labels of its images. Internal to shares.

#ifndef TT_DATA_SHARES_LABEL_H
#define TT_DATA_SHARES_LABEL_H

#include "data/shares.h"

// Fills `index` with all images, client after client, and `first` with where each client
// begins (clients + 1).
tt_status tt__shares_by_label(const tt_source *source,
                              const tt_shares_options *options, int64_t *first,
                              int64_t *index);

#endif
