// layout - the one layout that this backend has besides dense order: channels last
// (NHWC), for images and for weights of convolutions. Each type and shape of such a
// tensor has a number of its own, by which plans know it.
//
// With one channel, or one point, channels last is the same as dense order, and is
// called dense: then no copy between the two is planned.

#include "backend/cuda/layout.h"

#include "base/alloc.h"

struct tt__cuda_layouts {
    int32_t n, capacity;
    struct {
        tt_dtype dtype;
        tt_shape shape;
    } * layout;
};

void tt__cuda_layouts_free(tt__cuda_layouts *layouts)
{
    if (layouts != NULL)
        tt_free(layouts->layout);
    tt_free(layouts);
}

static tt_status grow(tt__cuda_layouts *l)
{
    const int32_t capacity = l->capacity == 0 ? 16 : 2 * l->capacity;
    const int64_t bytes = (int64_t)sizeof(*l->layout);
    void *more = tt_realloc(l->layout, l->capacity * bytes, capacity * bytes);
    if (more == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a layout");
    l->layout = more;
    l->capacity = capacity;
    return TT_OK;
}

static tt_status find(tt__cuda_layouts *l, const tt_operand *o,
                      int32_t *layout_out)
{
    const tt_shape *shape = &o->local.shape;
    int32_t i = 0;
    while (i < l->n && (l->layout[i].dtype != o->dtype ||
                        !tt_shape_same_dims(&l->layout[i].shape, shape)))
        i++;
    if (i == l->n) {
        if (l->n == l->capacity)
            TT_TRY(grow(l));
        l->layout[l->n].dtype = o->dtype;
        l->layout[l->n].shape = *shape;
        l->n++;
    }
    *layout_out = i + 1;
    return TT_OK;
}

static int64_t points_of(const tt_operand *o)
{
    int64_t n = 1;
    for (int d = 2; d < o->local.shape.ndim; d++)
        n *= tt_operand_dim(o, d);
    return n;
}

tt_status tt__cuda_channels_last(tt_backend *backend, tt_operand *o)
{
    tt__cuda_device *device = backend->device;
    int32_t layout = 0;
    if (points_of(o) > 1 && tt_operand_dim(o, 1) > 1) {
        if (device->layouts == NULL)
            device->layouts = tt_alloc(sizeof(*device->layouts));
        if (device->layouts == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for a layout");
        TT_TRY(find(device->layouts, o, &layout));
    }
    tt_operand_set_dense(o);
    o->layout = layout;
    return TT_OK;
}

int64_t tt__cuda_layout_bytes(tt_backend *backend, int32_t layout)
{
    const tt__cuda_layouts *l = tt__cuda_of(backend)->layouts;
    return tt_shape_count(&l->layout[layout - 1].shape) *
           tt_dtype_bytes(l->layout[layout - 1].dtype);
}

void tt__cuda_channel_strides(const tt_operand *o, int64_t stride[TT_MAX_DIMS])
{
    const int n = o->local.shape.ndim;
    int64_t step = tt_operand_dim(o, 1);
    stride[1] = 1;
    for (int d = n - 1; d >= 2; d--) {
        stride[d] = step;
        step *= tt_operand_dim(o, d);
    }
    stride[0] = step;
}

void tt__cuda_slides(const tt_slide from[TT_MAX_SPATIAL],
                     tt_cuda_slide to[TT_CUDA_SPACE])
{
    for (int d = 0; d < TT_MAX_SPATIAL; d++)
        to[d] = (tt_cuda_slide){.in = from[d].in,
                                .out = from[d].out,
                                .kernel = from[d].kernel,
                                .stride = from[d].stride,
                                .dilation = from[d].dilation,
                                .pad = from[d].pad,
                                .origin = from[d].origin,
                                .whole_in = from[d].whole_in};
}
