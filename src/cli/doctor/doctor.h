// doctor - what `tutti doctor` looks at. Each check states one thing and the next one
// runs, whatever is missing: a machine with a problem is exactly where this must not
// stop.

#ifndef TT_CLI_DOCTOR_DOCTOR_H
#define TT_CLI_DOCTOR_DOCTOR_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_finding_level {
    TT_FINDING_OK,
    TT_FINDING_NOTE,    // works without it; good to know
    TT_FINDING_MISSING, // needed
} tt_finding_level;

typedef struct tt_finding {
    tt_finding_level level;
    const char *name;
    tt_str value, fix; // fix: "" if nothing needs to be done
} tt_finding;

enum { TT_FINDINGS_MAX = 64 };

typedef struct tt_doctor {
    tt_finding finding[TT_FINDINGS_MAX];
    int n;
} tt_doctor;

// Adds a finding, for the caller to describe.
tt_finding *tt__doctor_add(tt_doctor *doctor, const char *name);

void tt__doctor_machine(tt_doctor *doctor);  // processor, memory, disk, limits
void tt__doctor_training(tt_doctor *doctor); // does a step work
void tt__doctor_software(tt_doctor *doctor); // libraries, launchers, data

#endif
