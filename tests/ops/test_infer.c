// What the structural operators refuse, each in one sentence that starts with the
// operator's name.

#include "ops/arith.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

typedef struct refusal {
    const char *op, *params;
    const char *in[8]; // "f32 a:3", "-": absent
    const char *message;
} refusal;

static const refusal refusals[] = {
    {"add",
     "",
     {"f32 a:3 b:4", "f32 b:5"},
     "add: b does not broadcast to a: [a:3 b:4] and [b:5]"},
    {"add", "", {"f32 a:3"}, "add: takes 2 inputs, not 1"},
    {"add", "", {"f32 a:3", "-"}, "add: input 1 is missing"},
    {"mul",
     "",
     {"i32 a:3", "f32 a:3"},
     "mul: input 0 must be floating, not i32"},
    {"offer",
     "",
     {"f32 a:3", "f32 a:4"},
     "offer: shapes differ: [a:3] and [a:4]"},
    {"offer", "", {"f32 a:3"}, "offer: takes 2 inputs or more, not 1"},
    {"reshape",
     "dims=1,3",
     {"f32 a:3 b:4 c:5"},
     "reshape: dim 1 cannot take 3 of the 2 factors that are left"},
    {"reshape", "dims=1", {"f32 a:3 b:4"}, "reshape: dims take 1 of 2 factors"},
    {"reshape",
     "dims=0,2",
     {"f32 a:3 b:4"},
     "reshape: dim 0 cannot take 0 of the 2 factors that are left"},
    {"reshape",
     "dims=1,1,1,1,1,1,1",
     {"f32 a:3"},
     "reshape: 7 dims; at most 6"},
    {"transpose",
     "perm=0",
     {"f32 a:3 b:4"},
     "transpose: perm names 1 of 2 dims"},
    {"transpose", "perm=0,2", {"f32 a:3 b:4"}, "transpose: there is no dim 2"},
    {"transpose",
     "perm=1,1",
     {"f32 a:3 b:4"},
     "transpose: perm names a dim twice"},
    {"split", "factor=q", {"f32 a:3 b:4"}, "split: there is no factor 'q'"},
    {"split",
     "factor=a",
     {"f32 a:9 b:4"},
     "split: factor a has 9 parts; at most 8"},
    {"join",
     "factor=q dim=3",
     {"f32 a:3", "f32 a:3"},
     "join: no position 0 in dim 3"},
    {"join",
     "factor=q pos=2",
     {"f32 a:3", "f32 a:3"},
     "join: no position 2 in dim 0"},
    {"join",
     "factor=a",
     {"f32 a:3", "f32 a:3"},
     "join: there is a factor a already"},
    {"join",
     "factor=q",
     {"f32 a:4 b:3", "f32 c:2.d:2 b:3"},
     "join: shapes differ: [a:4 b:3] and [c:2.d:2 b:3]"},
    {"join", "", {"f32 a:3", "f32 a:3"}, "join: the new factor has no name"},
    {"join",
     "factor=a_very_long_name",
     {"f32 a:3", "f32 a:3"},
     "join: the name a_very_long_name is too long"},
    {"join",
     "factor=q",
     {"f32 a:3", "f64 a:3"},
     "join: input 1 is f64, not f32"},
    {"slice",
     "dim=1 start=2 size=3",
     {"f32 a:3 b:4"},
     "slice: 3 entries from 2 on are not within 4"},
    {"slice",
     "size=0",
     {"f32 a:3"},
     "slice: 0 entries from 0 on are not within 3"},
    {"slice",
     "start=9223372036854775807 size=9223372036854775807",
     {"f32 a:3"},
     "slice: 9223372036854775807 entries from 9223372036854775807 on are not "
     "within 3"},
    {"slice",
     "start=-1",
     {"f32 a:3"},
     "slice: 1 entries from -1 on are not within 3"},
    {"slice", "dim=2", {"f32 a:3"}, "slice: there is no dim 2"},
    {"slice",
     "",
     {"f32 a:3.b:2"},
     "slice: dim 0 has several factors; separate them first"},
    {"slice_grad",
     "",
     {"f32 a:2 b:3", "f32 a:3 b:4"},
     "slice_grad: not a slice: [a:2 b:3] and [a:3 b:4]"},
    {"concat",
     "",
     {"f32 a:2 b:3", "f32 a:3 b:4"},
     "concat: shapes differ: [a:2 b:3] and [a:3 b:4]"},
    {"concat", "dim=2", {"f32 a:2 b:3"}, "concat: there is no dim 2"},
    {"concat",
     "",
     {"f32 a:2 b:2.c:4", "f32 a:2 b:8"},
     "concat: shapes differ: [a:2 b:2.c:4] and [a:2 b:8]"},
    {"weave",
     "",
     {"f32 a:2 b:2.c:4", "f32 a:2 b:4.c:2"},
     "weave: shapes differ: [a:2 b:2.c:4] and [a:2 b:4.c:2]"},
    {"weave",
     "",
     {"f32 a:2.b:2"},
     "weave: dim 0 has several factors; separate them first"},
    {"broadcast",
     "",
     {"f32 a:3", "f32 a:3 b:4"},
     "broadcast: the first does not broadcast: [a:3] and [a:3 b:4]"},
    {"sum_to",
     "dims=0",
     {"f32 a:3 b:4", "f32 a:3"},
     "sum_to: the first does not broadcast: [a:3] and [a:3 b:4]"},
    {"reduce", "dims=3", {"f32 a:3"}, "reduce: there is no dim 3"},
    {"reduce_max_grad",
     "op=max dims=0",
     {"f32 a:3 b:2", "f32 b:3", "f32 b:3"},
     "reduce_max_grad: y is not the maximum of x: [b:3] and [a:3 b:2]"},
    {"gelu_grad",
     "",
     {"f32 a:3", "f32 a:4"},
     "gelu_grad: shapes differ: [a:3] and [a:4]"},
    {"dropout",
     "",
     {"f32 a:3", "i32", "i64"},
     "dropout: input 1 must be i64, not i32"},
    {"dropout",
     "",
     {"f32 a:3", "i64 b:2", "i64"},
     "dropout: input 1 must be a scalar, not a tensor of 1 dims"},
    {"clip", "", {"f32"}, "clip: takes sumsq (or none) and count"},
    {"adamw",
     "",
     {"f32 a:3", "f32 a:3", "f32", "f32", "i64", "u8", "f32 a:3", "f32 a:4"},
     "adamw: shapes differ: [a:3] and [a:4]"},
    {"lars",
     "",
     {"f32 a:3", "f32 a:3", "f32", "f32", "i64", "u8", "f32 a:3"},
     "lars: takes 9 inputs with adapt, not 7"},
};

static tt_val make_input(tt_builder *b, const char *text, int i)
{
    char name[16], dtype_name[8];
    tt_dtype dtype;
    if (text[0] == '-')
        return TT_NONE;
    const char *blank = strchr(text, ' ');
    const int length = blank ? (int)(blank - text) : (int)strlen(text);
    snprintf(dtype_name, sizeof(dtype_name), "%.*s", length, text);
    CHECK(tt_dtype_find(dtype_name, &dtype));
    snprintf(name, sizeof(name), "in%d", i);
    return tt_input(b, name, dtype, blank ? blank + 1 : "");
}

static void check_refusal(const refusal *r)
{
    const tt_op_def *op = tt_op_find(r->op);
    CHECK_MSG(op != NULL, "no operator %s", r->op);
    tt_builder b;
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    void *params = tt_arena_alloc(b.graph->arena, op->params_bytes + 1);
    if (op->options != NULL) {
        CHECK_OK(tt_opt_defaults(op->options, params, b.graph->arena));
        CHECK_OK(tt_opt_parse(op->options, params, r->params, b.graph->arena));
    }
    tt_val in[8];
    int n = 0;
    for (; n < 8 && r->in[n] != NULL; n++)
        in[n] = make_input(&b, r->in[n], n);
    CHECK_OK(tt_builder_status(&b));
    CHECK(!tt_is(tt_call(&b, op, params, in, n, NULL)));
    CHECK_MSG(tt_builder_status(&b) == TT_ERR_ARG, "%s %s is accepted", r->op,
              r->params);
    CHECK_MSG(strcmp(tt_error_message(), r->message) == 0, "'%s', not '%s'",
              tt_error_message(), r->message);
    tt_builder_fini(&b);
}

TEST(structural_operators_say_what_is_wrong)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        check_refusal(&refusals[i]);
}

TEST(a_reduction_leaves_the_dims_that_it_does_not_name)
{
    tt_builder b;
    tt_shape wanted = {0};
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    CHECK_OK(tt_shape_parse("b:4 d:6", &wanted));
    const tt_val x = tt_input(&b, "x", TT_F32, "a:3 b:4 c:5 d:6");
    const tt_val y =
        tt_reduce_dims(&b, x, TT_REDUCE_SUM, (const int64_t[]){0, 2}, 2);
    CHECK_OK(tt_builder_status(&b));
    CHECK(tt_shape_equal(&tt_type_of(&b, y)->shape, &wanted));
    tt_builder_fini(&b);
}
