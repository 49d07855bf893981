// journal - the last things a rank did, kept where others can read them after its
// end: one writer, no locks, no allocation.

#ifndef TT_COMM_JOURNAL_H
#define TT_COMM_JOURNAL_H

#include "base/str.h"

#include <stdatomic.h>
#include <stdint.h>

enum { TT_JOURNAL_EVENTS = 256 };

typedef struct tt_journal_event {
    double seconds; // tt_clock_seconds when it began
    int64_t step;   // of training; -1: none
    int64_t number; // of this kind: "all_reduce 183"
    char what[24];  // "all_reduce", "forward", "save"
    char where[64]; // "h.3.mlp", or ""
} tt_journal_event;

typedef struct tt_journal {
    atomic_ullong n; // events begun since the start
    tt_journal_event event[TT_JOURNAL_EVENTS];
} tt_journal;

// NULL journal: nothing happens. Text is cut to fit.
void tt_journal_add(tt_journal *journal, const tt_journal_event *event);
void tt_journal_text(tt_journal_event *event, const char *what,
                     const char *where);

// Copies the newest event; returns how many there were (0: none).
uint64_t tt_journal_last(const tt_journal *journal,
                         tt_journal_event *event_out);

// Appends " in all_reduce 183 of step 12 (h.3.mlp)", or nothing when there is none.
void tt_journal_print_last(const tt_journal *journal, tt_str *out);

#endif
