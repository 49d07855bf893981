// isa - which instruction set this process computes with, in our own kernels and in
// oneDNN alike. A limit makes a large machine behave as a smaller one, bits included.
//
//   level   own kernels                oneDNN
//   base    the plainest of its kind   SSE4.1
//   v3      AVX2                       AVX2
//   v4      AVX-512                    AVX512_CORE
//   v4b     AVX-512 with bf16          AVX512_CORE_BF16
//
// No level includes AMX. It was not shown to keep the orders of sums that tests demand
// (same bits for any number of threads, N ranks = 1 rank), and without it a processor
// that has AMX computes the same as one that has not.
//
// The level is fixed when the first kernel is chosen and stays; this is state of the
// process, since oneDNN keeps its own limit that way. Any thread may call these.

#ifndef TT_BACKEND_CPU_ISA_H
#define TT_BACKEND_CPU_ISA_H

#include "base/status.h"

typedef enum tt_isa {
    TT_ISA_AUTO, // as a limit: none
    TT_ISA_BASE,
    TT_ISA_V3,
    TT_ISA_V4,
    TT_ISA_V4B,
    TT_N_ISAS,
} tt_isa;

#define TT_ISA_CHOICES "auto|base|v3|v4|v4b" // in this order
extern const char *const tt_isa_name[TT_N_ISAS];
extern const char *const tt_isa_doc[TT_N_ISAS]; // "AVX2"

// The value of that name, or -1.
int tt_isa_find(const char *name);

// Nothing above `most` from now on; of several limits the lowest counts. Fails when a
// higher level is in use already.
tt_status tt_isa_limit(tt_isa most);

// What the processor has, what the limits leave of it, and what is used: the last
// fixes the level.
tt_isa tt_isa_here(void);
tt_isa tt_isa_most(void);
tt_isa tt_isa_used(void);

// What is used, in a word to remember it by: "v3", or an architecture without levels.
const char *tt_isa_word(void);

#endif
