// dnn_conv - convolutions by cuDNN, one plan for each of its suggestions.

#ifndef TT_BACKEND_CUDA_DEV_CONV_DNN_CONV_CUH
#define TT_BACKEND_CUDA_DEV_CONV_DNN_CONV_CUH

#include "backend/cuda/dev/common.cuh"

// Numbers of plans: suggestions of two kinds, with bias and activation and without.
enum { TT_DNN_SUGGESTIONS = 32, TT_DNN_PLANS = 4 * TT_DNN_SUGGESTIONS };

typedef struct tt_dnn_plan tt_dnn_plan;
typedef struct tt_dnn_menu tt_dnn_menu;

size_t tt_dnn_version(void); // 0: cuDNN is not here

// What cuDNN suggests, in the order in which to try it: the first of each engine, then
// their others. `only` (-1: all) is the number that is wanted. NULL: cuDNN is not here,
// or has no way.
tt_dnn_menu *tt_dnn_look(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                         int only);
int tt_dnn_size(const tt_dnn_menu *menu);
// How many of them are not just there to fall back on, which may take seconds to run.
int tt_dnn_usual(const tt_dnn_menu *menu);
// NULL: it does not work after all, or is none that gives the same bits twice in the
// precision of its operands.
tt_dnn_plan *tt_dnn_take(tt_dnn_menu *menu, int i, int *number_out);
void tt_dnn_close(tt_dnn_menu *menu); // NULL is fine

void tt_dnn_destroy(tt_dnn_plan *plan);

bool tt_dnn_is_whole(const tt_dnn_plan *plan); // with bias and activation
int64_t tt_dnn_bytes(const tt_dnn_plan *plan); // of workspace
const char *tt_dnn_run(tt_dnn_plan *plan, const tt_cuda_conv_args *args);

#endif
