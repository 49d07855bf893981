// law - the list of laws, and their reports.

#include "check/law.h"

#include "backend/backend.h"
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

bool tt_law_report_has_device(tt_law_report *r)
{
    tt_backend *backend = NULL;
    if (r->device == NULL)
        return true;
    const tt_backend_def *def = tt_backend_find(r->device);
    if (def == NULL)
        tt_law_report_check(r, false, "device=%s: there is no such backend",
                            r->device);
    else if (tt_backend_open(def, NULL, &backend) != TT_OK)
        tt_law_report_check(r, false, "device=%s: %s", r->device,
                            tt_error_message());
    tt_backend_close(backend);
    return backend != NULL;
}

void tt_law_report_fini(tt_law_report *r)
{
    tt_str_fini(&r->failures);
}
