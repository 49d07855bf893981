// calibrate - measuring links, and keeping what was measured.
//
//   near     ranks of one host pass messages around, all hosts at a time
//   far      all ranks pass messages around: the slowest link is between hosts
//   native   all-reduces by the transport itself
//   fold     how fast one core adds
//
// A link is a line: seconds = latency + bytes * per_byte. Two sizes of messages are
// enough to find it. The large one grows while that does not take long, so that a slow
// network is measured with few bytes and a fast one with many.
//
// Other load on the machine can only add time, so the best of several samples counts.
// The slowest rank counts too, so one all-reduce makes the numbers the same
// everywhere: all ranks must choose the same algorithm.
//
// The numbers are kept in a file, under a description of the ranks and hosts for which
// they were measured. A later run with the same description does not measure again.

#include "comm/calibrate.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"

#include <string.h>

enum {
    VERSION = 1,
    SAMPLES = 16, // of a measurement; fewer when they take long
    IN_A_ROW = 4, // rounds of a sample: the first message may have come before
    SMALL = 8,    // bytes
    MIDDLE = 1 << 14, // from here on bytes count
    GROW = 8,         // times, while it does not take long
    LARGE = MIDDLE * GROW * GROW,
    DATA = 2 * LARGE,
    MAX_FILE = 1 << 16,
};
static const double enough = 0.02;  // seconds of one measurement
static const double longest = 10.0; // that a message may take to be believed

typedef struct bench {
    tt_comm *comm;
    const int32_t *host;
    char *data; // LARGE bytes, twice
} bench;

// ---- measuring -----------------------------------------------------------

// This rank among those of its host, or among all.
typedef struct circle {
    int32_t n, next, before;
} circle;

static circle circle_of(const bench *b, bool is_near)
{
    const int32_t me = b->comm->rank, *host = b->host;
    int32_t first = -1, last = -1;
    circle c = {.next = -1, .before = -1};
    for (int32_t r = 0; r < b->comm->size; r++) {
        if (is_near && host != NULL && host[r] != host[me])
            continue;
        first = first < 0 ? r : first;
        last = r;
        c.n++;
        c.before = r < me ? r : c.before;
        c.next = r > me && c.next < 0 ? r : c.next;
    }
    c.next = c.next < 0 ? first : c.next;
    c.before = c.before < 0 ? last : c.before;
    return c;
}

static tt_coll_call call_of(const bench *b, tt_fold fold, void *data, int64_t n)
{
    return (tt_coll_call){
        .kind = TT_ALL_REDUCE,
        .group = {.n = b->comm->size, .me = b->comm->rank, .host = b->host},
        .fold = fold,
        .count = n,
        .in = data,
        .out = data};
}

static tt_coll_call native_call(const bench *b, int64_t bytes)
{
    const tt_fold fold = {TT_FOLD_SUM, TT_NUM_F32};
    return call_of(b, fold, b->data, bytes / 4);
}

// The largest of all ranks, on every rank.
static tt_status agree(const bench *b, double *value)
{
    const tt_fold fold = {TT_FOLD_MAX, TT_NUM_F64};
    const tt_coll_call call = call_of(b, fold, value, 1);
    return tt_coll_run(tt_coll_find("naive"), b->comm, &call);
}

// One message around the circle; without one, an all-reduce.
static tt_status once(const bench *b, const circle *c, int64_t bytes)
{
    if (c == NULL) {
        const tt_coll_call call = native_call(b, bytes);
        return tt_comm_native(b->comm, &call);
    }
    if (c->n == 1)
        return TT_OK;
    tt_msg out = {.peer = c->next, .data = b->data, .bytes = bytes};
    tt_msg in = {.peer = c->before, .data = b->data + LARGE, .bytes = bytes};
    return tt_comm_swap(b->comm, &out, &in);
}

// The best sample of the slowest rank: other load on the machine only adds time. All
// ranks take the same number of samples, which follows from the slowest first round.
static tt_status measure(const bench *b, const circle *c, int64_t bytes,
                         double *seconds_out)
{
    double first = 0, best = longest;
    TT_TRY(once(b, c, bytes));
    TT_TRY(agree(b, &first));
    first = tt_clock_seconds();
    TT_TRY(once(b, c, bytes));
    first = tt_clock_seconds() - first;
    TT_TRY(agree(b, &first));
    const double wanted = enough / first / IN_A_ROW;
    const int least = first < enough ? SAMPLES / 3 : 1;
    const int n = wanted < least     ? least
                  : wanted > SAMPLES ? SAMPLES
                                     : (int)wanted;
    for (int i = 0; i < n; i++) {
        const double start = tt_clock_seconds();
        for (int k = 0; k < IN_A_ROW; k++)
            TT_TRY(once(b, c, bytes));
        const double seconds = (tt_clock_seconds() - start) / IN_A_ROW;
        best = seconds < best ? seconds : best;
    }
    *seconds_out = best;
    return agree(b, seconds_out);
}

// The line through a small message and one as large as the link is fast.
static tt_status measure_link(const bench *b, const circle *c, tt_link *out)
{
    double small = 0, large = 0;
    int64_t bytes = MIDDLE;
    TT_TRY(measure(b, c, SMALL, &small));
    TT_TRY(measure(b, c, bytes, &large));
    while (bytes < LARGE && small + (large - small) * GROW < 2 * enough) {
        bytes *= GROW;
        TT_TRY(measure(b, c, bytes, &large));
    }
    const double slope = (large - small) / (double)(bytes - SMALL);
    out->latency = small;
    out->per_byte = slope > 1e-12 ? slope : 1e-12;
    return TT_OK;
}

static double measure_fold(const bench *b)
{
    double best = longest;
    const tt_fold fold = {TT_FOLD_SUM, TT_NUM_F32};
    for (int i = 0; i < 3; i++) {
        const double start = tt_clock_seconds();
        tt_fold_into(fold, b->data, b->data + LARGE, LARGE);
        const double seconds = tt_clock_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    return best / LARGE;
}

static tt_status measure_all(const bench *b, tt_calibration *out)
{
    const circle near = circle_of(b, true), far = circle_of(b, false);
    const tt_coll_call call = native_call(b, LARGE);
    double is_split = near.n < far.n;
    *out = (tt_calibration){.is_measured = true};
    TT_TRY(measure_link(b, &near, &out->near));
    TT_TRY(agree(b, &is_split));
    out->far = out->near;
    if (is_split > 0)
        TT_TRY(measure_link(b, &far, &out->far));
    if (tt_comm_has_native(b->comm, &call)) {
        TT_TRY(measure_link(b, NULL, &out->native));
        out->is_native_ordered = b->comm->def->is_native_ordered;
    }
    out->fold = measure_fold(b);
    return agree(b, &out->fold);
}

// ---- the file ------------------------------------------------------------

// What the numbers are about: the same text, the same ranks.
static void describe(const tt_comm *comm, const int32_t *host, tt_str *out)
{
    const tt_link link = comm->def->link(comm, comm->size - 1);
    tt_str_addf(out, "%s %d %.9g %.9g", comm->def->name, comm->size,
                link.latency, link.per_byte);
    for (int32_t r = 0; r < comm->size && host != NULL; r++)
        tt_str_addf(out, "%c%d", r == 0 ? ' ' : ',', host[r]);
}

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
    {"near_latency", offsetof(tt_calibration, near.latency)},
    {"near_per_byte", offsetof(tt_calibration, near.per_byte)},
    {"far_latency", offsetof(tt_calibration, far.latency)},
    {"far_per_byte", offsetof(tt_calibration, far.per_byte)},
    {"native_latency", offsetof(tt_calibration, native.latency)},
    {"native_per_byte", offsetof(tt_calibration, native.per_byte)},
    {"fold", offsetof(tt_calibration, fold)},
};
enum { N_FIELDS = sizeof(fields) / sizeof(fields[0]) };

static double *field(tt_calibration *c, int i)
{
    return (double *)((char *)c + fields[i].offset);
}

static bool parse(const tt_json_value *root, const char *about,
                  tt_calibration *out)
{
    *out = (tt_calibration){0};
    if (tt_json_int(tt_json_get(root, "version"), 0) != VERSION ||
        strcmp(tt_json_text(tt_json_get(root, "about"), ""), about) != 0)
        return false;
    for (int i = 0; i < N_FIELDS; i++) {
        const double v = tt_json_number(tt_json_get(root, fields[i].name), -1);
        if (!(v >= 0 && v < longest))
            return false;
        *field(out, i) = v;
    }
    out->is_native_ordered =
        tt_json_truth(tt_json_get(root, "is_native_ordered"), false);
    return out->near.per_byte > 0 && out->far.per_byte > 0 && out->fold > 0;
}

// A file that cannot be used counts as missing.
static bool load(const char *path, const char *about, tt_calibration *out)
{
    tt_str text = {0};
    tt_arena *arena = tt_arena_create();
    const tt_json_value *root = NULL;
    const bool is_good =
        arena != NULL && tt_file_exists(path) &&
        tt_file_read(path, MAX_FILE, &text) == TT_OK &&
        tt_json_read(tt_str_text(&text), text.n, path, arena, &root) == TT_OK &&
        parse(root, about, out);
    tt_arena_destroy(arena);
    tt_str_fini(&text);
    return is_good;
}

// If it cannot be written, the next run measures again.
static void keep(const char *path, const char *about, tt_calibration *c)
{
    tt_str text = {0}, folder = {0};
    tt_json json = {.out = &text};
    const char *slash = strrchr(path, '/');
    tt_json_open(&json, NULL, '{');
    tt_json_i64(&json, "version", VERSION);
    tt_json_str(&json, "about", about);
    for (int i = 0; i < N_FIELDS; i++)
        tt_json_f64(&json, fields[i].name, *field(c, i));
    tt_json_bool(&json, "is_native_ordered", c->is_native_ordered);
    tt_json_close(&json, '}');
    tt_str_add(&text, "\n");
    tt_str_add_bytes(&folder, path, slash != NULL ? slash - path : 0);
    if (tt_str_status(&text) == TT_OK && tt_str_status(&folder) == TT_OK) {
        if (folder.n > 0)
            (void)tt_file_make_folder(tt_str_text(&folder));
        (void)tt_file_replace(path, tt_str_text(&text), text.n);
    }
    tt_str_fini(&folder);
    tt_str_fini(&text);
}

// ---- together ------------------------------------------------------------

static tt_status calibrate(const bench *b, const char *path, const char *about,
                           tt_calibration *out)
{
    const bool is_first = b->comm->rank == 0;
    if (is_first && (path == NULL || !load(path, about, out)))
        *out = (tt_calibration){.is_measured = true};
    const tt_coll_call tell = {
        .kind = TT_BROADCAST,
        .group = {.n = b->comm->size, .me = b->comm->rank},
        .fold = {TT_FOLD_COPY, TT_NUM_U8},
        .count = sizeof *out,
        .out = out};
    TT_TRY(tt_coll_run(tt_coll_find("naive"), b->comm, &tell));
    if (!out->is_measured)
        return TT_OK;
    TT_TRY(measure_all(b, out));
    if (is_first && path != NULL)
        keep(path, about, out);
    return TT_OK;
}

tt_status tt_calibrate(tt_comm *comm, const tt_calibrate_options *options,
                       tt_calibration *out)
{
    bench b = {.comm = comm, .host = options->host};
    tt_str about = {0};
    *out = (tt_calibration){0};
    describe(comm, options->host, &about);
    b.data = tt_alloc_aligned(DATA, 64);
    tt_status status = tt_str_status(&about);
    if (b.data == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory to measure links");
    if (status == TT_OK) {
        memset(b.data, 0, DATA);
        status = calibrate(&b, options->path, tt_str_text(&about), out);
    }
    tt_free_aligned(b.data);
    tt_str_fini(&about);
    return status;
}
