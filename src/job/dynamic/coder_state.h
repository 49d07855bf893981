// coder_state - what the files of the coder share. See coder.h.
//
//   coder_graph   the plan: nodes of both sides, and what crosses
//   coder_rows    factors of gradients, from the workers' executor
//   coder         bytes: encode, decode, states

#ifndef TT_JOB_DYNAMIC_CODER_STATE_H
#define TT_JOB_DYNAMIC_CODER_STATE_H

#include "codec/codec.h"
#include "job/dynamic/coder.h"
#include "pass/factors/rows.h"

enum {
    TT_CODER_STATES = 1 + TT_CODEC_STATES,
    TT_CODER_SENT = 4,
    TT_CODER_NAME = 32,
};

typedef struct tt__coder_rows { // a factor of a gradient
    tt_val val;                 // of the job's graph: that of a micro-batch
    int64_t n, width;           // rows of a micro-batch
    int64_t bytes;              // of these
    int64_t at;                 // where those of all micro-batches are kept
} tt__coder_rows;

typedef struct tt__coder_part { // one tensor
    bool is_coded;              // else it is sent as it is
    bool is_product;            // and its factors are sent
    tt__coder_rows factor[TT_ROWS_FACTORS];
    tt_val x, sum;
    int n_states, n_sent;
    tt_val state[TT_CODER_STATES];
    tt_val sent[TT_CODER_SENT];
    int32_t first, middle, end; // nodes: encode; decode
} tt__coder_part;

typedef struct tt__coder_worker { // of a worker of this rank
    char *state, *before;
    char *code;
    int64_t *at; // ranks + 1: where each shard's begins
} tt__coder_worker;

struct tt__coder {
    tt__coder_part *part; // as d->part; of buffers nothing
    tt_graph *graph;
    tt_plan *plan;
    tt_exec *exec;
    bool *encodes, *decodes; // steps of the plan
    bool *now;               // those of a tensor
    int64_t state_bytes, room;
    int64_t most;             // bytes of codes of all shards
    char *packet;             // the longest value
    char *rows;               // of the gradient that is computed, or NULL
    char *begin;              // what a worker keeps before its first code
    tt__coder_worker *worker; // of this rank
};

static inline tt_status tt__coder_no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for codes of gradients");
}

// Statistics are sent as they are; with exchange.codec=factors all that is no product.
static inline bool tt__coder_has(const tt_dynamic *d, int32_t part)
{
    return d->coder->part[part].is_coded;
}

tt_status tt__coder_plan(tt_dynamic *d);

// Whether gradients are sent as factors.
bool tt__coder_has_rows(const tt_dynamic *d);
// Finds the gradients that are products, and says whether there are any.
bool tt__coder_find_rows(tt_dynamic *d);
tt_status tt__coder_make_rows(tt_dynamic *d);

#endif
