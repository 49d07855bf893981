// oracle - a training in Tutti beside a file with what it should give: tensors
// with a kind in front of the name ("grad.fc.weight"), F32 or F64.
//
// Equal means: |a - b| / max(|b|, 0.01 |all| sqrt(n / N)) is within the tolerance,
// with Euclidean norms and n of all N elements of the kind. What is zero in
// mathematics has no relative error of its own.

#ifndef TT_TESTS_ORACLE_ORACLE_H
#define TT_TESTS_ORACLE_ORACLE_H

#include "base/arena.h"
#include "job/job.h"
#include "store/safetensors.h"

typedef struct oracle {
    const char *model; // for messages
    double tolerance;
    tt_safetensors *file;
    tt_job *job;
    tt_arena *arena;
} oracle;

// Configures and starts the job that `settings` (separated by spaces) describe;
// logits and every gradient can be read after a step. The file is open.
void oracle_start(oracle *o, const char *settings);
void oracle_close(oracle *o); // nothing may be left allocated

// The tensor "kind.name" of the file, or NULL; without a dot when `name` is "".
const tt_safetensor *oracle_find(const oracle *o, const char *kind,
                                 const char *name);

double oracle_number(const tt_safetensor *t, int64_t i);

// Sets a state or converts one input from a tensor of the file.
void oracle_write(const oracle *o, tt_val v, const tt_safetensor *t);
void oracle_convert(const oracle *o, const char *input, const tt_safetensor *t,
                    void *out);

// Compares the value times `scale` with the tensor "kind.name".
void oracle_compare(const oracle *o, tt_val v, const char *kind,
                    const char *name, double scale);

// The same for elements [first, first + n) alone; shapes are not looked at.
typedef struct oracle_part {
    int64_t first, n;
} oracle_part;
void oracle_compare_part(const oracle *o, tt_val v, const tt_safetensor *t,
                         oracle_part part, double scale);

#endif
