// layout - tensors whose channels lie together: what kernels for images share.

#ifndef TT_BACKEND_CUDA_LAYOUT_H
#define TT_BACKEND_CUDA_LAYOUT_H

#include "backend/cuda/cuda.h"
#include "ops/shape/slide.h"

// Asks for operand o [a, channels, space...] with its channels last.
tt_status tt__cuda_channels_last(tt_backend *backend, tt_operand *o);

int64_t tt__cuda_layout_bytes(tt_backend *backend, int32_t layout);
void tt__cuda_layouts_free(tt__cuda_layouts *layouts); // NULL is fine

// Strides of the dims of an operand in that order.
void tt__cuda_channel_strides(const tt_operand *o, int64_t stride[TT_MAX_DIMS]);

void tt__cuda_slides(const tt_slide from[TT_MAX_SPATIAL],
                     tt_cuda_slide to[TT_CUDA_SPACE]);

#endif
