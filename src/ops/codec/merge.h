// merge - lists of entries (sparse.h) that are added up on the way: a sparse all-reduce.
//
// The problem. If every rank gets the lists of all others, n ranks get n - 1 lists,
// however much these have in common; and long lists are more bytes than all numbers.
//
// The idea (SparCML's split all-gather). Each rank adds up one part of all places. It
// gets what others have of that part, and all get its sum: as a list, or as numbers
// where these are fewer bytes.
//
//   rank 0   a..b...|.c.d.    cut     part 0: a..b... + .f.g...   all    sums of
//   rank 1   .f.g...|..hk.   ----->   part 1: .c.d.   + ..hk.    ----->  both parts
//
// Terms of a place are added one after another in the order of the replicas, as the
// sum of gathered codes does. So bits are those of gathering, on any number of ranks.
//
//   sent    of R replicas on n ranks with k entries of e bytes each, of N numbers:
//           gathered  (n - 1) / n  R k e
//           merged    (n - 1) / n (R k e / n + min(e union, v N))
//   source  Renggli et al. 2019 (SparCML)

#ifndef TT_OPS_CODEC_MERGE_H
#define TT_OPS_CODEC_MERGE_H

#include "ops/codec/sparse.h"

// The entries of a packet of topk_sum's kind, or some in a row of them. Nothing is
// aligned.
typedef struct tt_merged_list {
    int64_t n, value_bytes;
    const unsigned char *value, *place;
} tt_merged_list;

// Reads a packet that was written here. False: it is none of such a list.
bool tt_merged_open(const unsigned char *packet, int64_t capacity, int64_t n,
                    int64_t value_bytes, tt_merged_list *out);
// Its entries with places from `first` on, before `end`.
tt_merged_list tt_merged_cut(const tt_merged_list *list, int64_t first,
                             int64_t end);

// The first place of part i of `parts`.
static inline int64_t tt_merged_first(int64_t n, int64_t parts, int64_t i)
{
    return (int64_t)((double)n / (double)parts * (double)i);
}

// The sum of lists over one part; `room` has tt_merged_room bytes.
typedef struct tt_merged_sum {
    int64_t first, n, value_bytes;
    void *room;
} tt_merged_sum;
int64_t tt_merged_room(int64_t n, int64_t value_bytes);
void tt_merged_begin(const tt_merged_sum *sum);
// False: places do not ascend, or are not in the part.
bool tt_merged_add(const tt_merged_sum *sum, const tt_merged_list *list);
// How many entries there are; -1: all numbers are fewer bytes.
int64_t tt_merged_count(const tt_merged_sum *sum);
// Bytes of a part that is written so, and the writing.
int64_t tt_merged_bytes(int64_t count, int64_t n, int64_t value_bytes);
void tt_merged_write(const tt_merged_sum *sum, int64_t count,
                     unsigned char *to);

// Packets that topk_sum reads, of the sums of all parts: as many as there are replicas,
// each with as many entries as fit. Begins with a zero `at`.
typedef struct tt_merged_out {
    unsigned char *packet;
    int64_t packets, capacity, n, value_bytes;
    int64_t entries; // in all
    int64_t at;      // written
} tt_merged_out;
// The most entries that a packet has.
int64_t tt_merged_most(int64_t capacity, int64_t value_bytes);
// How many entries a part that was written so has; -1: it is damaged.
int64_t tt_merged_entries(const tt_merged_sum *part, int64_t count,
                          const unsigned char *data);
void tt_merged_put(tt_merged_out *out, const tt_merged_sum *part, int64_t count,
                   const unsigned char *data);
void tt_merged_close(tt_merged_out *out);

// Whether merging sends fewer bytes, if places are random.
typedef struct tt_merged_case {
    int64_t n, k;                       // numbers; entries of a replica
    int64_t value_bytes, gathered_each; // of an entry that is gathered
    int64_t replicas, ranks;
} tt_merged_case;
bool tt_merged_pays(const tt_merged_case *c);

#endif
