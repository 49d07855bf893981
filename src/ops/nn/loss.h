// loss - losses. All give a sum and a count, in the wide type, and no mean. Sums of
// micro-batches and of ranks simply add up, without knowing how many there are; the
// division by the count happens once, in the update (optim/optim.c).

#ifndef TT_OPS_NN_LOSS_H
#define TT_OPS_NN_LOSS_H

#include "graph/build.h"

// Of cross_entropy, its gradient, its parts and what is fused with it.
typedef struct tt_cross_entropy_params {
    double smoothing;
    int64_t ignore; // rows with this label count nothing
} tt_cross_entropy_params;
extern const tt_opt tt__cross_entropy_options[];

typedef struct tt_loss_join_params {
    int64_t ignore;
} tt_loss_join_params;

typedef struct tt_loss {
    tt_val sum, count;
} tt_loss;

// logits [..., vocab], labels I32 [...]
tt_loss tt_cross_entropy(tt_builder *b, tt_val logits, tt_val labels,
                         const tt_cross_entropy_params *params);

// Number of rows whose largest entry (the first of equals) is the label's.
tt_val tt_correct(tt_builder *b, tt_val logits, tt_val labels);

// Sum of squared differences; weight [dim 0 of x] may be TT_NONE: 1.
tt_loss tt_mse(tt_builder *b, tt_val x, tt_val target, tt_val weight);

// cross_entropy and correct over a split vocabulary (loss_parts.c, correct_parts.c).
tt_op_expand_fn tt__cross_entropy_expand, tt__correct_expand;

// The largest entry of each row of logits that are split along their last dim over
// `axis`: made, or found where it was made before.
tt_val tt__rows_max(tt_builder *b, tt_val logits, tt_val labels, int axis);

#endif
