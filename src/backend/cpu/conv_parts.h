// conv_parts - what convolution and pooling share on the CPU.

#ifndef TT_BACKEND_CPU_CONV_PARTS_H
#define TT_BACKEND_CPU_CONV_PARTS_H

#include "backend/backend.h"
#include "backend/cpu/dnnl/dnnl.h"
#include "ops/nn/conv.h"

// The window of the last n of three dimensions. False when a window starts inside of
// the tensor (negative padding), which the library cannot express.
bool tt__window_of(const tt_slide slide[TT_MAX_SPATIAL], int n,
                   tt__conv_window *window_out);

// Describes a convolution of these operands with all formats left to the library. The
// caller sets `way`. TT_ERR_UNSUPPORTED when it cannot be expressed.
tt_status tt__cpu_conv_describe(const tt_backend *backend,
                                const tt_conv_params *p, const tt_operand *x,
                                const tt_operand *w, const tt_operand *y,
                                tt__cpu_conv_desc *d);

// With the algorithm that is wanted, else direct.
tt_status tt__cpu_conv_create(tt_backend *backend, tt__cpu_conv_desc *d,
                              tt__prim **prim_out);

#endif
