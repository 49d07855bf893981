#include "cli/table.h"

#include <math.h>
#include <string.h>

enum { NAME_COLUMNS = 12, INDENT = 2, DEEP = 2 * INDENT };

// Bytes of the longest prefix of `text` that ends before a blank and fits `columns`. A
// single word that is longer is kept whole.
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

void tt_add_wrapped(tt_str *out, const char *text, const tt_wrapping *wrap)
{
    const int64_t all = wrap->width <= 0 ? INT32_MAX : wrap->width;
    int64_t room = all - wrap->used;
    for (bool is_first = true; is_first || *text != '\0'; is_first = false) {
        if (!is_first)
            tt_str_addf(out, "\n%s", wrap->indent);
        // A first word that does not fit after what is already on the line begins a
        // new line.
        int64_t n = line_length(text, room);
        const bool is_late =
            is_first && wrap->used > 0 && (int64_t)strcspn(text, " ") > room;
        n = is_late ? 0 : n;
        int64_t shown = n;
        while (shown > 0 && text[shown - 1] == ' ' && text[n] != '\0')
            shown--;
        tt_str_add_bytes(out, text, shown);
        text += n;
        while (*text == ' ')
            text++;
        room = all - tt_term_columns(wrap->indent);
        room = room < 1 ? 1 : room;
    }
}

enum { NARROW = 20 }; // columns that a value needs beside its name

void tt_table_row(const tt_term *term, const char *name, const char *value,
                  int width, tt_str *out)
{
    static const char blanks[] = "               ";
    const int64_t column = INDENT + NAME_COLUMNS + 1;
    const bool is_below = width > 0 && width - column < NARROW;
    tt_str_addf(out, "%*s", INDENT, "");
    tt_term_add(term, TT_STYLE_DIM, name, out);
    const int64_t named = tt_term_columns(name);
    if (is_below)
        tt_str_addf(out, "\n%*s", DEEP, "");
    else
        tt_str_addf(out, "%*s",
                    (int)(named < NAME_COLUMNS ? NAME_COLUMNS + 1 - named : 1),
                    "");
    const int64_t indent = is_below ? DEEP : column;
    const int64_t used =
        is_below || named < NAME_COLUMNS ? indent : INDENT + named + 1;
    tt_add_wrapped(
        out, value,
        &(tt_wrapping){.width = width,
                       .used = used,
                       .indent = blanks + sizeof blanks - 1 - indent});
    tt_str_add(out, "\n");
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
