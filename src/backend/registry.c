// registry - the only file that names every backend.

#include "base/registry.h"

#include "backend/backend.h"

extern const tt_backend_def tt_backend_cpu;
extern const tt_backend_def tt_backend_cuda;
extern const tt_backend_def tt_backend_ref;

static const tt_backend_def *const all[] = {
    &tt_backend_cpu,
    &tt_backend_cuda,
    &tt_backend_ref,
};

TT_REGISTRY(tt_backend, all)
