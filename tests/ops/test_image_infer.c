// What products, convolution, pooling, batch norm and LSTM refuse, each in one
// sentence that starts with the operator's name.

#include "ops/gradops.h"
#include "ops/ops.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

typedef struct refusal {
    const tt_op_def *op;
    const char *params;
    const char *in[8]; // float shapes; "i a:3": integers; "-": absent
    const char *message;
} refusal;

static const refusal refusals[] = {
    {&tt_op_matmul,
     "",
     {"m:3 k:64", "k:65 n:4"},
     "matmul: inner extents differ: a has k=64, b has 65"},
    {&tt_op_matmul,
     "transpose_a=true",
     {"l:2 k:3 m:4", "k:3 n:5"},
     "matmul: transpose_a with leading dimensions needs a b that has them too"},
    {&tt_op_matmul,
     "",
     {"l:2 m:3 k:4", "l:3 k:4 n:5"},
     "matmul: leading extents differ: a has 2, b has 3 in dimension 0"},
    {&tt_op_matmul,
     "",
     {"l:2 j:2 m:3 k:4", "l:2 k:4 n:5"},
     "matmul: b must have 2 or 4 dimensions as a has, not 3"},
    {&tt_op_matmul,
     "",
     {"k:4", "k:4 n:5"},
     "matmul: a and b need two dimensions or more, not 1 and 2"},
    {&tt_op_matmul,
     "",
     {"m:3 k:4", "k:4 n:5", "n:4"},
     "matmul: bias has 4 entries instead of 5"},
    {&tt_op_matmul,
     "",
     {"m:3 k:4", "k:4 m:5"},
     "matmul: the name m stands twice in one shape"},
    {&tt_op_matmul,
     "",
     {"m:3 k:4", "i k:4 n:5"},
     "matmul: b must be f32, not i32"},
    {&tt_op_matmul_grad_w,
     "",
     {"m:3 k:4", "m:4 n:5"},
     "matmul_grad_w: leading extents differ: x has 3, dy has 4 in dimension 0"},
    {&tt_op_conv,
     "",
     {"n:1 c:4 h:5 w:5", "o:2 c:3 kh:3 kw:3"},
     "conv: w has 3 channels per filter, x has 4 per group"},
    {&tt_op_conv,
     "groups=3",
     {"n:1 c:4 h:5 w:5", "o:3 c:1 kh:3 kw:3"},
     "conv: 3 groups do not divide 4 input channels"},
    {&tt_op_conv,
     "groups=2",
     {"n:1 c:4 h:5 w:5", "o:3 c:2 kh:3 kw:3"},
     "conv: 2 groups do not divide 3 filters"},
    {&tt_op_conv,
     "pad=1 dilation=4",
     {"n:1 c:4 h:6 w:9", "o:3 c:4 kh:3 kw:3"},
     "conv: the window spans 9 entries along h, the padded input has 8"},
    {&tt_op_conv,
     "stride=1,2,3",
     {"n:1 c:4 h:6 w:9", "o:3 c:4 kh:3 kw:3"},
     "conv: stride has 3 entries for 2 spatial dimensions"},
    {&tt_op_conv,
     "",
     {"n:1 c:4", "o:3 c:4"},
     "conv: x must be [batch, channels, 1 to 3 spatial dimensions], not have 2 "
     "dimensions"},
    {&tt_op_conv,
     "",
     {"n:1 c:4 h:6 w:9", "o:3 c:4 k:3"},
     "conv: w must have 4 dimensions as x has, not 3"},
    {&tt_op_conv,
     "",
     {"n:1 g:2.c:2 h:6 w:9", "o:3 c:4 kh:3 kw:3"},
     "conv: channels and space of x must be single factors; dimension 1 is a "
     "product"},
    {&tt_op_max_pool,
     "kernel=2 pad=2",
     {"n:1 c:4 h:6 w:9"},
     "max_pool: a window would see nothing but padding; pad at most half of "
     "the kernel"},
    {&tt_op_max_pool, "", {"n:1 c:4 h:6 w:9"}, "max_pool: no kernel is given"},
    {&tt_op_avg_pool,
     "kernel=7",
     {"n:1 c:4 h:6 w:9"},
     "avg_pool: the window spans 7 entries along h, the padded input has 6"},
    {&tt_op_adaptive_avg_pool,
     "out=1,2,3",
     {"n:1 c:4 h:6 w:9"},
     "adaptive_avg_pool: out has 3 entries for 2 spatial dimensions"},
    {&tt_op_batch_norm,
     "group=3",
     {"n:4 c:2", "c:2", "c:2", "c:2", "c:2"},
     "batch_norm: 4 samples are not whole groups of 3; nearest: 2 or 4"},
    {&tt_op_batch_norm,
     "",
     {"n:1 c:2", "c:2", "c:2", "c:2", "c:2"},
     "batch_norm: training needs more than one value per channel"},
    {&tt_op_batch_norm,
     "",
     {"n:4 c:2", "c:2", "c:3", "c:2", "c:2"},
     "batch_norm: a vector of channels has 3 entries instead of 2"},
    {&tt_op_batch_norm,
     "",
     {"n:4 c:2 w:3", "c:2", "c:2", "c:2", "c:2", "n:4 c:2 w:4"},
     "batch_norm: extent 2 of the residual is 4 instead of 3"},
    {&tt_op_lstm,
     "",
     {"s:3 b:2 g:12", "g:12 h:4", "-", "b:2 h:4", "b:2 h:4"},
     "lstm: with hidden=4, gates and rows of w_hh must be 16, not 12 and 12"},
    {&tt_op_lstm,
     "",
     {"s:3 b:2 g:16", "g:16 h:4", "-", "b:3 h:4", "b:2 h:4"},
     "lstm: input 3 must be [batch, hidden], 2 by 4"},
    {&tt_op_lstm,
     "",
     {"s:3 b:2 g:16", "g:16 h:4", "-", "b:2 h:4"},
     "lstm: input 4 is missing"},
    {&tt_op_lstm_cell,
     "",
     {"r:3 g:8", "r:3 h:3"},
     "lstm_cell: gates must be [rows, 4 hidden] and c_prev [rows, hidden]"},
};

static void check_refusal(const refusal *r)
{
    tt_builder b;
    tt_val in[8];
    int n = 0;
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    for (; n < 8 && r->in[n] != NULL; n++) {
        char name[16];
        const char *text = r->in[n];
        const bool is_int = text[0] == 'i' && text[1] == ' ';
        snprintf(name, sizeof(name), "in%d", n);
        in[n] = TT_NONE;
        if (text[0] != '-')
            in[n] = tt_input(&b, name, is_int ? TT_I32 : TT_F32,
                             is_int ? text + 2 : text);
    }
    CHECK_OK(tt_builder_status(&b));
    CHECK(!tt_is(tt_callf(&b, r->op, in, n, "%s", r->params)));
    CHECK_MSG(tt_builder_status(&b) == TT_ERR_ARG, "%s %s is accepted",
              r->op->name, r->params);
    CHECK_MSG(strcmp(tt_error_message(), r->message) == 0, "'%s', not '%s'",
              tt_error_message(), r->message);
    tt_builder_fini(&b);
}

TEST(heavy_operators_say_what_is_wrong)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        check_refusal(&refusals[i]);
}
