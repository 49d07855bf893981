// law - the list of laws, and their reports.

#include "check/law.h"

#include "base/registry.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TT_LAW(name) extern const tt_law_def tt_law_##name;
#include "check/list.h"
#undef TT_LAW

static const tt_law_def *const all[] = {
#define TT_LAW(name) &tt_law_##name,
#include "check/list.h"
#undef TT_LAW
};

enum { MAX_LINES = 100 };

TT_REGISTRY(tt_law, all)

void tt_law_report_check(tt_law_report *r, bool holds, const char *fmt, ...)
{
    char line[512];
    r->n_checks++;
    if (holds)
        return;
    r->n_failed++;
    if (r->n_failed > MAX_LINES)
        return;
    va_list list;
    va_start(list, fmt);
    vsnprintf(line, sizeof line, fmt, list);
    va_end(list);
    tt_str_addf(&r->failures, "%s\n", line);
}

double tt_law_worse(double worst, double error)
{
    return isfinite(error) ? fmax(worst, error) : (double)INFINITY;
}

bool tt_law_report_wants(const tt_law_report *r, const char *member)
{
    return r->only == NULL || strstr(member, r->only) != NULL;
}

void tt_law_report_fini(tt_law_report *r)
{
    tt_str_fini(&r->failures);
}
