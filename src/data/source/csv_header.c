// csv_header - looks at the first rows. A first row that is taken for a sample adds
// one wrong sample; a sample that is taken for a header is lost. Neither would be
// noticed, so the rules in the header file want clear evidence.

#include "data/source/csv_header.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { ROWS = 1000 }; // that are looked at

bool tt__csv_is_label_name(const tt_csv_field *field)
{
    static const char *const names[] = {"label",  "labels",   "class",
                                        "target", "category", "y"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (field->n == (int64_t)strlen(names[i]) &&
            strncasecmp(field->p, names[i], (size_t)field->n) == 0)
            return true;
    return false;
}

typedef struct row {
    bool has_texts;    // beside the label
    bool is_quoted;    // every field
    bool is_counted;   // 0, 1, 2, ... beside the label
    bool counts_label; // and it goes on there
    tt_csv_field label;
} row;

static row read_row(const tt_csv *csv, int64_t *at, int64_t n_columns,
                    int64_t label, int64_t user)
{
    row r = {.is_quoted = true, .is_counted = true};
    bool has_more = true;
    for (int64_t column = 0; has_more && column < n_columns; column++) {
        tt_csv_field field;
        double number = 0;
        has_more = tt_csv_next(csv, at, &field);
        r.is_quoted = r.is_quoted && field.is_quoted;
        if (column == user)
            continue;
        const bool is_number = tt_csv_number(&field, &number);
        const bool is_next = is_number && number == (double)column;
        if (column == label) {
            r.label = tt_csv_trim(field);
            r.counts_label = is_next;
            continue;
        }
        r.has_texts = r.has_texts || !is_number;
        r.is_counted = r.is_counted && is_next;
    }
    while (has_more) {
        tt_csv_field field;
        has_more = tt_csv_next(csv, at, &field);
    }
    return r;
}

static bool is_text(const tt_csv_field *field)
{
    double number = 0;
    return !tt_csv_number(field, &number);
}

static bool is_same(const tt_csv_field *a, const tt_csv_field *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, (size_t)a->n) == 0);
}

bool tt__csv_has_header(const tt_csv *csv, int64_t n_columns, int64_t label,
                        int64_t user)
{
    int64_t at = 0, n = 0;
    const row first = read_row(csv, &at, n_columns, label, user);
    bool has_numbers = true, is_alone = true, is_quoted = true;
    if (first.has_texts)
        return true;
    for (; n < ROWS && !tt_csv_is_end(csv, at); n++) {
        const row next = read_row(csv, &at, n_columns, label, user);
        has_numbers = has_numbers && !is_text(&next.label);
        is_alone = is_alone && !is_same(&first.label, &next.label);
        is_quoted = is_quoted && next.is_quoted;
    }
    if (n == 0)
        return false; // one row is a sample
    if (first.is_quoted && !is_quoted)
        return true;
    if (is_text(&first.label))
        return has_numbers ||
               (is_alone &&
                (first.is_counted || tt__csv_is_label_name(&first.label)));
    return first.is_counted && first.counts_label &&
           n_columns >= TT_CSV_COUNTED;
}
