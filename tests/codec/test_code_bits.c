// Every instruction set writes and reads the codes that the reference does, to the bit.

#include "backend/cpu/simd.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "interp/interp.h"
#include "ops/codec/codes.h"
#include "ops/codec/sparse.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 5003, SEED = 7, STEP = 3 };

// Numbers of a gradient, with everything that is unusual: zeros, tiny and huge ones and,
// if asked for, some that are not finite.
static void fill(float *x, uint64_t key, bool is_bad)
{
    for (int64_t i = 0; i < N; i++) {
        x[i] = (float)tt_rng_normal(key, (uint64_t)i);
        x[i] *= i % 97 == 5 ? 1e-42f : i % 89 == 7 ? 1e18f : 1;
        x[i] = i % 53 == 1 ? 0.0f : i % 59 == 2 ? -0.0f : x[i];
        x[i] = i > 1000 && i < 3000 ? 0.0f : x[i];
    }
    if (is_bad) {
        x[17] = NAN;
        x[4444] = INFINITY;
    }
}

typedef struct codes {
    tt_graph *graph;
    tt_interp *interp;
    tt_val code, left, sum;
} codes;

// The reference's code, residual and sum of two such codes.
static void run_ref(codes *c, const tt_op_def *encode, const tt_op_def *sum,
                    const char *options, const float *const in[2])
{
    tt_builder b;
    tt_val out[TT_MAX_OUT];
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    const tt_val args[4] = {tt_input(&b, "x", TT_F32, "n:5003"),
                            tt_input(&b, "r", TT_F32, "n:5003"),
                            tt_scalar(&b, "seed", TT_I64),
                            tt_scalar(&b, "step", TT_I64)};
    b.origin = "test";
    c->code = tt_callf(&b, encode, args, 4, "%s", options);
    tt_outputs_of(&b, c->code, out);
    c->left = out[1];
    const tt_val twice[2] = {c->code, c->code};
    const tt_val both[2] = {tt_callf(&b, &tt_op_concat, twice, 2, "dim=0"),
                            args[0]};
    c->sum = tt_callf(&b, sum, both, 2, "%s", options);
    tt_output(&b, "sum", c->sum);
    CHECK_OK(tt_builder_take(&b, &c->graph));
    tt_builder_fini(&b);
    CHECK_OK(tt_interp_create(c->graph, &c->interp));
    for (int i = 0; i < 2; i++)
        memcpy(tt_interp_data(c->interp, 0,
                              tt_graph_find(c->graph, i == 0 ? "x" : "r")),
               in[i], N * sizeof(float));
    *(int64_t *)tt_interp_data(c->interp, 0, tt_graph_find(c->graph, "seed")) =
        SEED;
    *(int64_t *)tt_interp_data(c->interp, 0, tt_graph_find(c->graph, "step")) =
        STEP;
    CHECK_OK(tt_interp_run(c->interp));
}

static void fini(codes *c)
{
    tt_interp_destroy(c->interp);
    tt_graph_destroy(c->graph);
}

// The same numbers; NaN is NaN whatever its bits.
static bool same(const float *a, const float *b)
{
    for (int64_t i = 0; i < N; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 &&
            !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

typedef void encode_fn(const tt_simd_code_args *a);
typedef void add_fn(const tt_simd_code_add *a);

// What one instruction set does, against the reference.
static void check_level(codes *c, const tt_simd *simd, encode_fn *encode,
                        add_fn *add, tt_simd_code_args a, int64_t bytes)
{
    unsigned char *body = tt_alloc(bytes + 64);
    float left[N], y[N];
    const unsigned char *code =
        (unsigned char *)tt_interp_data(c->interp, 0, c->code) +
        TT_PACKET_HEADER;
    CHECK(body != NULL);
    memset(body, 0xee, (size_t)bytes + 64);
    a.body = body;
    a.left = left;
    encode(&a);
    CHECK_MSG(memcmp(body, code, (size_t)bytes) == 0, "%s: other codes",
              simd->isa);
    CHECK_MSG(body[bytes] == 0xee, "%s writes past the end", simd->isa);
    CHECK_MSG(same(left, tt_interp_data(c->interp, 0, c->left)),
              "%s: another residual", simd->isa);
    CHECK(simd->code->hash(body, bytes) == tt_packet_hash(body, bytes));
    CHECK(simd->code->hash(body, 5) == tt_packet_hash(body, 5));
    for (int i = 0; i < 2 && add != NULL; i++) {
        const tt_simd_code_add s = {
            .n = N, .block = a.block, .body = body, .y = y, .is_first = i == 0};
        add(&s);
    }
    if (add != NULL)
        CHECK_MSG(same(y, tt_interp_data(c->interp, 0, c->sum)),
                  "%s: another sum", simd->isa);
    tt_free(body);
}

// Offsets into the table of functions would be shorter, and say nothing.
typedef struct pair {
    encode_fn *encode;
    add_fn *add;
} pair;

static pair int8_of(const tt_simd_code *c)
{
    return (pair){c->int8, c->int8_add};
}
static pair onebit_of(const tt_simd_code *c)
{
    return (pair){c->onebit, c->onebit_add};
}
static pair sign_of(const tt_simd_code *c)
{
    return (pair){c->sign, NULL};
}
static pair twobit_of(const tt_simd_code *c)
{
    return (pair){c->twobit, c->twobit_add};
}
static pair ternary_of(const tt_simd_code *c)
{
    return (pair){c->ternary, c->ternary_add};
}
static pair natural_of(const tt_simd_code *c)
{
    return (pair){c->natural, c->natural_add};
}

static void check(const tt_op_def *encode, const tt_op_def *sum,
                  pair (*find)(const tt_simd_code *c))
{
    static const int64_t blocks[] = {8, 40, 333, 1024, 4096};
    float x[N], r[N];
    for (int k = 0; k < 10; k++) {
        const int64_t block = blocks[k / 2];
        const tt_code_params params = {.block = block};
        char options[32];
        codes c;
        fill(x, 1, k % 2 == 1);
        fill(r, 2, false);
        snprintf(options, sizeof options, "block=%lld", (long long)block);
        run_ref(&c, encode, sum, options, (const float *const[]){x, r});
        for (int i = 0; tt_simd_at(i) != NULL; i++) {
            const pair f = find(tt_simd_at(i)->code);
            const tt_simd_code_args a = {
                .n = N,
                .block = block,
                .key = tt_rng_key(SEED, "test", STEP),
                .x = x,
                .residual = r,
            };
            check_level(&c, tt_simd_at(i), f.encode, f.add, a,
                        tt_packet_body(encode->family, &params, N, TT_F32));
        }
        fini(&c);
    }
}

TEST(int8_codes_have_the_same_bits_with_every_instruction_set)
{
    check(&tt_op_int8_encode, &tt_op_int8_sum, int8_of);
}

TEST(onebit_codes_have_the_same_bits_with_every_instruction_set)
{
    check(&tt_op_onebit_encode, &tt_op_onebit_sum, onebit_of);
}

TEST(sign_codes_have_the_same_bits_with_every_instruction_set)
{
    check(&tt_op_sign_encode, &tt_op_sign_sum, sign_of);
}

TEST(twobit_codes_have_the_same_bits_with_every_instruction_set)
{
    check(&tt_op_twobit_encode, &tt_op_twobit_sum, twobit_of);
}

TEST(ternary_codes_have_the_same_bits_with_every_instruction_set)
{
    check(&tt_op_ternary_encode, &tt_op_ternary_sum, ternary_of);
}

TEST(natural_codes_have_the_same_bits_with_every_instruction_set)
{
    check(&tt_op_natural_encode, &tt_op_natural_sum, natural_of);
}

static void check_threelc(codes *c, const tt_simd *simd, tt_simd_code_args a)
{
    unsigned char body[2 * N];
    float left[N], y[N];
    const unsigned char *packet = tt_interp_data(c->interp, 0, c->code);
    const int64_t bytes = tt_packet_used(packet) - TT_PACKET_HEADER;
    a.body = body;
    a.left = left;
    CHECK(simd->code_entropy->threelc(&a) == bytes);
    CHECK_MSG(memcmp(body, packet + TT_PACKET_HEADER, (size_t)bytes) == 0,
              "%s: other codes", simd->isa);
    CHECK(same(left, tt_interp_data(c->interp, 0, c->left)));
    for (int i = 0; i < 2; i++) {
        const tt_simd_code_add s = {.n = N,
                                    .block = a.block,
                                    .bytes = bytes,
                                    .body = body,
                                    .y = y,
                                    .is_first = i == 0};
        CHECK(simd->code_entropy->threelc_add(&s));
    }
    CHECK(same(y, tt_interp_data(c->interp, 0, c->sum)));
}

TEST(codes_of_3lc_have_the_same_bits_with_every_instruction_set)
{
    static const int64_t blocks[] = {8, 333, 4096};
    float x[N], r[N];
    for (int k = 0; k < 6; k++) {
        char options[64];
        codes c;
        fill(x, 1, k % 2 == 1);
        fill(r, 2, false);
        snprintf(options, sizeof options, "block=%lld sparsity=1.5",
                 (long long)blocks[k / 2]);
        run_ref(&c, &tt_op_threelc_encode, &tt_op_threelc_sum, options,
                (const float *const[]){x, r});
        for (int i = 0; tt_simd_at(i) != NULL; i++)
            check_threelc(&c, tt_simd_at(i),
                          (tt_simd_code_args){.n = N,
                                              .block = blocks[k / 2],
                                              .sparsity = 1.5f,
                                              .x = x,
                                              .residual = r});
        fini(&c);
    }
}

// Every number of 16 bits there and back, the ones beside the ties between two of them,
// and what is too large.
TEST(numbers_of_16_bits_are_rounded_alike_with_every_instruction_set)
{
    enum { MANY = 3 * 65536 };
    float *x = tt_alloc(2 * MANY * (int64_t)sizeof *x), *y = x + MANY;
    uint16_t *code = tt_alloc(2 * MANY * (int64_t)sizeof *code);
    CHECK(x != NULL && code != NULL);
    for (int half = 0; half < 2; half++) {
        const tt_dtype dtype = half ? TT_F16 : TT_BF16;
        for (int i = 0; i < MANY; i++) {
            const uint16_t h = (uint16_t)(i / 3);
            const double at = tt_dtype_load(dtype, &h, 0);
            const uint16_t h2 = (uint16_t)(h + 1);
            const double next = tt_dtype_load(dtype, &h2, 0);
            x[i] = (float)(i % 3 == 0   ? at
                           : i % 3 == 1 ? (at + next) / 2
                                        : (at + next) / 2 * (1 + 1e-6));
        }
        for (int i = 0; tt_simd_at(i) != NULL; i++) {
            const tt_simd_narrow_args a = {.n = MANY,
                                           .is_half = half,
                                           .scale = 1,
                                           .limit = INFINITY,
                                           .x = x,
                                           .code = code};
            tt_simd_at(i)->code_narrow->narrow(&a);
            tt_simd_at(i)->code_narrow->widen(half, code, 1, y, MANY);
            for (int64_t k = 0; k < MANY; k++) {
                uint16_t want;
                tt_dtype_store(dtype, &want, 0, (double)x[k]);
                CHECK_MSG(code[k] == want, "%s: %a is %04x, not %04x",
                          tt_simd_at(i)->isa, (double)x[k], code[k], want);
                const float back = (float)tt_dtype_load(dtype, &want, 0);
                CHECK_MSG(memcmp(&back, &y[k], 4) == 0 ||
                              (isnan(back) && isnan(y[k])),
                          "%s: %04x is %a", tt_simd_at(i)->isa, want,
                          (double)y[k]);
            }
        }
    }
    tt_free(code);
    tt_free(x);
}

// The reference's packet of topk has the places and values that every set picks.
TEST(the_largest_entries_are_the_same_with_every_instruction_set)
{
    static const double ratios[] = {0.0001, 0.01, 0.3, 0.7, 1};
    float x[N], r[N], value[N], left[N];
    uint32_t place[N];
    for (int k = 0; k < 10; k++) {
        char options[32];
        codes c;
        fill(x, 1, k % 2 == 1);
        fill(r, 2, false);
        snprintf(options, sizeof options, "ratio=%g", ratios[k / 2]);
        run_ref(&c, &tt_op_topk_encode, &tt_op_topk_sum, options,
                (const float *const[]){x, r});
        const char *body =
            (char *)tt_interp_data(c.interp, 0, c.code) + TT_PACKET_HEADER;
        const int64_t want = tt_sparse_count(ratios[k / 2], N);
        for (int i = 0; tt_simd_at(i) != NULL; i++) {
            const tt_simd_pick p = {.n = N,
                                    .k = want,
                                    .x = x,
                                    .residual = r,
                                    .left = left,
                                    .place = place,
                                    .value = value};
            CHECK(tt_simd_at(i)->code_pick->pick(&p) == want);
            CHECK(memcmp(body + 8, value, (size_t)want * 4) == 0);
            CHECK(memcmp(body + 8 + want * 4, place, (size_t)want * 4) == 0);
            for (int64_t j = 0; j < want; j++)
                left[place[j]] = 0;
            CHECK(same(left, tt_interp_data(c.interp, 0, c.left)));
        }
        fini(&c);
    }
}
