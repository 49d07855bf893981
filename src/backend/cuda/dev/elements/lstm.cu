// lstm - the cell of one step, forward and backward, with one thread for each unit. A
// step is two launches: this one, and a product of [batch, hidden] with [hidden, 4
// hidden]. Small ones are bound by launches, large ones by the product.

#include "backend/cuda/dev/any.cuh"

enum { THREADS = 256 };
enum { I, F, G, O, N_GATES };

__device__ static inline double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

struct unit {
    int64_t e, row, j; // of [batch, hidden]
};

__device__ static inline bool unit_of(const tt_cuda_lstm_args &a, unit *u)
{
    u->e = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    u->row = u->e / a.hidden;
    u->j = u->e % a.hidden;
    return u->row < a.batch;
}

__device__ static inline int64_t gate_at(const tt_cuda_lstm_args &a,
                                         const unit &u, int k)
{
    return (u.row * N_GATES + k) * a.hidden + u.j;
}

// The four gates: activations of sum + xg + bias.
__device__ static inline void activate(const tt_cuda_lstm_args &a,
                                       const unit &u, double gate[N_GATES])
{
    for (int k = 0; k < N_GATES; k++) {
        const int64_t at = gate_at(a, u, k);
        const double x = (a.sum == NULL ? 0 : a.sum[at]) + get(a.xg, at, 0) +
                         get(a.bias, k * a.hidden + u.j, 0);
        gate[k] = k == G ? tanh(x) : sigmoid(x);
    }
}

__global__ void forward(tt_cuda_lstm_args a)
{
    unit u;
    double gate[N_GATES];
    if (!unit_of(a, &u))
        return;
    activate(a, u, gate);
    const double c = gate[F] * get(a.c_prev, u.e, 0) + gate[I] * gate[G];
    put(a.h, u.e, gate[O] * tanh(c));
    put(a.c, u.e, c);
    for (int k = 0; a.gates.data != NULL && k < N_GATES; k++)
        put(a.gates, gate_at(a, u, k), gate[k]);
}

// Of a step whose gates were kept, or of a cell, which computes them again from xg.
__global__ void backward(tt_cuda_lstm_args a)
{
    unit u;
    double gate[N_GATES];
    if (!unit_of(a, &u))
        return;
    const double c_prev = get(a.c_prev, u.e, 0);
    double c;
    if (a.gates.data == NULL) {
        const float *sum = a.sum;
        a.sum = NULL;
        activate(a, u, gate);
        a.sum = sum;
        c = gate[F] * c_prev + gate[I] * gate[G];
    } else {
        for (int k = 0; k < N_GATES; k++)
            gate[k] = get(a.gates, gate_at(a, u, k), 0);
        c = get(a.c, u.e, 0);
    }
    const double dh = get(a.dh, u.e, 0) + (a.sum == NULL ? 0 : a.sum[u.e]);
    const double dc =
        get(a.dc, u.e, 0) + (a.dc_carry == NULL ? 0 : a.dc_carry[u.e]);
    const double t = tanh(c), d = dc + dh * gate[O] * (1 - t * t);
    const double dgate[N_GATES] = {
        d * gate[G] * gate[I] * (1 - gate[I]),
        d * c_prev * gate[F] * (1 - gate[F]),
        d * gate[I] * (1 - gate[G] * gate[G]),
        dh * t * gate[O] * (1 - gate[O]),
    };
    for (int k = 0; k < N_GATES; k++)
        put(a.dgates, gate_at(a, u, k), dgate[k]);
    if (a.dc_carry != NULL)
        a.dc_carry[u.e] = (float)(d * gate[F]);
    if (a.dc_prev.data != NULL)
        put(a.dc_prev, u.e, d * gate[F]);
}

static unsigned blocks_of(const tt_cuda_lstm_args *a)
{
    return (unsigned)ceil_div(a->batch * a->hidden, THREADS);
}

extern "C" const char *tt_cuda_lstm_step(tt_cuda *cuda,
                                         const tt_cuda_lstm_args *args)
{
    forward<<<blocks_of(args), THREADS, 0, cuda->stream>>>(*args);
    return launched();
}

extern "C" const char *tt_cuda_lstm_back(tt_cuda *cuda,
                                         const tt_cuda_lstm_args *args)
{
    backward<<<blocks_of(args), THREADS, 0, cuda->stream>>>(*args);
    return launched();
}
