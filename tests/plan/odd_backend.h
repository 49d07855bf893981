// odd_backend - a backend that makes lowering work: it stores 4 x 4 matrices of
// f64 backwards, in a layout of its own, and scales into strided memory.

#ifndef TT_TESTS_PLAN_ODD_BACKEND_H
#define TT_TESTS_PLAN_ODD_BACKEND_H

#include "backend/backend.h"

enum {
    ODD_PADDED = 1,
    ODD_TIGHT = 2
}; // layouts: with one more element, or not

extern int32_t odd_layout; // which one matrix products ask for
extern const tt_backend_def odd_backend;

#endif
