// layer_rows - see the header. Rows are compared with all earlier ones: a model has
// few kinds of rows, so no hash is needed.

#include "cli/layer_rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// The first part between dots that is a number: its length (0: there is none) and
// place.
static size_t find_number(const char *name, size_t *at_out)
{
    assert(name != NULL);
    for (const char *p = name; *p != '\0';) {
        const size_t n = strcspn(p, ".");
        if (n > 0 && n < 10 && strspn(p, "0123456789") == n) {
            *at_out = (size_t)(p - name);
            return n;
        }
        p += n + (p[n] == '.');
    }
    return 0;
}

static bool is_like(const tt_layer_rows *rows, const tt_layer_row *a,
                    const tt_layer_row *b)
{
    if ((a->after == NULL) != (b->after == NULL) ||
        strcmp(a->before, b->before) != 0 ||
        (a->after != NULL && strcmp(a->after, b->after) != 0))
        return false;
    for (int i = 1; i < rows->n_cells; i++)
        if (strcmp(a->cell[i], b->cell[i]) != 0)
            return false;
    return true;
}

// The list of numbers doubles: it is full when its length is a power of two.
static bool add_number(tt_arena *arena, tt_layer_row *row, int64_t number)
{
    if ((row->n & (row->n - 1)) == 0) {
        int64_t *more = tt_arena_alloc(
            arena, (int64_t)sizeof *more * (row->n == 0 ? 1 : 2 * row->n));
        if (more == NULL)
            return false;
        if (row->n > 0)
            memcpy(more, row->number, sizeof *more * (size_t)row->n);
        row->number = more;
    }
    row->number[row->n++] = number;
    return true;
}

static bool has_room(tt_layer_rows *rows)
{
    if (rows->n < rows->capacity)
        return true;
    const int64_t capacity = 2 * rows->capacity + 64;
    tt_layer_row *row =
        tt_arena_alloc(rows->arena, capacity * (int64_t)sizeof *row);
    if (row == NULL)
        return false;
    if (rows->n > 0)
        memcpy(row, rows->row, (size_t)rows->n * sizeof *row);
    rows->row = row;
    rows->capacity = capacity;
    return true;
}

static bool fill(tt_arena *arena, const char *name, tt_layer_row *row,
                 int64_t *number_out)
{
    size_t at = 0;
    const size_t n = find_number(name, &at);
    row->before = name;
    *number_out = 0;
    if (n == 0)
        return true;
    char *before = tt_arena_strdup(arena, name);
    if (before == NULL)
        return false;
    *number_out = strtoll(name + at, NULL, 10);
    before[at] = '\0';
    row->before = before;
    row->after = name + at + n;
    return true;
}

static bool add(tt_layer_rows *rows, const char *const *cell)
{
    tt_layer_row row = {0};
    int64_t number = 0;
    for (int i = 0; i < rows->n_cells; i++) {
        row.cell[i] = tt_arena_strdup(rows->arena, cell[i]);
        if (row.cell[i] == NULL)
            return false;
    }
    if (!fill(rows->arena, row.cell[0], &row, &number))
        return false;
    for (int64_t i = 0; i < rows->n; i++)
        if (is_like(rows, &rows->row[i], &row))
            return add_number(rows->arena, &rows->row[i], number);
    if (!has_room(rows) || !add_number(rows->arena, &row, number))
        return false;
    rows->row[rows->n++] = row;
    return true;
}

void tt_layer_rows_add(tt_layer_rows *rows, const char *const *cell)
{
    if (rows->status == TT_OK && !add(rows, cell))
        rows->status = tt_fail(TT_ERR_NOMEM, "no memory for a table");
}

// The smallest number above `above`; -1: none. Numbers come ascending, or descending
// where layers go backward, and a number may come several times.
static int64_t next_above(const tt_layer_row *row, int64_t above)
{
    int64_t next = -1;
    for (int64_t i = 0; i < row->n; i++)
        if (row->number[i] > above && (next < 0 || row->number[i] < next))
            next = row->number[i];
    return next;
}

void tt_layer_rows_name(const tt_layer_row *row, tt_str *out)
{
    tt_str_add(out, row->before);
    if (row->after == NULL)
        return;
    for (int64_t first = next_above(row, -1), last; first >= 0;) {
        last = first;
        while (next_above(row, last) == last + 1)
            last++;
        tt_str_addf(out, "%lld", (long long)first);
        if (last > first)
            tt_str_addf(out, "-%lld", (long long)last);
        first = next_above(row, last);
        tt_str_add(out, first >= 0 ? "," : "");
    }
    tt_str_add(out, row->after);
}
