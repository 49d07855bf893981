// packets - flights that gather packets (ops/codec/packet.h), of which only the bytes that
// are used are sent.
//
// A packet has a capacity, and the wire knows it before anything runs. How many bytes are
// used is known when it is written. A message has a length that both sides know, so ranks
// tell each other lengths first, for all members of a flight at once:
//
//   lengths   4 bytes for each packet             an all-gather of equal blocks
//   bodies    used bytes of all packets in a row  an all-gather of unequal blocks
//
// So a flight is two calls, however many tensors it has.
//
//   cost    a round more, of a few bytes; a copy of the codes on each side
//   sent    at most what tt_traffic_costs says, which takes bodies as full
//
// Lists that are merged on the way (ops/codec/merge.h) take four:
//
//   lengths   entries of each packet in each rank's part     an all-to-all
//   pieces    these entries                                  a message to each other rank
//   forms     of each sum: how many entries, or all numbers  an all-gather
//   bodies    the sums                                       an all-gather
//
// A shift of packets, to a neighbour, is two messages: the header, which says how long the
// packet is, and the rest.

#ifndef TT_TRAFFIC_PACKETS_H
#define TT_TRAFFIC_PACKETS_H

#include "traffic/site.h"

typedef struct tt_traffic_packets {
    tt_traffic_site x; // of the first member: who takes part
    int32_t n;         // members
    int64_t each;      // packets of a member on each rank
    int64_t bytes;     // of all packets of all members, if all are full
    bool is_merged;
    int64_t sums; // merged: bytes of a rank's sums at most
    int64_t part; // merged: numbers of the largest part
} tt_traffic_packets;

enum { TT_TRAFFIC_CHECK = 8 }; // bytes after pieces and after sums

// False: it is not such a flight, or it has one rank.
bool tt_traffic_packets_of(const tt_plan *plan, const tt_flight *flight,
                           tt_traffic_packets *out);

// The two calls, without data; the bodies as full ones. Each sets the group's bounds, and
// refers to them.
tt_coll_call tt_traffic_packets_lengths(const tt_traffic_packets *p,
                                        const tt_traffic_rules *rules,
                                        const tt_traffic_group *group);
tt_coll_call tt_traffic_packets_bodies(const tt_traffic_packets *p,
                                       const tt_traffic_rules *rules,
                                       const tt_traffic_group *group);

// The calls of merged lists; bodies have the group's bounds. Pieces are at most `bytes` to
// all ranks together, and a check to each.
tt_coll_call tt_traffic_merge_lengths(const tt_traffic_packets *p,
                                      const tt_traffic_rules *rules,
                                      const tt_traffic_group *group);
tt_coll_call tt_traffic_merge_forms(const tt_traffic_packets *p,
                                    const tt_traffic_rules *rules,
                                    const tt_traffic_group *group);
tt_coll_call tt_traffic_merge_bodies(const tt_traffic_packets *p,
                                     const tt_traffic_rules *rules,
                                     const tt_traffic_group *group);

#endif
