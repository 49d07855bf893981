// The level of instructions: a limit holds for our kernels and for oneDNN, it cannot
// come too late, and bf16 is the same numbers at every level.

#include "backend/cpu/dnnl/dnnl.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/simd.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "test.h"

#include <pthread.h>
#include <string.h>

TEST(isa_has_a_name_for_every_level)
{
    CHECK(tt_isa_find("auto") == TT_ISA_AUTO);
    CHECK(tt_isa_find("base") == TT_ISA_BASE);
    CHECK(tt_isa_find("v4b") == TT_ISA_V4B);
    CHECK(tt_isa_find("v5") == -1 && tt_isa_find("") == -1);
    CHECK(strcmp(tt_isa_name[TT_ISA_V3], "v3") == 0);
}

TEST(isa_limits_own_kernels_and_onednn)
{
    tt__dnnl *dnnl = NULL;
    CHECK_OK(tt_isa_limit(TT_ISA_AUTO));
    CHECK_OK(tt_isa_limit(TT_ISA_V4));
    CHECK_OK(tt_isa_limit(TT_ISA_V3));
    CHECK_OK(tt_isa_limit(TT_ISA_V4B)); // the lowest counts
    CHECK(tt_isa_most() <= TT_ISA_V3);
    CHECK(tt_isa_used() <= TT_ISA_V3 && tt_isa_used() <= tt_isa_here());
    CHECK(strcmp(tt_simd_get()->isa, tt_isa_name[tt_isa_used()]) == 0);
    CHECK_OK(tt__dnnl_create(1, &dnnl));
    CHECK(!tt__dnnl_has_bf16() && tt__dnnl_channel_block() == 8);
    tt__dnnl_destroy(dnnl);
}

enum { THREADS = 16 };
static pthread_barrier_t begin;

static void *open_library(void *user)
{
    tt__dnnl *dnnl = NULL;
    (void)pthread_barrier_wait(&begin);
    *(bool *)user = tt__dnnl_create(1, &dnnl) == TT_OK && !tt__dnnl_has_bf16();
    tt__dnnl_destroy(dnnl);
    return NULL;
}

// Ranks may be threads that open the library at the same time.
TEST(isa_limits_onednn_for_all_threads)
{
    pthread_t thread[THREADS];
    bool is_right[THREADS] = {0};
    CHECK_OK(tt_isa_limit(TT_ISA_V3));
    CHECK(pthread_barrier_init(&begin, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, open_library, &is_right[i]) ==
              0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0 && is_right[i]);
}

TEST(isa_cannot_be_limited_when_more_is_in_use)
{
    const tt_isa used = tt_isa_used();
    for (tt_isa most = TT_ISA_BASE; most < TT_N_ISAS; most++) {
        CHECK((tt_isa_limit(most) == TT_OK) == (most >= used));
        CHECK(tt_isa_used() == used);
    }
    if (used > TT_ISA_BASE)
        CHECK(strstr(tt_error_message(), "already") != NULL);
}

TEST(isa_lists_the_level_in_use_and_those_below)
{
    int n = 0;
    for (; tt_simd_at(n) != NULL; n++)
        CHECK(strcmp(tt_simd_at(n)->isa, tt_isa_name[(int)tt_isa_used() - n]) ==
              0);
    CHECK(n == (int)tt_isa_used());
}

// ---- attention in bf16 ----

enum { BATCH = 2, HEADS = 2, LENGTH = 90, MOST_DIM = 64 };
enum { Q, K, V, O, D_O, D_Q, D_K, D_V, N_TENSORS };
enum { COUNT = BATCH * HEADS * LENGTH * MOST_DIM };

typedef struct tensors {
    uint16_t of[N_TENSORS][COUNT];
    float lse[BATCH * HEADS * LENGTH];
} tensors;

static void attend(const tt_simd *simd, int64_t head_dim, tensors *t)
{
    tt_simd_attention_args x = {
        .type = TT_SIMD_BF16,
        .is_causal = true,
        .scale = 0.3f,
        .n_batch = BATCH,
        .q_heads = HEADS,
        .kv_heads = HEADS,
        .q_len = LENGTH,
        .k_len = LENGTH,
        .head_dim = head_dim,
        .threads = 1,
        .lse = t->lse,
    };
    tt_simd_heads *const view[] = {&x.q,   &x.k,   &x.v,   &x.o,
                                   &x.d_o, &x.d_q, &x.d_k, &x.d_v};
    for (int i = 0; i < N_TENSORS; i++)
        *view[i] = (tt_simd_heads){.data = t->of[i],
                                   .batch = LENGTH * HEADS * head_dim,
                                   .head = head_dim,
                                   .row = HEADS * head_dim};
    const int64_t forward = simd->attention->forward_scratch_bytes(&x);
    const int64_t backward = simd->attention->backward_scratch_bytes(&x);
    x.scratch = tt_alloc(forward > backward ? forward : backward);
    CHECK(x.scratch != NULL);
    simd->attention->forward(&x);
    simd->attention->backward(&x);
    tt_free(x.scratch);
}

static uint16_t bf16_of(double x)
{
    const float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Sums in another order are another number where the sum lies near the middle between
// two of bf16: about one in 2^16 / 2^7 for each bit that orders differ in. Weights that
// are not rounded before they meet the values make one in four differ.
static void check_share(const tensors *a, const tensors *b, int64_t head_dim)
{
    static const char *const name[] = {"q",   "k",   "v",   "o",
                                       "d_o", "d_q", "d_k", "d_v"};
    const int64_t n = (int64_t)BATCH * HEADS * LENGTH * head_dim;
    for (int i = O; i < N_TENSORS; i++) {
        int64_t differ = 0;
        for (int64_t k = 0; k < n; k++)
            differ += a->of[i][k] != b->of[i][k];
        CHECK_MSG(differ * 50 < n, "%s: %lld of %lld differ, head_dim %lld",
                  name[i], (long long)differ, (long long)n,
                  (long long)head_dim);
    }
}

TEST(attention_in_bf16_rounds_at_the_same_places_at_every_level)
{
    static tensors first, other;
    static const int64_t dims[] = {64, 32, 16, 24, 20};
    for (int d = 0; d < 5; d++) {
        for (int i = 0; i < N_TENSORS; i++)
            for (int64_t k = 0; k < COUNT; k++)
                first.of[i][k] =
                    bf16_of(tt_rng_normal((uint64_t)i, (uint64_t)k));
        other = first;
        attend(tt_simd_at(0), dims[d], &first);
        for (int i = 1; tt_simd_at(i) != NULL; i++) {
            attend(tt_simd_at(i), dims[d], &other);
            check_share(&first, &other, dims[d]);
        }
    }
}
