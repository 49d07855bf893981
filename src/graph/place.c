// place - blocks, windows and rotations: which entries a rank holds.

#include "graph/place.h"

#include <assert.h>
#include <string.h>

bool tt_place_equal(const tt_place *a, const tt_place *b)
{
    if (a->kind != b->kind || a->at != b->at)
        return false;
    if (a->kind == TT_PARTIAL)
        return a->reduce == b->reduce;
    if (a->kind == TT_REPLICATE || a->kind == TT_OWN)
        return true;
    const tt_window *u = &a->window, *v = &b->window;
    return a->factor == b->factor && a->rotate == b->rotate &&
           a->zigzag == b->zigzag && a->part == b->part &&
           a->parts == b->parts && u->out == v->out &&
           (u->out == 0 || (u->kernel == v->kernel && u->stride == v->stride &&
                            u->pad == v->pad && u->dilation == v->dilation));
}

// "@0+3": the coordinates that hold the value.
static void print_at(uint64_t at, tt_str *out)
{
    const char *sign = "@";
    for (int c = 0; c < TT_MAX_AT; c++)
        if ((at >> c & 1) != 0) {
            tt_str_addf(out, "%s%d", sign, c);
            sign = "+";
        }
}

void tt_place_print(const tt_place *place, const tt_shape *shape, tt_str *out)
{
    if (place->kind == TT_REPLICATE) {
        tt_str_add(out, "R");
    } else if (place->kind == TT_OWN) {
        tt_str_add(out, "O");
    } else if (place->kind == TT_PARTIAL) {
        tt_str_add(out, place->reduce == TT_SUM ? "P(sum)" : "P(max)");
    } else {
        const tt_window *w = &place->window;
        tt_str_addf(out, "S(%s%s", shape->factor[place->factor].name,
                    place->zigzag ? "~" : "");
        if (place->rotate != 0)
            tt_str_addf(out, "+%d", place->rotate);
        if (place->parts > 0)
            tt_str_addf(out, "#%d,%d", place->part, place->parts);
        if (w->out != 0)
            tt_str_addf(out, "/%lld,%d,%d,%d,%d", (long long)w->out, w->kernel,
                        w->stride, w->pad, w->dilation);
        tt_str_add(out, ")");
    }
    print_at(place->at, out);
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

int tt_mesh_pipe(const tt_mesh *mesh)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (mesh->axis[a].size > 1 && strcmp(mesh->axis[a].name, "pipe") == 0)
            return a;
    return -1;
}

static int64_t block_edge(int64_t n, int size, int64_t i)
{
    return i * (n / size) + i * (n % size) / size; // i*n/size without overflow
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static int block_of(const tt_place *place, int size, int coord)
{
    return ((coord - place->rotate) % size + size) % size;
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
    const int block = block_of(place, size, coord);
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

// Cuts entries [lo, hi) of what is there of a factor.
static void cut_run(tt_local *local, int f, int64_t lo, int64_t hi)
{
    local->origin[f] = tt_local_at(local, f, lo);
    local->shape.factor[f].size = hi - lo;
    if (local->gap == 0 || f != local->turn_factor)
        return;
    local->turn -= lo;
    if (local->turn <= 0 || local->turn >= hi - lo)
        local->turn = local->gap = 0;
}

// Cuts two runs of a factor for a zigzag; one may be empty. Together they have as many
// entries as in a plain split, half from the front, half from the back. A factor that an
// earlier axis cut in two cannot be cut so again.
static void cut_zigzag(tt_local *local, const tt_place *place, int size,
                       int coord)
{
    const int f = place->factor, block = block_of(place, size, coord);
    const int64_t n = local->shape.factor[f].size;
    const int64_t before = block_edge(n, size, block);
    const int64_t after = block_edge(n, size, block + 1);
    const int64_t lo = before / 2, hi = after / 2;
    const int64_t next = n - (after + 1) / 2, end = n - (before + 1) / 2;
    assert(local->gap == 0 && place->window.out == 0);
    local->zigzag = true;
    local->shape.factor[f].size = after - before;
    local->origin[f] += lo < hi ? lo : next;
    if (lo < hi && next < end && next > hi) {
        local->turn_factor = f;
        local->turn = hi - lo;
        local->gap = next - hi;
    }
}

void tt_local_of(const tt_type *type, const tt_mesh *mesh, int rank,
                 tt_local *local_out)
{
    tt_local_whole(&type->shape, local_out);
    for (int a = 0; a < mesh->n_axes; a++) {
        const tt_place *place = &type->place[a];
        const int size = mesh->axis[a].size;
        const int coord = tt_mesh_coord(mesh, rank, a);
        int64_t lo, hi;
        local_out->is_absent |= !tt_place_holds(place, coord);
        if (place->kind != TT_SPLIT)
            continue;
        if (place->zigzag) {
            cut_zigzag(local_out, place, size, coord);
            continue;
        }
        tt_place_range(place, local_out->shape.factor[place->factor].size, size,
                       coord, &lo, &hi);
        cut_run(local_out, place->factor, lo, hi);
    }
}

int64_t tt_local_to_global(const tt_local *local, int64_t i)
{
    int64_t index = 0, stride = 1;
    for (int f = local->shape.n_factors - 1; f >= 0; f--) {
        const int64_t size = local->shape.factor[f].size;
        index += tt_local_at(local, f, i % size) * stride;
        i /= size;
        stride *= local->global[f];
    }
    return index;
}
