// shape - dimensions with names and factors.
//
// A stored dimension is a product of named factors, slowest first:
// `qkv:3.heads:12.head:64` is one dimension of 2304. Splitting over ranks cuts
// one factor, so a slice may be strided in the stored tensor; a reshape only
// merges or separates factors. A name occurs once in a shape.
//
// Text form: "batch:4 seq:64 qkv:3.heads:12.head:64"; "" is a scalar.

#ifndef TT_GRAPH_SHAPE_H
#define TT_GRAPH_SHAPE_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_MAX_DIMS = 6, TT_MAX_FACTORS = 8, TT_NAME_BYTES = 16 };

typedef struct tt_factor {
    char name[TT_NAME_BYTES];
    int64_t size;
} tt_factor;

typedef struct tt_shape {
    int32_t ndim, n_factors;
    uint8_t first[TT_MAX_DIMS + 1]; // factors of dim d: first[d] .. first[d+1]
    tt_factor factor[TT_MAX_FACTORS];
} tt_shape;

tt_status tt_shape_parse(const char *text, tt_shape *shape_out);
void tt_shape_print(const tt_shape *shape, tt_str *out);

int64_t tt_shape_dim(const tt_shape *shape, int d); // product of its factors
int64_t tt_shape_count(const tt_shape *shape);      // elements; 1 for a scalar
bool tt_shape_equal(const tt_shape *a, const tt_shape *b);     // with names
bool tt_shape_same_dims(const tt_shape *a, const tt_shape *b); // extents only

// Checks every size >= 1, names non-empty and unique, product below 2^62.
tt_status tt_shape_check(const tt_shape *shape);

// Appends a dimension copied from dim `d` of `from`, or one with one factor.
tt_status tt_shape_push_dim(tt_shape *shape, const tt_shape *from, int d);
tt_status tt_shape_push(tt_shape *shape, const char *name, int64_t size);

// The shape without dim d.
tt_shape tt_shape_drop(const tt_shape *shape, int d);

// Index of the factor with this name, or -1; the dim that holds factor f.
int tt_shape_find(const tt_shape *shape, const char *name);
int tt_shape_dim_of(const tt_shape *shape, int f);

// Row-major strides in elements, per dim.
void tt_shape_strides(const tt_shape *shape, int64_t stride_out[TT_MAX_DIMS]);

#endif
