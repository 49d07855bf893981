// gossip_graph - who hears whom.
//
//   graph         r hears                        8 replicas
//   ring          r - 1, r + 1                   1 7
//   cycle         r - 1                          1
//   torus         the same, and r - c, r + c     1 7 3 5        c: nearest to the root
//   exponential   r - 1, r - 2, r - 4, ...       1 2 4
//   halton        n times 1/2, 1/4, 3/4, ...     4 2 6 1        log2 n, and until all hear of all
//   complete      all others
//   shifts        r minus what exchange.shifts says
//   butterfly     r with bit k turned, in turn k; nobody, where there is no such replica
//   edges         what exchange.edges says: 0-1,1-2,... in both directions
//   arrows        the same in one: 1 hears 0, 2 hears 1
//
// All but the last three are circles: "so many before me" is the same for all replicas.
//
//   butterfly   turn 0   0-1 2-3 4-5 6-7        after log2 n turns all have heard of all; if
//               turn 1   0-2 1-3 4-6 5-7        n is a power of two they are equal then, else
//               turn 2   0-4 1-5 2-6 3-7        only as time goes on

#include "base/alloc.h"
#include "policy/gossip.h"
#include "policy/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- circles -------------------------------------------------------------

enum { MOST = 16 }; // neighbours on a circle

typedef struct circle {
    int64_t replicas;
    int64_t by[MOST];
    int n;
} circle;

static void add(circle *c, int64_t shift)
{
    shift = (shift % c->replicas + c->replicas) % c->replicas;
    for (int i = 0; i < c->n; i++)
        if (c->by[i] == shift)
            return;
    if (shift != 0 && c->n < MOST)
        c->by[c->n++] = shift;
}

static void add_ring(circle *c, int64_t shift)
{
    add(c, shift);
    add(c, -shift);
}

static int64_t divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : divisor(b, a % b);
}

// In so many groups replicas hear of each other; 1: all do.
static int64_t groups(const circle *c)
{
    int64_t common = c->replicas;
    for (int i = 0; i < c->n; i++)
        common = divisor(common, c->by[i]);
    return common;
}

// The first numbers of the Halton sequence to base 2: log2 of the replicas, and more until
// all hear of each other.
static void add_halton(circle *c)
{
    for (int64_t i = 1, most = 2;
         i < c->replicas && (most <= c->replicas || groups(c) > 1);
         i++, most *= 2) {
        double part = 0, digit = 0.5;
        for (int64_t k = i; k > 0; k /= 2, digit /= 2)
            part += digit * (double)(k % 2);
        add(c, (int64_t)((double)c->replicas * part));
    }
}

// Whether exchange.edges says who hears whom.
static bool has_list(const tt_gossip_params *p)
{
    return p->graph == TT_GOSSIP_EDGES || p->graph == TT_GOSSIP_ARROWS;
}

static bool is_circle(const tt_gossip_params *p)
{
    return p->graph != TT_GOSSIP_COMPLETE && p->graph != TT_GOSSIP_BUTTERFLY &&
           !has_list(p);
}

static circle circle_of(const tt_gossip_params *p, int64_t replicas)
{
    circle c = {.replicas = replicas};
    switch ((tt_gossip_graph)p->graph) {
    case TT_GOSSIP_RING:
        add_ring(&c, 1);
        break;
    case TT_GOSSIP_CYCLE:
        add(&c, 1);
        break;
    case TT_GOSSIP_TORUS:
        add_ring(&c, 1);
        add_ring(&c, (int64_t)lround(sqrt((double)replicas)));
        break;
    case TT_GOSSIP_EXPONENTIAL:
        for (int64_t shift = 1; shift < replicas; shift *= 2)
            add(&c, shift);
        break;
    case TT_GOSSIP_HALTON:
        add_halton(&c);
        break;
    case TT_GOSSIP_SHIFTS:
        for (int i = 0; i < p->shifts.n; i++)
            add(&c, p->shifts.v[i]);
        break;
    case TT_GOSSIP_BUTTERFLY:
    case TT_GOSSIP_COMPLETE:
    case TT_GOSSIP_EDGES:
    case TT_GOSSIP_ARROWS:
        break;
    }
    return c;
}

// ---- edges ---------------------------------------------------------------

typedef struct edge {
    int64_t from, to;
} edge;

// Reads one of "0-1,1-2,3-0" and goes on to the next; false: it is none.
static bool read_edge(const char **text, edge *out)
{
    char *end = NULL;
    out->from = strtoll(*text, &end, 10);
    if (end == *text || *end != '-')
        return false;
    const char *second = end + 1;
    out->to = strtoll(second, &end, 10);
    if (end == second || (*end != ',' && *end != '\0'))
        return false;
    *text = *end == ',' ? end + 1 : end;
    return true;
}

static tt_status check_edges(const tt_gossip_params *p, int64_t replicas)
{
    const char *text = p->edges == NULL ? "" : p->edges;
    if (text[0] == '\0')
        return tt_fail(TT_ERR_ARG,
                       "exchange.graph=%s without exchange.edges: nobody "
                       "speaks with anybody; exchange.edges=0-1,1-2 would say "
                       "who does",
                       p->graph == TT_GOSSIP_EDGES ? "edges" : "arrows");
    while (*text != '\0') {
        const char *here = text;
        edge e;
        if (!read_edge(&text, &e))
            return tt_fail(TT_ERR_ARG,
                           "exchange.edges: \"%.20s\" is no edge; 0-1 is one "
                           "between replicas 0 and 1",
                           here);
        if (e.from < 0 || e.from >= replicas || e.to < 0 || e.to >= replicas ||
            e.from == e.to)
            return tt_fail(TT_ERR_ARG,
                           "exchange.edges: \"%.20s\" is no edge between two "
                           "of %lld replicas, which are 0 to %lld",
                           here, (long long)replicas, (long long)replicas - 1);
    }
    return TT_OK;
}

// ---- graphs --------------------------------------------------------------

int tt__gossip_turns(const tt_gossip_params *p, int64_t replicas)
{
    int turns = 1;
    if (p->graph == TT_GOSSIP_BUTTERFLY)
        while (((int64_t)1 << turns) < replicas)
            turns++;
    else if (p->turns && is_circle(p))
        turns = circle_of(p, replicas).n;
    return turns;
}

static void hear_circle(const tt_gossip_params *p, int64_t replicas, int turn,
                        double *w)
{
    const circle c = circle_of(p, replicas);
    for (int64_t r = 0; r < replicas; r++)
        for (int i = 0; i < c.n; i++)
            if (!p->turns || i == turn)
                w[r * replicas + (r - c.by[i] + replicas) % replicas] = 1;
}

bool tt__gossip_hears(const tt_gossip_params *p, int64_t replicas, int turn,
                      double *w)
{
    const char *text = p->edges;
    edge e;
    if (p->graph == TT_GOSSIP_COMPLETE)
        return false;
    if (is_circle(p))
        hear_circle(p, replicas, turn, w);
    for (int64_t r = 0; r < replicas && p->graph == TT_GOSSIP_BUTTERFLY; r++) {
        const int64_t other = r ^ ((int64_t)1 << turn);
        if (other < replicas)
            w[r * replicas + other] = 1;
    }
    while (has_list(p) && text != NULL && *text != '\0' &&
           read_edge(&text, &e)) {
        w[e.to * replicas + e.from] = 1;
        if (p->graph == TT_GOSSIP_EDGES)
            w[e.from * replicas + e.to] = 1;
    }
    return true;
}

static tt_status check_reach(const tt_gossip_params *p, int64_t replicas)
{
    double *w = tt_alloc(replicas * replicas * (int64_t)sizeof *w);
    if (w == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a graph of replicas");
    memset(w, 0, (size_t)(replicas * replicas) * sizeof *w);
    (void)tt__gossip_hears(p, replicas, 0, w);
    const tt_status status = tt_policy_mix_check(w, replicas);
    tt_free(w);
    return status;
}

static tt_status check_circle(const tt_gossip_params *p, int64_t replicas)
{
    const circle c = circle_of(p, replicas);
    const int64_t common = groups(&c);
    if (common == 1)
        return TT_OK;
    return c.n == 0
               ? tt_fail(TT_ERR_ARG, "exchange.graph=shifts has no neighbour: "
                                     "exchange.shifts=1 would do")
               : tt_fail(TT_ERR_ARG,
                         "exchange.graph: %lld replicas would fall into "
                         "%lld groups that never hear of each other; "
                         "exchange.graph=ring would do",
                         (long long)replicas, (long long)common);
}

static tt_status check_push(const tt_gossip_params *p)
{
    if (p->graph == TT_GOSSIP_ARROWS && !p->push)
        return tt_fail(TT_ERR_ARG,
                       "exchange.graph=arrows without exchange.push: replicas "
                       "that are heard by many would count for more than "
                       "others; exchange.push=true would do");
    if (p->graph == TT_GOSSIP_COMPLETE && p->push)
        return tt_fail(TT_ERR_ARG,
                       "exchange.push with exchange.graph=complete: all have "
                       "the mean at once; exchange.push=false would do");
    return TT_OK;
}

tt_status tt__gossip_check(const tt_gossip_params *p, int64_t replicas)
{
    const bool has_edges = p->edges != NULL && p->edges[0] != '\0';
    if (!has_list(p) && has_edges)
        return tt_fail(TT_ERR_ARG, "exchange.edges says who speaks with whom, "
                                   "but exchange.graph does already; "
                                   "exchange.graph=edges would do");
    TT_TRY(check_push(p));
    if (has_list(p)) {
        TT_TRY(check_edges(p, replicas));
        return check_reach(p, replicas);
    }
    return is_circle(p) ? check_circle(p, replicas) : TT_OK;
}
