// signals - no signal handler runs on a thread that computes.
//
// The problem: a handler's frame goes below the stack pointer of the thread that it
// interrupts. oneDNN's generated matrix products (AVX2 and plain AVX-512, up to version
// 3.11) point the stack pointer into a buffer on the heap while they run. The frame,
// some kilobytes of registers, then overwrites whatever lies before that buffer.
//
// The idea: threads that compute block signals while a run goes on. The kernel gives a
// signal to another thread of the process, or keeps it until the run is over. Faults of
// the program itself (SIGSEGV and the like) are never blocked.
//
// The cost per run: two system calls and one parallel region. Measured on two Zen 4
// cores: 0.4 us with one thread, 1.2 us with two.

#ifndef TT_EXEC_SIGNALS_H
#define TT_EXEC_SIGNALS_H

#include <signal.h>

// Blocks signals on this thread and on the `n_threads` of its OpenMP team; the team
// keeps them blocked for good. What this thread had blocked goes to `before_out`.
void tt__exec_signals_hold(int n_threads, sigset_t *before_out);
void tt__exec_signals_release(const sigset_t *before);

#endif
