// sample_codes - codes for samples of operators that decode.

#ifndef TT_CHECK_SAMPLE_CODES_H
#define TT_CHECK_SAMPLE_CODES_H

#include "check/sample.h"

typedef struct tt__codes {
    double *data; // of the case's arena
    int64_t bytes;
} tt__codes;

// What `text` ("c3": codes of 3 replicas) means for an operator X_sum: what X_encode of
// the reference makes of random numbers of this type and shape, one after another.
tt_status tt__sample_codes(const tt_case *c, const char *text, tt_dtype dtype,
                           const char *shape, tt__codes *out);

#endif
