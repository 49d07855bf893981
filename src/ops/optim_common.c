// optim_common - what the optimiser operators share.

#include "ops/infer_common.h"
#include "ops/optim.h"

tt_status tt_optim_infer(tt_op_io *io, const char *op, int n_state, int n_extra)
{
    const int n = TT_OPTIM_STATE + n_state;
    TT_TRY(tt_infer_inputs(io, op, n, n + n_extra));
    TT_TRY(tt_infer_float(io, op, TT_OPTIM_W));
    TT_TRY(tt_infer_float(io, op, TT_OPTIM_G));
    TT_TRY(tt_infer_same_dims(io, op, TT_OPTIM_W, TT_OPTIM_G));
    TT_TRY(tt_infer_float_scalar(io, op, TT_OPTIM_LR));
    TT_TRY(tt_infer_float_scalar(io, op, TT_OPTIM_SCALE));
    TT_TRY(tt_infer_scalar(io, op, TT_OPTIM_STEP, TT_I64));
    TT_TRY(tt_infer_scalar(io, op, TT_OPTIM_SKIP, TT_U8));
    for (int i = TT_OPTIM_STATE; i < n; i++) {
        TT_TRY(tt_infer_float(io, op, i));
        TT_TRY(tt_infer_same_dims(io, op, TT_OPTIM_W, i));
    }
    for (int i = n; i < io->n_in; i++)
        TT_TRY(tt_infer_float_scalar(io, op, i));
    tt_optim_add_outputs(io, n_state);
    return TT_OK;
}

void tt_optim_add_outputs(tt_op_io *io, int n_state)
{
    const tt_optim_params *p = io->params;
    const tt_shape *shape = &io->in[TT_OPTIM_W].shape;
    tt_infer_add(io, io->in[TT_OPTIM_W].dtype, shape);
    for (int i = 0; i < n_state; i++)
        tt_infer_add(io, io->in[TT_OPTIM_STATE + i].dtype, shape);
    if (p->low != TT_LOW_NONE)
        tt_infer_add(io, p->low == TT_LOW_BF16 ? TT_BF16 : TT_F16, shape);
}
