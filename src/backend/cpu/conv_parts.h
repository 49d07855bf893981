// conv_parts - what convolution and pooling share on the CPU.

#ifndef TT_BACKEND_CPU_CONV_PARTS_H
#define TT_BACKEND_CPU_CONV_PARTS_H

#include "backend/backend.h"
#include "backend/cpu/dnnl/dnnl.h"
#include "ops/nn/conv.h"

// The last n of three sliding dimensions; false when a window starts inside the
// tensor, which the library cannot express.
bool tt__window_of(const tt_slide slide[TT_MAX_SPATIAL], int n,
                   tt__window *window_out);

// The convolution with these three, in the library's best layouts; `way` is the
// caller's to set. TT_ERR_UNSUPPORTED when it cannot be expressed.
tt_status tt__cpu_conv_describe(const tt_backend *backend,
                                const tt_conv_params *p, const tt_operand *x,
                                const tt_operand *w, const tt_operand *y,
                                tt__cpu_conv_desc *d);

// In the wanted way, else the library's own choice.
tt_status tt__cpu_conv_create(tt_backend *backend, tt__cpu_conv_desc *d,
                              tt__prim **prim_out);

#endif
