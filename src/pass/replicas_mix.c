// replicas_mix - what replicas hear of their neighbours, weighed and added up.
//
// The problem. A graph of replicas is a matrix: what of replica j goes into replica i. All
// ranks run one plan, and a rank may have several replicas, any number that divides.
//
// The idea. Entries of the matrix with the same distance i - j lie on a diagonal, and a
// diagonal is one shift around the circle of all replicas: "the one that is 3 before me".
// Where only some replicas hear at that distance, only these blocks travel.
//
//   w         0 1 2 3        by 1: 1 hears 0, 2 hears 1        by 3: 0 hears 1
//         0   . x . .        x ----> shift ----> times w ----.
//         1   x . . .        x ----> shift ----> times w ----+--> the mix
//         2   . x . .        x ------------------times w ----'
//
//   sent     a value, once for each entry that is not 0 and not on the diagonal of the matrix,
//            where the two replicas are on different ranks
//   memory   what came at each distance, until it is added
//
// With codes (CHOCO) a replica i has a public copy h_i of what it sends, which is what its
// neighbours know, and d_i = sum over j of w_ij h_j - h_i: where they pull it.
//
//   q_i = code of (x_i - h_i)         what is sent
//   h_i = h_i + q_i
//   d_i = d_i + sum over j of w_ij q_j - q_i
//   mix = x_i + gamma d_i
//
// So nobody keeps its neighbours' copies one by one. What a code did not say stays in x - h.
// Where columns of w add up to 1, the d of all replicas add up to 0: the mean stays, whatever
// codes lose. Variants speak with others, who know other copies: each has its own states.

#include "pass/replicas_mix.h"

#include "ops/arith.h"
#include "ops/codec/packet.h"
#include "ops/comm/comm.h"
#include "ops/comm/replicas.h"
#include "ops/infer_common.h"
#include "ops/shape/move.h"

#include <stdio.h>

// ---- the matrix ----------------------------------------------------------

static double weight_at(const double *matrix, int64_t n, int64_t r, int64_t by)
{
    return matrix[r * n + ((r - by) % n + n) % n];
}

// The diagonal at this distance; false: it is empty.
static bool link_of(tt__replicas *w, const double *matrix, int64_t n,
                    int64_t by, tt__mix_link *out)
{
    double *weight = tt__rewrite_array(&w->r, n, sizeof *weight);
    char *only = tt__rewrite_array(&w->r, n + 1, 1);
    int64_t hear = 0;
    *out = (tt__mix_link){.by = by,
                          .is_even = true,
                          .weight = weight,
                          .only = only,
                          .number = TT_NONE};
    if (weight == NULL || only == NULL)
        return false;
    for (int64_t r = 0; r < n; r++) {
        weight[r] = weight_at(matrix, n, r, by);
        only[r] = weight[r] != 0 ? '1' : '0';
        hear += weight[r] != 0;
        out->is_even &= weight[r] == weight[0];
    }
    if (hear == n)
        out->only = NULL;
    return hear > 0;
}

static tt_status cut_matrix(tt__replicas *w, const double *matrix, tt__mix *mix)
{
    const int64_t n = mix->level->n;
    mix->link = tt__rewrite_array(&w->r, n, sizeof *mix->link);
    TT_TRY(w->r.b.status);
    (void)link_of(w, matrix, n, 0, &mix->self);
    mix->is_mean = mix->self.is_even;
    for (int64_t by = 1; by < n; by++)
        if (link_of(w, matrix, n, by, &mix->link[mix->n])) {
            const tt__mix_link *k = &mix->link[mix->n++];
            mix->is_mean &= k->is_even && k->weight[0] == mix->self.weight[0];
        }
    return w->r.b.status;
}

// Where rows do not add up to 1, equal copies pull too.
static tt_status find_pull(tt__replicas *w, const double *matrix, tt__mix *mix)
{
    const int64_t n = mix->level->n;
    double *pull = tt__rewrite_array(&w->r, n, sizeof *pull);
    TT_TRY(w->r.b.status);
    for (int64_t i = 0; i < n; i++) {
        pull[i] = -1;
        for (int64_t j = 0; j < n; j++)
            pull[i] += matrix[i * n + j];
    }
    if (tt_policy_has_mass(mix->level->policy, mix->level->params))
        mix->pull = pull;
    return TT_OK;
}

tt_status tt__mix_begin(tt__replicas *w, const tt__level *level, int variant,
                        tt__mix *mix_out)
{
    const int64_t n = level->n;
    *mix_out = (tt__mix){.level = level, .variant = variant};
    if (level->policy->mix == NULL)
        return TT_OK;
    double *matrix = tt__rewrite_array(&w->r, n * n, sizeof *matrix);
    TT_TRY(w->r.b.status);
    if (!tt_policy_mix(level->policy, level->params, n, variant, matrix))
        return TT_OK;
    TT_TRY(find_pull(w, matrix, mix_out));
    return cut_matrix(w, matrix, mix_out);
}

// ---- sending -------------------------------------------------------------

// What the replica at the link's distance has.
static tt_val hear(tt__replicas *w, const tt__mix *mix,
                   const tt__mix_link *link, tt_val x, bool is_packet)
{
    tt_builder *b = &w->r.b;
    const int axis = mix->level->axis, n_axes = b->graph->mesh.n_axes;
    char dims[32];
    snprintf(dims, sizeof dims, "%s:%lld", TT_REPLICA,
             (long long)mix->level->n);
    const tt_val all = tt_stack(b, x, dims);
    for (int a = 0; a < n_axes && tt_is(all); a++)
        tt_place_set(b, all, a,
                     a == axis ? tt_place_split(0)
                               : tt_type_of(b, x)->place[a]);
    const tt_comm_params how = {.only = link->only, .packets = is_packet};
    const tt_val own =
        tt_own(b, tt_shift_like(b, all, axis, (int)link->by, &how), 1);
    for (int a = 0; a < n_axes && tt_is(own); a++)
        tt_place_set(b, own, a, tt_type_of(b, x)->place[a]);
    return own;
}

// The replica's own weight of a link, made once for a variant.
static tt_val number(tt__replicas *w, const tt__mix *mix, tt__mix_link *link,
                     tt_val like)
{
    if (!tt_is(link->number))
        link->number = tt__mix_number(w, mix->level, link->weight, like);
    return link->number;
}

tt_val tt__mix_number(tt__replicas *w, const tt__level *level,
                      const double *value, tt_val like)
{
    tt_builder *b = &w->r.b;
    tt_str text = {0};
    for (int64_t r = 0; r < level->n; r++)
        tt_str_addf(&text, "%s%.17g", r > 0 ? "," : "", value[r]);
    const char *values = tt_str_keep(&text, b->graph->arena);
    const tt_val all = values == NULL ? tt_builder_fail(b, TT_ERR_NOMEM)
                                      : tt_replica_number(b, like, values);
    for (int a = 0; a < b->graph->mesh.n_axes && tt_is(all); a++)
        tt_place_set(b, all, a,
                     a == level->axis ? tt_place_split(0)
                                      : tt_place_replicate());
    return tt__replicas_take(w, all, 1);
}

// A term of the mix: the replica's weight times x.
static tt_val weighed(tt__replicas *w, const tt__mix *mix, tt__mix_link *link,
                      tt_val x)
{
    tt_builder *b = &w->r.b;
    if (link->is_even)
        return tt__replicas_scaled(w, x, link->weight[0]);
    const tt_val by = number(w, mix, link, x);
    const int32_t first = b->graph->n_nodes;
    const tt_val y = tt_mul(b, x, by);
    tt__replicas_place(w, first);
    return y;
}

static tt_val add(tt__replicas *w, tt_val x, tt_val y)
{
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val sum = tt_add(&w->r.b, x, y);
    tt__replicas_place(w, first);
    return sum;
}

// ---- codes ---------------------------------------------------------------

static tt__coded_by coded_by(tt__replicas *w, const tt__mix *mix)
{
    return (tt__coded_by){.b = &w->r.b,
                          .codec = w->params->codec,
                          .params = w->params->codec_params,
                          .axis = mix->level->axis,
                          .replicas = mix->level->n,
                          .is_kept = true,
                          .is_alone = true};
}

double tt__mix_gamma(const tt__replicas *w, const tt__mix *mix)
{
    const tt__level *l = mix->level;
    const double gamma =
        l->policy->gamma == NULL ? 1 : l->policy->gamma(l->params);
    return gamma > 0 ? gamma : w->params->gamma;
}

// States by the names NAME.public and NAME.drift, with the number of the variant where
// there are several.
static tt_status add_states(tt__replicas *w, const tt__mix *mix, tt__mixed *m,
                            const char *label)
{
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    char name[64];
    snprintf(name, sizeof name, "%s.public", label);
    tt__replica_shared *s = &w->shared[w->n_shared++];
    s->old = m->old;
    s->from_model = m->from_model;
    s->level = mix->level;
    s->pull = mix->pull;
    s->public = tt__replicas_state(w, m->old, name, w->n_levels, zero);
    snprintf(name, sizeof name, "%s.drift", label);
    s->drift = tt__replicas_state(w, m->old, name, w->n_levels, zero);
    TT_TRY(w->r.b.status);
    m->public = tt__replicas_again(w, s->public);
    m->drift = tt__replicas_again(w, s->drift);
    return w->r.b.status;
}

// Whether a code is a packet whose length depends on the numbers.
static bool varies(const tt__replicas *w, tt_val code)
{
    const tt_graph *g = w->r.b.graph;
    const int32_t node = tt_is(code) ? g->value[code.id].node : -1;
    const tt_op_def *op = node < 0 ? NULL : g->node[node].op;
    return op != NULL && op->infer == tt__packet_infer &&
           tt_packet_varies(op->family);
}

static tt_status send_code(tt__replicas *w, const tt__mix *mix, tt__mixed *m,
                           const char *label)
{
    tt_builder *b = &w->r.b;
    const tt__coded_by by = coded_by(w, mix);
    const tt_type *like = &w->r.old->value[m->old].type;
    tt_type type = *like;
    type.dtype = tt_dtype_master(type.dtype);
    TT_TRY(add_states(w, mix, m, label));
    const tt_val before = tt__replicas_read(w, m->public);
    const int32_t first = b->graph->n_nodes;
    const tt_val changed = tt_policy_add(b, m->x, -1, before);
    tt__replicas_place(w, first);
    m->before = before;
    const char *name = tt_arena_printf(b->graph->arena, "%s.%s",
                                       w->r.old->value[m->old].name, label);
    if (name == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt__coded_near_begin(&by, &m->near, changed, &type, name));
    m->code = tt__rewrite_array(&w->r, mix->n, sizeof *m->code);
    TT_TRY(b->status);
    for (int i = 0; i < mix->n; i++)
        for (int r = 0; r < m->near.n_rounds; r++)
            for (int k = 0; k < m->near.n_codes[r]; k++)
                m->code[i].of[r][k] =
                    hear(w, mix, &mix->link[i], m->near.code[r][k],
                         varies(w, m->near.code[r][k]));
    return b->status;
}

static tt_status take_codes(tt__replicas *w, tt__mix *mix, tt__mixed *m,
                            tt_val *mixed_out)
{
    const tt__coded_by by = coded_by(w, mix);
    tt_val own = TT_NONE;
    TT_TRY(tt__coded_near_own(&by, &m->near, &own));
    tt_val drift = add(w, tt__replicas_read(w, m->drift),
                       weighed(w, mix, &mix->self, own));
    drift = add(w, drift, tt__replicas_scaled(w, own, -1));
    for (int i = 0; i < mix->n; i++) {
        tt_val q = TT_NONE;
        TT_TRY(tt__coded_near_of(&by, &m->near, m->code[i].of, &q));
        drift = add(w, drift, weighed(w, mix, &mix->link[i], q));
    }
    tt__replicas_settle(w, m->public, add(w, m->before, own));
    tt__replicas_settle(w, m->drift, drift);
    *mixed_out =
        add(w, m->x, tt__replicas_scaled(w, drift, tt__mix_gamma(w, mix)));
    return w->r.b.status;
}

// ---- a value -------------------------------------------------------------

tt_status tt__mix_send(tt__replicas *w, const tt__mix *mix, tt__mixed *m,
                       const char *label)
{
    if (w->params->codec != NULL && !m->is_plain)
        return send_code(w, mix, m, label);
    m->got = tt__rewrite_vals(&w->r, mix->n);
    TT_TRY(w->r.b.status);
    for (int i = 0; i < mix->n; i++)
        m->got[i] = hear(w, mix, &mix->link[i], m->x, false);
    return w->r.b.status;
}

tt_status tt__mix_take(tt__replicas *w, tt__mix *mix, tt__mixed *m,
                       tt_val *mixed_out)
{
    if (w->params->codec != NULL && !m->is_plain)
        return take_codes(w, mix, m, mixed_out);
    tt_val sum = mix->is_mean ? m->x : weighed(w, mix, &mix->self, m->x);
    for (int i = 0; i < mix->n; i++)
        sum = add(w, sum,
                  mix->is_mean ? m->got[i]
                               : weighed(w, mix, &mix->link[i], m->got[i]));
    *mixed_out =
        mix->is_mean ? tt__replicas_scaled(w, sum, mix->self.weight[0]) : sum;
    return w->r.b.status;
}
