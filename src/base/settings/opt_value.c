// opt_value - reading, checking and printing the value of one option.
//
// Text is read strictly: "3x" or "nan" is no number, and a value out of range is an
// error that names the limit. What is printed is read back to the same value, since
// settings of a run are written to a file from which it is resumed.

#include "base/settings/opt_value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double two_63 = 9223372036854775808.0;

// Bytes of `opt`'s member in the params struct.
static size_t member_bytes(const tt_opt *opt)
{
    static const size_t bytes[] = {
        [TT_OPT_I64] = sizeof(int64_t),  [TT_OPT_F64] = sizeof(double),
        [TT_OPT_BOOL] = sizeof(bool),    [TT_OPT_CHOICE] = sizeof(int),
        [TT_OPT_STR] = sizeof(char *),   [TT_OPT_I64S] = sizeof(tt_i64s),
        [TT_OPT_F64S] = sizeof(tt_f64s),
    };
    return bytes[opt->type];
}

static const char *skip_blanks(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

// strtod would also take hexadecimal, "nan(...)" and the like.
static bool starts_number(const char *p)
{
    p += *p == '-' || *p == '+';
    p += *p == '.';
    return isdigit((unsigned char)p[0]) &&
           !(p[0] == '0' && tolower(p[1]) == 'x');
}

static int suffix_shift(char c)
{
    switch (tolower((unsigned char)c)) {
    case 'k':
        return 10;
    case 'm':
        return 20;
    case 'g':
        return 30;
    default:
        return 0;
    }
}

// A number beyond those of its type becomes the nearest of them, with errno ERANGE:
// so it is said to be too large, and not to be no number.
static int64_t clamp(double real)
{
    if (fabs(real) < two_63)
        return (int64_t)real;
    errno = ERANGE;
    return real < 0 ? INT64_MIN : INT64_MAX;
}

// Whether strtod has just read a number that is too near to 0 for a double: then it
// gave 0, or a number with few of its digits.
static bool is_lost(double real)
{
    return errno == ERANGE && fabs(real) < 1;
}

// Reads one whole number at `p` and moves `*end` after it.
static bool scan_i64(const char *p, const char **end, int64_t *value)
{
    char *stop = NULL;
    if (!starts_number(p))
        return false;
    errno = 0;
    int64_t whole = strtoll(p, &stop, 10);
    if (*stop == '.' || *stop == 'e' || *stop == 'E' || stop == p) {
        errno = 0;
        const double real = strtod(p, &stop);
        if (real != floor(real) || is_lost(real))
            return false;
        errno = 0;
        whole = clamp(real);
    }
    const int shift = suffix_shift(*stop);
    *end = stop + (shift > 0);
    if (__builtin_mul_overflow(whole, (int64_t)1 << shift, value))
        *value = clamp((double)whole * (double)((int64_t)1 << shift));
    return true;
}

// A number that no double can hold is not read, with errno ERANGE.
static bool scan_f64(const char *p, const char **end, double *value)
{
    const bool has_sign = *p == '-' || *p == '+';
    errno = 0;
    if (strncasecmp(p + has_sign, "inf", 3) == 0) {
        *value = *p == '-' ? -HUGE_VAL : HUGE_VAL;
        *end = p + has_sign + 3;
        return true;
    }
    if (!starts_number(p))
        return false;
    char *stop = NULL;
    *value = strtod(p, &stop);
    *end = stop;
    return isfinite(*value) && !is_lost(*value);
}

static bool is_in_range(const tt_opt *opt, double x)
{
    if (opt->min == 0 && opt->max == 0)
        return true;
    return x >= opt->min && (opt->max < opt->min || x <= opt->max);
}

// "optim.lr=-1: must be at least 0". A limit that is the number next to a round one
// stands for that one, which is itself outside.
static tt_status fail_range(const tt_opt *opt, const char *text, double x)
{
    const bool is_low = x < opt->min;
    const double limit = is_low ? opt->min : opt->max;
    char shown[32];
    snprintf(shown, sizeof shown, "%.15g", limit);
    const double said = strtod(shown, NULL);
    const bool is_outside = is_low ? said < limit : said > limit;
    const char *how = is_low       ? is_outside ? "more than" : "at least"
                      : is_outside ? "less than"
                                   : "at most";
    return tt_fail(TT_ERR_ARG, "%s=%s: must be %s %s", opt->name, text, how,
                   shown);
}

// What somebody means who writes 0,001 or 1_000 or 10%; false: nothing that is known.
static bool find_meant(const tt_opt *opt, const char *text, char *out, size_t n)
{
    const bool is_whole = opt->type == TT_OPT_I64;
    const size_t length = strlen(text);
    size_t k = 0;
    char *end = NULL;
    if ((!is_whole && opt->type != TT_OPT_F64) || length + 1 > n)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] == ',' && !is_whole)
            out[k++] = '.';
        else if (text[i] != '_' && text[i] != ',' && text[i] != '\'')
            out[k++] = text[i];
    out[k] = '\0';
    const double x = strtod(out, &end);
    if (end == out || !starts_number(out))
        return false;
    if (!is_whole && strcmp(end, "%") == 0)
        snprintf(out, n, "%.15g", x / 100);
    else if (*end != '\0' || (is_whole && x != floor(x)))
        return false;
    return strcmp(out, text) != 0;
}

static tt_status fail_value(const tt_opt *opt, const char *text,
                            const char *allowed)
{
    char meant[64];
    if (find_meant(opt, text, meant, sizeof meant))
        return tt_fail(TT_ERR_ARG, "%s: \"%s\" is not %s; did you mean %s?",
                       opt->name, text, allowed, meant);
    return tt_fail(TT_ERR_ARG, "%s: \"%s\" is not %s", opt->name, text,
                   allowed);
}

static tt_status read_i64(const tt_opt *opt, const char *text, tt_arena *arena,
                          tt_opt_value *value)
{
    (void)arena;
    const char *end = NULL;
    int64_t number = 0;
    if (!scan_i64(skip_blanks(text), &end, &number) ||
        *skip_blanks(end) != '\0')
        return fail_value(opt, text, "a whole number");
    if (errno == ERANGE && opt->min == 0 && opt->max == 0)
        return tt_fail(TT_ERR_ARG, "%s=%s: too large", opt->name, text);
    if (!is_in_range(opt, (double)number))
        return fail_range(opt, text, (double)number);
    value->i64 = number;
    return TT_OK;
}

static tt_status read_f64(const tt_opt *opt, const char *text, tt_arena *arena,
                          tt_opt_value *value)
{
    (void)arena;
    const char *end = NULL;
    double number = 0;
    const bool is_read = scan_f64(skip_blanks(text), &end, &number);
    const bool is_all = end != NULL && *skip_blanks(end) == '\0';
    const bool is_huge = isinf(number), is_tiny = is_lost(number);
    if (!is_all || (!is_read && !is_huge && !is_tiny))
        return fail_value(opt, text, "a number");
    if (!is_in_range(opt, number))
        return fail_range(opt, text, number);
    if (!is_read) // 1e400 would be infinite, 1e-400 would be 0
        return tt_fail(TT_ERR_ARG, "%s=%s: too %s", opt->name, text,
                       is_huge ? "large"
                               : "near to 0 for a double; write 0 if that is "
                                 "meant");
    value->f64 = number;
    return TT_OK;
}

static tt_status read_bool(const tt_opt *opt, const char *text, tt_arena *arena,
                           tt_opt_value *value)
{
    (void)arena;
    static const char *const words[] = {"false", "true", "no", "yes",
                                        "off",   "on",   "0",  "1"};
    for (int i = 0; i < (int)(sizeof(words) / sizeof(words[0])); i++)
        if (strcasecmp(text, words[i]) == 0) {
            value->is_true = i % 2 == 1;
            return TT_OK;
        }
    return fail_value(opt, text, "true or false");
}

static tt_status unknown_choice(const tt_opt *opt, const char *text)
{
    enum { MOST = 32, BYTES = 32 };
    char name[MOST][BYTES];
    const char *list[MOST];
    int n = 0;
    for (const char *p = opt->choices; p != NULL && n < MOST; n++) {
        const size_t length = strcspn(p, "|");
        snprintf(name[n], BYTES, "%.*s", (int)length, p);
        list[n] = name[n];
        p = p[length] == '|' ? p + length + 1 : NULL;
    }
    const char *near = tt_nearest(text, list, n);
    return tt_fail(TT_ERR_ARG, "%s: \"%s\" is not one of %s%s%s%s", opt->name,
                   text, opt->choices, near != NULL ? "; did you mean " : "",
                   near != NULL ? near : "", near != NULL ? "?" : "");
}

static tt_status read_choice(const tt_opt *opt, const char *text,
                             tt_arena *arena, tt_opt_value *value)
{
    (void)arena;
    const size_t n = strlen(text);
    const char *p = opt->choices;
    for (int i = 0; p != NULL; i++) {
        const char *bar = strchr(p, '|');
        const size_t length = bar != NULL ? (size_t)(bar - p) : strlen(p);
        if (length == n && memcmp(p, text, n) == 0) {
            value->choice = i;
            return TT_OK;
        }
        p = bar != NULL ? bar + 1 : NULL;
    }
    return unknown_choice(opt, text);
}

static tt_status read_str(const tt_opt *opt, const char *text, tt_arena *arena,
                          tt_opt_value *value)
{
    (void)opt;
    value->str = tt_arena_strdup(arena, text);
    return value->str != NULL ? TT_OK : TT_ERR_NOMEM;
}

// Reads one number at `p` into entry i of a list and says what it is.
typedef bool scan_entry_fn(const char *p, const char **end, tt_opt_value *list,
                           int64_t i, double *number);

static bool scan_i64s(const char *p, const char **end, tt_opt_value *list,
                      int64_t i, double *number)
{
    list->i64s.n = i + 1;
    if (!scan_i64(p, end, &list->i64s.v[i]))
        return false;
    *number = (double)list->i64s.v[i];
    return true;
}

static bool scan_f64s(const char *p, const char **end, tt_opt_value *list,
                      int64_t i, double *number)
{
    list->f64s.n = i + 1;
    if (!scan_f64(p, end, &list->f64s.v[i]))
        return false;
    *number = list->f64s.v[i];
    return true;
}

static tt_status read_list(const tt_opt *opt, const char *text,
                           scan_entry_fn *scan, const char *allowed,
                           tt_opt_value *list)
{
    const char *p = skip_blanks(text);
    const bool has_bracket = *p == '[';
    const char stop = has_bracket ? ']' : '\0';
    double number = 0;
    p = skip_blanks(p + has_bracket);
    for (int64_t i = 0; *p != stop; i++) {
        if (i == TT_I64S_MAX)
            return tt_fail(TT_ERR_ARG, "%s: \"%s\" has more than %d numbers",
                           opt->name, text, TT_I64S_MAX);
        if (!scan(p, &p, list, i, &number))
            return fail_value(opt, text, allowed);
        if (!is_in_range(opt, number))
            return fail_range(opt, text, number);
        p = skip_blanks(p);
        if (*p == stop)
            break;
        if (*p++ != ',')
            return fail_value(opt, text, allowed);
        p = skip_blanks(p);
        if (*p == stop)
            return fail_value(opt, text, allowed);
    }
    if (has_bracket && *skip_blanks(p + 1) != '\0')
        return fail_value(opt, text, allowed);
    return TT_OK;
}

static tt_status read_i64s(const tt_opt *opt, const char *text, tt_arena *arena,
                           tt_opt_value *value)
{
    (void)arena;
    *value = (tt_opt_value){.i64s = {0}};
    return read_list(opt, text, scan_i64s,
                     "a list of whole numbers such as 3,3", value);
}

static tt_status read_f64s(const tt_opt *opt, const char *text, tt_arena *arena,
                           tt_opt_value *value)
{
    (void)arena;
    *value = (tt_opt_value){.f64s = {0}};
    return read_list(opt, text, scan_f64s, "a list of numbers such as 0.5,0.25",
                     value);
}

static void print_choice(const char *choices, int index, tt_str *out)
{
    const char *p = choices;
    for (; index > 0 && p != NULL; index--) {
        p = strchr(p, '|');
        p = p != NULL ? p + 1 : NULL;
    }
    if (p != NULL)
        tt_str_add_bytes(out, p, (int64_t)strcspn(p, "|"));
}

static void print_i64s(const tt_i64s *list, tt_str *out)
{
    if (list->n == 0)
        tt_str_add(out, "[]");
    for (int64_t i = 0; i < list->n; i++)
        tt_str_addf(out, "%s%lld", i > 0 ? "," : "", (long long)list->v[i]);
}

static void print_f64s(const tt_f64s *list, tt_str *out)
{
    if (list->n == 0)
        tt_str_add(out, "[]");
    for (int64_t i = 0; i < list->n; i++) {
        tt_str_add(out, i > 0 ? "," : "");
        tt_str_add_f64(out, list->v[i]);
    }
}

tt_status tt_opt_value_read(const tt_opt *opt, const char *text,
                            tt_arena *arena, tt_opt_value *value)
{
    typedef tt_status read_fn(const tt_opt *, const char *, tt_arena *,
                              tt_opt_value *);
    static read_fn *const readers[] = {
        [TT_OPT_I64] = read_i64,   [TT_OPT_F64] = read_f64,
        [TT_OPT_BOOL] = read_bool, [TT_OPT_CHOICE] = read_choice,
        [TT_OPT_STR] = read_str,   [TT_OPT_I64S] = read_i64s,
        [TT_OPT_F64S] = read_f64s,
    };
    return readers[opt->type](opt, text, arena, value);
}

void tt_opt_value_store(const tt_opt *opt, const tt_opt_value *value,
                        void *params)
{
    memcpy((char *)params + opt->offset, value, member_bytes(opt));
}

void tt_opt_value_load(const tt_opt *opt, const void *params,
                       tt_opt_value *value)
{
    memcpy(value, (const char *)params + opt->offset, member_bytes(opt));
}

void tt_opt_value_print(const tt_opt *opt, const tt_opt_value *value,
                        tt_str *out)
{
    switch (opt->type) {
    case TT_OPT_I64:
        tt_str_addf(out, "%lld", (long long)value->i64);
        break;
    case TT_OPT_F64:
        tt_str_add_f64(out, value->f64);
        break;
    case TT_OPT_BOOL:
        tt_str_add(out, value->is_true ? "true" : "false");
        break;
    case TT_OPT_CHOICE:
        print_choice(opt->choices, value->choice, out);
        break;
    case TT_OPT_STR:
        tt_str_add(out, value->str != NULL ? value->str : "");
        break;
    case TT_OPT_I64S:
        print_i64s(&value->i64s, out);
        break;
    case TT_OPT_F64S:
        print_f64s(&value->f64s, out);
        break;
    }
}
