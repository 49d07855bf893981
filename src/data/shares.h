// shares - which samples are whose: the parts of a data set that clients hold.
//
//   iid          dealt like cards: client k has samples k, k + n, k + 2n, ... of the
//                shuffled data
//   contiguous   the k-th of n equal stretches, as the data stand in their files
//   document     the same, cut where documents end: a document has one client
//   label        sorted by label, cut into n * labels pieces, so many of them dealt to
//                each client
//   dirichlet    of each label client k has a part that is drawn: Dirichlet(alpha). A
//                small alpha gives few clients most of a label
//   user         images of one user, as the source names them, are one client's
//
// All of it is a function of (seed, client). Sizes may differ; a client may have nothing.
//
// A client goes through its samples in batches, epoch by epoch, in an order of its own.
// The last batch of an epoch may be short: what it lacks are samples that it had, without
// labels, so that they count for nothing in the loss. A position of the loader names a
// sample so:
//
//   position = client * 2^40 + batch number * batch + i

#ifndef TT_DATA_SHARES_H
#define TT_DATA_SHARES_H

#include "data/source/source.h"

typedef enum tt_share_kind {
    TT_SHARE_IID,
    TT_SHARE_DIRICHLET,
    TT_SHARE_LABEL,
    TT_SHARE_CONTIGUOUS,
    TT_SHARE_DOCUMENT,
    TT_SHARE_USER,
} tt_share_kind;

typedef struct tt_shares_options {
    int kind; // tt_share_kind
    int32_t clients;
    uint64_t seed;
    bool shuffle;
    int64_t seq, batch; // tokens of a sample; samples of a batch
    double alpha;       // dirichlet
    int64_t labels;     // label: pieces of a client
} tt_shares_options;

typedef struct tt_shares tt_shares;

// The source must outlive them. Memory: 8 bytes for each sample where labels or users decide.
tt_status tt_shares_create(const tt_source *source,
                           const tt_shares_options *options,
                           tt_shares **shares_out);
void tt_shares_close(tt_shares *shares); // NULL is fine

int32_t tt_shares_clients(const tt_shares *shares);
int64_t tt_shares_size(const tt_shares *shares, int32_t client); // samples
int64_t tt_shares_total(const tt_shares *shares);
// Batches of one epoch of a client; 0: it has no data.
int64_t tt_shares_batches(const tt_shares *shares, int32_t client);

// Where batch `number` of a client begins.
int64_t tt_shares_position(const tt_shares *shares, int32_t client,
                           int64_t number);
// The image, or the first token of the window, at a position; whether its label counts.
bool tt_shares_find(const tt_shares *shares, int64_t position,
                    int64_t *place_out);

#endif
