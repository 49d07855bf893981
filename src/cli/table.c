#include "cli/table.h"

#include <math.h>
#include <string.h>

enum { NAME_COLUMNS = 12, INDENT = 2 };

// Bytes of the longest beginning of `text` that ends before a blank and has at
// most `columns` columns; a single word that is longer is kept whole.
static int64_t line_length(const char *text, int64_t columns)
{
    int64_t best = 0, column = 0, i = 0;
    for (; text[i] != '\0'; i++) {
        if (text[i] == ' ' && (column <= columns || best == 0))
            best = i;
        column += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (column > columns && best > 0)
            return best;
    }
    return i;
}

void tt_table_row(const tt_term *term, const char *name, const char *value,
                  int width, tt_str *out)
{
    const int64_t indent = INDENT + NAME_COLUMNS + 1;
    const int64_t room = width - indent;
    tt_str_addf(out, "%*s", INDENT, "");
    tt_term_add(term, TT_STYLE_DIM, name, out);
    const int64_t named = tt_term_columns(name);
    tt_str_addf(out, "%*s",
                (int)(named < NAME_COLUMNS ? NAME_COLUMNS + 1 - named : 1), "");
    const int64_t columns = width == 0 ? INT32_MAX : room < 20 ? 20 : room;
    for (bool is_first = true; is_first || *value != '\0'; is_first = false) {
        const int64_t n = line_length(value, columns);
        if (!is_first)
            tt_str_addf(out, "%*s", (int)indent, "");
        tt_str_add_bytes(out, value, n);
        tt_str_add(out, "\n");
        value += n;
        while (*value == ' ')
            value++;
    }
}

void tt_add_loss(tt_str *out, double loss)
{
    const bool is_usual = loss < 1e6 && loss > -1e6;
    tt_str_addf(out, is_usual ? "%.4f" : "%.3g", loss);
}

void tt_add_left(tt_str *out, double seconds)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e10) {
        tt_str_add(out, "?");
        return;
    }
    const int64_t s = (int64_t)(seconds + 0.5);
    if (s >= INT64_C(48) * 3600)
        tt_str_addf(out, "%lld d %lld h", (long long)(s / 86400),
                    (long long)(s / 3600 % 24));
    else if (s >= 3600)
        tt_str_addf(out, "%lld:%02lld:%02lld", (long long)(s / 3600),
                    (long long)(s / 60 % 60), (long long)(s % 60));
    else
        tt_str_addf(out, "%lld:%02lld", (long long)(s / 60),
                    (long long)(s % 60));
}

void tt_add_seconds(tt_str *out, double seconds)
{
    if (!isfinite(seconds) || seconds < 0)
        tt_str_add(out, "?");
    else if (seconds < 0.9995e-3)
        tt_str_addf(out, "%.0f us", seconds * 1e6);
    else if (seconds < 0.9995)
        tt_str_addf(out, "%.3g ms", seconds * 1e3);
    else if (seconds < 99.95)
        tt_str_addf(out, "%.1f s", seconds);
    else
        tt_add_left(out, seconds);
}

void tt_add_word(tt_str *out, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyz"
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-+=:@%,";
    if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
        tt_str_add(out, text);
        return;
    }
    tt_str_add(out, "'");
    for (const char *c = text; *c != '\0'; c++)
        if (*c == '\'')
            tt_str_add(out, "'\\''");
        else
            tt_str_add_bytes(out, c, 1);
    tt_str_add(out, "'");
}
