// moe - reference kernels of dispatch, combine and gate_grad.

#include "ops/nn/moe.h"

#include "backend/ref/ref.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

enum { EXPERT, SAMPLE, SLOT, COLUMN }; // dims of what lies with experts

// The row of z [experts, batch, slot, embed] that a place of a sample means. -1: the
// choice found no room, or its expert is on another rank.
static tt_status row_of(const tt_site *site, const tt_operand *z, int32_t place,
                        int64_t sample, int64_t *row_out)
{
    const int64_t slots = tt_operand_dim(z, SLOT);
    const int64_t experts = tt_position_extent(&z->local, EXPERT);
    *row_out = -1;
    if (place < 0)
        return TT_OK;
    if (place >= experts * slots)
        return tt_fail(TT_ERR_ARG, "%s: place %d is not in 0..%lld",
                       site->origin, place, (long long)(experts * slots) - 1);
    const int64_t e = tt_position_local(&z->local, EXPERT, place / slots);
    if (e >= 0)
        *row_out =
            (e * tt_operand_dim(z, SAMPLE) + sample) * slots + place % slots;
    return TT_OK;
}

// One choice of one token, with its row on both sides.
typedef struct pair {
    int64_t token, row; // row -1: nothing lies there
    double gate;
} pair;

typedef struct moe {
    const tt_site *site;
    const tt_args *args;
    const tt_operand *z;
    int place, gate; // inputs; gate -1: never
    int64_t tokens;  // of a sample
    int64_t choices, width;
} moe;

static moe moe_of(const tt_site *site, const tt_args *args, const tt_operand *z,
                  int place, int gate)
{
    return (moe){.site = site,
                 .args = args,
                 .z = z,
                 .place = place,
                 .gate = gate >= 0 && tt_site_has(site, gate) ? gate : -1,
                 .tokens = tt_operand_dim(&site->in[place], 1),
                 .choices = tt_operand_dim(&site->in[place], 2),
                 .width = tt_operand_dim(z, COLUMN)};
}

static int64_t count_of(const moe *m)
{
    return tt_operand_count(&m->site->in[m->place]);
}

static tt_status pair_of(const moe *m, int64_t i, pair *out)
{
    const int32_t *place = m->args->in[m->place];
    out->token = i / m->choices;
    out->gate = m->gate < 0 ? 1
                            : tt_dtype_load(m->site->in[m->gate].dtype,
                                            m->args->in[m->gate], i);
    return row_of(m->site, m->z, place[i], out->token / m->tokens, &out->row);
}

// sum[to] += gate * in[from]
static void add_row(const moe *m, int64_t to, int64_t from, double gate,
                    double *sum)
{
    const tt_dtype dtype = m->site->in[0].dtype;
    for (int64_t i = 0; i < m->width; i++)
        sum[to * m->width + i] +=
            gate * tt_dtype_load(dtype, m->args->in[0], from * m->width + i);
}

// Sums are kept in double, and rounded once.
static tt_status prepare_move(tt_backend *backend, tt_site *site,
                              tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes =
        tt_operand_count(&site->out[0]) * (int64_t)sizeof(double);
    return TT_OK;
}

// dispatch moves rows from tokens to slots, combine from slots to tokens: the same
// pairs in the other direction.
static tt_status run_move(void *state, const tt_site *site, const tt_args *args)
{
    const bool is_back = site->op == &tt_op_combine;
    const moe m =
        moe_of(site, args, is_back ? &site->in[0] : &site->out[0], 1, 2);
    const int64_t n = tt_operand_count(&site->out[0]);
    double *sum = args->scratch;
    (void)state;
    for (int64_t i = 0; i < n; i++)
        sum[i] = 0;
    for (int64_t i = 0; i < count_of(&m); i++) {
        pair p;
        TT_TRY(pair_of(&m, i, &p));
        if (p.row >= 0)
            add_row(&m, is_back ? p.token : p.row, is_back ? p.row : p.token,
                    p.gate, sum);
    }
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(site->out[0].dtype, args->out[0], i, sum[i]);
    return TT_OK;
}

static tt_status run_gate_grad(void *state, const tt_site *site,
                               const tt_args *args)
{
    const moe m = moe_of(site, args, &site->in[1], 2, -1);
    (void)state;
    for (int64_t i = 0; i < count_of(&m); i++) {
        pair p;
        double dot = 0;
        TT_TRY(pair_of(&m, i, &p));
        for (int64_t k = 0; p.row >= 0 && k < m.width; k++)
            dot += tt_dtype_load(site->in[0].dtype, args->in[0],
                                 p.token * m.width + k) *
                   tt_dtype_load(site->in[1].dtype, args->in[1],
                                 p.row * m.width + k);
        tt_dtype_store(site->out[0].dtype, args->out[0], i, dot);
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_moe_kernels[] = {
    {TT_KERNEL(ref, combine), .prepare = prepare_move, .run = run_move},
    {TT_KERNEL(ref, dispatch), .prepare = prepare_move, .run = run_move},
    {TT_KERNEL(ref, gate_grad), .run = run_gate_grad},
    {0},
};
