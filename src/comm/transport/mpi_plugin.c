// mpi_plugin - mpi_api.h for one MPI library. This file is compiled once per library,
// into a plug-in each, and is not part of libtutti.
//
// MPI libraries have the same functions but different types and constants, so a program
// that is compiled for one cannot use another. With plug-ins, one program runs under
// each of them: the launcher's environment says which one to load (mpi_load.c).
//
// MPI is one per process, so its state here is static.

#include "comm/transport/mpi_api.h"

#include <mpi.h>

#include <stdio.h>
#include <string.h>

static MPI_Comm data_comm, sign_comm;
static MPI_Op sum_bf16, max_bf16, sum_f16, max_f16;
static tt_mpi_fold_fn *fold_into;

#define TRY(call)                                                              \
    do {                                                                       \
        const int try_code = (call);                                           \
        if (try_code != MPI_SUCCESS)                                           \
            return try_code;                                                   \
    } while (0)

// ---- types ---------------------------------------------------------------

static void fold_16(tt_fold_op op, tt_num type, void *in, void *inout, int n)
{
    fold_into((tt_fold){op, type}, inout, in, 2 * (int64_t)n);
}

static void do_sum_bf16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    fold_16(TT_FOLD_SUM, TT_NUM_BF16, in, inout, *n);
}

static void do_max_bf16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    fold_16(TT_FOLD_MAX, TT_NUM_BF16, in, inout, *n);
}

static void do_sum_f16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    fold_16(TT_FOLD_SUM, TT_NUM_F16, in, inout, *n);
}

static void do_max_f16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    fold_16(TT_FOLD_MAX, TT_NUM_F16, in, inout, *n);
}

static MPI_Datatype type_of(tt_num type)
{
    switch (type) {
    case TT_NUM_F64:
        return MPI_DOUBLE;
    case TT_NUM_F32:
        return MPI_FLOAT;
    case TT_NUM_I64:
        return MPI_INT64_T;
    case TT_NUM_I32:
        return MPI_INT32_T;
    case TT_NUM_U8:
        return MPI_UINT8_T;
    default:
        return MPI_UINT16_T;
    }
}

static MPI_Op op_of(tt_fold fold)
{
    const bool is_max = fold.op == TT_FOLD_MAX;
    if (fold.type == TT_NUM_BF16)
        return is_max ? max_bf16 : sum_bf16;
    if (fold.type == TT_NUM_F16)
        return is_max ? max_f16 : sum_f16;
    return is_max ? MPI_MAX : MPI_SUM;
}

// ---- beginning and end ---------------------------------------------------

static int make_comm(MPI_Comm *comm)
{
    TRY(MPI_Comm_dup(MPI_COMM_WORLD, comm));
    return MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
}

static int init(tt_mpi_fold_fn *fold)
{
    int level = 0;
    fold_into = fold;
    TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level));
    // Some errors belong to no communicator, and go to one of these.
    TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    TRY(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (level < MPI_THREAD_SERIALIZED)
        return MPI_ERR_OTHER;
    TRY(make_comm(&data_comm));
    TRY(make_comm(&sign_comm));
    TRY(MPI_Op_create(do_sum_bf16, 1, &sum_bf16));
    TRY(MPI_Op_create(do_max_bf16, 1, &max_bf16));
    TRY(MPI_Op_create(do_sum_f16, 1, &sum_f16));
    return MPI_Op_create(do_max_f16, 1, &max_f16);
}

static int finalize(void)
{
    MPI_Op *const ops[] = {&sum_bf16, &max_bf16, &sum_f16, &max_f16};
    for (int i = 0; i < 4; i++)
        TRY(MPI_Op_free(ops[i]));
    TRY(MPI_Comm_free(&sign_comm));
    TRY(MPI_Comm_free(&data_comm));
    return MPI_Finalize();
}

// The first line of what the library says of itself, without its details.
static void about(char text[TT_MPI_TEXT])
{
    char whole[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    (void)MPI_Get_library_version(whole, &n);
    whole[strcspn(whole, ",\n")] = '\0';
    const size_t tab = strcspn(whole, "\t"); // "MPICH Version:\t4.0.2"
    const char *number = whole + tab + strspn(whole + tab, "\t ");
    if (whole[tab] == '\0')
        snprintf(text, TT_MPI_TEXT, "%.200s", whole);
    else
        snprintf(text, TT_MPI_TEXT, "%.*s %.100s", (int)strcspn(whole, " \t:"),
                 whole, number);
    if (strncmp(text, "Open MPI v", 10) == 0)
        memmove(text + 9, text + 10, strlen(text + 10) + 1);
}

static void host(char text[TT_MPI_TEXT])
{
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int n = 0;
    (void)MPI_Get_processor_name(name, &n);
    snprintf(text, TT_MPI_TEXT, "%.200s", name);
}

static int rank_of(void)
{
    int rank = 0;
    (void)MPI_Comm_rank(data_comm, &rank);
    return rank;
}

static int size_of(void)
{
    int size = 0;
    (void)MPI_Comm_size(data_comm, &size);
    return size;
}

static int tag_most(void)
{
    void *value = NULL;
    int found = 0, most = 0;
    (void)MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&value, &found);
    if (found && value != NULL)
        memcpy(&most, value, sizeof most);
    return found ? most : 32767; // what the standard promises
}

static bool is_truncated(int code)
{
    int class = 0;
    (void)MPI_Error_class(code, &class);
    return class == MPI_ERR_TRUNCATE;
}

static void explain(int code, char text[TT_MPI_TEXT])
{
    char whole[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    (void)MPI_Error_string(code, whole, &n);
    whole[strcspn(whole, "\n")] = '\0';
    snprintf(text, TT_MPI_TEXT, "%.200s", whole);
}

// ---- messages ------------------------------------------------------------

_Static_assert(sizeof(MPI_Request) <= sizeof(tt_mpi_request),
               "a request fits its box");

static void box(MPI_Request request, tt_mpi_request *out)
{
    memcpy(&out->bits, &request, sizeof request);
}

static int post_send(const void *data, int bytes, int to, int tag,
                     tt_mpi_request *out)
{
    MPI_Request request;
    TRY(MPI_Isend(data, bytes, MPI_BYTE, to, tag, data_comm, &request));
    box(request, out);
    return MPI_SUCCESS;
}

static int post_receive(void *data, int bytes, int from, tt_mpi_request *out)
{
    MPI_Request request;
    TRY(MPI_Irecv(data, bytes, MPI_BYTE, from, MPI_ANY_TAG, data_comm,
                  &request));
    box(request, out);
    return MPI_SUCCESS;
}

static int test(tt_mpi_request *request, bool *done_out,
                tt_mpi_arrival *arrival_out)
{
    MPI_Request inner;
    MPI_Status status;
    int done = 0;
    memcpy(&inner, &request->bits, sizeof inner);
    TRY(MPI_Test(&inner, &done, &status));
    box(inner, request);
    *done_out = done != 0;
    if (done == 0 || arrival_out == NULL)
        return MPI_SUCCESS;
    arrival_out->tag = status.MPI_TAG;
    return MPI_Get_count(&status, MPI_BYTE, &arrival_out->bytes);
}

static int sign(int to, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    TRY(MPI_Isend(NULL, 0, MPI_BYTE, to, tag, sign_comm, &request));
    return MPI_Request_free(&request);
}

static int next_sign(int *from_out, int *tag_out)
{
    int found = 0;
    MPI_Status status;
    *from_out = -1;
    TRY(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, sign_comm, &found, &status));
    if (!found)
        return MPI_SUCCESS;
    *from_out = status.MPI_SOURCE;
    *tag_out = status.MPI_TAG;
    return MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                    sign_comm, MPI_STATUS_IGNORE);
}

// ---- collectives ---------------------------------------------------------

static bool is_at_its_place(const tt_mpi_coll *c, int me)
{
    int bytes = 0;
    (void)MPI_Type_size(type_of(c->fold.type), &bytes);
    return c->in == (const char *)c->out + (int64_t)bytes * c->first[me];
}

static int begin(const tt_mpi_coll *c, MPI_Request *out)
{
    const MPI_Datatype type = type_of(c->fold.type);
    const MPI_Op op = op_of(c->fold);
    const int me = rank_of();
    const void *in = c->in == c->out ? MPI_IN_PLACE : c->in;
    switch (c->kind) {
    case TT_ALL_REDUCE:
        return MPI_Iallreduce(in, c->out, c->count, type, op, data_comm, out);
    case TT_REDUCE_TO:
        return MPI_Ireduce(me == c->root ? in : c->in, c->out, c->count, type,
                           op, c->root, data_comm, out);
    case TT_BROADCAST:
        return MPI_Ibcast(c->out, c->count, type, c->root, data_comm, out);
    case TT_REDUCE_SCATTER:
        return MPI_Ireduce_scatter(c->in, c->out, c->block, type, op, data_comm,
                                   out);
    case TT_ALL_GATHER:
        return MPI_Iallgatherv(is_at_its_place(c, me) ? MPI_IN_PLACE : c->in,
                               c->block[me], type, c->out, c->block, c->first,
                               type, data_comm, out);
    case TT_GATHER:
        return MPI_Igatherv(c->in, c->block[me], type, c->out, c->block,
                            c->first, type, c->root, data_comm, out);
    case TT_SCATTER:
        return MPI_Iscatterv(c->in, c->block, c->first, type, c->out,
                             c->block[me], type, c->root, data_comm, out);
    case TT_ALL_TO_ALL:
        return MPI_Ialltoallv(c->in, c->block, c->first, type, c->out,
                              c->received, c->to_first, type, data_comm, out);
    default:
        return MPI_Ibarrier(data_comm, out);
    }
}

static int collect(const tt_mpi_coll *coll, tt_mpi_request *out)
{
    MPI_Request request;
    TRY(begin(coll, &request));
    box(request, out);
    return MPI_SUCCESS;
}

// ---- the plug-in ---------------------------------------------------------

#ifdef OPEN_MPI
enum { IS_OPEN_MPI = 1 };
#else
enum { IS_OPEN_MPI = 0 };
#endif

static const tt_mpi_api api = {
    .version = TT_MPI_API,
    .is_slow_in_place = IS_OPEN_MPI,
    .init = init,
    .about = about,
    .host = host,
    .rank = rank_of,
    .size = size_of,
    .tag_most = tag_most,
    .send = post_send,
    .receive = post_receive,
    .test = test,
    .collect = collect,
    .sign = sign,
    .next_sign = next_sign,
    .is_truncated = is_truncated,
    .explain = explain,
    .finalize = finalize,
};

__attribute__((visibility("default"))) tt_mpi_plugin_fn tt_mpi_plugin;

const tt_mpi_api *tt_mpi_plugin(void)
{
    return &api;
}
