// npy_header - a Python dictionary of three entries, read strictly.
//
//   \x93NUMPY, version, 0, length (u16; u32 from version 2 on), then
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } blanks \n

#include "data/source/npy_header.h"

#include <string.h>

enum { PREFIX = 8 };

typedef struct reader {
    const char *p, *end;
    bool has_descr, has_order, has_shape;
} reader;

static void skip_blanks(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t'))
        r->p++;
}

static bool take(reader *r, const char *text)
{
    const size_t n = strlen(text);
    skip_blanks(r);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, text, n) != 0)
        return false;
    r->p += n;
    return true;
}

static tt_status expected(const char *what)
{
    return tt_fail(TT_ERR_ARG, "its header is no .npy header: %s", what);
}

// A string in quotes of either kind, at most 15 characters.
static tt_status read_text(reader *r, char text[16])
{
    skip_blanks(r);
    const char quote = r->p < r->end ? *r->p : '\0';
    if (quote != '\'' && quote != '"')
        return expected("a text in quotes is missing");
    const char *from = ++r->p;
    while (r->p < r->end && *r->p != quote)
        r->p++;
    const int64_t n = r->p - from;
    if (r->p == r->end || n > 15)
        return expected("a text has no end, or is too long");
    memcpy(text, from, (size_t)n);
    text[n] = '\0';
    r->p++;
    return TT_OK;
}

static tt_status read_descr(reader *r, tt_array *a)
{
    char text[16];
    skip_blanks(r);
    if (r->p < r->end && *r->p == '[')
        return tt_fail(TT_ERR_ARG, "it holds structures; only plain numbers "
                                   "can be used");
    TT_TRY(read_text(r, text));
    const char order = text[0], kind = text[0] != '\0' ? text[1] : '\0';
    const int bytes = kind != '\0' ? text[2] - '0' : 0;
    const bool is_size = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    const bool is_known = strchr("<>|=", order) != NULL && is_size &&
                          text[3] == '\0' &&
                          ((kind == 'b' && bytes == 1) || kind == 'i' ||
                           kind == 'u' || (kind == 'f' && bytes >= 2));
    if (!is_known)
        return tt_fail(TT_ERR_ARG,
                       "it holds numbers of type %s; whole numbers, f2, f4 and "
                       "f8 can be used",
                       text);
    a->type = (tt_number){kind == 'b' ? 'u' : kind, bytes, order == '>'};
    return TT_OK;
}

static tt_status read_size(reader *r, int64_t *size_out)
{
    int64_t size = 0;
    const char *from = r->p;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, *r->p - '0', &size))
            return expected("a size is too large");
    if (r->p == from)
        return expected("a size is missing");
    r->p += r->p < r->end && *r->p == 'L'; // of Python 2
    *size_out = size;
    return TT_OK;
}

static tt_status read_shape(reader *r, tt_array *a)
{
    if (!take(r, "("))
        return expected("the shape is no list of sizes");
    for (a->ndim = 0; !take(r, ")"); a->ndim++) {
        if (a->ndim == TT_ARRAY_NDIM)
            return tt_fail(TT_ERR_ARG, "it has more than %d dimensions",
                           TT_ARRAY_NDIM);
        skip_blanks(r);
        TT_TRY(read_size(r, &a->dim[a->ndim]));
        if (!take(r, ",") && !take(r, ")"))
            return expected("the shape has no end");
        if (r->p[-1] == ')') {
            a->ndim++;
            break;
        }
    }
    if (a->ndim == 0)
        return tt_fail(TT_ERR_ARG, "it holds one number and no samples");
    return TT_OK;
}

static tt_status read_entry(reader *r, tt_array *a)
{
    char key[16];
    TT_TRY(read_text(r, key));
    if (!take(r, ":"))
        return expected("a colon is missing");
    if (strcmp(key, "descr") == 0 && !r->has_descr) {
        r->has_descr = true;
        return read_descr(r, a);
    }
    if (strcmp(key, "shape") == 0 && !r->has_shape) {
        r->has_shape = true;
        return read_shape(r, a);
    }
    if (strcmp(key, "fortran_order") != 0 || r->has_order)
        return expected("an entry is unknown or stands there twice");
    r->has_order = true;
    if (take(r, "True"))
        return tt_fail(TT_ERR_ARG, "it is in Fortran order; save it with "
                                   "numpy.ascontiguousarray");
    return take(r, "False") ? TT_OK : expected("the order is no truth value");
}

static tt_status read_dictionary(reader *r, tt_array *a)
{
    if (!take(r, "{"))
        return expected("a { is missing");
    while (!take(r, "}")) {
        TT_TRY(read_entry(r, a));
        if (!take(r, ",") && !(r->p < r->end && *r->p == '}'))
            return expected("a comma is missing");
    }
    skip_blanks(r);
    if (r->p != r->end)
        return expected("something follows its end");
    if (!r->has_descr || !r->has_order || !r->has_shape)
        return expected("type, order or shape is missing");
    return TT_OK;
}

tt_status tt__npy_read(tt_array *array)
{
    const tt_blob *b = &array->blob;
    if (b->n < PREFIX + 4 || memcmp(b->p, "\x93NUMPY", 6) != 0)
        return tt_fail(TT_ERR_ARG, "not a .npy file");
    const int version = b->p[6];
    if (version < 1 || version > 3 || b->p[7] != 0)
        return tt_fail(TT_ERR_ARG,
                       "a .npy file of version %d.%d; 1 to 3 are "
                       "known",
                       version, b->p[7]);
    const int64_t start = PREFIX + (version == 1 ? 2 : 4);
    const int64_t n = version == 1 ? b->p[PREFIX] | b->p[PREFIX + 1] << 8
                                   : (int64_t)tt_u32_at(b->p + PREFIX);
    if (n > b->n - start)
        return tt_fail(TT_ERR_ARG,
                       "its header should have %lld bytes and %lld follow",
                       (long long)n, (long long)(b->n - start));
    const char *text = (const char *)b->p + start;
    reader r = {.p = text, .end = text + n};
    TT_TRY(read_dictionary(&r, array));
    return tt__array_check(array, start + n);
}
