// runs_describe - what a run has left, in words, so that two can be compared.

#ifndef TT_TESTS_RUNS_DESCRIBE_H
#define TT_TESTS_RUNS_DESCRIBE_H

#include "base/str.h"

// Its metrics without the values that are times.
void runs_metrics(const char *folder, tt_str *out);

// All that a run has left but for times, in words: metrics, events, names of the best and
// the latest, and each checkpoint with the hashes of its tensors.
void runs_describe(const char *folder, tt_str *out);

#endif
