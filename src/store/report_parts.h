// report_parts - between the files of the report.

#ifndef TT_STORE_REPORT_PARTS_H
#define TT_STORE_REPORT_PARTS_H

#include "base/json_read.h"
#include "base/status.h"
#include "base/str.h"
#include "store/metrics.h"
#include "store/report.h"

#include <stdbool.h>
#include <stdint.h>

// The mean over `window` points around each, of those that are finite. `out` has
// series->n numbers.
void tt__series_smooth(const tt_metric_series *series, int64_t window,
                       double *out);

typedef struct tt_curve {
    const char *label;
    const tt_metric_series *series; // NULL: not there
} tt_curve;

enum { TT_CHART_CURVES = 2 };

typedef struct tt_chart {
    const char *title;
    tt_curve curve[TT_CHART_CURVES]; // training, validation
    bool is_percent;                 // fractions shown as percentages
    double log_above; // highest over lowest that asks for a log scale; 0: none
    int best;         // -1: the lowest of the last curve is marked, 1: highest
} tt_chart;

// Appends a <figure>; nothing when no curve has a finite value.
tt_status tt__chart_add(const tt_chart *chart, tt_str *out);

typedef struct tt_scale { // of an axis
    double low, high;     // in the scale's own measure
    bool is_log;
} tt_scale;

enum { TT_TICKS_MAX = 16 };

// Good numbers inside the scale, about `wanted`; returns how many.
int tt__scale_ticks(const tt_scale *scale, int wanted,
                    double tick[TT_TICKS_MAX]);
// Where the value lies: 0 at the low end, 1 at the high one.
double tt__scale_place(const tt_scale *scale, double value);

// Escapes what HTML gives a meaning, and bytes that are no text.
void tt__html_add(tt_str *out, const char *text);

extern const char tt__report_style[]; // CSS

typedef struct tt_report_data { // everything that is shown
    const tt_report_files *files;
    const tt_json_value *facts, *ranks; // NULL: none
    tt_metrics metrics;
} tt_report_data;

// The section about ranks; nothing where there is none.
void tt__report_ranks(const tt_json_value *all, tt_str *out);

tt_status tt__report_page(const tt_report_data *data, tt_str *out);

#endif
