// packets - what the reference kernels of codecs share: everything but the codec itself.

#ifndef TT_BACKEND_REF_PACKETS_H
#define TT_BACKEND_REF_PACKETS_H

#include "backend/kernel.h"
#include "ops/codec/packet.h"

typedef struct tt__ref_job {
    const char *op; // for sentences
    const tt_packet_form *form;
    const void *how; // of the codec
    const void *params;
    int64_t n, capacity; // capacity: of the body
    uint64_t key;        // of random numbers
    bool is_wide;        // the tensor has doubles
    bool has_residual;
    const double *e; // what is encoded, in the tensor's own precision
    void *room;      // 24 bytes for each element
} tt__ref_job;

// A codec. encode() writes the body and returns its bytes. decode() writes what a body
// stands for; false: no encoder writes this body, which may be any bytes.
typedef struct tt__ref_code {
    uint32_t (*digest)(const void *params); // NULL: 0
    int64_t (*encode)(const tt__ref_job *job, unsigned char *body);
    bool (*decode)(const tt__ref_job *job, const unsigned char *body,
                   int64_t bytes, double *d);
    const void *how; // what encode and decode differ in; NULL: nothing
    bool is_vote;    // a sum is a vote about signs
} tt__ref_code;

// The codec in blocks that writes this form.
const tt__ref_code *tt__ref_code_of(const tt_packet_form *form);

tt_kernel_prepare_fn tt__ref_packet_prepare; // scratch
tt_status tt__ref_encode(const tt__ref_code *code, const tt_site *site,
                         const tt_args *args);
tt_status tt__ref_sum(const tt__ref_code *code, const tt_site *site,
                      const tt_args *args);

// What is left of e when d was sent, in the tensor's precision; 0 where that is not
// finite.
double tt__ref_left(bool is_wide, double e, double d);

// A sum of floats in chains, as codes.h defines it.
typedef struct tt__ref_chains {
    float chain[16];
    int64_t n; // added so far
} tt__ref_chains;
void tt__ref_chains_add(tt__ref_chains *c, float x);
float tt__ref_chains_sum(tt__ref_chains c);

// The sum of squares, 4096 at a time in chains of doubles.
double tt__ref_squares(const double *x, int64_t n);

// The k largest entries of x by absolute value, of those that have the bits of `least`
// at least; their places, ascending, go to `place`. Returns how many there are. The room
// is 16 bytes for each element.
typedef struct tt__ref_pick {
    bool is_wide;
    const double *x;
    int64_t n, k;
    double least;
} tt__ref_pick;
int64_t tt__ref_largest(const tt__ref_pick *pick, uint32_t *place, void *room);

// The key of a code's random numbers: of the run's seed, the tensor and the step. 0: the
// site has none.
uint64_t tt__packet_key(const tt_site *site, const tt_args *args);

#endif
