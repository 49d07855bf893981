// elementwise - loops for reference kernels: load as double, apply, store.

#ifndef TT_BACKEND_REF_ELEMENTWISE_H
#define TT_BACKEND_REF_ELEMENTWISE_H

#include "backend/kernel.h"

typedef double tt__unary_fn(const void *params, double x);
typedef double tt__binary_fn(const void *params, double a, double b);

// out[0][i] = fn(in[0][i]) and fn(in[0][i], in[1][i]), dense operands.
tt_status tt__ref_unary(const tt_site *site, const tt_args *args,
                        tt__unary_fn *fn);
tt_status tt__ref_binary(const tt_site *site, const tt_args *args,
                         tt__binary_fn *fn);

// Strides with which to walk `small` (dense) along the dims of `big`; 0 where it
// is repeated. map[d]: the dim of small, -1: none.
void tt__ref_project(const tt_shape *big, const tt_shape *small, const int *map,
                     int64_t stride_out[TT_MAX_DIMS]);

// Offset under these strides of row-major element i of `shape`.
int64_t tt__ref_offset(const tt_shape *shape, const int64_t *stride, int64_t i);

#endif
