// csv - scanning.
//
// A table of a million rows has many millions of numbers, and strtod is slow. Most
// numbers are short. Up to 15 digits are exact in a double as a whole number, and so
// are powers of ten up to 22. One multiplication or division of two exact numbers
// rounds once, so the result is correctly rounded. Longer numbers are left to strtod.

#include "data/source/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool ends_row(char c)
{
    return c == '\n' || c == '\r';
}

// Moves past the separator or the line end at *at.
static bool step_over(const tt_csv *csv, int64_t *at)
{
    if (*at >= csv->n)
        return false;
    const char c = csv->text[(*at)++];
    if (c == '\r' && *at < csv->n && csv->text[*at] == '\n')
        ++*at;
    return c == csv->separator;
}

static void scan_quoted(const tt_csv *csv, int64_t *at, tt_csv_field *field)
{
    const int64_t from = ++*at;
    bool is_closed = false;
    while (!is_closed && *at < csv->n) {
        const char *quote =
            memchr(csv->text + *at, '"', (size_t)(csv->n - *at));
        *at = quote != NULL ? quote - csv->text : csv->n;
        is_closed =
            quote != NULL && (*at + 1 >= csv->n || csv->text[*at + 1] != '"');
        if (quote != NULL && !is_closed)
            *at += 2;
    }
    *field = (tt_csv_field){.p = csv->text + from,
                            .n = (*at < csv->n ? *at : csv->n) - from,
                            .is_quoted = true,
                            .is_broken = !is_closed};
    *at = *at < csv->n ? *at + 1 : csv->n;
}

bool tt_csv_next(const tt_csv *csv, int64_t *at, tt_csv_field *field_out)
{
    const char *text = csv->text;
    if (*at < csv->n && text[*at] == '"')
        scan_quoted(csv, at, field_out);
    else
        *field_out = (tt_csv_field){.p = text + *at};
    const int64_t from = *at, n = csv->n;
    const char separator = csv->separator;
    int64_t i = from;
    while (i < n && text[i] != separator && !ends_row(text[i]))
        i++;
    if (!field_out->is_quoted)
        field_out->n = i - from;
    else if (i > from)
        field_out->is_broken = true;
    *at = i;
    return step_over(csv, at);
}

// memchr finds the line's end many bytes at a time. That is the row's end unless there
// is a quote, in which a line break may stand, or a lone carriage return.
void tt_csv_skip_row(const tt_csv *csv, int64_t *at)
{
    tt_csv_field field;
    const char *from = csv->text + *at;
    const char *end = memchr(from, '\n', (size_t)(csv->n - *at));
    if (end != NULL) { // mostly it is the end of the row
        const size_t n = (size_t)(end - from);
        const char *other = memchr(from, '\r', n);
        if (memchr(from, '"', n) == NULL &&
            (other == NULL || other == end - 1)) {
            *at = end + 1 - csv->text;
            return;
        }
    }
    while (tt_csv_next(csv, at, &field)) {
    }
}

bool tt_csv_is_end(const tt_csv *csv, int64_t at)
{
    while (at < csv->n && ends_row(csv->text[at]))
        at++;
    return at == csv->n;
}

tt_csv_field tt_csv_trim(tt_csv_field field)
{
    while (field.n > 0 && (field.p[0] == ' ' || field.p[0] == '\t')) {
        field.p++;
        field.n--;
    }
    while (field.n > 0 &&
           (field.p[field.n - 1] == ' ' || field.p[field.n - 1] == '\t'))
        field.n--;
    return field;
}

// ---- numbers -----------------------------------------------------------------

enum { EXACT_DIGITS = 15, EXACT_POWER = 22, LONGEST = 400 };

static const double power_of_10[EXACT_POWER + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

typedef struct decimal {
    bool is_negative;
    int64_t digits; // all of them as one number
    int n_digits;   // without leading zeros
    int power;
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void add_digit(decimal *d, char c)
{
    if (d->n_digits < EXACT_DIGITS)
        d->digits = d->digits * 10 + (c - '0');
    d->n_digits += d->n_digits > 0 || c != '0';
}

// Returns what follows the exponent, or NULL when it is none.
static const char *scan_exponent(const char *p, const char *end, int *power)
{
    const bool is_negative = p < end && *p == '-';
    int value = 0;
    p += p < end && (*p == '-' || *p == '+');
    if (p == end || !is_digit(*p))
        return NULL;
    for (; p < end && is_digit(*p); p++)
        value = value < 10000 ? value * 10 + (*p - '0') : value;
    *power += is_negative ? -value : value;
    return p;
}

// Checks that the text is a decimal number.
static bool scan_decimal(const char *p, const char *end, decimal *d)
{
    d->is_negative = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    int64_t n = 0;
    for (; p < end && is_digit(*p); p++, n++)
        add_digit(d, *p);
    if (p < end && *p == '.')
        for (p++; p < end && is_digit(*p); p++, n++) {
            add_digit(d, *p);
            d->power--;
        }
    if (n == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p = scan_exponent(p + 1, end, &d->power);
        if (p == NULL)
            return false;
    }
    return p == end;
}

// Text that is known to be a number, the slow way.
static bool convert(const char *p, int64_t n, double *value_out)
{
    char copy[LONGEST + 1];
    memcpy(copy, p, (size_t)n);
    copy[n] = '\0';
    *value_out = strtod(copy, NULL);
    return isfinite(*value_out);
}

bool tt_csv_number(const tt_csv_field *field, double *value_out)
{
    const tt_csv_field trimmed = tt_csv_trim(*field);
    const char *p = trimmed.p, *end = trimmed.p + trimmed.n;
    decimal d = {0};
    if (field->is_broken || end - p > LONGEST || !scan_decimal(p, end, &d))
        return false;
    if (d.n_digits > EXACT_DIGITS || abs(d.power) > EXACT_POWER)
        return convert(p, end - p, value_out);
    const double whole = (double)(d.is_negative ? -d.digits : d.digits);
    *value_out = d.power < 0 ? whole / power_of_10[-d.power]
                             : whole * power_of_10[d.power];
    return true;
}
