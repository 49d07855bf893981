// tree - proxies between workers and a server: who adds up for whom, and when the sums arrive.
//
// A server that hears of every worker is the place where all messages meet. Proxies thin them
// out (Rudra-adv, Project Adam): workers are in equal groups, each group has a proxy, and only
// proxies speak with the server.
//
//   worker 0 --\                               A proxy adds up one gradient of each worker of
//   worker 1 ---+-- proxy 0 --\                its group and pushes the sum. To the server's
//                              +-- server      rules it is a worker. The weights that it gets
//   worker 2 --\              /                are its cached copy, from which it answers
//   worker 3 ---+-- proxy 1 -/                 all of its group.
//
// So with W workers and P proxies the server takes and sends W / P times fewer messages. The
// price: a worker waits for its group, and every message makes one hop more. Members of a group
// compute at the same weights, so the age of a sum is that of each gradient in it. A proxy for
// each worker is no tree, but for the hops.
//
// This file sees events and times, no numbers: it is a pure function of the order of arrivals.

#ifndef TT_EXCHANGE_TREE_H
#define TT_EXCHANGE_TREE_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_tree_rules {
    int32_t workers, proxies; // as many workers for each
    double delay;             // from a proxy to the server
} tt_tree_rules;

typedef struct tt_tree {
    tt_tree_rules rules;
    bool *is_here;    // per worker: its gradient is at the proxy
    bool *is_refused; // the same: and is none that is added
    double
        *due; // per proxy: when its sum is at the server; infinity: it has none
} tt_tree;

tt_status tt_tree_init(tt_tree *tree, const tt_tree_rules *rules,
                       tt_arena *arena);

int32_t tt_tree_proxy(const tt_tree *tree, int32_t worker);
// The group of a proxy: workers [*first_out, *first_out + *n_out).
void tt_tree_group(const tt_tree *tree, int32_t proxy, int32_t *first_out,
                   int32_t *n_out);

// A gradient is at its proxy now. With the last one of the group the sum goes to the server.
void tt_tree_arrive(tt_tree *tree, int32_t worker, double now);

// The proxy whose sum is at the server first, not after `until`; it is then on its way no more.
// -1: there is none.
int32_t tt_tree_next(tt_tree *tree, double until, double *now_out);

// As numbers, for checkpoints. Numbers that no tree has are refused.
int64_t tt_tree_count(const tt_tree_rules *rules);
void tt_tree_save(const tt_tree *tree, double *numbers);
tt_status tt_tree_load(tt_tree *tree, const double *numbers);

#endif
