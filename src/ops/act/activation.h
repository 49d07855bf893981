// activation - functions of one element.

#ifndef TT_OPS_ACT_ACTIVATION_H
#define TT_OPS_ACT_ACTIVATION_H

#include "graph/build.h"
#include "graph/site.h"

typedef enum tt_gelu_form { TT_GELU_TANH, TT_GELU_ERF } tt_gelu_form;

typedef struct tt_gelu_params {
    int form; // tt_gelu_form
} tt_gelu_params;

typedef struct tt_dropout_params {
    double p; // the probability that an element becomes 0
} tt_dropout_params;

tt_val tt_relu(tt_builder *b, tt_val x);
tt_val tt_tanh(tt_builder *b, tt_val x);

// Reads the scalars "seed", "step", "first_sample" and "samples". Returns x itself when
// p is 0, or when the builder makes a graph for evaluation.
tt_val tt_dropout(tt_builder *b, tt_val x, double p);

// For kernels: where x lies among all samples of the step, given the addresses of
// the inputs. Scalars that nobody set (0 samples) change nothing.
tt_local tt_dropout_local(const tt_site *site, const void *const *in);

#endif
