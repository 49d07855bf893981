// crowd_wall - what the files of workers with weights of their own share when the wall clock
// runs. See crowd_wall.c for the idea.
//
//   crowd_wall   whose turn it is; this rank's workers; a step
//   crowd_post   letters and vectors between ranks

#ifndef TT_JOB_DYNAMIC_CROWD_WALL_H
#define TT_JOB_DYNAMIC_CROWD_WALL_H

#include "job/dynamic/crowd.h"

typedef enum tt__crowd_kind {
    TT_CROWD_READY,  // to rank 0: a gradient
    TT_CROWD_NEXT,   // from rank 0: whose turn it is
    TT_CROWD_VECTOR, // to rank 0: the next message is one
    TT_CROWD_FIN,    // to rank 0: nothing more until all have met
} tt__crowd_kind;

typedef struct tt__crowd_letter {
    int64_t kind, worker;
    double head[TT_HEAD_N];
    double now, waited, computed; // in seconds of steps
    double lr;
    bool stop, save; // wishes
    bool is_last;    // of its step,
    bool meets;      // after which all meet
} tt__crowd_letter;

typedef struct tt__crowd_parcel { // on its way out, or waiting for its turn
    tt__crowd_letter letter;
    tt_msg msg;
    struct tt__crowd_parcel *next;
} tt__crowd_parcel;

typedef struct tt__crowd_line { // letters from another rank
    int32_t peer;
    bool is_open;    // a receive is posted
    bool is_fin;     // it has said its last word
    bool has_vector; // the next message is one
    tt__crowd_letter letter;
    tt_msg msg;
} tt__crowd_line;

typedef struct tt__crowd_result { // of a step that is over
    tt_step_result step;
    bool meets;
} tt__crowd_result;

typedef struct tt__crowd_wall {
    int32_t n_lines; // rank 0's: from all others; else from rank 0
    tt__crowd_line *line;
    tt__crowd_parcel *out, *spare;
    tt__crowd_parcel *queue, **last; // letters whose turn has not come
    bool is_following;               // in the middle of a turn
    bool is_over;                    // rank 0: the step
    bool is_closed;                  // rank 0 says nothing before all have met
    bool wants_stop;
    tt__crowd_result *result; // that were not given back yet
    int64_t n_results, result_room;
    double began, elapsed; // of steps
    double *got;           // per worker of this rank: when it had its weights
} tt__crowd_wall;

// ---- crowd_post ----------------------------------------------------------

tt_status tt__crowd_post_open(tt_dynamic *d);
void tt__crowd_post_close(tt_dynamic *d);
tt_status tt__crowd_send(tt_dynamic *d, int32_t to,
                         const tt__crowd_letter *letter);
// A letter waits for its turn.
tt_status tt__crowd_keep(tt_dynamic *d, const tt__crowd_letter *letter);
void tt__crowd_spare(tt__crowd_wall *wall, tt__crowd_parcel *parcel);
// Takes in what has come; no turn is taken.
tt_status tt__crowd_receive(tt_dynamic *d, bool *did_out);
tt_status tt__crowd_rest(const tt_dynamic *d, tt_rest *rest);
// Whether nothing of this rank's is under way.
bool tt__crowd_is_empty(const tt_dynamic *d);
void tt__crowd_reopen(tt__crowd_wall *wall); // after a meeting

#endif
