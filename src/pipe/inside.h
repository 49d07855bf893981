// inside - what the files of this folder share.

#ifndef TT_PIPE_INSIDE_H
#define TT_PIPE_INSIDE_H

#include "pipe/pipe.h"

static inline int32_t tt__pipe_all_micro(const tt_pipe *p)
{
    return p->n_micro * p->n_steps;
}

// An empty table. All sizes are set and within the limits, or it fails.
tt_status tt__pipe_new(const tt_pipe *sizes, tt_pipe **pipe_out);

// Appends a row to a rank; slot, version and flags are not known yet.
tt_status tt__pipe_add(tt_pipe *p, int32_t rank, tt_pipe_phase phase,
                       int32_t chunk, int32_t micro);
tt_status tt__pipe_add_row(tt_pipe *p, int32_t rank, const tt_pipe_row *row);

// Where each piece of work is: the row on the rank that holds its chunk.
typedef enum tt__pipe_work {
    TT__PIPE_OUT,    // the chunk's output
    TT__PIPE_INPUT,  // the gradient of its input
    TT__PIPE_WEIGHT, // the gradient of its weights
    TT__PIPE_N_WORKS,
} tt__pipe_work;

typedef struct tt__pipe_index {
    const tt_pipe *p;
    // Rows: row[work][chunk * all micro-batches + micro-batch]
    int32_t *row[TT__PIPE_N_WORKS];
    int32_t *update; // [tt_pipe_at() * steps + step]
    int32_t *copy;   // per micro-batch
} tt__pipe_index;

// Fails when a row is out of range, not on the rank of its chunk, there twice or
// missing. Memory is the arena's.
tt_status tt__pipe_index_make(const tt_pipe *p, tt_arena *arena,
                              tt__pipe_index *index);

static inline int32_t tt__pipe_row_of(const tt__pipe_index *x,
                                      tt__pipe_work work, int32_t chunk,
                                      int32_t micro)
{
    return x->row[work][chunk * (int64_t)tt__pipe_all_micro(x->p) + micro];
}

static inline int32_t tt__pipe_rank_of(const tt__pipe_index *x, int32_t chunk,
                                       int32_t micro)
{
    return x->p->place[tt_pipe_at(x->p, x->copy[micro], chunk)];
}

// The version that a row reads and how far ahead, by the rule. `made`: updates of this
// chunk before the row. `forward`: the micro-batch's forward row, for gradient rows.
void tt__pipe_version(const tt_pipe *p, const tt_pipe_row *row, int32_t made,
                      const tt_pipe_row *forward, int32_t *version_out,
                      int32_t *ahead_out);

// Fills in slots, versions and flags of a table whose pieces of work are all there.
tt_status tt__pipe_finish(tt_pipe *p);

// "rank 2, row 14: backward of chunk 3, micro-batch 5"; rows count from 1.
void tt__pipe_say(const tt_pipe *p, int32_t rank, int32_t row, tt_str *out);

// ---- carrying a table out, without doing the work ------------------------

// A row that another row needs.
typedef struct tt__pipe_need {
    int32_t rank, row;
} tt__pipe_need;

// What a row needs but for the gradients that an update sums: at most 2 rows.
int tt__pipe_needs(const tt__pipe_index *x, const tt_pipe_row *row,
                   tt__pipe_need need[2]);

typedef struct tt__pipe_walk {
    const tt__pipe_index *index;
    int32_t capacity; // of each pair of ranks; 0: no limit
    int32_t *at;      // per rank: rows that are over
    bool *is_begun;   // per rank: the row after them has begun
    int32_t *lying;   // messages: [from * ranks + to]
    int32_t most;     // that lay between two ranks at once
    // Called when a row begins, in an order in which whatever it needs is over.
    void (*on_row)(void *user, int32_t rank, int32_t row);
    void *user;
} tt__pipe_walk;

tt_status tt__pipe_walk_make(const tt__pipe_index *index, int32_t capacity,
                             tt_arena *arena, tt__pipe_walk *walk);

// Runs rows until all are over or none can go on; says whether all are over. Where it
// ends does not depend on the order in which ranks are asked: nothing that a rank does
// can stop another one's row.
bool tt__pipe_walk_on(tt__pipe_walk *walk);

// What a rank that stands waits for: the row of another rank that must be over, or that
// must begin so that there is room for a message (*is_room_out).
tt__pipe_need tt__pipe_walk_blame(const tt__pipe_walk *walk, int32_t rank,
                                  bool *is_room_out);

#endif
