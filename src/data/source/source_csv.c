// csv - tables of numbers with a label in each row. Features are channels of one
// pixel; with data.shape they are an image. Labels are whole numbers, or texts that
// get numbers in the order of their bytes.

#include "base/alloc.h"
#include "data/source/csv_table.h"
#include "data/source/source.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS_MAX = 10000 };

typedef struct params {
    const char *label, *user;
    int header, separator;
    tt_i64s shape;
} params;

static const char separators[] = {',', ';', '\t', ' '};

typedef struct csv {
    tt_source source;
    tt_arena *arena;
    tt_csv_table table;
    int64_t first;
    bool is_pixels;       // bytes of an image, else floats
    int64_t n_texts;      // 0: labels are numbers
    tt_csv_field *sorted; // distinct labels
} csv;

// ---- labels that are texts ---------------------------------------------------

static int compare(const void *a, const void *b)
{
    const tt_csv_field *x = a, *y = b;
    const int64_t n = x->n < y->n ? x->n : y->n;
    const int order = memcmp(x->p, y->p, (size_t)n);
    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

static const tt_csv_field *find_text(const csv *c, const tt_csv_field *label)
{
    return bsearch(label, c->sorted, (size_t)c->n_texts, sizeof *c->sorted,
                   compare);
}

// Inserts what is not there yet.
static tt_status collect(csv *c, const tt_csv_table *t)
{
    int64_t byte = t->first_row;
    for (int64_t row = 0; row < t->n_rows; row++) {
        tt_csv_field label = tt_csv_table_field(t, t->label, &byte);
        if (c->n_texts > 0 && find_text(c, &label) != NULL)
            continue;
        if (c->n_texts == TEXTS_MAX)
            return tt_fail(TT_ERR_ARG,
                           "%s: there are more than %d different labels; is "
                           "the label in another column (data.label)?",
                           t->path, TEXTS_MAX);
        label.p = tt_arena_copy(c->arena, label.p, label.n);
        if (label.p == NULL)
            return TT_ERR_NOMEM;
        int64_t at = c->n_texts++;
        for (; at > 0 && compare(&c->sorted[at - 1], &label) > 0; at--)
            c->sorted[at] = c->sorted[at - 1];
        c->sorted[at] = label;
    }
    return TT_OK;
}

// The texts as names: a doubled quote becomes one.
static tt_status make_names(csv *c)
{
    const char **names =
        tt_arena_alloc(c->arena, c->n_texts * (int64_t)sizeof *names);
    if (names == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < c->n_texts; i++) {
        const tt_csv_field *f = &c->sorted[i];
        char *to = tt_arena_alloc(c->arena, f->n + 1);
        if (to == NULL)
            return TT_ERR_NOMEM;
        names[i] = to;
        for (int64_t k = 0; k < f->n; k++) {
            *to++ = f->p[k];
            k += f->is_quoted && f->p[k] == '"';
        }
    }
    c->source.class_name = names;
    return TT_OK;
}

// Over both splits, so that a class has one number.
static tt_status number_labels(csv *c, const tt_csv_table *other)
{
    const tt_csv_table *own = &c->table;
    if (own->has_numbers && (other->n_rows == 0 || other->has_numbers)) {
        c->source.classes =
            own->n_labels > other->n_labels ? own->n_labels : other->n_labels;
        return TT_OK;
    }
    c->sorted =
        tt_arena_alloc(c->arena, TEXTS_MAX * (int64_t)sizeof *c->sorted);
    if (c->sorted == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(collect(c, own));
    TT_TRY(collect(c, other));
    c->source.classes = c->n_texts;
    return make_names(c);
}

// ---- opening -----------------------------------------------------------------

static tt_status set_shape(csv *c, const tt_i64s *shape, bool has_bytes)
{
    tt_source *s = &c->source;
    const int64_t n = c->table.n_columns - (c->table.user >= 0 ? 2 : 1);
    s->channels = n;
    s->height = s->width = 1;
    if (shape->n == 0)
        return TT_OK;
    if (shape->n != 2 && shape->n != 3)
        return tt_fail(TT_ERR_ARG, "data.shape is height,width or "
                                   "channels,height,width");
    s->channels = shape->n == 3 ? shape->v[0] : 1;
    s->height = shape->v[shape->n - 2];
    s->width = shape->v[shape->n - 1];
    if (s->channels * s->height * s->width != n)
        return tt_fail(TT_ERR_ARG,
                       "%s: data.shape makes %lld numbers and a row has %lld "
                       "beside its label",
                       c->table.path,
                       (long long)(s->channels * s->height * s->width),
                       (long long)n);
    c->is_pixels = has_bytes;
    return TT_OK;
}

static tt_status open_table(tt_csv_table *table, const char *setting,
                            const char *path, const params *p)
{
    if (path[0] == '\0')
        return tt_fail(TT_ERR_ARG, "%s is not set: the file to read", setting);
    return tt_csv_table_open(table, path, separators[p->separator],
                             (tt_csv_header)p->header, p->label, p->user);
}

static tt_status fill(csv *c, const tt_source_request *r, const params *p,
                      tt_csv_table *other)
{
    const bool has_val = r->val[0] != '\0';
    const bool is_own = has_val && r->split == TT_SPLIT_VAL;
    TT_TRY(open_table(is_own ? other : &c->table, "data.path", r->path, p));
    if (has_val)
        TT_TRY(open_table(is_own ? &c->table : other, "data.val", r->val, p));
    if (has_val && other->n_columns != c->table.n_columns)
        return tt_fail(TT_ERR_ARG, "%s has %lld columns and %s %lld", r->path,
                       (long long)(is_own ? other : &c->table)->n_columns,
                       r->val,
                       (long long)(is_own ? &c->table : other)->n_columns);
    TT_TRY(number_labels(c, other));
    TT_TRY(set_shape(c, &p->shape,
                     c->table.has_bytes && (!has_val || other->has_bytes)));
    c->source.n = c->table.n_rows;
    if (!has_val)
        tt_source_part(r, c->table.n_rows, &c->first, &c->source.n);
    return TT_OK;
}

static void close_source(tt_source *source)
{
    csv *c = (csv *)source;
    tt_csv_table_close(&c->table);
    tt_arena_destroy(c->arena);
    tt_free(c);
}

extern const tt_source_def tt_source_csv;

static tt_status open_source(const tt_source_request *request,
                             const void *params_, tt_source **source_out)
{
    tt_csv_table other = {0};
    tt_status status = TT_ERR_NOMEM;
    csv *c = tt_alloc(sizeof *c);
    if (c == NULL)
        return tt_fail(status, "no memory for a source");
    c->source.def = &tt_source_csv;
    c->source.kind = TT_DATA_IMAGES;
    c->arena = tt_arena_create();
    if (c->arena == NULL)
        (void)tt_fail(status, "no memory for a source");
    else
        status = fill(c, request, params_, &other);
    tt_csv_table_close(&other);
    if (status != TT_OK) {
        close_source(&c->source);
        return status;
    }
    *source_out = &c->source;
    return TT_OK;
}

// ---- reading -----------------------------------------------------------------

static int32_t label_of(const csv *c, const tt_csv_field *field, double number)
{
    if (c->n_texts == 0)
        return (int32_t)number;
    const tt_csv_field trimmed = tt_csv_trim(*field);
    return (int32_t)(find_text(c, &trimmed) - c->sorted);
}

// Element `i` of the planes, wherever it stands in the image.
static void put(const csv *c, tt_image *out, int64_t i, double value)
{
    const int64_t plane = out->height * out->width;
    if (c->is_pixels)
        out->u8[i % plane * out->channels + i / plane] = (uint8_t)value;
    else
        out->f32[i] = (float)value;
}

static tt_status image(const tt_source *source, int64_t index, tt_image *out,
                       int32_t *label_out)
{
    const csv *c = (const csv *)source;
    const tt_csv_table *t = &c->table;
    tt_csv_field field;
    TT_TRY(tt_blob_check(&t->blob));
    TT_TRY(tt_image_reserve(out, source->channels, source->height,
                            source->width, !c->is_pixels));
    int64_t at = tt_csv_table_row(t, c->first + index), n = 0;
    for (int64_t column = 0; column < t->n_columns; column++) {
        double value = 0;
        (void)tt_csv_next(&t->csv, &at, &field);
        (void)tt_csv_number(&field, &value); // it was checked
        if (column == t->label)
            *label_out = label_of(c, &field, value);
        else if (column != t->user)
            put(c, out, n++, value);
    }
    return TT_OK;
}

static const char *user(const tt_source *source, int64_t index,
                        int64_t *bytes_out)
{
    const csv *c = (const csv *)source;
    if (c->table.user < 0)
        return NULL;
    int64_t at = tt_csv_table_row(&c->table, c->first + index);
    const tt_csv_field field =
        tt_csv_table_field(&c->table, c->table.user, &at);
    *bytes_out = field.n;
    return field.p;
}

static tt_status files(const tt_source *source, tt_file_list *list)
{
    return tt_file_list_add(list, ((const csv *)source)->table.path);
}

static const tt_opt options[] = {
    {"label", "",
     "the label's column, a name or a number from 0; else label, "
     "class, target, or the last",
     TT_OPT_STR, offsetof(params, label)},
    {"user", "",
     "the column that says whose a row is, a name or a number from 0: no "
     "feature, but what exchange.split=user asks",
     TT_OPT_STR, offsetof(params, user)},
    {"header", "auto", "whether the first row has names", TT_OPT_CHOICE,
     offsetof(params, header), "auto|yes|no"},
    {"separator", "comma", "what is between fields", TT_OPT_CHOICE,
     offsetof(params, separator), "comma|semicolon|tab|space"},
    {"shape", NULL,
     "rows are images: height,width or channels,height,width; "
     "0 to 255 are then bytes",
     TT_OPT_I64S, offsetof(params, shape), NULL, 1, 65536},
    {0},
};

const tt_source_def tt_source_csv = {
    .name = "csv",
    .doc = "Tables of numbers with a label in each row.",
    .options = options,
    .params_bytes = sizeof(params),
    .open = open_source,
    .close = close_source,
    .image = image,
    .user = user,
    .files = files,
};
