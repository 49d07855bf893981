// federated - the rounds of a federation on ranks: clients' steps, the server's update,
// what goes on disk. Files of job/ only.
//
// Who is asked and who answers is exchange/rounds'; this folder adds the numbers. Flat
// vectors, the executor and the update are those of job/dynamic.
//
//   rank 0    w ---- broadcast ----> all ranks          sum of weighted changes -> update
//   rank r           client k: local steps on w -> w_k - w, sent to rank 0
//
// The k-th client of a round is computed by rank k % ranks; where clients keep something (a
// control variate, what codes left out) client i is by rank i % ranks. Rank 0 adds changes in the order of clients, so a run
// has the same bits on any number of ranks.
//
//   federated_open     checks, memory           federated_client   a client's round
//   federated_round    one step                 federated_state    checkpoints, figures
//   federated_masks    sums of what is hidden    federated_codes    changes as codes

#ifndef TT_JOB_FEDERATED_FEDERATED_H
#define TT_JOB_FEDERATED_FEDERATED_H

#include "exchange/masks.h"
#include "exchange/rounds.h"
#include "job/dynamic/dynamic_math.h"
#include "policy/federated.h"

typedef struct tt__client {
    int64_t batches; // of its data, so far
    int64_t asked, taken, late, dropped, refused;
    double up; // bytes that it has sent
    void *
        kept; // on its rank: its control variate, residuals and states of its codes
    bool has_kept;
} tt__client;

typedef struct tt__federated {
    tt_dynamic *d;
    const tt_federated_params *params;
    tt_round_rules rules;
    tt_round round;
    int64_t *size; // of clients: samples
    int64_t total; // of all
    tt__client *client;
    tt_vector_span weights; // the part of a flat vector that they are
    // A client's change; with control variates that of its own follows.
    tt_vector_span update_span;
    void *begin;   // weights of the round
    void *update;  // what a client sends
    void *control; // the server's; NULL: there are none
    void *moved;   // what it changes by after the round: rank 0
    // With masks: what a client sends, and the sum of it; by how much the largest client's
    // weight is more than 1; who is there.
    uint64_t *hidden, *hidden_sum;
    double heaviest;
    bool *is_there;
    tt_masks masks;
    int64_t kept_bytes; // of a client; 0: it keeps nothing
    // With codes: what a client sends.
    char *code;
    int64_t *code_at;
    double weight; // of all changes of this round: rank 0
    double now;    // drawn time
    tt_diary diary;
    double loss; // of the last round that had one
    tt_rounds did;
} tt__federated;

tt_status tt__federated_check(const tt_job *job);
tt_status tt__federated_open(tt_dynamic *d);
void tt__federated_close(tt_dynamic *d); // also without one
tt_status tt__federated_step(tt_dynamic *d, tt_step_result *result_out);

static inline const tt_federated_params *
tt__federated_settings(const tt_job *job)
{
    return (const tt_federated_params *)(const void *)
        job->exchange.policy_params;
}

// client: its local steps from f->begin on; `update`, or its code, and `head` are what it
// sends.
tt_status tt__federated_client(tt__federated *f, int32_t client,
                               tt__push_head *head);
double tt__federated_weight(const tt__federated *f, int32_t client);
// Whether a change of this length is taken; shortens the one in `update`.
bool tt__federated_takes(const tt__federated *f, double length);
void tt__federated_clip(const tt__federated *f, double length);
// masks: the update of client i of the round, whose weight is so much, as it is sent; what
// rank 0 does with it; after the round, whether there are enough to take masks out of the
// sum.
void tt__federated_hide(tt__federated *f, int32_t i, tt__push_head *head);
void tt__federated_add_hidden(tt__federated *f, int32_t i);
tt_status tt__federated_reveal(tt__federated *f, bool *is_enough_out);
// Where a client's change of its control variate lies.
void *tt__federated_control(const tt__federated *f);

// codes: opens the coder and says how much clients keep; what a client keeps exists; its
// `update` as a code; messages with that; on rank 0 `update` is
// what was decoded.
tt_status tt__federated_codes_check(const tt_job *job);
tt_status tt__federated_codes_open(tt__federated *f);
tt_status tt__federated_keep(tt__federated *f, int32_t client);
tt_status tt__federated_encode(tt__federated *f, int32_t client,
                               tt__push_head *head);
tt_status tt__federated_code_posts(tt__federated *f, int32_t rank,
                                   const tt__push_head *head, tt__post post[2]);
tt_status tt__federated_decode(tt__federated *f, int32_t client,
                               const tt__push_head *head, bool *is_good_out);

tt_status tt__federated_save(tt_dynamic *d, tt_str *out);
tt_status tt__federated_load(tt_dynamic *d, char *bytes, int64_t n);
tt_workers_sums tt__federated_sums(const tt_dynamic *d);
tt_status tt__federated_did(const tt_dynamic *d, tt_arena *arena,
                            tt_workers *out);

#endif
