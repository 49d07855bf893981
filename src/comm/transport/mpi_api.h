// mpi_api - what the program asks of an MPI library, in types that do not depend on
// which one it is. A plug-in, compiled against one library's mpi.h, answers it; so
// the program itself links no MPI.
//
// Functions return 0, or the library's own error code, which explain() puts in
// words. One thread at a time.

#ifndef TT_COMM_TRANSPORT_MPI_API_H
#define TT_COMM_TRANSPORT_MPI_API_H

#include "comm/coll/coll.h"

enum { TT_MPI_API = 1, TT_MPI_TEXT = 256 };

typedef struct tt_mpi_request {
    uint64_t bits; // the library's handle
} tt_mpi_request;

// What a finished receive has brought.
typedef struct tt_mpi_arrival {
    int tag, bytes;
} tt_mpi_arrival;

typedef struct tt_mpi_coll {
    tt_coll_kind kind;
    tt_fold fold;
    const void *in;
    void *out;
    int count, root;
    const int *block, *first;       // every member's block of `count`
    const int *received, *to_first; // of all_to_all's result
} tt_mpi_coll;

typedef void tt_mpi_fold_fn(tt_fold fold, void *dst, const void *src,
                            int64_t bytes);

typedef struct tt_mpi_api {
    int version;           // TT_MPI_API
    bool is_slow_in_place; // an all-reduce between two ranks
    // Once per process; the fold is for types that MPI does not know.
    int (*init)(tt_mpi_fold_fn *fold);
    void (*about)(char text[TT_MPI_TEXT]); // "Open MPI 4.1.4"
    void (*host)(char text[TT_MPI_TEXT]);  // this machine's name
    int (*rank)(void);
    int (*size)(void);
    int (*tag_most)(void);
    int (*send)(const void *data, int bytes, int to, int tag,
                tt_mpi_request *out);
    // The next message from there, whatever its tag.
    int (*receive)(void *data, int bytes, int from, tt_mpi_request *out);
    int (*test)(tt_mpi_request *request, bool *done_out,
                tt_mpi_arrival *arrival_out);
    int (*collect)(const tt_mpi_coll *coll, tt_mpi_request *out);
    // Empty messages apart from all others: signs of life. from -1: there is none.
    int (*sign)(int to, int tag);
    int (*next_sign)(int *from_out, int *tag_out);
    bool (*is_truncated)(int code); // a message was longer than its receive
    void (*explain)(int code, char text[TT_MPI_TEXT]);
    int (*finalize)(void);
} tt_mpi_api;

// The one function that a plug-in exports.
typedef const tt_mpi_api *tt_mpi_plugin_fn(void);
#define TT_MPI_PLUGIN "tt_mpi_plugin"

#endif
