// The kernels that oneDNN computes: equal to ref, and where promised equal for any
// number of threads.

#include "backend/cpu/dnnl.h"
#include "backend/cpu_check.h"
#include "ops/ops.h"
#include "test.h"

static const cpu_case products[] = {
    {&tt_op_matmul, "", {"m:1 k:1", "k:1 n:1"}},
    {&tt_op_matmul, "", {"m:37 k:65", "k:65 n:19", "n:19"}},
    {&tt_op_matmul, "", {"m:1 k:300", "k:300 n:17", "n:17"}},
    {&tt_op_matmul, "transpose_b=true", {"m:50 k:1", "n:33 k:1"}},
    {&tt_op_matmul,
     "transpose_b=true",
     {"b:3 m:11 k:70", "n:130 k:70", "n:130"}},
    {&tt_op_matmul, "transpose_a=true", {"k:77 m:13", "k:77 n:21"}},
    {&tt_op_matmul, "transpose_a=true", {"k:2500 m:13", "k:2500 n:21"}},
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
    {&tt_op_matmul, "activation=gelu_erf", {"m:7 k:65", "k:65 n:19", "n:19"}},
    {&tt_op_matmul, "activation=silu", {"m:7 k:65", "k:65 n:19"}},
    {&tt_op_matmul, "activation=tanh", {"m:7 k:65", "k:65 n:19"}},
    {&tt_op_matmul, "activation=sigmoid", {"m:7 k:65", "k:65 n:19"}},
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
    if (!tt__dnnl_has_bf16())
        SKIP("this CPU has no bf16");
    for (int i = 0; i < N_PRODUCTS; i++) {
        const cpu_case c = with(&products[i], TT_BF16);
        // Results are rounded to 8 bits, an activation's argument too.
        cpu_check(&c, c.op == &tt_op_matmul ? 1.0 / 128 : 1e-5);
    }
}

TEST(cpu_matmul_does_not_depend_on_threads)
{
    static const cpu_case large[] = {
        {&tt_op_matmul, "", {"m:200 k:300", "k:300 n:500", "n:500"}},
        {&tt_op_matmul, "transpose_b=true", {"m:3 k:20000", "n:40 k:20000"}},
        {&tt_op_matmul, "transpose_a=true", {"k:9000 m:30", "k:9000 n:50"}},
        {&tt_op_matmul_grad_w, "", {"m:20000 k:30", "m:20000 n:10"}},
        {&tt_op_matmul_grad_w,
         "transposed=true",
         {"m:2049 k:300", "m:2049 n:7"}},
    };
    const int n_large = sizeof(large) / sizeof(large[0]);
    for (int i = 0; i < N_PRODUCTS + n_large; i++)
        for (int b = 0; b < (tt__dnnl_has_bf16() ? 2 : 1); b++) {
            const cpu_case c =
                with(i < n_large ? &large[i] : &products[i - n_large],
                     b == 0 ? TT_F32 : TT_BF16);
            cpu_check_threads(&c);
        }
}
