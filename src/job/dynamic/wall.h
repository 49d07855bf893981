// wall - what the files of the wall clock share. See dynamic_wall.c for the idea.
//
//   dynamic_wall   this rank's workers; a step; a meeting
//   wall_rules     deliveries in their one order; updates and answers by the rules
//   wall_post      letters between ranks
//   wall_memory    what they need not carry
//   wall_hurry     stragglers that give what they have
//   wall_proxy     sums of groups, and weights for them

#ifndef TT_JOB_DYNAMIC_WALL_H
#define TT_JOB_DYNAMIC_WALL_H

#include "base/clock.h"
#include "job/dynamic/dynamic.h"

#include <stdatomic.h>

typedef enum tt__wall_kind {
    TT_WALL_PUSH,   // to rank 0: a gradient's head, and rank 0's part of it
    TT_WALL_PART,   // to another shard: its part
    TT_WALL_ORDER,  // from rank 0 to the other shards: that gradient is next
    TT_WALL_ANSWER, // from a shard: its weights
    TT_WALL_STEP,   // from rank 0: a step is over, with its results
    TT_WALL_SUM,    // between shards: numbers of an update
    TT_WALL_HURRY, // from rank 0: enough have delivered gradients of this number
    TT_WALL_MEMBER, // to its proxy: a gradient, with its head
    TT_WALL_HEADS,  // from a proxy to rank 0, before a sum: those of its group
    TT_WALL_GIVE,   // from a proxy: weights for its group
    TT_WALL_LULL,   // no more gradients and answers until the ranks have met
    TT_WALL_FIN,    // nothing more until then
} tt__wall_kind;

enum {
    TT_WALL_NORM = TT_HEAD_N,
    TT_WALL_STOP,
    TT_WALL_SAVE,
    TT_WALL_RATE,
    TT_WALL_WAITED, // a push's: seconds from weights to computing, and of that
    TT_WALL_COMPUTED,
    TT_WALL_LEFT, // micro-batches that were left out
    TT_WALL_HELD, // seconds at its proxy
    TT_WALL_N
};

typedef struct tt__wall_letter {
    int64_t kind, worker, bytes; // of what follows
    void *shown;                 // or where it lies, if the receiver sees that
    int64_t is_bare;             // in its executor's memory
    double v[TT_WALL_N];         // a push's head; a step's results
} tt__wall_letter;

typedef struct tt__wall_copy { // weights that are on their way to workers
    int64_t readers, version;
    int64_t n_shown;      // letters that said where it lies
    atomic_llong *n_read; // of these: in memory that all see; or NULL
    struct tt__wall_copy *next;
    void *data;
} tt__wall_copy;

typedef struct tt__wall_parcel { // on its way out
    tt__wall_letter head;
    tt__wall_copy *snapshot; // that it reads, or NULL
    tt_msg msg[2];
    struct tt__wall_parcel *next;
} tt__wall_parcel;

typedef struct tt__wall_event { // waits for its turn
    tt__wall_letter head;
    struct tt__wall_event *next;
} tt__wall_event;

typedef struct tt__wall_line { // from another rank
    int32_t peer;
    bool is_open, has_head; // a receive is posted; its head is here
    bool is_lull, is_fin;   // what it has said
    tt__wall_letter head;
    tt_msg msg;
    bool has_sum[2]; // of an even and an odd update
    double *sum[2];
} tt__wall_line;

typedef struct tt__wall_inbox { // of a worker, at a shard
    bool is_here;
    int64_t bytes;
    void *data;  // a part of a gradient, or its code
    void *shown; // where a gradient lies at its worker; or NULL
    bool is_bare;
} tt__wall_inbox;

struct tt__wall {
    int32_t n_lines, n_shards;
    tt__wall_line *line;
    tt__wall_inbox *inbox;
    tt__wall_parcel *out, *spare; // not yet gone; to be used again
    tt__wall_copy *snapshots;
    char *lent; // gradients and snapshots that peers read in place, or NULL
    bool shows; // that needs no message
    bool sums_in_place; // gradients are added up where the update reads them
    int64_t *offset;    // per part: of its gradient, in what an executor keeps
    int64_t *weights;   // the same: of its weights; of one executor
    const void **term;  // per gradient of a sum: where a part of it lies
    bool *is_bare;      // per slot that is lent
    int32_t n_lent;     // snapshots
    tt__wall_event *queue, **last;
    bool is_following; // the queue
    bool wants_stop;   // some rank
    bool is_over;      // the step
    tt_step_result step;
    int64_t n_sums;
    double *sum[2];   // what this shard says
    double began;     // tt_clock_seconds, less what was between steps
    double elapsed;   // in all steps, also of earlier starts
    double *got;      // per worker of this rank: when its weights came
    int32_t *missing; // the same: shards that have not answered
    int64_t hurried;  // gradients up to this number; -1: none
    double turn;      // when the gradient that is computed began
    // With proxies, per worker: its gradient, if its proxy is here; and its head (TT_WALL_N
    // numbers), there and at rank 0.
    tt__wall_inbox *member;
    double *heads;
    bool waits_for_lull; // this rank has said so, and not yet its last word
};

// Seconds of steps so far: evaluations and checkpoints do not count.
static inline double tt__wall_now(const tt_dynamic *d)
{
    return tt_clock_seconds() - d->wall->began;
}

static inline bool tt__wall_is_first(const tt_dynamic *d)
{
    return tt_peers_is_first(&d->job->peers);
}

// ---- dynamic_wall ---------------------------------------------------------

tt_status tt__wall_open(tt_dynamic *d);
void tt__wall_close(tt_dynamic *d);
void tt__wall_resume(tt_dynamic *d); // its time goes on where the diary ends
// trial.pace: a gradient of this worker takes its modelled seconds; so much of it is done.
tt_status tt__wall_pace(tt_dynamic *d, int32_t worker, double part);
// Instead of the list.
tt_status tt__wall_step(tt_dynamic *d, tt_step_result *result_out);
// A gradient of this rank's worker, or the sum of its group, to the shards.
tt_status tt__wall_push(tt_dynamic *d, tt__wall_letter *head);

// ---- wall_post -----------------------------------------------------------

// `data` stays as it is until the letter is gone, or is a snapshot's.
tt_status tt__wall_send(tt_dynamic *d, int32_t to, const tt__wall_letter *head,
                        void *data, tt__wall_copy *snapshot);
// Takes in what has come; the rules are not followed.
tt_status tt__wall_receive(tt_dynamic *d, bool *did_out);
// A letter from `line` is whole.
tt_status tt__wall_take(tt_dynamic *d, tt__wall_line *line);
// Where what follows a letter belongs.
tt_status tt__wall_room(tt_dynamic *d, const tt__wall_line *line, void **out);
// Sums over all shards, in place: of numbers that one has and the others have not (0).
tt_status tt__wall_sum(tt_dynamic *d, double *v, int64_t n);
tt_status tt__wall_post_open(tt_dynamic *d);
void tt__wall_post_close(tt_dynamic *d);

// ---- wall_memory -----------------------------------------------------------

// The executor that computes gradients: one of its own, or the job's.
tt_status tt__worker_exec_open(tt_dynamic *d);
void tt__worker_exec_close(tt_dynamic *d);
tt_status tt__wall_memory_open(tt_dynamic *d);
void tt__wall_memory_close(tt_dynamic *d);
// Whether gradients of this rank's worker need not leave the executor.
bool tt__wall_is_bare(const tt_dynamic *d);
// The gradient of a slot becomes the shard's own.
tt_status tt__wall_settle(tt_dynamic *d, int32_t slot);
// The sum of those in n slots, where the update reads it.
void tt__wall_add_up(tt_dynamic *d, int32_t n, const int32_t *slot);
// What a letter says of its data; NULL: they are sent.
void *tt__wall_shown(const tt_dynamic *d, const tt__wall_letter *head,
                     void *data, const tt__wall_copy *snapshot);
void tt__wall_has_read(void *weights); // that were shown
// A shard's weights, from what the executor of its rank keeps.
tt_status tt__wall_read_bare(const tt_dynamic *d, int32_t shard,
                             const char *room);
// Before an update: weights that somebody still reads stay, and new ones come elsewhere.
tt_status tt__wall_renew(tt_dynamic *d);
// The weights of this version, kept until they are gone.
tt_status tt__wall_snapshot(tt_dynamic *d, const void *weights,
                            tt__wall_copy **out);

// ---- wall_rules ----------------------------------------------------------

tt_status tt__wall_keep(tt_dynamic *d, const tt__wall_letter *head);
tt_status tt__wall_follow(tt_dynamic *d);
// A shard has answered a worker of this rank.
tt_status tt__wall_answered(tt_dynamic *d, int32_t worker);
// A worker of this rank has weights.
void tt__wall_begin(tt_dynamic *d, int32_t worker);

#endif
