// region - see the header.
//
// A box is copied in runs. From the innermost factor outwards, factors that both sides
// hold completely are contiguous in memory on both sides, so they and the next factor
// are one run. The factors outside of that are walked one by one.

#include "traffic/region.h"

tt_part tt_part_of(const tt_type *type, const tt_mesh *mesh, int rank)
{
    tt_local local;
    tt_local_of(type, mesh, rank, &local);
    tt_part p = {.n = local.gap == 0 ? 1 : 2};
    tt_region all = {.n = local.shape.n_factors};
    for (int f = 0; f < all.n; f++) {
        all.origin[f] = local.origin[f];
        all.size[f] = local.shape.factor[f].size;
    }
    for (int i = 0; i < p.n; i++)
        p.box[i] = p.home[i] = all;
    if (p.n == 2) {
        const int f = local.turn_factor;
        p.box[0].size[f] = local.turn;
        p.box[1].size[f] -= local.turn;
        p.box[1].origin[f] = tt_local_at(&local, f, local.turn);
        p.home[1].origin[f] += local.gap;
    }
    return p;
}

int64_t tt_part_count(const tt_part *part)
{
    return tt_region_count(&part->home[0]);
}

tt_common tt_part_common(const tt_part *a, const tt_part *b)
{
    tt_common c = {0};
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t k = 0; k < b->n; k++) {
            const tt_region box = tt_region_common(&a->box[i], &b->box[k]);
            if (tt_region_count(&box) == 0)
                continue;
            c.count += tt_region_count(&box);
            c.box[c.n] = box;
            c.a[c.n] = i;
            c.b[c.n++] = k;
        }
    return c;
}

int64_t tt_region_count(const tt_region *r)
{
    int64_t n = 1;
    for (int f = 0; f < r->n; f++)
        n *= r->size[f];
    return n;
}

tt_region tt_region_common(const tt_region *a, const tt_region *b)
{
    tt_region r = {.n = a->n};
    for (int f = 0; f < r.n; f++) {
        const int64_t a_end = a->origin[f] + a->size[f];
        const int64_t b_end = b->origin[f] + b->size[f];
        const int64_t end = a_end < b_end ? a_end : b_end;
        r.origin[f] = a->origin[f] > b->origin[f] ? a->origin[f] : b->origin[f];
        r.size[f] = end > r.origin[f] ? end - r.origin[f] : 0;
    }
    return r;
}

int64_t tt_region_first(const tt_region *part, const tt_region *whole)
{
    int64_t at = 0;
    for (int f = 0; f < whole->n; f++)
        at = at * whole->size[f] + part->origin[f] - whole->origin[f];
    return at;
}

// Factors from the returned one on are complete in `whole`.
static int complete_from(const tt_region *part, const tt_region *whole)
{
    int f = whole->n;
    while (f > 0 && part->size[f - 1] == whole->size[f - 1])
        f--;
    return f;
}

bool tt_region_is_run(const tt_region *part, const tt_region *whole,
                      int64_t *first_out)
{
    *first_out = tt_region_first(part, whole);
    for (int f = complete_from(part, whole) - 2; f >= 0; f--)
        if (part->size[f] != 1)
            return false;
    return true;
}

// The part's run number r: all of it but the outer factors, which are fixed.
static tt_region run_of(const tt_region *part, int outer, int64_t r)
{
    tt_region run = *part;
    for (int f = outer - 1; f >= 0; f--) {
        run.origin[f] += r % part->size[f];
        run.size[f] = 1;
        r /= part->size[f];
    }
    return run;
}

void tt_region_fold(const tt_region *part, tt_fold fold, tt_region_end to,
                    tt_region_end from)
{
    const int a = complete_from(part, to.box);
    const int b = complete_from(part, from.box);
    const int most = a > b ? a : b;
    const int outer = most > 0 ? most - 1 : 0;
    const int64_t bytes = tt_num_bytes(fold.type);
    int64_t n = tt_region_count(part) > 0 ? 1 : 0;
    for (int f = 0; f < outer; f++)
        n *= part->size[f];
    for (int64_t r = 0; r < n; r++) {
        const tt_region run = run_of(part, outer, r);
        tt_fold_into(
            fold, (char *)to.data + tt_region_first(&run, to.box) * bytes,
            (const char *)from.data + tt_region_first(&run, from.box) * bytes,
            tt_region_count(&run) * bytes);
    }
}

void tt_region_strides(const tt_region *box, int64_t *stride_out)
{
    int64_t at = 1;
    for (int f = box->n - 1; f >= 0; f--) {
        stride_out[f] = at;
        at *= box->size[f];
    }
}
