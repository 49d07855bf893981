// sites - conditions that the `can` functions of many kernels are made of.

#include "backend/sites.h"

#include "ops/nn/position.h"

#include <string.h>

static bool is_read(const tt_site *site, int i)
{
    const bool is_shape = i < 32 && (site->op->shape_only >> i & 1) != 0;
    return tt_site_has(site, i) && !is_shape;
}

static bool is_type(char code, tt_dtype dtype, tt_dtype first)
{
    const bool is_fast = dtype == TT_F32 || dtype == TT_BF16;
    const bool is_half = dtype == TT_F16;
    switch (code) {
    case 'x':
        return is_fast;
    case 't':
        return is_fast && dtype == first;
    case 'y':
        return is_fast || is_half;
    case 's':
        return (is_fast || is_half) && dtype == first;
    case 'f':
        return dtype == TT_F32;
    case 'b':
        return dtype == TT_BF16;
    case 'i':
        return dtype == TT_I32;
    case 'I':
        return dtype == TT_I64;
    case 'u':
        return dtype == TT_U8;
    default:
        return false;
    }
}

// The character for operand i; the last one stands for all that follow.
static char code_of(const char *codes, int i)
{
    const int n = (int)strlen(codes);
    return codes[i < n ? i : n - 1];
}

bool tt__site_has_types_in_layouts(const tt_site *site, const char *in,
                                   const char *out)
{
    const tt_dtype first = site->in[0].dtype;
    for (int i = 0; i < site->n_in; i++)
        if (is_read(site, i) &&
            !is_type(code_of(in, i), site->in[i].dtype, first))
            return false;
    for (int i = 0; i < site->n_out; i++)
        if (!is_type(code_of(out, i), site->out[i].dtype, first))
            return false;
    return true;
}

bool tt__site_is_plain(const tt_site *site)
{
    for (int i = 0; i < site->n_in; i++)
        if (is_read(site, i) && site->in[i].layout != 0)
            return false;
    for (int i = 0; i < site->n_out; i++)
        if (site->out[i].layout != 0)
            return false;
    return true;
}

bool tt__site_has_types(const tt_site *site, const char *in, const char *out)
{
    return tt__site_is_plain(site) &&
           tt__site_has_types_in_layouts(site, in, out);
}

int64_t tt__site_cols(const tt_site *site)
{
    const tt_operand *x = &site->in[0];
    return tt_operand_dim(x, x->local.shape.ndim - 1);
}

int64_t tt__site_rows(const tt_site *site)
{
    return tt_operand_count(&site->in[0]) / tt__site_cols(site);
}

bool tt__is_run(const tt_local *local, int d, int64_t *first_out)
{
    const int64_t n = tt_shape_dim(&local->shape, d);
    const int64_t first = tt_position_global(local, d, 0);
    *first_out = first;
    for (int64_t i = 1; i < n; i++)
        if (tt_position_global(local, d, i) != first + i)
            return false;
    return true;
}

bool tt__are_runs(const tt_local *local, int d, tt__site_runs *runs_out)
{
    const int64_t n = tt_shape_dim(&local->shape, d);
    tt__site_runs r = {.first = tt_position_global(local, d, 0)};
    *runs_out = r;
    for (int64_t i = 1; i < n; i++) {
        const int64_t ahead =
            tt_position_global(local, d, i) - r.first - i - r.gap;
        if (ahead < 0 || (ahead > 0 && r.gap > 0))
            return false;
        if (ahead > 0) {
            r.turn = i;
            r.gap = ahead;
        }
    }
    *runs_out = r;
    return true;
}
