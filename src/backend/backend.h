// backend - a device: its kernels, and the target that lowering asks.
//
//   tt_backend_def   a kind of device: ref, cpu, cuda. Constant
//   tt_backend       one device that is open. It begins with a tt_target, so lowering
//                    can ask it without knowing about backends
//   tt_kernel_def    one way to compute one operator (kernel.h)
//
// The CPU backends work in the host's memory and have no other parts. A GPU has memory
// of its own, and then up to four more tables, each for one way in which the device
// works beside its steps: queue (the wire), lane (inputs), drain (checkpoints) and
// device_comm (collectives between devices). What is NULL is done more slowly by
// other means.
//
// One thread at a time may use a backend (kernels use OpenMP inside).

#ifndef TT_BACKEND_BACKEND_H
#define TT_BACKEND_BACKEND_H

#include "backend/device_comm.h"
#include "backend/drain.h"
#include "backend/kernel.h"
#include "backend/lane.h"
#include "backend/queue.h"
#include "plan/target.h"

// Memory that the host cannot address. The host may add offsets to its addresses, but
// only these functions move the contents. The device works asynchronously: calls queue
// work in order, and only `read` and `wait` wait for it.
typedef struct tt_memory_def {
    tt_status (*alloc)(tt_backend *backend, int64_t bytes, void **block_out);
    void (*free)(tt_backend *backend, void *block); // NULL is fine
    tt_status (*fill)(tt_backend *backend, void *to, int byte, int64_t bytes);
    tt_status (*write)(tt_backend *backend, void *to, const void *host,
                       int64_t bytes);
    tt_status (*read)(tt_backend *backend, void *host, const void *from,
                      int64_t bytes);
    tt_status (*wait)(tt_backend *backend);
    // Within the device's memory; NULL: tt_memory_copy goes through the host.
    tt_status (*copy)(tt_backend *backend, void *to, const void *from,
                      int64_t bytes);
    // Timing. mark() records an event under a number when all work queued before is
    // done; between() waits for two events and gives the seconds from one to the other.
    // NULL: neither.
    tt_status (*mark)(tt_backend *backend, int64_t number);
    tt_status (*between)(tt_backend *backend, int64_t from, int64_t to,
                         double *seconds_out);
    // Recording (CUDA graphs). Work that is queued between record() and recorded() is
    // recorded and not run; replay() queues all of it, on the same addresses, for the
    // price of one launch. *recording_out is NULL without `keep`, and when the work
    // cannot be repeated: part of it waits, or reads the host's memory. NULL: none.
    tt_status (*record)(tt_backend *backend);
    tt_status (*recorded)(tt_backend *backend, bool keep, void **recording_out);
    tt_status (*replay)(tt_backend *backend, void *recording);
    void (*forget)(tt_backend *backend, void *recording); // NULL is fine
    // Pinned memory of the host: copies from and to it run at full speed.
    tt_status (*host_alloc)(tt_backend *backend, int64_t bytes,
                            void **block_out);
    void (*host_free)(tt_backend *backend, void *block); // NULL is fine
} tt_memory_def;

typedef struct tt_backend_def {
    const char *name, *doc;
    // Arrays of kernels, one per file, each ended by {0}; NULL ends the list. They are
    // searched in this order, then those of ref. On a device with its own memory a
    // reference kernel works on copies in the host's memory (see stage.h).
    const tt_kernel_def *const *kernels;
    const tt_memory_def *memory; // NULL: the host's
    const tt_queue_def *queue;   // of memory that is not; NULL: no wire there
    const tt_device_comm_def
        *device_comm;        // between devices; NULL: there are none
    const tt_lane_def *lane; // the same; NULL: inputs are written in their turn
    const tt_drain_def *drain; // the same; NULL: states are read in their turn
    bool (*is_here)(void);     // NULL: everywhere
    bool (*has_dtype)(tt_dtype dtype);
    bool (*has_fast)(tt_dtype dtype); // not by way of another; NULL: it has
    // Layouts, see tt_target; NULL: none.
    int64_t (*layout_bytes)(tt_backend *backend, int32_t layout);
    int32_t (*layout_part)(tt_backend *backend, int32_t layout,
                           int64_t entries);
    uint64_t (*layout_hash)(tt_backend *backend, int32_t layout);
    int (*count)(void); // devices that are here; NULL: one
    // Bytes of its memory that are free now; NULL: as many as when it was opened.
    int64_t (*free_bytes)(tt_backend *backend);
    tt_status (*open)(tt_backend *backend); // NULL: nothing
    void (*close)(tt_backend *backend);
} tt_backend_def;

typedef struct tt_backend_options {
    int n_threads; // 0: all cores
    bool exact;    // results must not depend on the number of threads
    bool launch;   // each kernel anew: work is never recorded and replayed
    const char
        *cache; // folder for what is measured, while it is opened; NULL: none
    // Which of several devices: its number. With -1, process number `local` of a host
    // takes the device that is its share.
    int32_t number, local;
    bool may_be_absent; // to plan only: a device that is not here is described
} tt_backend_options;

enum { TT_DEVICE_ID = 16 };

struct tt_backend {
    tt_target target; // first: a backend is a target
    const tt_backend_def *def;
    tt_backend_options options;
    void *device; // the def's own (interned layouts, engine, ...)
    unsigned char id[TT_DEVICE_ID]; // like no other device's; zero: the host
    char name[64];                  // what its maker calls it; "": the host
    bool is_absent;                 // described only; target.memory_bytes is 0
};

tt_status tt_backend_open(const tt_backend_def *def,
                          const tt_backend_options *options,
                          tt_backend **backend_out);
void tt_backend_close(tt_backend *backend);

// The backend's memory. It is not zeroed. Where it is the host's, these are plain
// copies.
tt_status tt_memory_alloc(tt_backend *backend, int64_t bytes, void **block_out);
void tt_memory_free(tt_backend *backend, void *block); // NULL is fine
tt_status tt_memory_fill(tt_backend *backend, void *to, int byte,
                         int64_t bytes);
tt_status tt_memory_write(tt_backend *backend, void *to, const void *host,
                          int64_t bytes);
tt_status tt_memory_read(tt_backend *backend, void *host, const void *from,
                         int64_t bytes);
tt_status tt_memory_copy(tt_backend *backend, void *to, const void *from,
                         int64_t bytes);       // both are its own
tt_status tt_memory_wait(tt_backend *backend); // until all work is done
// The host's memory beside it.
tt_status tt_memory_host_alloc(tt_backend *backend, int64_t bytes,
                               void **block_out);
void tt_memory_host_free(tt_backend *backend, void *block); // NULL is fine

// All backends; by name or NULL.
const tt_backend_def *const *tt_backend_all(int *n);
const tt_backend_def *tt_backend_find(const char *name);

// Runs / frees a kernel that choose() handed out. An element-wise kernel may see
// operands in a layout as flat vectors (choose.c).
tt_status tt_kernel_run(void *kernel, const tt_args *args);
// The same in two parts. A copy that begins may overlap with the steps between the two.
tt_status tt_kernel_begin(void *kernel, const tt_args *args);
tt_status tt_kernel_finish(void *kernel, const tt_args *args);
void tt_kernel_free(void *kernel);

// Whether it computes on copies in the host's memory, and so waits for the device.
bool tt_kernel_is_staged(const void *kernel);

#endif
