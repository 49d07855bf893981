// Kernels of the CPU backend on parts of tensors: slices of heads, positions,
// vocabularies and rows give what ref gives, and what a kernel cannot do goes
// to ref.

#include "backend/cpu_check.h"
#include "ops/ops.h"
#include "test.h"

#include <stddef.h>

// Operand o holds entries from `origin` on of `global` along the first factor of
// dim d.
static void part(tt_operand *o, int d, int64_t origin, int64_t global)
{
    const int f = o->local.shape.first[d];
    o->local.origin[f] = origin;
    o->local.global[f] = global;
}

// ---- attention -----------------------------------------------------------

enum { BATCH, SEQ, HEADS };

// The heads of q from `first` on, of `all`; k and v hold all of theirs.
static void place_heads(tt_site *site, int64_t first, int64_t all)
{
    const bool is_grad = site->op == &tt_op_attention_grad;
    part(&site->in[0], HEADS, first, all);
    part(&site->out[0], HEADS, first, all);
    part(is_grad ? &site->in[4] : &site->out[1], 1, first, all);
    if (is_grad) {
        part(&site->in[3], HEADS, first, all);
        part(&site->in[5], HEADS, first, all);
    }
}

static void place_last_heads(tt_site *site)
{
    place_heads(site, 6, 8);
}

static void place_middle_heads(tt_site *site)
{
    place_heads(site, 2, 8);
}

static void place_odd_heads(tt_site *site)
{
    place_heads(site, 1, 6);
}

// Queries 5.. of 12, keys from 4 on: the ring's later blocks.
static void place_late(tt_site *site)
{
    part(&site->in[0], SEQ, 5, 12);
    part(&site->in[1], SEQ, 4, 12);
    part(&site->in[2], SEQ, 4, 12);
}

// Keys that no query sees.
static void place_early(tt_site *site)
{
    part(&site->in[0], SEQ, 0, 14);
    part(&site->in[1], SEQ, 7, 14);
    part(&site->in[2], SEQ, 7, 14);
}

// Two runs of three positions, the second `gap` after the first.
static void runs(tt_operand *o, int64_t first, int64_t gap)
{
    part(o, SEQ, first, 12);
    o->local.zigzag = true;
    o->local.turn_factor = o->local.shape.first[SEQ];
    o->local.turn = 3;
    o->local.gap = gap;
}

static void place_runs_of_queries(tt_site *site)
{
    runs(&site->in[0], 1, 5);
    part(&site->in[1], SEQ, 0, 12);
    part(&site->in[2], SEQ, 0, 12);
}

static void place_runs_of_keys(tt_site *site)
{
    part(&site->in[0], SEQ, 4, 12);
    runs(&site->in[1], 0, 4);
    runs(&site->in[2], 0, 4);
}

static void place_runs_of_both(tt_site *site)
{
    runs(&site->in[0], 1, 4);
    runs(&site->in[1], 0, 6);
    runs(&site->in[2], 0, 6);
}

// The dims of a head lie furthest apart.
static void turn(tt_operand *o)
{
    if (o->local.shape.ndim != 4)
        return;
    const int64_t heads = tt_operand_dim(o, HEADS),
                  seq = tt_operand_dim(o, SEQ);
    o->stride[HEADS] = 1;
    o->stride[SEQ] = heads;
    o->stride[HEADS + 1] = heads * seq;
}

static void place_turned(tt_site *site)
{
    for (int i = 0; i < site->n_in; i++)
        turn(&site->in[i]);
    for (int i = 0; i < site->n_out; i++)
        turn(&site->out[i]);
}

static const struct {
    const char *q, *k, *lse;
    void (*place)(tt_site *site);
    bool is_ref;
} attentions[] = {
    {"b:2 s:7 h:2 d:8", "b:2 s:7 kv:2 d:8", "b:2 h:2 s:7", place_last_heads,
     false},
    {"b:2 s:7 h:4 d:8", "b:2 s:7 kv:4 d:8", "b:2 h:4 s:7", place_middle_heads,
     false},
    {"b:2 s:7 h:3 d:8", "b:2 s:7 kv:3 d:8", "b:2 h:3 s:7", place_odd_heads,
     true},
    {"b:1 s:7 h:2 d:5", "b:1 s:8 kv:2 d:5", "b:1 h:2 s:7", place_late, false},
    {"b:1 s:7 h:2 d:5", "b:1 s:7 kv:2 d:5", "b:1 h:2 s:7", place_early, false},
    {"b:1 p:2.s:9 h:2 d:5", "b:1 p:2.s:9 kv:1 d:5", "b:1 h:2 p:2.s:9", NULL,
     false},
    {"b:2 s:7 h:4 d:8", "b:2 s:9 kv:2 d:8", "b:2 h:4 s:7", place_turned, false},
    {"b:1 s:6 h:2 d:5", "b:1 s:7 kv:2 d:5", "b:1 h:2 s:6",
     place_runs_of_queries, false},
    {"b:1 s:7 h:2 d:5", "b:1 s:6 kv:2 d:5", "b:1 h:2 s:7", place_runs_of_keys,
     false},
    {"b:1 s:6 h:2 d:5", "b:1 s:6 kv:2 d:5", "b:1 h:2 s:6", place_runs_of_both,
     false},
};
enum { N_ATTENTIONS = sizeof(attentions) / sizeof(attentions[0]) };

TEST(cpu_attention_of_parts_equals_ref)
{
    for (int i = 0; i < N_ATTENTIONS; i++) {
        const cpu_case c = {
            .op = &tt_op_attention,
            .params = "causal=true",
            .in = {attentions[i].q, attentions[i].k, attentions[i].k},
            .dtype = TT_F32,
            .kernel = attentions[i].is_ref ? "ref.attention" : "cpu.attention",
            .place = attentions[i].place,
        };
        if (attentions[i].place != place_early)
            cpu_check(&c, 1e-5);
    }
}

TEST(cpu_attention_without_visible_keys_is_zero)
{
    const cpu_case c = {
        .op = &tt_op_attention,
        .params = "causal=true",
        .in = {attentions[4].q, attentions[4].k, attentions[4].k},
        .dtype = TT_F32,
        .place = place_early,
    };
    cpu_result r;
    cpu_run("cpu", &c, &r);
    for (int64_t e = 0; e < r.count[0]; e++)
        CHECK(r.out[0][e] == 0);
    for (int64_t e = 0; e < r.count[1]; e++)
        CHECK(r.out[1][e] == -HUGE_VAL);
    cpu_result_fini(&r);
}

TEST(cpu_attention_grad_of_parts_equals_ref)
{
    for (int i = 0; i < N_ATTENTIONS; i++) {
        const cpu_case c = {
            .op = &tt_op_attention_grad,
            .params = "causal=true",
            .in = {attentions[i].q, attentions[i].k, attentions[i].k,
                   attentions[i].q, attentions[i].lse, attentions[i].q},
            .dtype = TT_F32,
            .kernel = attentions[i].is_ref ? "ref.attention_grad"
                                           : "cpu.attention_grad",
            .place = attentions[i].place,
        };
        cpu_check(&c, 1e-5);
    }
}

TEST(cpu_attention_with_large_heads_is_left_to_ref)
{
    const cpu_case c = {
        .op = &tt_op_attention,
        .params = "",
        .in = {"b:1 s:2 h:1 d:300", "b:1 s:2 h:1 d:300", "b:1 s:2 h:1 d:300"},
        .dtype = TT_F32,
        .kernel = "ref.attention"};
    cpu_check(&c, 1e-5);
}

// ---- parts of vocabularies -----------------------------------------------

// Entries 1, 2, 3 of four, in each of two groups.
static void place_pieces(tt_site *site)
{
    tt_local *x = &site->in[0].local;
    const int f = x->shape.first[1] + 1;
    x->origin[f] = 1;
    x->global[f] = 4;
}

static const double *piece_labels(int i, int64_t n)
{
    static const double labels[] = {0, 5, 7, 2};
    (void)n;
    return i == 1 ? labels : NULL;
}

TEST(cpu_leaves_vocabularies_in_pieces_to_ref)
{
    const cpu_case c = {.op = &tt_op_correct_terms,
                        .params = "",
                        .in = {"n:4 v:2.w:3", "n:4", "n:4"},
                        .dtype = TT_F32,
                        .i32_in = 2,
                        .kernel = "ref.correct_terms",
                        .input = piece_labels,
                        .place = place_pieces};
    cpu_check(&c, 0);
}

// ---- dropout -------------------------------------------------------------

// Samples 1.. of 5, an early and a late run of positions.
static void place_runs_of_entries(tt_site *site)
{
    runs(&site->in[0], 1, 5);
    runs(&site->out[0], 1, 5);
    part(&site->in[0], BATCH, 1, 5);
    part(&site->out[0], BATCH, 1, 5);
}

TEST(cpu_dropout_of_runs_equals_ref)
{
    const cpu_case c = {.op = &tt_op_dropout,
                        .params = "p=0.4",
                        .in = {"b:3 s:6 e:8", "", ""},
                        .dtype = TT_F32,
                        .i64_in = 6,
                        .kernel = "cpu.dropout",
                        .place = place_runs_of_entries};
    cpu_check(&c, 1e-6);
}

// ---- caches --------------------------------------------------------------

static const double *some_position(int i, int64_t n)
{
    static const double position = 3;
    (void)i;
    return n == 1 ? &position : NULL;
}

static void place_turned_entries(tt_site *site)
{
    turn(&site->in[1]);
}

TEST(cpu_caches_take_entries_however_they_lie)
{
    static const struct {
        const char *entries;
        void (*place)(tt_site *site);
    } cases[] = {{"b:2 s:4 h:3 d:8", NULL},
                 {"b:2 s:4 h:3 d:8", place_turned_entries},
                 {"b:2 s:1 h:3 d:8", place_turned_entries}};
    for (int i = 0; i < 3; i++) {
        const cpu_case c = {.op = &tt_op_cache_write,
                            .params = "",
                            .in = {"b:2 c:9 h:3 d:8", cases[i].entries, ""},
                            .dtype = TT_F32,
                            .i64_in = 4,
                            .kernel = "cpu.cache_write",
                            .input = some_position,
                            .place = cases[i].place};
        cpu_check(&c, 0);
    }
}

TEST(cpu_attention_to_a_cache_equals_ref_however_it_lies)
{
    static const char *const q[] = {"b:2 s:1 h:4 d:8", "b:2 s:20 h:4 d:8",
                                    "b:1 s:12 h:2 d:300"};
    for (int i = 0; i < 6; i++) {
        const char *k =
            i % 3 == 2 ? "b:1 c:33 kv:2 d:300" : "b:2 c:33 kv:2 d:8";
        const cpu_case c = {.op = &tt_op_attention_cached,
                            .params = "",
                            .in = {q[i % 3], k, k, ""},
                            .dtype = TT_F32,
                            .i64_in = 8,
                            .kernel = "cpu.attention_cached",
                            .input = some_position,
                            .place = i < 3 ? NULL : place_turned};
        cpu_check(&c, 1e-5);
    }
}

// ---- averages ------------------------------------------------------------

static const double *no_skip(int i, int64_t n)
{
    static const double skip = 0;
    (void)n;
    return i == 2 ? &skip : NULL;
}

TEST(cpu_averages_lie_as_their_weights_do)
{
    const cpu_case c = {.op = &tt_op_ema,
                        .params = "decay=0.75",
                        .in = {"o:3 c:16 h:3 w:2", "o:3 c:16 h:3 w:2", ""},
                        .dtype = TT_F32,
                        .u8_in = 4,
                        .kernel = "cpu.ema",
                        .input = no_skip};
    for (uint32_t bits = 0; bits < 4; bits++) {
        cpu_case blocked = c;
        blocked.blocked_in = bits;
        blocked.block = 16;
        cpu_check(&blocked, 1e-6);
    }
}

// ---- vocabularies --------------------------------------------------------

// Labels and ids spread over a vocabulary of 40.
static const double *some_ids(int i, int64_t n)
{
    static double ids[64];
    if (i != 0 || n > 64)
        return NULL;
    for (int64_t e = 0; e < n; e++)
        ids[e] = (double)(e * 7 % 40);
    return ids;
}

static const double *some_labels(int i, int64_t n)
{
    static double labels[64];
    if (i != 1 || n > 64)
        return NULL;
    for (int64_t e = 0; e < n; e++)
        labels[e] = e % 5 == 3 ? -100 : (double)(e * 11 % 40);
    return labels;
}

static void place_logits(tt_site *site)
{
    part(&site->in[0], 1, 13, 40);
    part(&site->out[0], 1, 13, 40);
}

TEST(cpu_cross_entropy_grad_of_a_slice_equals_ref)
{
    static const char *const params[] = {"", "smoothing=0.1"};
    for (int i = 0; i < 2; i++) {
        const cpu_case c = {.op = &tt_op_cross_entropy_grad,
                            .params = params[i],
                            .in = {"r:17 v:20", "r:17", "r:17", ""},
                            .dtype = TT_F32,
                            .i32_in = 2,
                            .kernel = "cpu.cross_entropy_grad",
                            .input = some_labels,
                            .place = place_logits};
        cpu_check(&c, 1e-5);
    }
}

static void place_terms(tt_site *site)
{
    part(&site->in[0], 1, 13, 40);
}

TEST(cpu_loss_terms_of_a_slice_equal_ref)
{
    static const char *const params[] = {"", "smoothing=0.1"};
    for (int i = 0; i < 2; i++) {
        const cpu_case c = {.op = &tt_op_loss_terms,
                            .params = params[i],
                            .in = {"r:17 v:20", "r:17", "r:17"},
                            .dtype = TT_F32,
                            .i32_in = 2,
                            .kernel = "cpu.loss_terms",
                            .input = some_labels,
                            .place = place_terms};
        cpu_check(&c, 1e-5);
    }
}

static void place_table(tt_site *site)
{
    const bool is_grad = site->op == &tt_op_embedding_grad;
    part(&site->in[is_grad ? 2 : 1], 0, 20, 40);
    if (is_grad)
        part(&site->out[0], 0, 20, 40);
}

TEST(cpu_embedding_of_a_slice_equals_ref)
{
    const cpu_case forward = {.op = &tt_op_embedding,
                              .params = "",
                              .in = {"b:3 s:5", "v:12 e:9"},
                              .dtype = TT_F32,
                              .i32_in = 1,
                              .kernel = "cpu.embedding",
                              .input = some_ids,
                              .place = place_table};
    cpu_check(&forward, 0);
    const cpu_case backward = {.op = &tt_op_embedding_grad,
                               .params = "",
                               .in = {"b:3 s:5", "b:3 s:5 e:9", "v:12 e:9"},
                               .dtype = TT_F32,
                               .i32_in = 1,
                               .twice = true,
                               .kernel = "cpu.embedding_grad",
                               .input = some_ids,
                               .place = place_table};
    cpu_check(&backward, 1e-6);
}

// ---- rows and dropout ----------------------------------------------------

static void place_half_rows(tt_site *site)
{
    part(&site->in[0], 1, 0, 12);
    part(&site->out[0], 1, 0, 12);
}

TEST(cpu_norm_of_split_rows_is_left_to_ref)
{
    const cpu_case c = {.op = &tt_op_layer_norm,
                        .params = "",
                        .in = {"r:4 e:6", "e:6", "e:6"},
                        .dtype = TT_F32,
                        .kernel = "ref.layer_norm",
                        .place = place_half_rows};
    cpu_check(&c, 0);
}

static const double *some_seed(int i, int64_t n)
{
    static const double numbers[] = {11, 3};
    (void)n;
    return i == 0 ? NULL : &numbers[i - 1];
}

static void place_columns(tt_site *site)
{
    part(&site->in[0], 1, 5, 31);
}

static void place_rows(tt_site *site)
{
    part(&site->in[0], 0, 3, 9);
}

static void place_both(tt_site *site)
{
    part(&site->in[0], 1, 5, 31);
    part(&site->in[0], 2, 1, 11);
}

TEST(cpu_dropout_of_parts_equals_ref)
{
    static const struct {
        void (*place)(tt_site *site);
        const char *kernel;
    } cases[] = {{NULL, "cpu.dropout"},
                 {place_columns, "cpu.dropout"},
                 {place_rows, "cpu.dropout"},
                 {place_both, "ref.dropout"}};
    for (int i = 0; i < 4; i++) {
        const cpu_case c = {.op = &tt_op_dropout,
                            .params = "p=0.4",
                            .in = {"a:6 b:13 c:7", "", ""},
                            .dtype = TT_F32,
                            .i64_in = 6,
                            .kernel = cases[i].kernel,
                            .input = some_seed,
                            .place = cases[i].place};
        cpu_check(&c, 1e-6);
    }
}

// ---- convolution ---------------------------------------------------------

// Entries [lo, hi) of dim d.
static void cut(tt_operand *o, int d, int64_t lo, int64_t hi)
{
    const int f = o->local.shape.first[d];
    o->local.origin[f] = lo;
    o->local.shape.factor[f].size = hi - lo;
    tt_operand_set_dense(o);
}

enum { ROWS = 2, COLUMNS };

static int turn_of_conv;

// Results of one half of the rows or columns, and the inputs that they need: padding
// is on one side only.
static void place_half(tt_site *site)
{
    static const struct {
        int dim;
        int64_t y_lo, y_hi, x_lo, x_hi;
    } halves[] = {{ROWS, 0, 4, 0, 5},
                  {ROWS, 4, 8, 3, 8},
                  {COLUMNS, 0, 4, 0, 5},
                  {COLUMNS, 4, 8, 3, 8}};
    const int d = halves[turn_of_conv].dim;
    const int y = site->op == &tt_op_conv_grad_w ? 1 : 0;
    tt_operand *const outputs[] = {site->op == &tt_op_conv ? &site->out[0]
                                                           : &site->in[y]};
    tt_operand *const inputs[] = {
        site->op == &tt_op_conv_grad_x ? &site->out[0] : &site->in[0],
        site->op == &tt_op_conv_grad_x ? &site->in[2] : NULL};
    cut(outputs[0], d, halves[turn_of_conv].y_lo, halves[turn_of_conv].y_hi);
    for (int i = 0; i < 2 && inputs[i] != NULL; i++)
        cut(inputs[i], d, halves[turn_of_conv].x_lo, halves[turn_of_conv].x_hi);
}

TEST(cpu_convolutions_beside_a_neighbour_equal_ref)
{
    static const char *const x = "n:16 c:32 h:8 w:8",
                             *const w = "o:32 c:32 kh:3 kw:3",
                             *const y = "n:16 o:32 h:8 w:8";
    static const char *const params[] = {"pad=1", "pad=1 algorithm=winograd",
                                         "pad=1 algorithm=im2col"};
    for (int p = 0; p < 3; p++)
        for (turn_of_conv = 0; turn_of_conv < 4; turn_of_conv++) {
            cpu_case each[] = {
                {&tt_op_conv, params[p], {x, w}},
                {&tt_op_conv_grad_x, params[p], {y, w, x}},
                {&tt_op_conv_grad_w, params[p], {x, y, w}},
            };
            for (int k = 0; k < 3; k++) {
                each[k].dtype = TT_F32;
                each[k].place = place_half;
                cpu_check(&each[k], 1e-4);
            }
        }
}

// Where all but one tap of a row see padding alone.
TEST(cpu_strided_convolutions_of_one_column_equal_ref)
{
    static const char *const x = "n:24 c:32 h:3 w:1",
                             *const w = "o:32 c:32 kh:3 kw:3",
                             *const y = "n:24 o:32 h:2 w:1";
    cpu_case c = {&tt_op_conv_grad_w, "pad=1 stride=2", {x, y, w}};
    c.dtype = TT_BF16;
    cpu_check(&c, 2e-2);
}
