// str - append-only text with doubling capacity and a sticky failure: after memory has
// run out, further calls do nothing, and one look at the status at the end is enough.

#include "base/str.h"

#include "base/alloc.h"
#include "base/arena.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(tt_str *s, int64_t more)
{
    if (s->status != TT_OK)
        return false;
    if (more <= s->capacity - s->n - 1)
        return true;
    int64_t capacity = s->capacity < 64 ? 64 : s->capacity * 2;
    if (capacity < s->n + more + 1)
        capacity = s->n + more + 1;
    char *text = tt_realloc(s->text, s->capacity, capacity);
    if (text == NULL) {
        s->status = tt_fail(TT_ERR_NOMEM,
                            "out of memory for a text of %lld "
                            "bytes",
                            (long long)capacity);
        return false;
    }
    s->text = text;
    s->capacity = capacity;
    return true;
}

void tt_str_add_bytes(tt_str *s, const char *bytes, int64_t n)
{
    if (!reserve(s, n))
        return;
    if (n > 0)
        memcpy(s->text + s->n, bytes, (size_t)n);
    s->n += n;
    s->text[s->n] = '\0';
}

void tt_str_add(tt_str *s, const char *text)
{
    tt_str_add_bytes(s, text, (int64_t)strlen(text));
}

void tt_str_addf(tt_str *s, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && reserve(s, n)) {
        vsnprintf(s->text + s->n, (size_t)n + 1, fmt, again);
        s->n += n;
    }
    va_end(again);
}

// The shortest text that is read back to the same number: more digits are tried until
// it is. At most 17 are needed.
void tt_str_add_f64(tt_str *s, double value)
{
    char text[40];
    const bool is_whole = fabs(value) < 1e15 && value == trunc(value);
    for (int digits = 1; digits <= 17; digits++) {
        if (is_whole) // 30, not 3e+01
            snprintf(text, sizeof(text), "%.0f", value);
        else
            snprintf(text, sizeof(text), "%.*g", digits, value);
        if (isnan(value) || strtod(text, NULL) == value)
            break;
    }
    char *comma = strchr(text, ','); // the host program's locale may use one
    if (comma != NULL)
        *comma = '.';
    tt_str_add(s, text);
}

const char *tt_str_text(const tt_str *s)
{
    return s->text != NULL ? s->text : "";
}

tt_status tt_str_status(const tt_str *s)
{
    return s->status;
}

void tt_str_inherit(tt_str *to, const tt_str *from)
{
    if (to->status == TT_OK)
        to->status = from->status;
}

void tt_str_clear(tt_str *s)
{
    s->n = 0;
    s->status = TT_OK;
    if (s->text != NULL)
        s->text[0] = '\0';
}

void tt_str_fini(tt_str *s)
{
    tt_free(s->text);
    *s = (tt_str){0};
}

const char *tt_str_keep(tt_str *s, tt_arena *arena)
{
    const char *text = tt_str_status(s) == TT_OK
                           ? tt_arena_strdup(arena, tt_str_text(s))
                           : NULL;
    tt_str_fini(s);
    return text;
}

bool tt_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}
