// The kernels that oneDNN computes: equal to ref, and where promised equal for any
// number of threads.

#include "backend/cpu/dnnl/dnnl_inner.h"
#include "backend/cpu_check.h"
#include "ops/ops.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const cpu_case products[] = {
    {&tt_op_matmul, "", {"m:1 k:1", "k:1 n:1"}, .kernel = "cpu.matvec"},
    {&tt_op_matmul, "", {"m:37 k:65", "k:65 n:19", "n:19"}},
    {&tt_op_matmul,
     "",
     {"m:1 k:300", "k:300 n:17", "n:17"},
     .kernel = "cpu.matvec"},
    {&tt_op_matmul,
     "transpose_b=true",
     {"b:2 m:4 k:70", "n:330 k:70", "n:330"},
     .kernel = "cpu.matvec"},
    {&tt_op_matmul, "", {"b:3 m:3 k:70", "k:70 n:33", "n:33"}},
    {&tt_op_matmul, "transpose_b=true", {"m:50 k:1", "n:33 k:1"}},
    {&tt_op_matmul,
     "transpose_b=true",
     {"b:3 m:11 k:70", "n:130 k:70", "n:130"}},
    {&tt_op_matmul, "transpose_a=true", {"k:77 m:13", "k:77 n:21"}},
    {&tt_op_matmul, "transpose_a=true", {"k:2500 m:13", "k:2500 n:21"}},
    {&tt_op_matmul,
     "transpose_a=true",
     {"k:2500 m:13", "k:2500 n:150", "n:150"}},
    {&tt_op_matmul,
     "transpose_a=true",
     {"k:2500 m:150", "k:2500 n:13", "n:13"}},
    {&tt_op_matmul, "transpose_a=true", {"b:3 k:2500 m:13", "b:3 k:2500 n:21"}},
    {&tt_op_matmul,
     "transpose_a=true transpose_b=true",
     {"k:9 m:5", "n:7 k:9"}},
    {&tt_op_matmul, "", {"b:2 h:3 m:9 k:17", "b:2 h:3 k:17 n:23"}},
    {&tt_op_matmul,
     "transpose_b=true",
     {"b:2 h:3 m:9 k:17", "b:2 h:3 n:23 k:17"}},
    {&tt_op_matmul, "transpose_a=true", {"b:2 k:9 m:17", "b:2 k:9 n:23"}},
    {&tt_op_matmul, "activation=relu", {"m:37 k:65", "k:65 n:19", "n:19"}},
    {&tt_op_matmul,
     "activation=gelu_tanh",
     {"b:2 m:7 k:65", "k:65 n:19", "n:19"}},
    {&tt_op_matmul,
     "activation=gelu_erf",
     {"m:7 k:65", "k:65 n:19", "n:19"},
     .kernel = "cpu.matvec"},
    {&tt_op_matmul, "activation=silu", {"m:9 k:65", "k:65 n:19"}},
    {&tt_op_matmul,
     "activation=tanh",
     {"m:7 k:65", "k:65 n:19"},
     .kernel = "cpu.matvec"},
    {&tt_op_matmul, "activation=sigmoid", {"m:9 k:65", "k:65 n:19"}},
    {&tt_op_matmul_grad_w, "", {"m:33 k:18", "m:33 n:7"}},
    {&tt_op_matmul_grad_w, "", {"b:3 m:5 k:1", "b:3 m:5 n:40"}},
    {&tt_op_matmul_grad_w, "transposed=true", {"b:3 m:5 k:18", "b:3 m:5 n:7"}},
    {&tt_op_matmul_grad_w, "", {"m:1 k:18", "m:1 n:7"}},
    {&tt_op_matmul_grad_w, "", {"m:5001 k:18", "m:5001 n:70"}},
    {&tt_op_matmul_grad_w, "transposed=true", {"m:4096 k:65", "m:4096 n:3"}},
};
enum { N_PRODUCTS = sizeof(products) / sizeof(products[0]) };

static cpu_case with(const cpu_case *c, tt_dtype dtype)
{
    cpu_case typed = *c;
    typed.dtype = dtype;
    typed.f32_in = typed.op == &tt_op_matmul ? 4 : 0;
    if (typed.kernel == NULL)
        typed.kernel =
            typed.op == &tt_op_matmul ? "cpu.matmul" : "cpu.matmul_grad_w";
    return typed;
}

TEST(cpu_matmul_equals_ref)
{
    for (int i = 0; i < N_PRODUCTS; i++) {
        const cpu_case c = with(&products[i], TT_F32);
        cpu_check(&c, 3e-6);
    }
}

TEST(cpu_matmul_grad_w_adds_to_its_output)
{
    for (int i = 0; i < N_PRODUCTS; i++) {
        cpu_case c = with(&products[i], TT_F32);
        c.twice = true;
        if (c.op == &tt_op_matmul_grad_w)
            cpu_check(&c, 3e-6);
    }
}

TEST(cpu_matmul_in_bf16_equals_ref)
{
    for (int i = 0; i < N_PRODUCTS; i++) {
        const cpu_case c = with(&products[i], TT_BF16);
        // Results are rounded to 8 bits, an activation's argument too.
        cpu_check(&c, c.op == &tt_op_matmul ? 1.0 / 128 : 1e-5);
    }
}

TEST(cpu_matmul_of_images_in_blocks_equals_ref)
{
    static const cpu_case images[] = {
        {&tt_op_matmul, "", {"n:2 c:16 w:9", "w:9 o:20"}},
        {&tt_op_matmul, "", {"n:2 m:16 k:16", "n:2 k:16 o:9"}},
        {&tt_op_matmul_grad_w, "", {"n:2 c:16 w:9", "n:2 c:16 o:7"}},
    };
    for (int i = 0; i < 3; i++)
        for (uint32_t bits = 1; bits < (i == 0 ? 2 : 4); bits++) {
            cpu_case c = with(&images[i], TT_F32);
            c.blocked_in = bits;
            c.block = 16;
            cpu_check(&c, 3e-6);
        }
}

TEST(cpu_matmul_does_not_depend_on_threads)
{
    static const cpu_case large[] = {
        {&tt_op_matmul, "", {"m:200 k:300", "k:300 n:500", "n:500"}},
        {&tt_op_matmul,
         "transpose_b=true",
         {"m:3 k:20000", "n:40 k:20000"},
         .kernel = "cpu.matvec"},
        {&tt_op_matmul, "transpose_b=true", {"m:9 k:20000", "n:40 k:20000"}},
        {&tt_op_matmul,
         "",
         {"m:2 k:300", "k:300 n:2500", "n:2500"},
         .kernel = "cpu.matvec"},
        {&tt_op_matmul, "transpose_a=true", {"k:9000 m:30", "k:9000 n:50"}},
        {&tt_op_matmul_grad_w, "", {"m:20000 k:30", "m:20000 n:10"}},
        {&tt_op_matmul_grad_w,
         "transposed=true",
         {"m:2049 k:300", "m:2049 n:7"}},
    };
    const int n_large = sizeof(large) / sizeof(large[0]);
    for (int i = 0; i < N_PRODUCTS + n_large; i++)
        for (int b = 0; b < 2; b++) {
            const cpu_case c =
                with(i < n_large ? &large[i] : &products[i - n_large],
                     b == 0 ? TT_F32 : TT_BF16);
            cpu_check_threads(&c);
        }
}

// ---- convolution and pooling ----

// x, w and bias of a convolution; its gradients follow from them.
static const cpu_case convolutions[] = {
    {&tt_op_conv, "pad=1", {"n:2 c:16 h:9 w:7", "o:32 c:16 kh:3 kw:3", "o:32"}},
    {&tt_op_conv,
     "stride=2 pad=3",
     {"n:3 c:3 h:23 w:21", "o:16 c:3 kh:7 kw:7"}},
    {&tt_op_conv, "", {"n:2 c:32 h:6 w:5", "o:64 c:32 kh:1 kw:1"}},
    {&tt_op_conv, "stride=2", {"n:2 c:32 h:7 w:6", "o:48 c:32 kh:1 kw:1"}},
    {&tt_op_conv, "pad=2,1", {"n:1 c:1 h:8 w:8", "o:6 c:1 kh:5 kw:3", "o:6"}},
    {&tt_op_conv, "pad=1", {"n:2 c:5 h:6 w:9", "o:7 c:5 kh:3 kw:3", "o:7"}},
    {&tt_op_conv, "groups=4 pad=1", {"n:2 c:8 h:6 w:6", "o:12 c:2 kh:3 kw:3"}},
    {&tt_op_conv,
     "groups=32 pad=1",
     {"n:2 c:32 h:6 w:6", "o:32 c:1 kh:3 kw:3"}},
    {&tt_op_conv,
     "dilation=2 pad=2",
     {"n:2 c:16 h:9 w:9", "o:16 c:16 kh:3 kw:3"}},
    {&tt_op_conv,
     "pad=1 stride=2",
     {"n:2 c:16 w:19", "o:16 c:16 kw:3", "o:16"}},
    {&tt_op_conv,
     "pad=1",
     {"n:2 c:16 d:4 h:5 w:6", "o:16 c:16 kd:3 kh:3 kw:3"}},
    {&tt_op_conv,
     "pad=1 algorithm=winograd",
     {"n:4 c:32 h:14 w:14", "o:32 c:32 kh:3 kw:3"}},
    {&tt_op_conv,
     "pad=1 algorithm=im2col",
     {"n:2 c:16 h:9 w:9", "o:32 c:16 kh:3 kw:3"}},
    {&tt_op_conv,
     "pad=1 algorithm=fft",
     {"n:2 c:16 h:9 w:9", "o:32 c:16 kh:3 kw:3"}},
    {&tt_op_conv,
     "stride=16",
     {"n:2 c:3 h:32 w:48", "o:24 c:3 kh:16 kw:16", "o:24"}},
};
enum { N_CONVOLUTIONS = sizeof(convolutions) / sizeof(convolutions[0]) };

// The shape of the convolution's output, as text.
static void output_of(const cpu_case *c, char *text, int room)
{
    cpu_case one = *c;
    tt_shape shape;
    cpu_shape_of(&one, 0, &shape);
    tt_str s = {0};
    tt_shape_print(&shape, &s);
    CHECK(snprintf(text, (size_t)room, "%s", tt_str_text(&s)) < room);
    tt_str_fini(&s);
}

static void check_gradients(const cpu_case *c, double tolerance)
{
    char y[128];
    output_of(c, y, sizeof(y));
    cpu_case dx = {&tt_op_conv_grad_x, c->params, {y, c->in[1], c->in[0]}};
    cpu_case dw = {&tt_op_conv_grad_w, c->params, {c->in[0], y, c->in[1]}};
    dx.dtype = dw.dtype = c->dtype;
    dx.kernel = "cpu.conv_grad_x";
    dw.kernel = "cpu.conv_grad_w";
    cpu_check(&dx, tolerance);
    cpu_check(&dw, tolerance);
}

TEST(cpu_conv_and_its_gradients_equal_ref)
{
    for (int i = 0; i < N_CONVOLUTIONS; i++) {
        cpu_case c = convolutions[i];
        c.dtype = TT_F32;
        c.kernel = "cpu.conv";
        const double tolerance = strstr(c.params, "winograd") ? 1e-4 : 3e-6;
        cpu_check(&c, tolerance);
        check_gradients(&c, tolerance);
    }
}

TEST(cpu_conv_in_bf16_equals_ref)
{
    for (int i = 0; i < N_CONVOLUTIONS; i++) {
        cpu_case c = convolutions[i];
        c.dtype = TT_BF16;
        c.f32_in = 4;
        cpu_check(&c, 1.0 / 128);
        check_gradients(&c, 1.0 / 128);
    }
}

static const cpu_case exact[] = {
    {&tt_op_conv, "pad=1", {"n:3 c:64 h:30 w:27", "o:64 c:64 kh:3 kw:3"}},
    {&tt_op_conv,
     "pad=1 stride=2",
     {"n:11 c:16 h:19 w:18", "o:32 c:16 kh:3 kw:3"}},
    {&tt_op_conv,
     "stride=2 pad=3",
     {"n:9 c:3 h:40 w:40", "o:16 c:3 kh:7 kw:7"}},
    {&tt_op_conv, "", {"n:10 c:64 h:14 w:14", "o:32 c:64 kh:1 kw:1"}},
    {&tt_op_conv, "", {"n:1 c:5 h:14 w:14", "o:7 c:5 kh:3 kw:3"}},
    {&tt_op_conv, "groups=2", {"n:6 c:32 h:9 w:9", "o:32 c:16 kh:3 kw:3"}},
};

TEST(cpu_exact_convolutions_do_not_depend_on_threads)
{
    for (int i = 0; i < (int)(sizeof(exact) / sizeof(exact[0])); i++) {
        char y[128];
        output_of(&exact[i], y, sizeof(y));
        const char *x = exact[i].in[0], *w = exact[i].in[1];
        cpu_case each[] = {
            exact[i],
            {&tt_op_conv_grad_x, exact[i].params, {y, w, x}},
            {&tt_op_conv_grad_w, exact[i].params, {x, y, w}},
        };
        for (int k = 0; k < 3; k++) {
            each[k].dtype = TT_F32;
            each[k].is_exact = true;
            cpu_check(&each[k], 3e-6);
            cpu_check_threads(&each[k]);
        }
    }
}

// An algorithm is a preference; exact mode has one algorithm.
TEST(cpu_exact_convolutions_are_direct_whatever_is_preferred)
{
    static const char *const params[] = {
        "pad=1 algorithm=direct", "pad=1 algorithm=auto",
        "pad=1 algorithm=winograd", "pad=1 algorithm=im2col",
        "pad=1 algorithm=fft"};
    cpu_case c = exact[0];
    cpu_result direct, other;
    c.dtype = TT_F32;
    c.is_exact = true;
    c.params = params[0];
    cpu_run("cpu", &c, &direct);
    for (int i = 1; i < 5; i++) {
        c.params = params[i];
        cpu_run("cpu", &c, &other);
        CHECK_MSG(memcmp(direct.out[0], other.out[0],
                         (size_t)direct.count[0] * 8) == 0,
                  "%s", params[i]);
        cpu_result_fini(&other);
        cpu_check_threads(&c);
    }
    cpu_result_fini(&direct);
}

static const cpu_case pools[] = {
    {&tt_op_max_pool, "kernel=2", {"n:2 c:16 h:8 w:6"}},
    {&tt_op_max_pool, "kernel=3 stride=2 pad=1", {"n:2 c:5 h:9 w:7"}},
    {&tt_op_max_pool, "kernel=3 stride=1 pad=1", {"n:2 c:5 d:4 h:5 w:6"}},
    {&tt_op_max_pool, "kernel=3", {"n:2 c:5 w:19"}},
    {&tt_op_max_pool, "kernel=3", {"n:2 c:32 w:19"}},
    {&tt_op_avg_pool, "kernel=2", {"n:2 c:16 h:8 w:6"}},
    {&tt_op_avg_pool, "kernel=3 stride=2 pad=1", {"n:2 c:5 h:9 w:7"}},
    {&tt_op_avg_pool,
     "kernel=3 stride=2 pad=1 count_pad=false",
     {"n:2 c:5 h:9 w:7"}},
    {&tt_op_adaptive_avg_pool, "out=1", {"n:3 c:32 h:7 w:7"}},
    {&tt_op_adaptive_avg_pool, "out=2", {"n:3 c:7 h:8 w:6"}},
    {&tt_op_adaptive_avg_pool, "out=3", {"n:3 c:7 h:8 w:7"}},
    {&tt_op_avg_pool_grad,
     "kernel=3 stride=2 pad=1 count_pad=false",
     {"n:2 c:5 h:5 w:4", "n:2 c:5 h:9 w:7"}},
    {&tt_op_avg_pool_grad,
     "kernel=2",
     {"n:2 c:16 h:4 w:3", "n:2 c:16 h:8 w:6"}},
    {&tt_op_adaptive_avg_pool_grad,
     "out=1",
     {"n:3 c:32 h:1 w:1", "n:3 c:32 h:7 w:7"}},
    {&tt_op_adaptive_avg_pool_grad,
     "out=2",
     {"n:3 c:7 h:2 w:2", "n:3 c:7 h:8 w:6"}},
};

TEST(cpu_pools_equal_ref)
{
    for (int i = 0; i < (int)(sizeof(pools) / sizeof(pools[0])); i++)
        for (int b = 0; b < 2; b++) {
            cpu_case c = pools[i];
            c.dtype = b == 0 ? TT_F32 : TT_BF16;
            cpu_check(&c, b == 0 ? 1e-6 : 1.0 / 128);
            c.blocked_in = 1;
            c.block = 16;
            cpu_check(&c, b == 0 ? 1e-6 : 1.0 / 128);
        }
}

TEST(cpu_max_pool_grad_equals_ref_in_every_layout)
{
    static const int64_t blocks[] = {1, 8, 16, 20};
    for (int i = 0; i < 4; i++) {
        const cpu_case c = {
            &tt_op_max_pool_grad,
            "kernel=2",
            {"n:3 c:20 h:5 w:4", "n:3 c:20 h:5 w:4", "n:3 c:20 h:10 w:9"},
            TT_F32,
            .u8_in = 2,
            .blocked_in = 3,
            .block = blocks[i],
            .kernel = "cpu.max_pool_grad"};
        cpu_check(&c, 1e-6);
    }
}

// ---- batch norm ----

#define IMAGE "n:4 c:32 h:5 w:7"
#define THIN "n:4 c:6 w:37"
#define PER_CHANNEL "c:32"

static const cpu_case norms[] = {
    {&tt_op_batch_norm,
     "",
     {IMAGE, PER_CHANNEL, PER_CHANNEL, PER_CHANNEL, PER_CHANNEL}},
    {&tt_op_batch_norm,
     "activation=relu",
     {IMAGE, PER_CHANNEL, PER_CHANNEL, PER_CHANNEL, PER_CHANNEL, IMAGE}},
    {&tt_op_batch_norm,
     "activation=relu group=2",
     {IMAGE, PER_CHANNEL, PER_CHANNEL, PER_CHANNEL, PER_CHANNEL, IMAGE}},
    {&tt_op_batch_norm, "", {THIN, "c:6", "c:6", "c:6", "c:6"}},
    {&tt_op_batch_norm, "", {"n:9 c:21", "c:21", "c:21", "c:21", "c:21"}},
    {&tt_op_batch_norm_grad,
     "",
     {IMAGE, IMAGE, PER_CHANNEL, PER_CHANNEL, PER_CHANNEL}},
    {&tt_op_batch_norm_grad,
     "activation=relu has_residual=true",
     {IMAGE, IMAGE, PER_CHANNEL, PER_CHANNEL, PER_CHANNEL, IMAGE}},
    {&tt_op_batch_norm_grad,
     "activation=relu",
     {THIN, THIN, "c:6", "c:6", "c:6", THIN}},
    {&tt_op_batch_norm_grad,
     "",
     {"n:9 c:21", "n:9 c:21", "c:21", "c:21", "c:21"}},
    {&tt_op_batch_norm_moments, "", {IMAGE, PER_CHANNEL}},
    {&tt_op_batch_norm_grad_sums, "", {IMAGE, IMAGE, PER_CHANNEL, PER_CHANNEL}},
};
enum { N_NORMS = sizeof(norms) / sizeof(norms[0]) };

static uint32_t images_of(const cpu_case *c)
{
    uint32_t images = 0;
    for (int i = 0; i < CPU_MAX_IN && c->in[i] != NULL; i++)
        if (strcmp(c->in[i], IMAGE) == 0)
            images |= 1u << i;
    return images;
}

static cpu_case norm_case(const cpu_case *from, tt_dtype dtype, int64_t block)
{
    cpu_case c = *from;
    c.dtype = dtype;
    for (int i = 0; i < CPU_MAX_IN && c.in[i] != NULL; i++)
        if (strchr(c.in[i], 'n') == NULL)
            c.f32_in |= 1u << i;
    if (block > 0) {
        c.blocked_in = images_of(&c);
        c.block = block;
    }
    return c;
}

TEST(cpu_batch_norm_equals_ref_in_every_layout)
{
    static const int64_t blocks[] = {0, 8, 16, 32};
    for (int i = 0; i < N_NORMS; i++)
        for (int k = 0; k < 4; k++)
            for (int b = 0; b < 2; b++) {
                const cpu_case c =
                    norm_case(&norms[i], b == 0 ? TT_F32 : TT_BF16, blocks[k]);
                cpu_check(&c, b == 0 ? 3e-6 : 1.0 / 128);
            }
}

TEST(cpu_batch_norm_does_not_depend_on_threads)
{
    for (int i = 0; i < N_NORMS; i++)
        for (int k = 0; k < 2; k++) {
            cpu_case c = norm_case(&norms[i], TT_F32, k * 16);
            cpu_check_threads(&c);
        }
    const cpu_case large = {
        &tt_op_batch_norm,
        "activation=relu",
        {"n:5 c:64 h:31 w:29", "c:64", "c:64", "c:64", "c:64"},
        TT_F32};
    cpu_check_threads(&large);
}

// ---- layouts -------------------------------------------------------------

static int32_t layout_of(tt__dnnl *dnnl, dnnl_format_tag_t tag)
{
    const dnnl_dims_t dims = {64, 32, 3, 3};
    dnnl_memory_desc_t md;
    int32_t layout = 0;
    CHECK(dnnl_memory_desc_init_by_tag(&md, 4, dims, dnnl_f32, tag) ==
          dnnl_success);
    CHECK_OK(tt__dnnl_intern(dnnl, &md, &layout));
    return layout;
}

TEST(cpu_layouts_are_cut_where_no_block_is)
{
    tt__dnnl *dnnl = NULL;
    CHECK_OK(tt__dnnl_create(1, &dnnl));
    const int32_t blocked = layout_of(dnnl, dnnl_OIhw16i16o);
    const int32_t doubled = layout_of(dnnl, dnnl_OIhw4i16o4i);
    const int32_t turned = layout_of(dnnl, dnnl_hwio);
    CHECK(tt__dnnl_layout_part(dnnl, blocked, 32) > 0);
    CHECK(tt__dnnl_layout_part(dnnl, blocked, 24) == 0);
    CHECK(tt__dnnl_layout_part(dnnl, doubled, 48) > 0);
    CHECK(tt__dnnl_layout_part(dnnl, doubled, 8) == 0);
    CHECK(tt__dnnl_layout_part(dnnl, turned, 32) == 0);
    const int32_t half = tt__dnnl_layout_part(dnnl, blocked, 32);
    CHECK(tt__dnnl_layout_dim(dnnl, half, 0) == 32);
    CHECK(2 * tt__dnnl_layout_bytes(dnnl, half) ==
          tt__dnnl_layout_bytes(dnnl, blocked));
    tt__dnnl_destroy(dnnl);
}

TEST(cpu_layouts_of_other_orders_have_other_hashes)
{
    static const dnnl_format_tag_t tags[] = {
        dnnl_hwio,        dnnl_OIhw16i16o,  dnnl_OIhw16o16i, dnnl_OIhw8i8o,
        dnnl_OIhw4i16o4i, dnnl_OIhw8i16o2i, dnnl_Ohwi16o};
    enum { N = sizeof tags / sizeof tags[0] };
    uint64_t hash[N];
    tt__dnnl *dnnl = NULL;
    CHECK_OK(tt__dnnl_create(1, &dnnl));
    for (int i = 0; i < N; i++) {
        hash[i] = tt__dnnl_layout_hash(dnnl, layout_of(dnnl, tags[i]));
        CHECK(hash[i] == tt__dnnl_layout_hash(dnnl, layout_of(dnnl, tags[i])));
        for (int k = 0; k < i; k++)
            CHECK(hash[i] != hash[k]);
    }
    tt__dnnl_destroy(dnnl);
}
