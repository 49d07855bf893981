// csv_table - the first row, the label's column, and one pass that checks all.
//
// All rows are checked when the file is opened, so a bad field in row 900,000 is found
// before training and not hours later. The place of every STRIDE-th row is kept, and a
// row is found by skipping a few from there.

#include "data/source/csv_table.h"

#include "base/alloc.h"
#include "data/format.h"
#include "data/source/csv_header.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { STRIDE = 16, SHOWN = 40 };

// ---- the first row -----------------------------------------------------------

static bool field_is(const tt_csv_field *field, const char *text)
{
    return field->n == (int64_t)strlen(text) &&
           strncasecmp(field->p, text, (size_t)field->n) == 0;
}

// The column of the first row with that text, or -1.
static int64_t find_column(const tt_csv_table *t, const char *name)
{
    tt_csv_field field;
    int64_t at = 0;
    for (int64_t column = 0; column < t->n_columns; column++) {
        (void)tt_csv_next(&t->csv, &at, &field);
        if (field_is(&field, name))
            return column;
    }
    return -1;
}

static bool has_names(const tt_csv_table *t, tt_csv_header header)
{
    return header == TT_CSV_HEADER_YES || t->is_named ||
           (header == TT_CSV_HEADER_AUTO &&
            tt__csv_has_header(&t->csv, t->n_columns, t->label, t->user));
}

static bool read_index(const char *label, int64_t *index_out)
{
    char *end = NULL;
    if (!isdigit((unsigned char)label[0]) && label[0] != '-')
        return false;
    *index_out = strtoll(label, &end, 10);
    return *end == '\0';
}

// A column by number, below 0 counted from the end, or by its name in the first row.
static tt_status choose_column(tt_csv_table *t, tt_csv_header header,
                               const char *setting, const char *word,
                               int64_t *column_out)
{
    int64_t index = 0;
    if (read_index(word, &index)) {
        *column_out = index < 0 ? t->n_columns + index : index;
        return *column_out >= 0 && *column_out < t->n_columns
                   ? TT_OK
                   : tt_fail(TT_ERR_ARG,
                             "%s=%lld: there are %lld columns, from 0 on",
                             setting, (long long)index,
                             (long long)t->n_columns);
    }
    *column_out = header == TT_CSV_HEADER_NO ? -1 : find_column(t, word);
    t->is_named = true;
    return *column_out >= 0
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "no column of the first row is called \"%s\"; set %s "
                         "to a name or a number (from 0)",
                         word, setting);
}

static void choose_by_itself(tt_csv_table *t, tt_csv_header header)
{
    static const char *const names[] = {"label", "class", "target"};
    t->label = t->n_columns - (t->user == t->n_columns - 1 ? 2 : 1);
    t->has_header = has_names(t, header);
    for (size_t i = 0; t->has_header && i < sizeof names / sizeof *names; i++) {
        const int64_t column = find_column(t, names[i]);
        if (column >= 0) {
            t->label = column;
            return;
        }
    }
}

static tt_status choose_label(tt_csv_table *t, tt_csv_header header,
                              const char *label)
{
    if (label[0] == '\0') {
        choose_by_itself(t, header);
        return TT_OK;
    }
    TT_TRY(choose_column(t, header, "data.label", label, &t->label));
    t->has_header = has_names(t, header);
    return TT_OK;
}

static tt_status choose_user(tt_csv_table *t, tt_csv_header header,
                             const char *user)
{
    t->user = -1;
    if (user[0] == '\0')
        return TT_OK;
    if (t->n_columns < 3)
        return tt_fail(TT_ERR_ARG,
                       "it has two columns and data.user needs three: numbers, "
                       "a label and whose they are");
    return choose_column(t, header, "data.user", user, &t->user);
}

static tt_status read_first(tt_csv_table *t, tt_csv_header header,
                            const char *label, const char *user)
{
    tt_csv_field field;
    int64_t at = 0;
    if (tt_csv_is_end(&t->csv, 0))
        return tt_fail(TT_ERR_ARG, "it is empty");
    for (t->n_columns = 1; tt_csv_next(&t->csv, &at, &field); t->n_columns++) {
    }
    if (t->n_columns < 2)
        return tt_fail(TT_ERR_ARG,
                       "it has one column and samples need two: numbers and a "
                       "label; is data.separator another?");
    TT_TRY(choose_user(t, header, user));
    TT_TRY(choose_label(t, header, label));
    if (t->label == t->user)
        return tt_fail(TT_ERR_ARG,
                       "data.label and data.user are both column %lld; set "
                       "data.label to another",
                       (long long)t->label);
    t->first_row = t->has_header ? at : 0;
    return TT_OK;
}

// ---- all rows ----------------------------------------------------------------

// Rows are counted from 1, with the header, as editors show them.
static int64_t shown_row(const tt_csv_table *t)
{
    return t->n_rows + 1 + t->has_header;
}

static tt_status bad_field(const tt_csv_table *t, const tt_csv_field *field,
                           int64_t column)
{
    const int n = field->n < SHOWN ? (int)field->n : SHOWN;
    tt_csv_field name = {.p = ""};
    int64_t at = 0;
    for (int64_t i = 0; t->has_header && i <= column; i++)
        (void)tt_csv_next(&t->csv, &at, &name);
    const int name_n = name.n < SHOWN ? (int)name.n : SHOWN;
    return tt_fail(TT_ERR_ARG, "row %lld, column %lld%s%.*s%s: %s%.*s%s%s",
                   (long long)shown_row(t), (long long)column + 1,
                   name_n > 0 ? " (" : "", name_n, name.p,
                   name_n > 0 ? ")" : "", n > 0 ? "\"" : "", n, field->p,
                   n > 0 ? "\" " : "",
                   field->is_broken ? "has a quote too many or too few"
                   : n == 0         ? "it is empty"
                                    : "is not a number");
}

static tt_status check_label(tt_csv_table *t, tt_csv_field field)
{
    double value = 0;
    field = tt_csv_trim(field);
    if (field.is_broken || field.n == 0)
        return bad_field(t, &field, t->label);
    const bool is_number =
        tt_csv_number(&field, &value) && value >= 0 && value == floor(value);
    t->has_numbers = t->has_numbers && is_number;
    if (is_number && value >= TT_CSV_LABEL_MAX)
        return tt_fail(TT_ERR_ARG,
                       "row %lld has label %.0f, and classes are below %d; is "
                       "the label in another column (data.label)?",
                       (long long)shown_row(t), value, TT_CSV_LABEL_MAX);
    if (is_number && (int64_t)value >= t->n_labels)
        t->n_labels = (int64_t)value + 1;
    return TT_OK;
}

static tt_status check_user(const tt_csv_table *t, tt_csv_field field)
{
    field = tt_csv_trim(field);
    return field.is_broken || field.n == 0 ? bad_field(t, &field, t->user)
                                           : TT_OK;
}

static tt_status check_row(tt_csv_table *t, int64_t *at)
{
    tt_csv_field field;
    bool has_more = true;
    double value = 0;
    int64_t column = 0;
    for (; has_more && column < t->n_columns; column++) {
        has_more = tt_csv_next(&t->csv, at, &field);
        if (column == t->label) {
            TT_TRY(check_label(t, field));
            continue;
        }
        if (column == t->user) {
            TT_TRY(check_user(t, field));
            continue;
        }
        if (!tt_csv_number(&field, &value))
            return bad_field(t, &field, column);
        t->has_bytes =
            t->has_bytes && value >= 0 && value <= 255 && value == floor(value);
    }
    if (column == t->n_columns && !has_more)
        return TT_OK;
    for (; has_more; column++)
        has_more = tt_csv_next(&t->csv, at, &field);
    return tt_fail(
        TT_ERR_ARG, "row %lld has %lld fields and the first has %lld",
        (long long)shown_row(t), (long long)column, (long long)t->n_columns);
}

// Remembers where the row begins, if it is one of those.
static tt_status keep_place(tt_csv_table *t, int64_t at, int64_t *capacity)
{
    const int64_t i = t->n_rows / STRIDE;
    if (t->n_rows % STRIDE != 0)
        return TT_OK;
    if (i == *capacity) {
        const int64_t size = sizeof *t->place;
        const int64_t wanted = i == 0 ? 64 : 2 * i;
        int64_t *place = tt_realloc(t->place, i * size, wanted * size);
        if (place == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for the places of rows");
        t->place = place;
        *capacity = wanted;
    }
    t->place[i] = at;
    return TT_OK;
}

static tt_status check_rows(tt_csv_table *t)
{
    int64_t capacity = 0;
    t->has_numbers = t->has_bytes = true;
    for (int64_t at = t->first_row; !tt_csv_is_end(&t->csv, at); t->n_rows++) {
        TT_TRY(keep_place(t, at, &capacity));
        TT_TRY(check_row(t, &at));
    }
    return TT_OK;
}

static void skip_mark(tt_csv *csv)
{
    if (csv->n >= 3 && memcmp(csv->text, "\xef\xbb\xbf", 3) == 0) {
        csv->text += 3; // a byte order mark
        csv->n -= 3;
    }
}

tt_status tt_csv_table_open(tt_csv_table *table, const char *path,
                            char separator, tt_csv_header header,
                            const char *label, const char *user)
{
    table->path = path;
    TT_TRY(tt_blob_open(path, &table->blob));
    TT_TRY(tt_format_refuse(path, table->blob.p, table->blob.n, "a table"));
    table->csv = (tt_csv){.text = (const char *)table->blob.p,
                          .n = table->blob.n,
                          .separator = separator};
    skip_mark(&table->csv);
    tt_status status = read_first(table, header, label, user);
    if (status == TT_OK)
        status = check_rows(table);
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", path);
}

void tt_csv_table_close(tt_csv_table *table)
{
    tt_free(table->place);
    tt_blob_close(&table->blob);
    *table = (tt_csv_table){0};
}

int64_t tt_csv_table_row(const tt_csv_table *table, int64_t row)
{
    int64_t at = table->place[row / STRIDE];
    for (int64_t i = 0; i < row % STRIDE; i++)
        tt_csv_skip_row(&table->csv, &at);
    return at;
}

tt_csv_field tt_csv_table_field(const tt_csv_table *table, int64_t column,
                                int64_t *at)
{
    tt_csv_field field, found = {0};
    for (int64_t i = 0; i < table->n_columns; i++) {
        (void)tt_csv_next(&table->csv, at, &field);
        if (i == column)
            found = tt_csv_trim(field);
    }
    return found;
}
