// facts - what a run is and how it ended, as the text of RUN/facts.json, from which
// the report is made. Written when the run starts, at evaluations, and when it ends.

#ifndef TT_TRAIN_FACTS_H
#define TT_TRAIN_FACTS_H

#include "base/str.h"
#include "train/watch.h"

// `end` is NULL while the run goes on: then `time` is what there is to say.
tt_status tt_facts_text(const tt_run_facts *facts, const tt_report_time *time,
                        const tt_run_end *end, tt_str *out);

enum { TT_STAMP_BYTES = 32 };
void tt_stamp_now(char out[TT_STAMP_BYTES]); // "2026-01-31T12:00:00Z"

#endif
