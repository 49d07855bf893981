// powersgd - a matrix as the product of two thin ones.
//
//   round 1   p = m q, added over the replicas, then made orthonormal
//   round 2   q = m' p, added
//   decode    p q'
//
// q is kept for the next step (warm start): rounds of different steps then go on with one
// power iteration. The first dimension of the tensor is the rows, all others together are
// the columns. A tensor of which the factors are not smaller is sent as it is.
//
//   bytes   4 r (rows + columns)
//   error   what has no room in rank r: only with a residual. Of full rank there is none
//   source  Vogels et al. 2019

#include "codec/codec.h"
#include "ops/arith.h"
#include "ops/infer_common.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

typedef struct powersgd {
    int64_t rank;
} powersgd;

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The rank for a tensor of this shape; 0: it is sent as it is.
static int64_t rank_of(const powersgd *p, const tt_shape *x)
{
    const int64_t n = tt_shape_count(x);
    const int64_t rows = x->ndim < 2 ? n : tt_shape_dim(x, 0), cols = n / rows;
    const int64_t rank = min_i64(p->rank, min_i64(rows, cols));
    return x->ndim < 2 || rank * (rows + cols) >= n ? 0 : rank;
}

// x as [rows, columns], and back.
static tt_val as_matrix(tt_builder *b, tt_val x)
{
    const tt_shape *shape = &tt_type_of(b, x)->shape;
    tt_reshape_params p = {.dims = {.n = 2}};
    p.dims.v[0] = shape->first[1];
    p.dims.v[1] = shape->n_factors - shape->first[1];
    return shape->ndim == 2 ? x : tt_call(b, &tt_op_reshape, &p, &x, 1, NULL);
}

static tt_val as_before(tt_builder *b, tt_val m, tt_val like)
{
    const tt_shape *shape = &tt_type_of(b, like)->shape;
    tt_reshape_params p = {.dims = {.n = shape->ndim}};
    for (int d = 0; d < shape->ndim; d++)
        p.dims.v[d] = shape->first[d + 1] - shape->first[d];
    return shape->ndim == 2 ? m : tt_call(b, &tt_op_reshape, &p, &m, 1, NULL);
}

// q: [columns, rank], with the factors of the columns.
static tt_status states(const void *params, const tt_type *x,
                        tt_codec_state *state, int *n_out)
{
    const tt_shape *shape = &x->shape;
    const int64_t rank = rank_of(params, shape);
    tt_shape q = {0};
    *n_out = 0;
    if (rank == 0)
        return TT_OK;
    if (shape->n_factors - shape->first[1] >= TT_MAX_FACTORS)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "powersgd: a tensor has too many factors");
    for (int f = shape->first[1]; f < shape->n_factors; f++)
        q.factor[q.n_factors++] = shape->factor[f];
    q.first[++q.ndim] = (uint8_t)q.n_factors;
    TT_TRY(tt_shape_push(&q, "codec_rank", rank));
    state[0] = (tt_codec_state){
        .name = "factor",
        .dtype = tt_dtype_master(x->dtype),
        .shape = q,
        .init = {.kind = TT_INIT_NORMAL, .a = 1, .of = TT_NONE},
        .is_common = true,
    };
    *n_out = 1;
    return TT_OK;
}

enum { WHAT, FIRST }; // kept: what is sent, as a matrix; the first factor

static void send(tt_coding *c, tt_val code, bool is_last)
{
    c->code[0] = code;
    c->n_codes = 1;
    c->join = TT_CODEC_ADDED;
    c->is_last = is_last;
}

static tt_status encode(tt_builder *b, tt_coding *c, const tt_val *joined)
{
    static const tt_matmul_params plain = {0};
    static const tt_matmul_params of_first = {.transpose_a = true};
    if (rank_of(c->params, &tt_type_of(b, c->x)->shape) == 0) {
        c->residual_out = c->residual;
        send(c, c->x, true);
        return b->status;
    }
    if (joined == NULL) {
        const tt_val e =
            tt_is(c->residual) ? tt_add(b, c->x, c->residual) : c->x;
        c->kept[WHAT] = as_matrix(b, e);
        send(c, tt_matmul(b, c->kept[WHAT], c->state[0], TT_NONE, &plain),
             false);
        return b->status;
    }
    c->kept[FIRST] = tt_call(b, &tt_op_orthogonalize, NULL, joined, 1, NULL);
    send(c, tt_matmul(b, c->kept[WHAT], c->kept[FIRST], TT_NONE, &of_first),
         true);
    return b->status;
}

static tt_status decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                        tt_val *sum_out)
{
    static const tt_matmul_params of_second = {.transpose_b = true};
    if (rank_of(c->params, &tt_type_of(b, c->x)->shape) == 0) {
        *sum_out = joined[0];
        return b->status;
    }
    const tt_val m =
        tt_matmul(b, c->kept[FIRST], joined[0], TT_NONE, &of_second);
    *sum_out = as_before(b, m, c->x);
    c->state_out[0] = joined[0];
    if (tt_is(c->residual))
        c->residual_out = as_before(
            b, tt_add(b, c->kept[WHAT], tt_scale(b, m, -1 / (double)c->peers)),
            c->x);
    return b->status;
}

static const tt_opt options[] = {
    {"rank", "4", "columns of the factors", TT_OPT_I64,
     .offset = offsetof(powersgd, rank), .min = 1, .max = 4096},
    {0},
};

const tt_codec_def tt_codec_powersgd = {
    .name = "powersgd",
    .doc = "A matrix as the product of two thin ones.",
    .options = options,
    .params_bytes = sizeof(powersgd),
    .is_linear = true,
    .needs_feedback = true,
    .encode = encode,
    .decode = decode,
    .states = states,
};
