// device - which device a rank computes on, and with whom it shares it.

#ifndef TT_JOB_DEVICE_H
#define TT_JOB_DEVICE_H

#include "job/job.h"

// Opens what device= names: "cuda", of several the one of this rank's number on its
// host, or "cuda:1". All ranks of a job together: those that share one divide what is
// free of its memory. Sets job->backend and job->on_device.
tt_status tt__job_open_device(tt_job *job, const tt_settings *settings);

#endif
