// proxy - the numbers of a tree (exchange/tree.h): sums of groups, and weights for them. Files of
// job/ only.
//
// A proxy lives at the rank of the first worker of its group, and needs no memory of its own:
// its workers wait until the sum is in an update. So their gradients stay where they are until
// the group is whole, the first one's becomes the sum, and the cached copy of the weights is
// what they all compute with.
//
//   gradient of worker 0 += gradients of its group -> the server, as if it were worker 0's
//   weights of worker 0 <- the server;                weights of its group <- worker 0's
//
// With codes (coder.h) a worker pushes them to its proxy, which decodes them and pushes the sum
// as it is. What codes leave out stays with the worker.
//
// Gradients are added in the order of workers, so one proxy under bsp is bsp in every bit
// (statistics of batches apart, whose mean is taken in another order). A gradient that waits at a
// proxy is not in checkpoints: a resumed run computes it again.

#ifndef TT_JOB_DYNAMIC_PROXY_H
#define TT_JOB_DYNAMIC_PROXY_H

#include "job/dynamic/dynamic.h"

// Who the server takes it for: its proxy, or itself.
static inline int32_t tt__pusher(const tt_dynamic *d, int32_t worker)
{
    return d->tree != NULL ? tt_tree_proxy(d->tree, worker) : worker;
}

// Whether its gradient is at the server, and it has no weights since.
static inline bool tt__worker_waits(const tt_dynamic *d, int32_t worker)
{
    return d->server.worker[tt__pusher(d, worker)].is_waiting;
}

// Gradients that it has delivered, to the server or its proxy.
static inline int64_t tt__worker_pushed(const tt_dynamic *d, int32_t worker)
{
    const bool is_here = d->tree != NULL && d->tree->is_here[worker];
    return d->server.worker[tt__pusher(d, worker)].pushed + (is_here ? 1 : 0);
}

// What the server takes for workers: proxies, or the workers themselves.
int32_t tt__proxy_pushers(const tt_job *job);
tt_status tt__proxy_check(const tt_job *job, const tt_clock_def *clock);

tt_status tt__proxy_open(tt_dynamic *d); // unless there are none
void tt__proxy_close(tt_dynamic *d);

// What a worker of this rank pushes to its proxy: a gradient, or its code; at most so many bytes.
void *tt__member_pushes(const tt_dynamic *d, int32_t member,
                        int64_t *bytes_out);
int64_t tt__member_bytes(const tt_dynamic *d);
// The group's gradients become one, of its first worker.
tt_status tt__proxy_add_up(tt_dynamic *d, int32_t proxy);
// The same one by one, in the order of workers, at the rank of the first one.
typedef struct tt__proxy_sum {
    tt__dynamic_worker *first;
    tt__push_head head;
    int32_t n_seen, n; // gradients; of these good
} tt__proxy_sum;
// `pushed`: the gradient of a member, or its code.
tt_status tt__proxy_add(tt_dynamic *d, int32_t member, const void *pushed,
                        int64_t bytes, const double *head, tt__proxy_sum *sum);
void tt__proxy_end(const tt_dynamic *d, tt__proxy_sum *sum);
// The first worker has weights; so has then its group.
tt_status tt__proxy_hand_out(tt_dynamic *d, int32_t proxy);
// The server has dropped the sum.
void tt__proxy_waste(tt_dynamic *d, int32_t proxy);

#endif
