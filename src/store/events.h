// events - TensorBoard's file of scalars, texts and hyperparameters. A record is a
// length, its checksum, one protobuf message, and the checksum of that.

#ifndef TT_STORE_EVENTS_H
#define TT_STORE_EVENTS_H

#include "base/str.h"
#include "store/report/report.h"
#include "store/run.h"

#include <stdbool.h>
#include <stdint.h>

// CRC-32C (Castagnoli), as it is; files hold it rotated and shifted.
uint32_t tt_crc32c(const void *bytes, int64_t n);

// Append one record. `wall` is in seconds since 1970.
void tt_events_version(tt_str *out, double wall); // the first of every file
void tt_events_scalars(tt_str *out, double wall, int64_t step,
                       const tt_metric *metrics, int n);
// Bytes that are no characters become U+FFFD.
void tt_events_text(tt_str *out, double wall, int64_t step,
                    const tt_report_row *text);
// What the hparams plugin shows: settings, which end with a NULL name, as numbers,
// truths or text; and how a run ended.
void tt_events_settings(tt_str *out, double wall,
                        const tt_report_row *settings);
void tt_events_end(tt_str *out, double wall, int64_t step, bool is_good);
// Tells a TensorBoard that is watching to forget what it has from `step` on.
void tt_events_restart(tt_str *out, double wall, int64_t step);

typedef enum tt_event_kind {
    TT_EVENT_OTHER,   // the version, a restart
    TT_EVENT_SUMMARY, // scalars, text, settings
} tt_event_kind;

typedef struct tt_event_record {
    const char *record; // all of it, with length and checksums
    int64_t bytes, step;
    tt_event_kind kind;
} tt_event_record;

// The record at `text`; false when no whole and undamaged one begins there.
bool tt_events_next(const char *text, int64_t n, tt_event_record *out);

#endif
