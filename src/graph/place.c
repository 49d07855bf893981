// place - blocks, windows and rotations: which entries a rank holds.

#include "graph/place.h"

bool tt_place_equal(const tt_place *a, const tt_place *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == TT_PARTIAL)
        return a->reduce == b->reduce;
    if (a->kind == TT_REPLICATE)
        return true;
    const tt_window *u = &a->window, *v = &b->window;
    return a->factor == b->factor && a->rotate == b->rotate &&
           a->part == b->part && a->parts == b->parts && u->out == v->out &&
           (u->out == 0 || (u->kernel == v->kernel && u->stride == v->stride &&
                            u->pad == v->pad && u->dilation == v->dilation));
}

void tt_place_print(const tt_place *place, const tt_shape *shape, tt_str *out)
{
    if (place->kind == TT_REPLICATE) {
        tt_str_add(out, "R");
    } else if (place->kind == TT_PARTIAL) {
        tt_str_add(out, place->reduce == TT_SUM ? "P(sum)" : "P(max)");
    } else {
        const tt_window *w = &place->window;
        tt_str_addf(out, "S(%s", shape->factor[place->factor].name);
        if (place->rotate != 0)
            tt_str_addf(out, "+%d", place->rotate);
        if (place->parts > 0)
            tt_str_addf(out, "#%d,%d", place->part, place->parts);
        if (w->out != 0)
            tt_str_addf(out, "/%lld,%d,%d,%d,%d", (long long)w->out, w->kernel,
                        w->stride, w->pad, w->dilation);
        tt_str_add(out, ")");
    }
}

int tt_mesh_ranks(const tt_mesh *mesh)
{
    int n = 1;
    for (int a = 0; a < mesh->n_axes; a++)
        n *= mesh->axis[a].size;
    return n;
}

static int axis_stride(const tt_mesh *mesh, int axis)
{
    int stride = 1;
    for (int a = axis + 1; a < mesh->n_axes; a++)
        stride *= mesh->axis[a].size;
    return stride;
}

int tt_mesh_coord(const tt_mesh *mesh, int rank, int axis)
{
    return rank / axis_stride(mesh, axis) % mesh->axis[axis].size;
}

int tt_mesh_rank_at(const tt_mesh *mesh, int rank, int axis, int coord)
{
    return rank +
           (coord - tt_mesh_coord(mesh, rank, axis)) * axis_stride(mesh, axis);
}

static int64_t block_edge(int64_t n, int size, int64_t i)
{
    return i * (n / size) + i * (n % size) / size; // i*n/size without overflow
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

void tt_place_range(const tt_place *place, int64_t n, int size, int coord,
                    int64_t *lo_out, int64_t *hi_out)
{
    if (place->kind != TT_SPLIT) {
        *lo_out = 0;
        *hi_out = n;
        return;
    }
    const tt_window *w = &place->window;
    if (place->parts > 0) {
        size *= place->parts;
        coord = coord * place->parts + place->part;
    }
    const int block = ((coord - place->rotate) % size + size) % size;
    const int64_t extent = w->out != 0 ? w->out : n;
    int64_t lo = block_edge(extent, size, block);
    int64_t hi = block_edge(extent, size, block + 1);
    if (w->out != 0) {
        lo = lo * w->stride - w->pad;
        hi = (hi - 1) * w->stride - w->pad +
             (int64_t)(w->kernel - 1) * w->dilation + 1;
    }
    *lo_out = clamp(lo, 0, n);
    *hi_out = clamp(hi, *lo_out, n);
}

void tt_local_whole(const tt_shape *shape, tt_local *local_out)
{
    *local_out = (tt_local){.shape = *shape};
    for (int f = 0; f < shape->n_factors; f++)
        local_out->global[f] = shape->factor[f].size;
}

void tt_local_of(const tt_type *type, const tt_mesh *mesh, int rank,
                 tt_local *local_out)
{
    tt_local_whole(&type->shape, local_out);
    for (int a = 0; a < mesh->n_axes; a++) {
        const tt_place *place = &type->place[a];
        if (place->kind != TT_SPLIT)
            continue;
        tt_factor *factor = &local_out->shape.factor[place->factor];
        int64_t lo, hi;
        tt_place_range(place, factor->size, mesh->axis[a].size,
                       tt_mesh_coord(mesh, rank, a), &lo, &hi);
        factor->size = hi - lo;
        local_out->origin[place->factor] += lo;
    }
}

int64_t tt_local_to_global(const tt_local *local, int64_t i)
{
    int64_t index = 0, stride = 1;
    for (int f = local->shape.n_factors - 1; f >= 0; f--) {
        const int64_t size = local->shape.factor[f].size;
        index += (i % size + local->origin[f]) * stride;
        i /= size;
        stride *= local->global[f];
    }
    return index;
}
