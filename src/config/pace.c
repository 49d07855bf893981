#include "config/pace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char tt_pace_note[] =
    "times were made by trial.pace: ranks sleep until the modelled seconds of "
    "each row are over";

static tt_status wrong_number(const char *text, const char *at)
{
    const int n = (int)strcspn(at, ", ]");
    return tt_fail(TT_ERR_ARG,
                   "trial.pace=%s: %s%.*s%s is no speed; give a number above 0 "
                   "for each rank, as 1,1,0.5",
                   text, n > 0 ? "\"" : "what is left out", n, at,
                   n > 0 ? "\"" : "");
}

tt_status tt_pace_speed(const char *text, int32_t ranks, int32_t rank,
                        double *speed_out)
{
    static const char blanks[] = " []";
    int32_t n = 0;
    for (const char *p = text; p != NULL; n++) {
        char *end = NULL;
        p += strspn(p, blanks);
        const double speed = strtod(p, &end);
        const char *next = end + strspn(end, blanks);
        if (end == p || (*next != ',' && *next != '\0') || !isfinite(speed) ||
            !(speed >= 1e-6) || speed > 1e6)
            return wrong_number(text, p);
        if (n == rank)
            *speed_out = speed;
        p = *next == ',' ? next + 1 : NULL;
    }
    return n == ranks
               ? TT_OK
               : tt_fail(
                     TT_ERR_ARG,
                     "trial.pace=%s has the speed%s of %d rank%s, and there "
                     "%s %d; give one number for each",
                     text, n == 1 ? "" : "s", n, n == 1 ? "" : "s",
                     ranks == 1 ? "is" : "are", ranks);
}
