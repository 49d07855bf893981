// report - one page about a run that needs nothing but itself: facts, curves drawn
// as SVG, settings, notes, machine. Made from what lies in the run's folder:
//
//   RUN/facts.json      what run it is, and how it ended
//   RUN/ranks.json      what its ranks did, where there are several
//   RUN/metrics.jsonl, RUN/log.txt, RUN/config.yaml
//
// Whatever is missing or cut short is left out.

#ifndef TT_STORE_REPORT_H
#define TT_STORE_REPORT_H

#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

typedef struct tt_report_row {
    const char *name, *value;
} tt_report_row;

// Lists end with a NULL name.
typedef struct tt_report_facts {
    const char *title;   // of the page
    const char *outcome; // "done", "stopped", "failed"; NULL: still running
    const char *unit;    // what the rate counts: "tokens"
    double seconds;      // of the last start; 0: not known
    double input_stall, checkpoint_stall; // fractions of them
    const tt_report_row *facts, *machine;
} tt_report_facts;

// The text of facts.json.
tt_status tt_report_facts_text(const tt_report_facts *facts, tt_str *out);

// The files as text; those that are not there are empty.
typedef struct tt_report_files {
    const char *folder; // for the page's title and foot
    tt_str facts, metrics, config, log, ranks;
} tt_report_files;

// Appends the page.
tt_status tt_report_page(const tt_report_files *files, tt_str *out);

// Writes RUN/report.html, whole or not at all.
tt_status tt_report_write(const char *folder);

#endif
