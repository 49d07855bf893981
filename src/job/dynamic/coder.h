// coder - gradients on their way to a server as codes: exchange.codec. Files of job/ only.
// Changes of clients of a federation go the same way (federated_codes).
//
// A codec is nodes of a graph (codec/codec.h). Here each tensor has a small graph of its own,
// all in one plan, which every rank has:
//
//   x, residual, states -> encode -> | codes | -> decode -> what the server takes for x
//          the worker's side           sent          the server's side
//
// What is sent are the values that the server's side reads of the worker's: packets, as many
// bytes of them as are used; numbers of 16 bits; factors. Nothing else crosses, so a codec
// needs no word about servers. Statistics (buffers) go as they are.
//
// With exchange.codec=factors the worker's side are rows that its executor has left
// (coder_rows.c), and the server's side is their product.
//
// A worker's residuals and states are its own, as bytes in a row. Those before its last
// gradient are kept too: by the wall clock a checkpoint may come after a gradient was sent and
// before it was taken, and a run that goes on computes it again.
//
// With proxies (proxy.h) workers push codes to these.
//
// The cost: a model's size in memory for x, and for each worker twice its residuals.

#ifndef TT_JOB_DYNAMIC_CODER_H
#define TT_JOB_DYNAMIC_CODER_H

#include "job/dynamic/dynamic.h"

typedef struct tt__coder tt__coder;

// Opens d->coder if gradients are coded.
tt_status tt__coder_open(tt_dynamic *d);
// Whether shards get codes: a proxy decodes those of its group, and pushes their sum.
static inline bool tt__shards_decode(const tt_dynamic *d)
{
    return d->coder != NULL && d->tree == NULL;
}
void tt__coder_close(tt_dynamic *d);

// After micro-batch `micro` of a gradient that the workers' executor computes: keeps the rows
// that its code will have (exchange.codec=factors).
tt_status tt__coder_keep(tt_dynamic *d, int32_t micro);
// A flat vector to be encoded: whose it is and its number say which random numbers are drawn;
// what was kept before, and where what is kept then goes (the same place will do).
typedef struct tt__coder_input {
    int32_t worker;
    int64_t number;
    void *vector;
    int64_t micros;       // that were finished
    char *before, *after; // tt__coder_state_bytes
} tt__coder_input;
// To `code`, which has room for tt__coder_most; the code for rank r is [at[r], at[r + 1]).
tt_status tt__coder_write(tt_dynamic *d, const tt__coder_input *in, char *code,
                          int64_t *at);
int64_t tt__coder_most(const tt_dynamic *d);
// What is kept before the first code.
const char *tt__coder_begin(const tt_dynamic *d);

// The gradient of a worker of this rank, for each shard; w->head says how many bytes.
tt_status tt__coder_encode(tt_dynamic *d, int32_t worker);
// That of all of it, of a worker of this rank.
void *tt__coder_whole(const tt_dynamic *d, int32_t worker, int64_t *bytes_out);
// What a shard's rank gets of a worker of this rank.
void *tt__coder_code(const tt_dynamic *d, int32_t worker, int32_t rank,
                     int64_t *bytes_out);
// The most bytes that this rank's shard may get.
int64_t tt__coder_room(const tt_dynamic *d);
// This shard's part of a gradient, from its code.
tt_status tt__coder_decode(tt_dynamic *d, int32_t worker, int64_t number,
                           const char *code, int64_t bytes, void *to);
// The same of all shards, one after another.
tt_status tt__coder_decode_whole(tt_dynamic *d, int32_t worker, int64_t number,
                                 const char *code, int64_t bytes, void *to);

// Of a worker of this rank, for checkpoints. `is_before`: as before its last gradient.
int64_t tt__coder_state_bytes(const tt_dynamic *d); // 0: no codec, or no states
char *tt__coder_state(const tt_dynamic *d, int32_t worker, bool is_before);

#endif
