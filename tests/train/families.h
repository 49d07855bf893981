// families - a small model of every family, for what must hold for all of them.

#ifndef TT_TESTS_FAMILIES_H
#define TT_TESTS_FAMILIES_H

#include "job/job.h"

typedef struct family {
    const char *name;
    const char *setting[10]; // "key=value", ends with NULL
    bool convolves;          // has convolutions: threads may change the bits
} family;

extern const family families[]; // ends with a NULL name

// The settings of a family, and those of `more` (ends with NULL) after them.
void family_settings(const family *f, const char *const *more,
                     tt_settings *settings, tt_arena *arena);

// Configures, plans and starts; the caller closes what it gets.
tt_status family_start(tt_settings *settings, bool poison, tt_job **job_out);

#endif
