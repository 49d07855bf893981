#include "cli/columns.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool has_room(tt_columns *c)
{
    if (c->n_cells < c->capacity)
        return true;
    const int64_t more = 2 * c->capacity + 64;
    const char **cell = tt_arena_alloc(c->arena, more * (int64_t)sizeof(*cell));
    if (cell == NULL)
        return false;
    if (c->n_cells > 0)
        memcpy(cell, c->cell, (size_t)c->n_cells * sizeof(*cell));
    c->cell = cell;
    c->capacity = more;
    return true;
}

void tt_columns_add(tt_columns *c, const char *text)
{
    tt_str clean = {0};
    tt_term_add_foreign(text, false, &clean);
    const char *copy = tt_str_status(&clean) == TT_OK
                           ? tt_arena_strdup(c->arena, tt_str_text(&clean))
                           : NULL;
    tt_str_fini(&clean);
    if (copy == NULL || !has_room(c))
        c->status = tt_fail(TT_ERR_NOMEM, "no memory for a table");
    else
        c->cell[c->n_cells++] = copy;
}

void tt_columns_addf(tt_columns *c, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    tt_columns_add(c, text);
}

void tt_columns_add_number(tt_columns *c, double value, int digits)
{
    if (isnan(value))
        tt_columns_add(c, "-");
    else
        tt_columns_addf(c, "%.*g", digits, value);
}

static int64_t width_of(const tt_columns *c, int column)
{
    int64_t width = 0;
    for (int64_t i = column; i < c->n_cells; i += c->n) {
        const int64_t w = tt_term_columns(c->cell[i]);
        width = w > width ? w : width;
    }
    return width;
}

// Bit i: column i is left out, so that the others fit.
static uint64_t left_out(const tt_columns *c)
{
    uint64_t out = 0;
    int64_t width = -2;
    for (int i = 0; i < c->n; i++)
        width += width_of(c, i) + 2;
    for (int i = 0; i < 8 && c->drop[i] > 0 && c->width > 0; i++)
        if (width > c->width) {
            out |= (uint64_t)1 << c->drop[i];
            width -= width_of(c, c->drop[i]) + 2;
        }
    return out;
}

static void print_cell(const tt_columns *c, const tt_term *term, int64_t i,
                       uint64_t hidden, tt_str *out)
{
    const int column = (int)(i % c->n);
    const bool is_last = column == c->n - 1;
    if (hidden >> column & 1) {
        tt_str_add(out, column == c->n - 1 ? "\n" : "");
        return;
    }
    const bool is_right = c->right >> column & 1;
    const int gap = (int)(width_of(c, column) - tt_term_columns(c->cell[i]));
    if (is_right)
        tt_str_addf(out, "%*s", gap, "");
    tt_term_add(term, i < c->n ? TT_STYLE_DIM : TT_STYLE_NONE, c->cell[i], out);
    if (!is_right && !is_last)
        tt_str_addf(out, "%*s", gap, "");
    tt_str_add(out, is_last ? "\n" : "  ");
}

tt_status tt_columns_print(const tt_columns *c, const tt_term *term,
                           tt_str *out)
{
    if (c->status != TT_OK)
        return c->status;
    const uint64_t hidden = left_out(c);
    for (int64_t i = 0; i < c->n_cells; i++)
        print_cell(c, term, i, hidden, out);
    return tt_str_status(out);
}
