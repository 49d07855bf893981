// facts - what a run is and how it ended, as the text of RUN/facts.json, from which
// the report is made. Written when the run starts, and again when it ends.

#ifndef TT_TRAIN_FACTS_H
#define TT_TRAIN_FACTS_H

#include "base/str.h"
#include "train/watch.h"

// `end` is NULL while the run goes on.
tt_status tt_facts_text(const tt_run_facts *facts, const tt_run_end *end,
                        tt_str *out);

#endif
