// weights_stack - see the header.
//
// Stacking copies the data: the experts of a layer are not neighbours in the file.
// The parts are sorted by stack and number, so one pass finds missing and double
// experts.

#include "weights/weights_stack.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char mark[] = ".experts.";

typedef struct part {
    const char *whole; // the name without the number
    int64_t number;
    const tt_safetensor *tensor;
} part;

// The number in "a.experts.12.b", and where ".b" begins; -1: the name has none.
static int64_t number_of(const char *name, const char **after_out)
{
    const char *at = strstr(name, mark);
    int64_t number = 0;
    int digits = 0;
    if (at == NULL)
        return -1;
    for (at += strlen(mark); *at >= '0' && *at <= '9' && digits < 9; at++) {
        number = 10 * number + (*at - '0');
        digits++;
    }
    *after_out = at;
    return digits > 0 && *at == '.' ? number : -1;
}

const char *tt__stack_name(const char *name, tt_arena *arena)
{
    const char *after = NULL;
    if (number_of(name, &after) < 0)
        return NULL;
    const int before = (int)(strstr(name, mark) - name);
    return tt_arena_printf(arena, "%.*s.experts%s", before, name, after);
}

static int by_whole(const void *a, const void *b)
{
    const part *x = a, *y = b;
    const int order = strcmp(x->whole, y->whole);
    return order != 0              ? order
           : x->number < y->number ? -1
                                   : x->number > y->number;
}

// Moves the tensors of experts out of the list.
static tt_status find_parts(const tt_safetensor **tensor, int64_t *n,
                            tt_arena *arena, part *parts, int64_t *n_parts)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < *n; i++) {
        const char *name = tensor[i]->name, *after = NULL;
        const int64_t number = number_of(name, &after);
        if (number < 0) {
            tensor[kept++] = tensor[i];
            continue;
        }
        const char *whole = tt__stack_name(name, arena);
        if (whole == NULL)
            return TT_ERR_NOMEM;
        parts[(*n_parts)++] = (part){whole, number, tensor[i]};
    }
    *n = kept;
    return TT_OK;
}

static bool are_alike(const tt_safetensor *a, const tt_safetensor *b)
{
    bool same = a->ndim == b->ndim && strcmp(a->dtype, b->dtype) == 0 &&
                a->bytes == b->bytes;
    for (int64_t d = 0; same && d < a->ndim; d++)
        same = a->shape[d] == b->shape[d];
    return same;
}

static tt_status check(const part *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (p[i].number != i)
            return tt_fail(TT_ERR_ARG, "%s: expert %lld is %s", p[i].whole,
                           (long long)(p[i].number < i ? p[i].number : i),
                           p[i].number < i ? "there twice" : "missing");
        if (!are_alike(p[i].tensor, p[0].tensor))
            return tt_fail(TT_ERR_ARG,
                           "%s has another shape or type than that of expert 0",
                           p[i].tensor->name);
    }
    return TT_OK;
}

static tt_status stack(const part *p, int64_t n, tt_arena *arena, void **memory,
                       const tt_safetensor **out)
{
    const tt_safetensor *first = p[0].tensor;
    tt_safetensor *t = tt_arena_alloc(arena, sizeof *t);
    int64_t *shape =
        tt_arena_alloc(arena, (first->ndim + 1) * (int64_t)sizeof *shape);
    if (t == NULL || shape == NULL)
        return TT_ERR_NOMEM;
    char *data = tt_alloc_aligned(n * first->bytes + 1, 64);
    *memory = data;
    if (data == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory for %lld experts",
                       p[0].whole, (long long)n);
    shape[0] = n;
    for (int64_t d = 0; d < first->ndim; d++)
        shape[d + 1] = first->shape[d];
    for (int64_t i = 0; i < n; i++)
        TT_TRY(tt_safetensor_copy(p[i].tensor, 0, first->bytes,
                                  data + i * first->bytes));
    *t = (tt_safetensor){.name = p[0].whole,
                         .dtype = first->dtype,
                         .ndim = first->ndim + 1,
                         .shape = shape,
                         .bytes = n * first->bytes,
                         .data = data};
    *out = t;
    return TT_OK;
}

static tt_status stack_all(const part *p, int64_t n_parts, tt_arena *arena,
                           tt__stacks *stacks, const tt_safetensor **tensor,
                           int64_t *n)
{
    for (int64_t i = 0, end; i < n_parts; i = end) {
        for (end = i + 1;
             end < n_parts && strcmp(p[end].whole, p[i].whole) == 0;)
            end++;
        TT_TRY(check(p + i, end - i));
        TT_TRY(stack(p + i, end - i, arena, &stacks->memory[stacks->n],
                     &tensor[*n]));
        stacks->n++;
        ++*n;
    }
    return TT_OK;
}

tt_status tt__weights_stack(const tt_safetensor **tensor, int64_t *n,
                            tt_arena *arena, tt__stacks *stacks)
{
    int64_t n_parts = 0;
    part *parts = tt_alloc((*n + 1) * (int64_t)sizeof *parts);
    stacks->memory =
        tt_arena_alloc(arena, (*n + 1) * (int64_t)sizeof *stacks->memory);
    tt_status status = parts == NULL || stacks->memory == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory for experts")
                           : find_parts(tensor, n, arena, parts, &n_parts);
    if (status == TT_OK && n_parts > 0) {
        qsort(parts, (size_t)n_parts, sizeof *parts, by_whole);
        status = stack_all(parts, n_parts, arena, stacks, tensor, n);
    }
    tt_free(parts);
    return status;
}

void tt__stacks_free(tt__stacks *stacks)
{
    for (int64_t i = 0; i < stacks->n; i++)
        tt_free_aligned(stacks->memory[i]);
}
