// cpu_check - runs one operator on one backend, straight through the kernel that it
// chooses, without a graph or a plan.

#ifndef TT_TESTS_BACKEND_CPU_CHECK_H
#define TT_TESTS_BACKEND_CPU_CHECK_H

#include "backend/backend.h"

enum { CPU_MAX_IN = 8 };

typedef struct cpu_case {
    const tt_op_def *op;
    const char *params;
    const char *in[CPU_MAX_IN]; // shapes; "-": absent
    tt_dtype dtype;             // of the inputs
    uint32_t f32_in;            // bit i: input i is f32 in any case
    uint32_t i32_in, i64_in;    // bit i: input i is of this type
    uint32_t blocked_in;        // bit i: input i lies in blocks of channels
    int64_t block;
    int n_threads;
    bool is_exact;
    bool twice;         // run, then add to output 0
    const char *kernel; // its name must be this; NULL: any
    const double *(*input)(int i, int64_t n); // NULL: random numbers
    void (*place)(tt_site *site); // says which part operands are; NULL: all
    uint32_t u8_in;               // bit i: input i is u8, below 4
} cpu_case;

typedef struct cpu_result {
    int n_out;
    int64_t count[TT_MAX_OUT];
    double *out[TT_MAX_OUT]; // dense
    const char *kernel;
} cpu_result;

// Ends the test when anything fails.
void cpu_run(const char *backend, const cpu_case *c, cpu_result *result_out);
void cpu_result_fini(cpu_result *r);

// The shape that an output will have.
void cpu_shape_of(const cpu_case *c, int out, tt_shape *shape_out);

// The fast backend equals ref: |a - b| <= tolerance * largest |b|, per output.
void cpu_check(const cpu_case *c, double tolerance);
// One thread equals two and three threads, to the bit.
void cpu_check_threads(const cpu_case *c);

#endif
