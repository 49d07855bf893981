// wall_proxy - proxies by the wall clock: sums of groups, as they come. Files of job/ only.
//
// A proxy lives at the rank of its group's first worker (proxy.h). There gradients of the group
// come together; the last one makes it whole, and the sum goes to the shards as the gradient
// of the first worker would. Its group's heads go ahead of it to rank 0, which has the books.
//
//   member's rank   MEMBER head, all of the gradient     to the proxy's rank
//   proxy's rank    HEADS; PUSH and PARTs of the sum     to the shards
//                   GIVE: weights, once to each rank     when all shards have answered
//
// So the order in which sums come is the order of the run. Its record has the members of a group
// one after another, at the moment at which their sum was taken.
//
// A sum takes the place of the first worker's gradient, which waits until it is answered. On
// shared memory a member's gradient is added up from where its worker has computed it.

#ifndef TT_JOB_DYNAMIC_WALL_PROXY_H
#define TT_JOB_DYNAMIC_WALL_PROXY_H

#include "job/dynamic/proxy.h"
#include "job/dynamic/wall.h"

tt_status tt__wall_proxy_open(tt_dynamic *d); // unless there are none
void tt__wall_proxy_close(tt_dynamic *d);
// Whether two ranks speak as a proxy and a worker of its group.
bool tt__wall_share_group(const tt_dynamic *d, int32_t a, int32_t b);
// Whether a proxy of this rank waits for a gradient of that one.
bool tt__wall_lacks(const tt_dynamic *d, int32_t rank);
// The head of a worker's gradient.
double *tt__wall_head(const tt_dynamic *d, int32_t worker);
// A gradient of this rank's worker goes to its proxy.
tt_status tt__wall_to_proxy(tt_dynamic *d, tt__wall_letter *head);
// It has come.
void tt__wall_joins(tt_dynamic *d, const tt__wall_letter *head);
// Sums of groups that are whole go to the shards.
tt_status tt__wall_push_sums(tt_dynamic *d);
// A proxy of this rank has weights for its group; they have come to this rank.
tt_status tt__wall_give(tt_dynamic *d, int32_t proxy);
void tt__wall_given(tt_dynamic *d, const tt__wall_letter *head);

#endif
