// pace - trial.pace: how fast each rank shall seem to be, for trials with more ranks than
// cores. A rank of speed 0.5 takes twice its modelled seconds (plan/seconds.h).

#ifndef TT_CONFIG_PACE_H
#define TT_CONFIG_PACE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool tt_pace_is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

// The speed of `rank`. Fails unless the text is `ranks` numbers above 0, separated by
// commas.
tt_status tt_pace_speed(const char *text, int32_t ranks, int32_t rank,
                        double *speed_out);

// What is said of every figure that was measured under a pace.
extern const char tt_pace_note[];

#endif
