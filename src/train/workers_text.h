// workers_text - what workers at their own pace did, in words and as JSON.

#ifndef TT_TRAIN_WORKERS_TEXT_H
#define TT_TRAIN_WORKERS_TEXT_H

#include "base/json.h"
#include "job/workers.h"

// "4 workers: 80 gradients in 80 updates, staleness 2.93 on average ...".
void tt_workers_sentence(const tt_workers *workers, tt_str *out);
// The server's load: "the server made 4,100 updates per second and was busy ...". Nothing
// where no step was made.
void tt_workers_load_sentence(const tt_workers *workers, tt_str *out);
// Which workers were slow, and by how much; nothing where all were alike.
void tt_workers_slow_sentence(const tt_workers *workers, tt_str *out);
// Whose gradients were refused; nothing where all were taken.
void tt_workers_refused_sentence(const tt_workers *workers, tt_str *out);

// Appends members of an object; with `has_bars` those of the picture too.
void tt_workers_print_json(const tt_workers *workers, bool has_bars,
                           tt_json *json);

#endif
