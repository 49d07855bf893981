// report_parts - between the files of the report.

#ifndef TT_STORE_REPORT_REPORT_PARTS_H
#define TT_STORE_REPORT_REPORT_PARTS_H

#include "base/json_read.h"
#include "base/status.h"
#include "base/str.h"
#include "store/metrics.h"
#include "store/report/report.h"

#include <stdbool.h>
#include <stdint.h>

// ---- report_series.c -----------------------------------------------------

typedef enum tt_x {
    TT_X_STEP,
    TT_X_TIME,
    TT_X_UNITS,
    TT_X_BYTES,
    TT_N_X,
} tt_x;

// What a rank has sent up to each point, of the metric comm/bytes.
typedef struct tt_sent {
    const tt_metric_series *series; // NULL: not known
    double *sum;
} tt_sent;
tt_status tt__sent_make(const tt_metrics *metrics, tt_sent *out);
void tt__sent_free(tt_sent *sent);
// Up to a step; between points as many bytes in each step.
double tt__sent_until(const tt_sent *sent, int64_t step);

typedef struct tt_curve tt_curve;

// The mean of at most `window` values around one, as many on either side; of those
// that are finite.
double tt__series_mean(const tt_metric_series *series, int64_t window,
                       int64_t at);
// Where a value of a curve lies: its step, its second, `units` times its step, or what
// was sent up to it; NaN: not known.
double tt__curve_x(const tt_curve *curve, tt_x x, int64_t at);

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

// ---- report_chart.c, report_axes.c ---------------------------------------

enum { TT_SOLID, TT_DASHED, TT_DOTTED, TT_STROKES }; // how a curve is drawn

extern const char *const tt__stroke_class[TT_STROKES]; // " dash"

struct tt_curve {
    const char *label;              // NULL: the chart's title says it
    const char *color;              // a class of report_style.c
    const tt_metric_series *series; // NULL: not there
    double units;                   // tokens or images of a step; 0: not known
    bool is_noisy;                  // a mean is drawn over faint values
    bool is_quiet;                  // the mean alone
    int stroke;
    int best;            // -1: the lowest is marked, 1: the highest
    const tt_sent *sent; // NULL: not known
};

typedef struct tt_chart {
    const char *title, *y_name;
    const char *id;    // of its switches, where it is wide
    const char *units; // what curve.units counts: "tokens"; NULL: none
    const char *steps; // what steps of the series are instead; NULL: steps
    const tt_curve *curve;
    int n;
    bool is_bytes;    // steps count bytes
    bool is_percent;  // fractions shown as percentages
    bool is_wide;     // the whole width, with a choice of axes
    double log_above; // highest over lowest that asks for a log scale; 0: none
} tt_chart;

// Appends a <figure>; nothing when no curve has a finite value.
tt_status tt__chart_add(const tt_chart *chart, tt_str *out);

typedef struct tt_frame { // a chart and one pair of its axes
    const tt_chart *chart;
    tt_x kind;
    tt_scale x, y;
    double per; // seconds in the unit of a time axis, else 1
    tt_str *out;
} tt_frame;

// Whether the chart has anything to show on these axes.
bool tt__frame_make(const tt_chart *chart, tt_x kind, bool is_log,
                    tt_frame *out);
// In per cent of the plot's width and height, from left and top.
double tt__frame_left(const tt_frame *frame, double x);
double tt__frame_top(const tt_frame *frame, double y);
const char *tt__frame_x_name(const tt_frame *frame);
void tt__frame_grid(const tt_frame *frame);
void tt__frame_y_ticks(const tt_frame *frame, const char *kind);
void tt__frame_x_ticks(const tt_frame *frame, const char *kind);
// What the curves say under the pointer.
void tt__frame_readings(const tt_frame *frame, const char *kind);
bool tt__is_usable(double value); // it can be drawn
void tt__number_add(tt_str *out, double value, bool is_percent);
void tt__axis_bytes_add(tt_str *out, double bytes);
// A place on the axis of steps, or of bytes: "12", "3.4 MB".
void tt__place_add(const tt_chart *chart, tt_str *out, double step);

// ---- pages ---------------------------------------------------------------

// Escapes what HTML gives a meaning, and bytes that are no text.
void tt__html_add(tt_str *out, const char *text);
// The same of `n` bytes.
void tt__html_add_bytes(tt_str *out, const char *text, int64_t n);
// "3.2 s", "2:05 min", "1:02 h".
void tt__time_add(tt_str *out, double seconds);

extern const char *const tt__report_style[]; // CSS; ends with NULL
extern const char tt__report_script[]; // of the page, which is whole without it

// From <!DOCTYPE to <body>; `refresh`: seconds after which it is read again, 0: never.
void tt__head_add(tt_str *out, const char *title, int refresh);

typedef struct tt_report_data { // everything that is shown
    const tt_report_files *files;
    const tt_json_value *facts, *ranks, *workers; // NULL: none
    tt_metrics metrics;
    const char *parent;          // name of the run it was forked from, or NULL
    tt_metrics parent_metrics;   // of it
    const tt_json_value *before; // the parent's facts; NULL: none
} tt_report_data;

// ---- sections ------------------------------------------------------------

tt_status tt__report_curves(const tt_report_data *data, tt_str *out);
// Where the time went, of one rank or of all.
void tt__report_time_add(const tt_report_data *data, tt_str *out);
// Collectives, and who was waited for; nothing where there was one rank.
void tt__report_ranks(const tt_json_value *all, tt_str *out);
// Stages: who waited for whom, and one step as a picture; nothing where there are none.
void tt__report_pipe(const tt_json_value *all, tt_str *out);
// Workers at their own pace: staleness and time; nothing where there are none.
void tt__report_workers(const tt_json_value *all, tt_str *out);
// Samples and notes, of log.txt.
void tt__report_log(const tt_str *log, tt_str *out);
// Every metric at some steps, for those who do not see curves.
void tt__report_numbers(const tt_metrics *metrics, tt_str *out);
void tt__report_table(const char *title, const tt_json_value *rows,
                      tt_str *out);

tt_status tt__report_page_add(const tt_report_data *data, tt_str *out);

#endif
