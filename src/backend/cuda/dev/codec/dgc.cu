// dgc - what momentum has gathered, and its largest entries (ops/codec/dgc.c): one pass
// for the norm where gradients are clipped, one that gathers, then those of pick.cu.
// Bound by memory. How many entries are picked depends on the step, which lies on the
// device; the warm-up's power is made of products, so that it has the CPU's bits.

#include "backend/cuda/dev/codec/pick.cuh"

enum { THREADS = 256 };

// As tt_dgc_power.
__device__ static inline double power(double x, int64_t n)
{
    double y = 1;
    for (; n > 0; n /= 2, x = __dmul_rn(x, x))
        y = n % 2 != 0 ? __dmul_rn(y, x) : y;
    return y;
}

// As tt_dgc_count.
__global__ void begin(tt_cuda_dgc_args a, pick_state *s)
{
    const int64_t step = *a.step < 0 ? 0 : *a.step, n = a.packet.n;
    const double ratio =
        step < a.warm_up ? __dmul_rn(a.start, power(a.factor, step)) : a.ratio;
    int64_t k = (int64_t)ceil(__dmul_rn(ratio, (double)n));
    k = k < 1 ? 1 : k;
    s->k = s->left = k < a.most ? k : a.most;
}

__global__ void gather(tt_cuda_dgc_args a, const pick_state *s)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    float factor = 1.f;
    if (a.norm > 0) {
        const double norm = sqrt(s->squares);
        factor = (float)(norm > a.norm ? a.norm / norm : 1);
    }
    if (i >= a.packet.n)
        return;
    const float next =
        __fadd_rn(__fmul_rn(a.momentum, a.u[i]), __fmul_rn(a.x[i], factor));
    a.v_out[i] = __fadd_rn(a.v[i], next);
    a.u_out[i] = is_finite(next) ? next : 0.f;
}

extern "C" const char *tt_cuda_dgc(tt_cuda *c, const tt_cuda_dgc_args *a)
{
    const int64_t n = a->packet.n;
    const pick_room room = pick_room_of(a->scratch, n);
    pick_job job = {.packet = a->packet,
                    .e = {a->v_out, NULL, NULL},
                    .left = a->v_out,
                    .masked = a->u_out,
                    .is_all = false,
                    .is_threshold = false,
                    .has_values = true,
                    .out = a->out};
    TRY_CUDA(cudaMemsetAsync(room.state, 0, sizeof *room.state, c->stream));
    begin<<<1, 1, 0, c->stream>>>(*a, room.state);
    if (a->norm > 0) {
        pick_source x = {a->x, NULL, NULL};
        TRY(tt_cuda_pick_squares(c, &x, n, &room));
    }
    gather<<<(unsigned)ceil_div(n, THREADS), THREADS, 0, c->stream>>>(
        *a, room.state);
    TRY(launched());
    return tt_cuda_pick_write(c, &job, &room);
}
