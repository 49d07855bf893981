// report - one page about a run that needs nothing but itself: facts, curves drawn
// as SVG, settings, samples, notes, machine. Made from what lies in the run's folder:
//
//   RUN/facts.json      what run it is, and how it ended
//   RUN/ranks.json      what its ranks did, where there are several
//   RUN/workers.json    what workers did that go at their own pace
//   RUN/metrics.jsonl, RUN/log.txt, RUN/config.yaml
//
// and from the metrics of the run that it was forked from. Whatever is missing or cut
// short is left out. The page of a run that goes on reads itself again now and then.

#ifndef TT_STORE_REPORT_REPORT_H
#define TT_STORE_REPORT_REPORT_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_report_row {
    const char *name, *value;
} tt_report_row;

// Where the time of a rank went: seconds that add up to `total`.
typedef struct tt_report_time {
    double total;
    double computing, network, data; // in steps; the last two are waiting
    double evaluation, checkpoints;  // samples count as evaluation
    double last;  // writing the last checkpoint, when all is computed
    double other; // starting, logging
} tt_report_time;

// Appends a member "time" of an object.
struct tt_json;
void tt_report_time_json(const tt_report_time *time, struct tt_json *json);
// And reads it; what is missing or no length of time is 0. NULL: all of it is.
struct tt_json_value;
void tt_report_time_read(const struct tt_json_value *value,
                         tt_report_time *time_out);

// Lists end with a NULL name.
typedef struct tt_report_facts {
    const char *title;   // of the page
    const char *outcome; // "done", "stopped", "failed"; NULL: still running
    const char *error;   // why it failed; NULL: it did not
    const char *unit;    // what the rate counts: "tokens"
    double units;        // of them in a step; 0: not known
    int64_t memory;      // planned bytes of the rank that needs the most
    const char *started, *updated; // "2026-01-31T12:00:00Z"; NULL: not known
    const char *parent;  // folder of the run it was forked from; NULL: none
    tt_report_time time; // of all starts; total 0: not known
    const tt_report_row *facts, *machine, *settings;
} tt_report_facts;

// The text of facts.json.
tt_status tt_report_facts_text(const tt_report_facts *facts, tt_str *out);

// The files as text; those that are not there are empty.
typedef struct tt_report_files {
    const char *folder; // for the page's title and foot
    bool is_dead;       // no process works on it
    tt_str facts, metrics, config, log, ranks, workers;
    tt_str parent_facts, parent_metrics;
} tt_report_files;

// Appends the page.
tt_status tt_report_page(const tt_report_files *files, tt_str *out);

// Writes RUN/report.html, whole or not at all.
tt_status tt_report_write(const char *folder);

// Several runs on one scale.
typedef struct tt_report_compared {
    const char *name, *folder, *status;
    tt_str metrics, facts; // the files; those that are not there are empty
} tt_report_compared;

typedef struct tt_report_difference {
    const char *key;
    const char *const *value; // of every run; NULL: has none
} tt_report_difference;

typedef struct tt_report_comparison {
    int n;
    const tt_report_compared *run;
    int n_differences;
    const tt_report_difference *difference; // of settings
} tt_report_comparison;

tt_status tt_report_compare(const tt_report_comparison *comparison,
                            tt_str *out);

#endif
