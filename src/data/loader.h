// loader - batches, assembled ahead of time by threads of its own. Used by one
// thread at a time. What comes is the same for any number of workers.
//
// Micro-batch `m` of step `s` counted from the start holds the samples at positions
//   position + s * step_samples + first + m * micro_stride + (0 .. micro_samples)
// so that ranks whose [first, first + micro_samples) make up [0, micro_stride) share
// the work of one run.

#ifndef TT_DATA_LOADER_H
#define TT_DATA_LOADER_H

#include "data/image/transform.h"
#include "data/shares.h"
#include "data/source/source.h"

typedef struct tt_loader tt_loader;

typedef struct tt_loader_options {
    uint64_t seed;
    bool shuffle;
    int64_t seq;            // tokens per sample
    int64_t classes;        // ids and labels must be below; 0: the source's
    tt_transform transform; // of images
    int64_t step_samples;   // of one step, over all ranks
    int64_t first, n_micro, micro_samples; // of this rank
    int64_t micro_stride;                  // of all ranks; 0: micro_samples
    int64_t position; // samples consumed before the first step
    int64_t end;      // position of the first sample that is not there: it
                      // and all after it get labels of -1; 0: endless
    const tt_shares *shares; // positions are those of clients; NULL: of all
    int n_workers;           // 0: one
    int n_ahead;             // micro-batches; 0: four
} tt_loader_options;

typedef struct tt_batch {
    const void *x;    // int32 [samples, seq], or float [samples, C, H, W]
    const int32_t *y; // [samples, seq] or [samples]
    int64_t samples;  // that are real; the others have labels of -1
} tt_batch;

// The source must outlive the loader.
tt_status tt_loader_open(const tt_source *source,
                         const tt_loader_options *options,
                         tt_loader **loader_out);
// Waits for samples that are being read, one per worker; NULL is fine.
void tt_loader_close(tt_loader *loader);

// Samples of one epoch of this source: windows or images.
int64_t tt_loader_epoch(const tt_source *source, int64_t seq);

// The next micro-batch; valid until the next call. A sample that cannot be read is
// an error that names it; the call after it gives the next batch. Waits at most
// `deadline` seconds in which not one sample was read, and may be called again then.
tt_status tt_loader_next(tt_loader *loader, double deadline,
                         tt_batch *batch_out);

// Goes on from another position, which begins a step.
tt_status tt_loader_seek(tt_loader *loader, int64_t position);

// The same for `n` micro-batches: no more are read.
tt_status tt_loader_seek_span(tt_loader *loader, int64_t position, int64_t n);

double tt_loader_waited(const tt_loader *loader); // seconds in next, so far

#endif
