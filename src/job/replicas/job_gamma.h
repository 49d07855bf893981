// job_gamma - see job_gamma.c.

#ifndef TT_JOB_REPLICAS_JOB_GAMMA_H
#define TT_JOB_REPLICAS_JOB_GAMMA_H

#include "codec/codec.h"

// How far replicas that send each other such codes may go to what they know of their
// neighbours.
tt_status tt__job_gamma(const tt_codec_def *codec, const void *params,
                        double *gamma_out);

#endif
