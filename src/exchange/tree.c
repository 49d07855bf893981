#include "exchange/tree.h"

#include <math.h>
#include <stddef.h>

tt_status tt_tree_init(tt_tree *tree, const tt_tree_rules *rules,
                       tt_arena *arena)
{
    *tree = (tt_tree){.rules = *rules};
    tree->is_here = tt_arena_alloc(arena, rules->workers);
    tree->is_refused = tt_arena_alloc(arena, rules->workers);
    tree->due =
        tt_arena_alloc(arena, rules->proxies * (int64_t)sizeof *tree->due);
    if (tree->is_here == NULL || tree->is_refused == NULL || tree->due == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d proxies",
                       rules->proxies);
    for (int32_t p = 0; p < rules->proxies; p++)
        tree->due[p] = HUGE_VAL;
    return TT_OK;
}

int32_t tt_tree_proxy(const tt_tree *tree, int32_t worker)
{
    return worker / (tree->rules.workers / tree->rules.proxies);
}

void tt_tree_group(const tt_tree *tree, int32_t proxy, int32_t *first_out,
                   int32_t *n_out)
{
    *n_out = tree->rules.workers / tree->rules.proxies;
    *first_out = proxy * *n_out;
}

static bool is_whole(const tt_tree *tree, int32_t proxy)
{
    int32_t first = 0, n = 0;
    tt_tree_group(tree, proxy, &first, &n);
    for (int32_t i = first; i < first + n; i++)
        if (!tree->is_here[i])
            return false;
    return true;
}

void tt_tree_arrive(tt_tree *tree, int32_t worker, double now)
{
    const int32_t proxy = tt_tree_proxy(tree, worker);
    tree->is_here[worker] = true;
    tree->is_refused[worker] = false;
    if (is_whole(tree, proxy))
        tree->due[proxy] = now + tree->rules.delay;
}

int32_t tt_tree_next(tt_tree *tree, double until, double *now_out)
{
    int32_t next = -1, first = 0, n = 0;
    for (int32_t p = 0; p < tree->rules.proxies; p++)
        if (isfinite(tree->due[p]) && tree->due[p] <= until &&
            (next < 0 || tree->due[p] < tree->due[next]))
            next = p;
    if (next < 0)
        return next;
    *now_out = tree->due[next];
    tree->due[next] = HUGE_VAL;
    tt_tree_group(tree, next, &first, &n);
    for (int32_t i = first; i < first + n; i++)
        tree->is_here[i] = false;
    return next;
}

// ---- as numbers ----------------------------------------------------------

int64_t tt_tree_count(const tt_tree_rules *rules)
{
    return (int64_t)rules->proxies + rules->workers;
}

// Of a worker: 0 computes, 1 its gradient is at the proxy, 2 and was refused.
void tt_tree_save(const tt_tree *tree, double *numbers)
{
    double *p = numbers;
    for (int32_t i = 0; i < tree->rules.proxies; i++)
        *p++ = isfinite(tree->due[i]) ? tree->due[i] : -1;
    for (int32_t i = 0; i < tree->rules.workers; i++)
        *p++ = tree->is_here[i] ? 1 + (tree->is_refused[i] ? 1 : 0) : 0;
}

// A sum is on its way if, and only if, its group is whole.
static bool are_good(const tt_tree *tree, const double *v)
{
    const double *due = v, *worker = v + tree->rules.proxies;
    for (int32_t p = 0; p < tree->rules.proxies; p++) {
        int32_t first = 0, n = 0, here = 0;
        tt_tree_group(tree, p, &first, &n);
        for (int32_t i = first; i < first + n; i++) {
            if (worker[i] != 0 && worker[i] != 1 && worker[i] != 2)
                return false;
            here += worker[i] > 0;
        }
        if (!isfinite(due[p]) || (here == n ? due[p] < 0 : due[p] != -1))
            return false;
    }
    return true;
}

tt_status tt_tree_load(tt_tree *tree, const double *numbers)
{
    const double *p = numbers;
    if (!are_good(tree, numbers))
        return tt_fail(TT_ERR_ARG, "the state of proxies is damaged");
    for (int32_t i = 0; i < tree->rules.proxies; i++, p++)
        tree->due[i] = *p < 0 ? HUGE_VAL : *p;
    for (int32_t i = 0; i < tree->rules.workers; i++, p++) {
        tree->is_here[i] = *p > 0;
        tree->is_refused[i] = *p == 2;
    }
    return TT_OK;
}
