#include "base/figures.h"

#include <math.h>
#include <stdbool.h>

void tt_add_grouped(tt_str *out, int64_t value)
{
    char digits[32];
    int n = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        if (n % 4 == 3)
            digits[n++] = ',';
        digits[n++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        tt_str_add(out, "-");
    while (n > 0)
        tt_str_add_bytes(out, &digits[--n], 1);
}

// Three digits; returns the prefix of the unit, "" or "k" or ...
static const char *add_scaled(tt_str *out, double value)
{
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
    int i = 0;
    if (!isfinite(value)) {
        tt_str_add(out, "?");
        return "";
    }
    while (fabs(value) >= 999.5 && i < 6) {
        value /= 1000;
        i++;
    }
    const bool is_whole = i == 0 && value == floor(value);
    const int digits = is_whole || fabs(value) >= 99.95 ? 0
                       : fabs(value) >= 9.995           ? 1
                                                        : 2;
    tt_str_addf(out, "%.*f", digits, value);
    return prefix[i];
}

void tt_add_count(tt_str *out, double value)
{
    const char *prefix = add_scaled(out, value);
    tt_str_addf(out, "%s%s", prefix[0] == '\0' ? "" : " ", prefix);
}

void tt_add_unit(tt_str *out, double value, const char *unit)
{
    const char *prefix = add_scaled(out, value);
    tt_str_addf(out, " %s%s", prefix, unit);
}

void tt_add_bytes(tt_str *out, int64_t bytes)
{
    tt_add_unit(out, (double)bytes, "B");
}
