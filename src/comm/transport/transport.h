// transport - the list of transports, those that wrap another, and the one for a
// single rank. shm.h and mpi.h open theirs.
//
// A wrapper owns the transport below from its opening and closes it with itself. It has
// no collectives of its own, so that every byte is a message.

#ifndef TT_COMM_TRANSPORT_TRANSPORT_H
#define TT_COMM_TRANSPORT_TRANSPORT_H

#include "comm/comm.h"

const tt_comm_def *const *tt_comm_all(int *n);

// One rank, alone: messages to itself.
tt_status tt_self_open(double deadline, tt_comm **comm_out);

// A slower link: every rank sends so many bytes per second, and receives as many,
// whoever the peers are; a message arrives `latency` later. Senders go on meanwhile.
// Ranks must have one clock, so be on one machine.
typedef struct tt_slow_options {
    double rate;    // bytes per second; 0: unlimited
    double latency; // seconds
} tt_slow_options;
tt_status tt_slow_open(tt_comm *below, const tt_slow_options *options,
                       tt_comm **comm_out);

// Faults on purpose, several with ';' between, each KIND:KEY=VALUE,... where `rank`
// is who does it (default: every rank) and `after` how many messages it has sent
// before (default 0):
//
//   drop:rank=2,after=100                 the rank falls silent
//   delay:rank=1,seconds=0.05,every=10    every 10th message leaves later
//   corrupt:rank=0,after=7                one bit of one message is flipped
//   slow:rank=1,rate=1e6                  its messages take bytes / rate longer
//
// Every message carries a checksum, so that what was flipped is noticed.
tt_status tt_fault_open(tt_comm *below, const char *text, tt_comm **comm_out);
// Whether so many ranks could read that.
tt_status tt_fault_check(const char *text, int32_t n_ranks);

// Keeps the newest `capacity` messages.
tt_status tt_comm_trace_open(tt_comm *below, int64_t capacity,
                             tt_comm **comm_out);

typedef struct tt_comm_trace_event {
    double posted, done; // tt_clock_seconds; done 0: not yet
    int64_t number;      // since the opening
    int64_t bytes;
    int32_t peer, tag;
    bool is_send;
} tt_comm_trace_event;

// The i-th oldest that is kept, of *n_out; NULL: no such one, or not a trace.
const tt_comm_trace_event *tt_comm_trace_event_of(const tt_comm *comm,
                                                  int64_t i, int64_t *n_out);

#endif
