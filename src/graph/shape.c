// shape - text, extents and strides of shapes.

#include "graph/shape.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int64_t tt_shape_dim(const tt_shape *shape, int d)
{
    int64_t size = 1;
    for (int f = shape->first[d]; f < shape->first[d + 1]; f++)
        size *= shape->factor[f].size;
    return size;
}

int64_t tt_shape_count(const tt_shape *shape)
{
    int64_t count = 1;
    for (int f = 0; f < shape->n_factors; f++)
        count *= shape->factor[f].size;
    return count;
}

bool tt_shape_same_dims(const tt_shape *a, const tt_shape *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (tt_shape_dim(a, d) != tt_shape_dim(b, d))
            return false;
    return true;
}

bool tt_shape_equal(const tt_shape *a, const tt_shape *b)
{
    if (a->ndim != b->ndim || a->n_factors != b->n_factors)
        return false;
    for (int d = 0; d <= a->ndim; d++)
        if (a->first[d] != b->first[d])
            return false;
    for (int f = 0; f < a->n_factors; f++)
        if (a->factor[f].size != b->factor[f].size ||
            strcmp(a->factor[f].name, b->factor[f].name) != 0)
            return false;
    return true;
}

tt_status tt_shape_check(const tt_shape *shape)
{
    int64_t count = 1;
    for (int f = 0; f < shape->n_factors; f++) {
        const tt_factor *factor = &shape->factor[f];
        if (factor->name[0] == '\0')
            return tt_fail(TT_ERR_ARG, "a dimension has no name");
        if (factor->size < 1)
            return tt_fail(TT_ERR_ARG, "dimension %s has size %lld, not >= 1",
                           factor->name, (long long)factor->size);
        if (factor->size > ((int64_t)1 << 62) / count)
            return tt_fail(TT_ERR_ARG, "a tensor with %s:%lld is too large",
                           factor->name, (long long)factor->size);
        count *= factor->size;
        for (int g = 0; g < f; g++)
            if (strcmp(shape->factor[g].name, factor->name) == 0)
                return tt_fail(TT_ERR_ARG,
                               "the name %s stands twice in one shape",
                               factor->name);
    }
    return TT_OK;
}

static tt_status add_factor(tt_shape *shape, const char *name, int64_t n,
                            int64_t size)
{
    if (shape->n_factors == TT_MAX_FACTORS)
        return tt_fail(TT_ERR_ARG, "a shape has more than %d factors",
                       TT_MAX_FACTORS);
    if (n < 1 || n >= TT_NAME_BYTES)
        return tt_fail(TT_ERR_ARG,
                       "dimension name \"%.*s\" has not 1 to %d letters",
                       (int)n, name, TT_NAME_BYTES - 1);
    tt_factor *factor = &shape->factor[shape->n_factors++];
    *factor = (tt_factor){.size = size};
    memcpy(factor->name, name, (size_t)n);
    return TT_OK;
}

static tt_status end_dim(tt_shape *shape)
{
    if (shape->ndim == TT_MAX_DIMS)
        return tt_fail(TT_ERR_ARG, "a shape has more than %d dimensions",
                       TT_MAX_DIMS);
    shape->ndim++;
    shape->first[shape->ndim] = (uint8_t)shape->n_factors;
    return TT_OK;
}

// Reads "name:size" and returns where it ends.
static tt_status parse_factor(const char **text, tt_shape *shape)
{
    const char *name = *text;
    const char *p = name;
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    char *end = NULL;
    if (*p != ':' || !isdigit((unsigned char)p[1]))
        return tt_fail(TT_ERR_ARG, "\"%s\" is not a shape like a:2 b:3.c:4",
                       name);
    const long long size = strtoll(p + 1, &end, 10);
    *text = end;
    return add_factor(shape, name, p - name, size);
}

tt_status tt_shape_parse(const char *text, tt_shape *shape_out)
{
    tt_shape shape = {0};
    for (;;) {
        while (*text == ' ')
            text++;
        if (*text == '\0')
            break;
        TT_TRY(parse_factor(&text, &shape));
        while (*text == '.') {
            text++;
            TT_TRY(parse_factor(&text, &shape));
        }
        if (*text != ' ' && *text != '\0')
            return tt_fail(TT_ERR_ARG, "\"%s\" does not belong in a shape",
                           text);
        TT_TRY(end_dim(&shape));
    }
    TT_TRY(tt_shape_check(&shape));
    *shape_out = shape;
    return TT_OK;
}

void tt_shape_print(const tt_shape *shape, tt_str *out)
{
    for (int d = 0; d < shape->ndim; d++)
        for (int f = shape->first[d]; f < shape->first[d + 1]; f++)
            tt_str_addf(out, "%s%s:%lld",
                        f > shape->first[d] ? "."
                        : d > 0             ? " "
                                            : "",
                        shape->factor[f].name,
                        (long long)shape->factor[f].size);
}

tt_status tt_shape_push_dim(tt_shape *shape, const tt_shape *from, int d)
{
    for (int f = from->first[d]; f < from->first[d + 1]; f++)
        TT_TRY(add_factor(shape, from->factor[f].name,
                          (int64_t)strlen(from->factor[f].name),
                          from->factor[f].size));
    return end_dim(shape);
}

tt_status tt_shape_push(tt_shape *shape, const char *name, int64_t size)
{
    TT_TRY(add_factor(shape, name, (int64_t)strlen(name), size));
    return end_dim(shape);
}

tt_shape tt_shape_drop(const tt_shape *shape, int d)
{
    tt_shape out = {0};
    for (int i = 0; i < shape->ndim; i++)
        if (i != d)
            (void)tt_shape_push_dim(&out, shape, i); // cannot outgrow `shape`
    return out;
}

int tt_shape_find(const tt_shape *shape, const char *name)
{
    for (int f = 0; f < shape->n_factors; f++)
        if (strcmp(shape->factor[f].name, name) == 0)
            return f;
    return -1;
}

int tt_shape_dim_of(const tt_shape *shape, int f)
{
    int d = 0;
    while (d + 1 < shape->ndim && shape->first[d + 1] <= f)
        d++;
    return d;
}

void tt_shape_strides(const tt_shape *shape, int64_t stride_out[TT_MAX_DIMS])
{
    int64_t stride = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        stride_out[d] = stride;
        stride *= tt_shape_dim(shape, d);
    }
}
