// report_systems - several systems on one page: what each cost, how fast each learned,
// what its ranks did in one step, and where it stands among the others.

#ifndef TT_STORE_REPORT_REPORT_SYSTEMS_H
#define TT_STORE_REPORT_REPORT_SYSTEMS_H

#include "base/status.h"
#include "base/str.h"
#include "store/metrics.h"

#include <stdint.h>

typedef struct tt_interval { // of several rounds; mid NaN: not known
    double mid, low, high;
} tt_interval;

typedef enum tt_lane_kind {
    TT_LANE_FORWARD,
    TT_LANE_BACKWARD,
    TT_LANE_WEIGHTS,
    TT_LANE_UPDATE,
    TT_LANE_NETWORK,
    TT_N_LANE_KINDS,
} tt_lane_kind;

typedef struct tt_lane_box {
    double from, to; // seconds since the step began
    tt_lane_kind kind;
} tt_lane_box;

typedef struct tt_lane { // what one rank computed, or sent, in one step
    int rank;
    int64_t n;
    const tt_lane_box *box; // in the order of time
} tt_lane;

typedef struct tt_compared_system {
    const char *name, *about, *source, *lacks;
    const char *settings;            // on these ranks: "mesh.pipe=4 ..."
    const char *const *field;        // of the taxonomy
    const char *refusal;             // why it did not run; NULL: it did
    const char *failure;             // of a later round; NULL: none failed
    int n_rounds;                    // that ran
    bool is_drawn;                   // who is next is, so times say little
    const tt_metric_series *loss;    // seconds begin with the first step
    double units;                    // tokens or images of a step
    tt_interval step, exposed;       // seconds
    double bytes;                    // that a rank sends in a step
    double memory;                   // bytes of the rank that needs the most
    double staleness;                // mean; NaN: no gradient is old
    tt_interval at_samples, at_time; // loss
    tt_interval to_loss;             // seconds
    int n_lanes;                     // 0: there is no timeline
    const tt_lane *lane;
    double lane_seconds; // of that step
} tt_compared_system;

typedef struct tt_compared {
    const char *title, *command;
    const char *about; // "4 ranks, 2 rounds, ..."
    const char *unit;  // "tokens"
    int rounds;
    double units;                  // of them after which losses are compared
    double seconds;                // after which they are
    double target;                 // the loss that takes time; NaN: none
    const char *const *field_name; // of the taxonomy; NULL ends it
    int n;
    const tt_compared_system *system;
} tt_compared;

// Whether a system has gradients that are old.
bool tt_compared_has_staleness(const tt_compared *compared);

// Names of systems whose times say little, and why; "": of none.
void tt_compared_drawn(const tt_compared *compared, tt_str *out);

// Appends the page.
tt_status tt_report_systems(const tt_compared *compared, tt_str *out);

// The class of the i-th system's colour, and whether its line is dashed.
const char *tt__systems_color(int i, int *stroke_out);
void tt__systems_pareto(const tt_compared *compared, tt_str *out);
void tt__systems_lanes(const tt_compared *compared, tt_str *out);

// Numbers as people read them: "3.1 ms", "2.4 MB".
void tt__systems_seconds(tt_str *out, double seconds);
void tt__systems_bytes(tt_str *out, double bytes);

#endif
