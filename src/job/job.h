// job - from settings to something that trains: model, graph, plan, executor.
//
//   settings -> tt_job_configure -> tt_job_plan -> tt_job_start -> tt_job_step
//
// Between configure and plan the caller may set `guard`; between steps `lr`,
// `limit`, `until` and (after restoring a checkpoint) `step`. One thread at a time. A job that
// fails to start leaves nothing behind.
//
// The folder job: everything between settings and a step: the training graph, the chain
// of passes, plans for any rank, memory, devices, and the model that only infers. What
// does not belong here: data (session), the loop around steps (train), files (state).

#ifndef TT_JOB_JOB_H
#define TT_JOB_JOB_H

#include "backend/backend.h"
#include "base/settings/settings.h"
#include "config/config.h"
#include "config/globs.h"
#include "data/shares.h"
#include "exec/exec.h"
#include "job/meeting.h"
#include "pass/layers.h"
#include "peers/peers.h"
#include "pipe/pipe.h"
#include "plan/plan.h"
#include "state/tensors.h"

// The first micro-batch of the next step, fetched early; see job/ahead.h.
typedef struct tt_ahead {
    bool is_sent;  // being copied to the device, not in x and y
    bool is_asked; // the first micro-batch of step `step` was fetched
    int64_t step;
    tt_status status; // of asking
    char message[512];
} tt_ahead;

// Steps during which a pipe stays full (job/endless.h); all zero: it is emptied with
// each.
typedef struct tt_stretch {
    int64_t first, left; // steps
    double lr_before;    // of the step before: of updates that come late
} tt_stretch;
struct tt_dynamic; // job/dynamic/dynamic.h

// Micro-batches that were read before their rows came; see job/kept.h.
typedef struct tt_kept {
    int32_t next; // that the loader gives in this step
    char **data;  // x and y of each; NULL: none was kept
    int32_t n;
} tt_kept;

typedef struct tt_job {
    tt_arena *arena;
    tt_job_options options;
    tt_train_options train;
    tt_distribution distribution;
    tt_exchange exchange;
    tt_grid grid;
    tt_peers peers;                 // size 1: alone
    bool has_micro, has_accumulate; // the user said so
    bool is_lowered; // to fp32, as the device has not what was asked for
    tt_globs freeze, no_decay, lr_groups, skip;
    const tt_model_def *model;
    void *model_params;
    const tt_optim_def *optim;
    tt_job_optim optim_params;
    const char *note; // something the user should know; NULL: nothing
    tt_model_io io;   // extents of one micro-batch, over all ranks
    tt_pipe *pipe;    // the schedule of its stages; NULL: there is one stage
    int32_t fold;     // one rank carries out the table of so many stages; 0: no
    const tt_layers_chunk *cut; // where its chunks begin; NULL as `pipe`
    tt_graph *graph;
    tt_backend *backend;
    int32_t on_device; // ranks that compute on the same one
    bool is_linked;    // devices do collectives by themselves
    tt_plan *plan;
    int64_t chunks; // of the loss; after tt_job_plan
    bool in_order;  // its collectives: ranks' plans would differ otherwise
    tt_exec *exec;
    void *room;         // what it keeps, if all ranks see that; or NULL
    const double *pace; // per segment, from tt_job_start; NULL: no trial.pace
    tt_tensors tensors; // all states; after tt_job_plan
    void *x, *y;        // this rank's part of one micro-batch on the host
    void *stop;         // of every sample of it: this rank wants to stop
    int64_t classes;    // or vocabulary: the last extent of the logits
    int64_t step;       // steps done, skipped ones too
    int64_t until;      // a pipe is empty after this step; 0: unknown
    tt_stretch stretch;
    int64_t step_samples; // of one step
    double rate;          // optim.lr, scaled
    double lr;            // of the next steps; starts as `rate`
    bool guard;   // a loss or gradient that is not finite, or a loss above
    double limit; // `limit` (starts as infinity), changes no state at all

    bool wants_stop, wants_save; // rank 0's; all learn of it with the next step
    // Replicas with weights of their own: after the next step ranks tell each other what
    // they did; the model is made of the replicas. The same on all ranks.
    bool wants_meeting, wants_model;
    tt_job_replicas replicas;
    // The feed of a step may be asked for the next one's first micro-batch before
    // results are there, where that saves time; a copy of it is kept.
    bool feeds_ahead;
    tt_ahead ahead;
    tt_kept kept;

    // Of a policy in which workers go at their own pace. The plan is that of one worker's
    // micro-batch on one rank, and `grid` has one rank, whatever the peers are.
    int32_t workers;         // 0: there are none
    int64_t local_steps;     // of a worker between two pushes
    int32_t worker;          // whose micro-batch the feed is to fill,
    int64_t number;          // for which of its gradients
    const tt_shares *shares; // a federation's; NULL: clients have a batch each
    bool meets;              // all ranks come together after the next step
    struct tt_dynamic *dynamic; // once a step was made
    bool workers_are_new;       // a checkpoint was of another number of them
} tt_job;

// Reads and checks all settings: each must be known. `extra` (may be NULL) are
// options that the caller has read from the same settings already; names in it
// are whole keys ("train.steps").
tt_status tt_job_configure(tt_settings *settings, const tt_opt *extra,
                           tt_job **job_out);

// The same as one of several ranks (NULL: mesh.data says of how many, and it can
// only be planned). All ranks plan, start and step together; what is read and
// written of tensors is the same on all of them.
tt_status tt_job_configure_peers(tt_settings *settings, const tt_opt *extra,
                                 const tt_peers *peers, tt_job **job_out);
// The same from a configuration that was read already (of `settings`) and lives
// longer than the job.
tt_status tt_job_create(const tt_config *config, const tt_settings *settings,
                        const tt_peers *peers, tt_job **job_out);
void tt_job_close(tt_job *job); // NULL is fine

// Builds the training graph and lowers it.
tt_status tt_job_plan(tt_job *job);

// What another rank of a planned job will run.
tt_status tt_job_plan_rank(const tt_job *job, int32_t rank, tt_plan **plan_out);

// Fails when the plan is larger than the machine's memory, with the table and the
// cheapest changes that would make it fit.
tt_status tt_job_check_fit(tt_job *job);
int64_t tt_job_memory(const tt_job *job); // that a rank may use; 0: unknown

// Allocates memory and initialises state from the seed.
tt_status tt_job_start(tt_job *job, const tt_exec_options *options);

// Loads what init.from names, if it is set, over the initial state. `notes` get a
// sentence a line: what was loaded, missing, left over.
tt_status tt_job_init_from(tt_job *job, tt_str *notes);
// Whether that would do; the job need not be started.
tt_status tt_job_check_from(const tt_job *job, tt_str *notes);

// Fills this rank's part of the inputs of one micro-batch (samples [first, first +
// n) of it: tt_job_samples): x and y dense, in the graph's types.
typedef tt_status tt_job_feed_fn(void *user, const tt_job *job, int64_t micro,
                                 void *x, void *y);

// Random data and labels, keyed by seed, step and index.
tt_status tt_job_feed_random(void *user, const tt_job *job, int64_t micro,
                             void *x, void *y);

// Which samples of a micro-batch are this rank's.
void tt_job_samples(const tt_job *job, int64_t *first_out, int64_t *n_out);

// One optimiser step over all micro-batches; without `feed` each is the last that was
// fed, which is where it was.
tt_status tt_job_step(tt_job *job, tt_job_feed_fn *feed, void *user,
                      tt_step_result *result_out);

// The stages of a schedule without flush; 0: it has one, or there is one stage. The job
// need not be planned.
int32_t tt_job_endless_stages(const tt_job *job);
// Whether updates come in the step after theirs (exchange.chunks).
bool tt_job_is_late(const tt_job *job);
// One rank carries out the table of all stages of `many`; planned anew, before its start.
void tt_job_fold(tt_job *one, const tt_job *many);

// Whether no micro-batch is on its way: weights and states are those of the newest step on
// all ranks. A pipe without flush is empty only now and then.
bool tt_job_is_drained(const tt_job *job);
// What was asked of the feed ahead counts no more: its data begin elsewhere.
void tt_job_forget_ahead(tt_job *job);

// Whether ranks ask each other after every step if one wants to stop, since not all
// learn it with the losses; and the call for that.
bool tt_job_asks(const tt_job *job);
extern const tt_coll_call tt_job_stop_call;
int64_t tt_job_parameters(const tt_job *job); // trained numbers
int64_t tt_job_frozen(const tt_job *job);     // weights that are not

// FLOPs of one step by the usual formulas: tokens * (6N + 6LCT), attention in full
// (12LCT) when it is not causal; images: 3 x 2 x multiply-adds.
double tt_job_flops(const tt_job *job);
// The sum of squares of residuals (exchange.codec): this rank's share of that of all.
tt_status tt_job_residual(const tt_job *job, double *squares_out);

#endif
