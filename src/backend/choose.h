// choose - internal to backend/: how a target's questions are answered.

#ifndef TT_BACKEND_CHOOSE_H
#define TT_BACKEND_CHOOSE_H

#include "backend/backend.h"

// tt_target.choose of every backend.
tt_status tt__backend_choose(tt_target *target, tt_site *site,
                             tt_choice *choice_out);

#endif
