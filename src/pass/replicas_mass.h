// replicas_mass - see replicas_mass.c.

#ifndef TT_PASS_REPLICAS_MASS_H
#define TT_PASS_REPLICAS_MASS_H

#include "pass/replicas_mix.h"

// The mass of the replicas on its way through an agreement.
typedef struct tt__mass {
    tt_val leaf; // TT_NONE: the policy has none
    tt__mixed mixed;
} tt__mass;

// The state, for policies that have a mass.
tt_status tt__mass_begin(tt__replicas *w, int level);
tt_status tt__mass_send(tt__replicas *w, const tt__mix *mix, int level,
                        tt__mass *mass_out);
// *per_mass_out is 1 over what the replica has now; TT_NONE without mass.
tt_status tt__mass_take(tt__replicas *w, tt__mix *mix, tt__mass *mass,
                        tt_val *per_mass_out);

#endif
