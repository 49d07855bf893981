// route - the router of a mixture of experts: which experts a token goes to, with which
// gate, and the loss that balances the experts.
//
// First tokens choose: a thread has a token and takes the experts with the largest
// probabilities. Then experts give their slots, of which there are few (the capacity):
// a thread has an expert and walks over its group's choices in order, first choices
// before second ones. So who gets a slot depends on nothing but the order of tokens. A
// token without a slot is dropped for this expert. Bound by that walk: tokens times
// choices reads from the caches.

#include "backend/cuda/dev/any.cuh"

enum { THREADS = 128 };

// Scratch: chosen experts [groups, tokens, choices], first choices [groups, experts],
// terms of the balance [groups].
struct room {
    int32_t *chosen, *first;
    double *balance;
};

extern "C" int64_t tt_cuda_route_scratch(const tt_cuda_route_args *a)
{
    return 8 * a->groups + 4 * a->groups * a->tokens * a->choices +
           4 * a->groups * a->experts;
}

static room room_of(const tt_cuda_route_args *a)
{
    room r;
    r.balance = (double *)a->scratch;
    r.chosen = (int32_t *)(r.balance + a->groups);
    r.first = r.chosen + a->groups * a->tokens * a->choices;
    return r;
}

// p(e) = exp(x - most) / sum.
struct softmax {
    int64_t base;
    double most, sum;
};

__device__ static inline softmax softmax_of(const tt_cuda_route_args &a,
                                            int64_t token)
{
    softmax s = {token * a.experts, -INFINITY, 0};
    for (int64_t e = 0; e < a.experts; e++)
        s.most = fmax(s.most, get(a.logits, s.base + e, 0));
    for (int64_t e = 0; e < a.experts; e++)
        s.sum += exp(get(a.logits, s.base + e, 0) - s.most);
    return s;
}

__device__ static inline double probability(const tt_cuda_route_args &a,
                                            const softmax &s, int64_t e)
{
    return exp(get(a.logits, s.base + e, 0) - s.most) / s.sum;
}

__device__ static inline int64_t thread_index(void)
{
    return blockIdx.x * (int64_t)THREADS + threadIdx.x;
}

// The largest that is not chosen yet; of equals the first.
__device__ static inline int64_t best(const tt_cuda_route_args &a,
                                      const softmax &s, const int32_t *chosen,
                                      int64_t n)
{
    int64_t at = -1;
    double most = 0;
    for (int64_t e = 0; e < a.experts; e++) {
        bool is_free = true;
        for (int64_t c = 0; c < n; c++)
            is_free = is_free && chosen[c] != e;
        const double p = is_free ? probability(a, s, e) : 0;
        if (is_free && (at < 0 || p > most)) {
            at = e;
            most = p;
        }
    }
    return at;
}

__global__ void choose(tt_cuda_route_args a, room r)
{
    const int64_t token = thread_index();
    if (token >= a.groups * a.tokens)
        return;
    int32_t *chosen = r.chosen + token * a.choices;
    const softmax s = softmax_of(a, token);
    double sum = 0;
    for (int64_t c = 0; c < a.choices; c++) {
        chosen[c] = (int32_t)best(a, s, chosen, c);
        sum += probability(a, s, chosen[c]);
    }
    for (int64_t c = 0; c < a.choices; c++)
        put(a.gate, token * a.choices + c, probability(a, s, chosen[c]) / sum);
}

// First choices come before second ones: a token loses its second choice before another
// loses its first.
__global__ void give_slots(tt_cuda_route_args a, room r)
{
    const int64_t i = thread_index();
    const int64_t group = i / a.experts, e = i % a.experts;
    if (group >= a.groups)
        return;
    int64_t given = 0;
    int32_t first = 0;
    for (int64_t c = 0; c < a.choices; c++)
        for (int64_t t = 0; t < a.tokens; t++) {
            const int64_t at = (group * a.tokens + t) * a.choices + c;
            if (r.chosen[at] != e)
                continue;
            a.place[at] = given < a.slots ? (int32_t)(e * a.slots + given)
                                          : (int32_t)(-1 - e);
            given++;
            first += c == 0;
        }
    r.first[i] = first;
}

// A block per group.
__global__ void sum_balance(tt_cuda_route_args a, room r)
{
    __shared__ double share[32];
    double sum = 0;
    for (int64_t t = threadIdx.x; t < a.tokens; t += THREADS) {
        const softmax s = softmax_of(a, blockIdx.x * a.tokens + t);
        for (int64_t e = 0; e < a.experts; e++)
            sum += r.first[blockIdx.x * a.experts + e] * probability(a, s, e);
    }
    sum = block_sum(sum, share);
    if (threadIdx.x == 0)
        r.balance[blockIdx.x] = sum * (double)a.experts / (double)a.tokens;
}

__global__ void join_balance(tt_cuda_route_args a, room r)
{
    double sum = 0;
    for (int64_t g = 0; g < a.groups; g++)
        sum += r.balance[g];
    put(a.balance, 0, sum);
}

// ---- backward --------------------------------------------------------------

__device__ static inline int64_t expert_of(const tt_cuda_route_args &a,
                                           int32_t place)
{
    return place < 0 ? -1 - place : place / a.slots;
}

__global__ void count_first(tt_cuda_route_args a, room r)
{
    const int64_t i = thread_index();
    const int64_t group = i / a.experts, e = i % a.experts;
    if (group >= a.groups)
        return;
    int32_t n = 0;
    for (int64_t t = 0; t < a.tokens; t++)
        n += expert_of(a, a.place[(group * a.tokens + t) * a.choices]) == e;
    r.first[i] = n;
}

// The gradient of p(e): from the balance, and from the gates whose expert it is.
struct gates {
    double sum, mean; // of the chosen p, and of their gradients
};

__device__ static inline double dp_of(const tt_cuda_route_args &a,
                                      const room &r, int64_t token, int64_t e,
                                      const gates &g, double dbalance)
{
    double dp = dbalance * r.first[token / a.tokens * a.experts + e];
    for (int64_t c = 0; a.gate.data != NULL && c < a.choices; c++) {
        const int64_t at = token * a.choices + c;
        if (expert_of(a, a.place[at]) == e)
            dp += (get(a.gate, at, 0) - g.mean) / g.sum;
    }
    return dp;
}

__global__ void grad(tt_cuda_route_args a, room r)
{
    const int64_t token = thread_index();
    if (token >= a.groups * a.tokens)
        return;
    const double dbalance =
        get(a.balance, 0, 0) * (double)a.experts / (double)a.tokens;
    const softmax s = softmax_of(a, token);
    gates g = {0, 0};
    for (int64_t c = 0; c < a.choices; c++) {
        const int64_t at = token * a.choices + c;
        const double p = probability(a, s, expert_of(a, a.place[at]));
        g.sum += p;
        g.mean += p * get(a.gate, at, 0);
    }
    g.mean /= g.sum;
    double dot = 0;
    for (int64_t e = 0; e < a.experts; e++)
        dot += probability(a, s, e) * dp_of(a, r, token, e, g, dbalance);
    for (int64_t e = 0; e < a.experts; e++)
        put(a.dlogits, s.base + e,
            probability(a, s, e) * (dp_of(a, r, token, e, g, dbalance) - dot));
}

// ---- launching -------------------------------------------------------------

static unsigned blocks_for(int64_t n)
{
    return (unsigned)ceil_div(n, THREADS);
}

extern "C" const char *tt_cuda_route(tt_cuda *cuda,
                                     const tt_cuda_route_args *args)
{
    const tt_cuda_route_args &a = *args;
    const room r = room_of(args);
    choose<<<blocks_for(a.groups * a.tokens), THREADS, 0, cuda->stream>>>(a, r);
    TRY(launched());
    give_slots<<<blocks_for(a.groups * a.experts), THREADS, 0, cuda->stream>>>(
        a, r);
    TRY(launched());
    sum_balance<<<(unsigned)a.groups, THREADS, 0, cuda->stream>>>(a, r);
    TRY(launched());
    join_balance<<<1, 1, 0, cuda->stream>>>(a, r);
    return launched();
}

extern "C" const char *tt_cuda_route_grad(tt_cuda *cuda,
                                          const tt_cuda_route_args *args)
{
    const tt_cuda_route_args &a = *args;
    const room r = room_of(args);
    count_first<<<blocks_for(a.groups * a.experts), THREADS, 0, cuda->stream>>>(
        a, r);
    TRY(launched());
    grad<<<blocks_for(a.groups * a.tokens), THREADS, 0, cuda->stream>>>(a, r);
    return launched();
}
