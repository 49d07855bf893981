// dnn_conv - convolutions by cuDNN, one plan for each of its suggestions.

#ifndef TT_BACKEND_CUDA_DEV_DNN_CONV_H
#define TT_BACKEND_CUDA_DEV_DNN_CONV_H

#include "backend/cuda/dev/common.cuh"

// Numbers of plans: suggestions of two kinds, with bias and activation and without.
enum { TT_DNN_SUGGESTIONS = 32, TT_DNN_PLANS = 4 * TT_DNN_SUGGESTIONS };

typedef struct tt_dnn_plan tt_dnn_plan;

size_t tt_dnn_version(void); // 0: cuDNN is not here

// Plans of the numbers [first, first + n), NULL in plans_out: cuDNN is not here, has no
// suggestion of that number, or it is not one that gives the same bits twice in the
// precision of its operands.
void tt_dnn_create(tt_cuda *cuda, const tt_cuda_conv_desc *desc, int first,
                   int n, tt_dnn_plan **plans_out);
void tt_dnn_destroy(tt_dnn_plan *plan);

bool tt_dnn_is_whole(const tt_dnn_plan *plan); // with bias and activation
int64_t tt_dnn_bytes(const tt_dnn_plan *plan); // of workspace
const char *tt_dnn_run(tt_dnn_plan *plan, const tt_cuda_conv_args *args);

#endif
