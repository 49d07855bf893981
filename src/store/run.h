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

#include "base/status.h"
#include "base/str.h"

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

// Removes metrics, events and log lines behind `step` (-1: all): the run goes on
// from there.
tt_status tt_run_cut(tt_run *run, int64_t step);

// Appends one line and its events. A disk that is full is no reason to stop
// training: the first failure is returned once, later ones are counted only.
tt_status tt_run_log(tt_run *run, int64_t step, double seconds,
                     const tt_metric *metrics, int n);
tt_status tt_run_note(tt_run *run, int64_t step, const char *text);
int64_t tt_run_failures(const tt_run *run); // lines that were not written

// A whole file of the folder, written under a temporary name and renamed.
tt_status tt_run_write(tt_run *run, const char *name, const char *text,
                       int64_t n);
// And read; TT_ERR_IO when it is not there.
tt_status tt_run_read(const char *folder, const char *name, tt_str *out);

#endif
