// port_guess - the sizes of a GPT-2 from its tensors alone, when no config.json
// says them.

#ifndef TT_PORT_PORT_GUESS_H
#define TT_PORT_PORT_GUESS_H

#include "base/settings/settings.h"
#include "weights/weights.h"

// Sets model and model.*; the number of heads cannot be seen, so heads of 64
// entries are assumed and `notes` say so. Fails when it is no GPT-2.
tt_status tt_port_guess(const tt_weights *weights, tt_arena *arena,
                        tt_settings *settings, tt_str *notes);

#endif
