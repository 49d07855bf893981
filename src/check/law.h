// law - a statement that holds for every member of a registry.
//
// Laws are part of the program (`tutti check`), so that a user can ask whether this
// installation is right on this machine; the tests run the same functions.
// A law looks at every member by itself: a new operator, kernel or model is tested
// by existing.

#ifndef TT_CHECK_LAW_H
#define TT_CHECK_LAW_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

// What a law found. One thread at a time.
typedef struct tt_law_report {
    const char *only; // look only at members whose name contains this; or NULL
    struct tt_comm
        *comm; // of ranks that look together; NULL: a law starts its own
    int32_t most_ranks; // that it starts; 0: as many as it likes
    const char
        *device; // likewise: this backend only; or NULL: all that are here
    int64_t n_checks, n_failed;
    uint64_t bits; // a hash of results that must be the same elsewhere; 0: none
    tt_str failures; // one line each
} tt_law_report;

// Records one check; on failure the formatted line is kept (the first 100).
__attribute__((format(printf, 3, 4))) void
tt_law_report_check(tt_law_report *r, bool holds, const char *fmt, ...);

// Whether the law is to look at this member.
bool tt_law_report_wants(const tt_law_report *r, const char *member);

void tt_law_report_fini(tt_law_report *r);

typedef struct tt_law_def {
    const char *name, *doc;
    bool takes_ranks; // can look together with other ranks
    // Fails only when it could not look (no memory); what it finds goes to `r`.
    tt_status (*run)(tt_law_report *r);
} tt_law_def;

const tt_law_def *const *tt_law_all(int *n);
const tt_law_def *tt_law_find(const char *name);

#endif
