// law - a statement that holds for every member of a registry.
//
// Problem: there are many operators, kernels, passes, algorithms and models, and more
// come. A test per member is forgotten for the next member. Idea: state once what must
// hold for all of them ("every kernel computes what the reference computes") and
// iterate the registry. A new member is then tested because it exists. A member that
// no sample reaches is a failure by itself.
//
//   registry  -->  law  -->  oracle: finite differences, plain loops, one rank, ...
//
// Laws are part of the program (`tutti check`), not only of the tests, so a user can
// ask whether this installation is right on this machine. The tests call the same
// functions. Page: docs/laws.md.
//
// The folder check: laws, and what they need to look at members (samples, small
// models, the interpreter, simulated ranks). A proof about one layout of a user's job
// is verify/.

#ifndef TT_CHECK_LAW_H
#define TT_CHECK_LAW_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

// What a law is asked to look at, and what it found. One thread at a time: a law that
// has rank threads gives each a report of its own and adds them up.
typedef struct tt_law_report {
    const char *only; // only members whose name contains this; NULL: all
    // Ranks of a launcher that check together; NULL: the law starts its own.
    struct tt_comm *comm;
    int32_t most_ranks; // most that the law starts; 0: as many as it likes
    const char *device; // only this backend; NULL: all that work here
    int64_t n_checks, n_failed;
    // Hash of results that must be equal elsewhere too; 0: none.
    uint64_t bits;
    tt_str failures; // one line each
} tt_law_report;

// Records one check. If it does not hold, the formatted line is kept (the first 100).
__attribute__((format(printf, 3, 4))) void
tt_law_report_check(tt_law_report *r, bool holds, const char *fmt, ...);

// The larger of two errors. One that is not a number is infinite: fmax would drop it,
// and a NaN would pass.
double tt_law_worse(double worst, double error);

// Whether the law is to look at this member.
bool tt_law_report_wants(const tt_law_report *r, const char *member);

// Whether the device that was asked for by name can be opened; if not, that is a failed check:
// a law that has not looked must not hold.
bool tt_law_report_has_device(tt_law_report *r);

void tt_law_report_fini(tt_law_report *r);

typedef struct tt_law_def {
    const char *name, *doc;
    bool takes_ranks;   // the ranks of a launcher can check it together
    bool needs_devices; // it looks at nothing where none reaches another
    // Fails only when it could not look (no memory). What it finds goes to `r`.
    tt_status (*run)(tt_law_report *r);
} tt_law_def;

const tt_law_def *const *tt_law_all(int *n);
const tt_law_def *tt_law_find(const char *name);

#endif
