// run - the folder of one run: settings, metrics, checkpoints, report.
//
//   RUN/config.yaml      the resolved settings
//   RUN/metrics.jsonl    one object per logged step and per evaluation:
//                        {"step":10,"seconds":1.5,"train/loss":2.25}; null: NaN
//   RUN/events.out...    the same for TensorBoard
//   RUN/log.txt          notes and warnings: "2026-01-31T12:00:00Z step 10: ..."
//   RUN/checkpoints/     checkpoint.h
//   RUN/report.html      when the run ends; RUN/facts.json, RUN/ranks.json: its sources
//   RUN/trace.json       when one was asked for

#ifndef TT_STORE_RUN_H
#define TT_STORE_RUN_H

#include "base/file.h"
#include "base/status.h"
#include "base/str.h"
#include "store/hash.h"
#include "store/report/report.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_run tt_run;

typedef struct tt_metric {
    const char *name; // "train/loss", "val/accuracy", "lr", "grad_norm"
    double value;
} tt_metric;

// Makes the folder where it is missing, removes what a crash left half written.
// One process at a time has it: TT_ERR_STATE when another does. One thread at a time.
tt_status tt_run_open(const char *folder, bool tensorboard, tt_run **run_out);
void tt_run_close(tt_run *run); // NULL is fine

const char *tt_run_folder(const tt_run *run);

// How far a file had grown, to know later whether something is missing. Of events only
// what was logged counts: the file gets a new name and beginning with every start.
typedef struct tt_run_mark {
    int64_t bytes; // -1: not known
    char hash[TT_HASH_CHARS];
} tt_run_mark;

typedef struct tt_run_marks {
    tt_run_mark metrics, log, events;
} tt_run_marks;

#define TT_RUN_UNMARKED                                                        \
    ((tt_run_marks){.metrics.bytes = -1, .log.bytes = -1, .events.bytes = -1})

void tt_run_marks_get(const tt_run *run, tt_run_marks *marks_out);

// Removes metrics, events and log lines after `step` (-1: all): the run goes on
// from there. Metrics and events are cut to their marks of then, if there are any;
// what is missing or different is said in `notes`, a sentence a line.
tt_status tt_run_cut(tt_run *run, int64_t step, const tt_run_marks *marks,
                     tt_str *notes);

// The files that grow, to be flushed by another thread while lines are added. They stay
// open until the run is cut or closed.
typedef struct tt_run_files {
    const char *folder;
    tt_file file[3];
} tt_run_files;

void tt_run_files_get(const tt_run *run, tt_run_files *files_out);
tt_status tt_run_files_sync(tt_run_files *files);

// Appends one line and its events. A disk that is full is no reason to stop
// training: the first failure is returned once, later ones are counted only.
tt_status tt_run_log(tt_run *run, int64_t step, double seconds,
                     const tt_metric *metrics, int n);
// For TensorBoard alone, and nothing where it gets none: a text by its name, the
// settings (which end with a NULL name), how the run ended.
tt_status tt_run_log_text(tt_run *run, int64_t step, const tt_report_row *text);
tt_status tt_run_log_settings(tt_run *run, const tt_report_row *settings);
tt_status tt_run_log_end(tt_run *run, int64_t step, bool is_good);
tt_status tt_run_note(tt_run *run, int64_t step, const char *text);
int64_t tt_run_failures(const tt_run *run); // lines that were not written

// A whole file of the folder, written under a temporary name and renamed.
tt_status tt_run_write(tt_run *run, const char *name, const char *text,
                       int64_t n);
// And read; TT_ERR_IO when it is not there.
tt_status tt_run_read(const char *folder, const char *name, tt_str *out);

#endif
