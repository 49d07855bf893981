// metrics - what a run has logged, as series by name, for those who compare runs.
//
// Lines that make no sense, such as a last one that a crash cut, are counted and
// left out. A file whose series would need more memory than its own size and 64 MiB
// is refused.

#ifndef TT_STORE_METRICS_H
#define TT_STORE_METRICS_H

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

enum { TT_METRICS_NAMES = 256 }; // more are refused

typedef struct tt_metric_series {
    const char *name; // "train/loss"
    int64_t n;
    const int64_t *step;
    const double *value;  // NaN where the file has null
    const float *seconds; // of training; NaN where the file does not say
} tt_metric_series;

typedef struct tt_metrics {
    int n;
    const tt_metric_series *v; // in the order of their first appearance
    int64_t last_step;         // -1: no line
    double last_seconds;       // NaN: not known
    int64_t n_bad;             // lines left out
} tt_metrics;

// Of RUN/metrics.jsonl; TT_ERR_IO when there is none. All of it is in the arena.
tt_status tt_metrics_read(const char *folder, tt_arena *arena, tt_metrics *out);

// The same from text.
tt_status tt_metrics_parse(const char *text, int64_t n, tt_arena *arena,
                           tt_metrics *out);

// The series of that name, or NULL; its last number, or NaN.
const tt_metric_series *tt_metrics_find(const tt_metrics *metrics,
                                        const char *name);
double tt_metrics_last(const tt_metrics *metrics, const char *name);

#endif
