// A power cut at any moment: what was not flushed may be lost, in any order, and what a
// run leaves in the end is still what one leaves that was left alone.
//
// A run is recorded: every file and folder that it made, wrote, flushed, renamed. From
// that follow the states a disk may be in after a cut: of a file, what it held when it was
// last flushed and any part of what was written since; of a folder, its names when it was
// last flushed and any number of changes since, in order. Each is made, and the run goes
// on from it.

#include "base/alloc.h"
#include "base/file.h"
#include "runs.h"
#include "runs_describe.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const tiny[] = {"model=mlp",
                                   "model.width=4",
                                   "data=synthetic",
                                   "data.size=200",
                                   "data.image=4",
                                   "data.noise=0.9",
                                   "batch=4",
                                   "optim.lr=3",
                                   "seed=3",
                                   "train.steps=10",
                                   "threads=1",
                                   "data.workers=1",
                                   "log.every=2",
                                   "eval.every=3",
                                   "checkpoint.every=4",
                                   "checkpoint.keep=1",
                                   NULL};

// ---- the record ----------------------------------------------------------

enum { TAPE_BYTES = 64 << 20, MAX_FILES = 4096, MAX_NAMES = 4096 };

typedef struct note {
    tt_file_act act;
    int64_t inode, n;
    int32_t path, to, data; // bytes each; then these
} note;

typedef struct tape { // shared with the process that trains
    pthread_mutex_t mutex;
    int64_t n, n_notes;
    char bytes[TAPE_BYTES];
} tape;

static void put(tape *t, const void *bytes, int64_t n)
{
    if (t->n + n > TAPE_BYTES)
        _exit(9);
    if (n > 0)
        memcpy(t->bytes + t->n, bytes, (size_t)n);
    t->n += n;
}

static void record(void *user, const tt_file_deed *d)
{
    tape *t = user;
    const note head = {.act = d->act,
                       .inode = d->inode,
                       .n = d->n,
                       .path =
                           d->path != NULL ? (int32_t)strlen(d->path) + 1 : 0,
                       .to = d->to != NULL ? (int32_t)strlen(d->to) + 1 : 0,
                       .data = d->act == TT_FILE_WROTE ? (int32_t)d->n : 0};
    pthread_mutex_lock(&t->mutex);
    put(t, &head, sizeof head);
    put(t, d->path, head.path);
    put(t, d->to, head.to);
    put(t, d->bytes, head.data);
    t->n += -t->n & 7;
    t->n_notes++;
    pthread_mutex_unlock(&t->mutex);
}

// ---- a disk --------------------------------------------------------------

typedef struct written { // since the last flush: bytes at a place, or a new end
    int64_t at, n;
    const char *bytes; // NULL: cut to `at`
} written;

typedef struct stored {
    bool is_folder;
    int64_t inode; // as the system had it
    tt_str kept;   // what is on the disk
    written *fresh;
    int64_t n_fresh, end; // end: with the fresh ones
} stored;

typedef struct label { // what a path names: a file, or -1
    char path[200];
    int file;
} label;

typedef struct change { // of names, not flushed yet
    char folder[200];
    int n;
    label set[4]; // together
    struct change *next;
} change;

typedef struct disk {
    stored *file;
    int n_files;
    label *now, *kept; // names as programs see them; as the disk has them
    int n_now, n_kept;
    change *first, *last;
} disk;

static void *need(void *p)
{
    CHECK(p != NULL);
    return p;
}

static int *find(label *names, int *n, const char *path)
{
    for (int i = 0; i < *n; i++)
        if (strcmp(names[i].path, path) == 0)
            return &names[i].file;
    CHECK(*n < MAX_NAMES && strlen(path) < sizeof names[0].path);
    snprintf(names[*n].path, sizeof names[*n].path, "%s", path);
    names[*n].file = -1;
    return &names[(*n)++].file;
}

static int new_file(disk *d, bool is_folder, int64_t inode)
{
    CHECK(d->n_files < MAX_FILES);
    for (int i = 0; i < d->n_files; i++) // the number of one that is gone
        if (!is_folder && d->file[i].inode == inode)
            d->file[i].inode = -1;
    d->file[d->n_files] = (stored){.is_folder = is_folder, .inode = inode};
    return d->n_files++;
}

static stored *file_of(disk *d, int64_t inode)
{
    for (int i = d->n_files; i-- > 0;)
        if (!d->file[i].is_folder && d->file[i].inode == inode)
            return &d->file[i];
    tt_test_fail(__FILE__, __LINE__, "a file that was never opened");
}

static void folder_of(const char *path, char folder[200])
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, 200, "%.*s", slash ? (int)(slash - path) : 1,
             slash ? path : ".");
}

static change *begin_change(disk *d, const char *path)
{
    change *c = need(calloc(1, sizeof *c));
    folder_of(path, c->folder);
    if (d->last != NULL)
        d->last->next = c;
    else
        d->first = c;
    d->last = c;
    return c;
}

static void set_name(disk *d, change *c, const char *path, int file)
{
    CHECK(c->n < 4);
    snprintf(c->set[c->n].path, sizeof c->set[c->n].path, "%s", path);
    c->set[c->n++].file = file;
    *find(d->now, &d->n_now, path) = file;
}

// A folder that is renamed takes what is below it along, at once.
static void move_below(label *names, int *n, const char *from, const char *to)
{
    const size_t k = strlen(from);
    const int count = *n;
    for (int i = 0; i < count; i++) {
        char path[400];
        if (strncmp(names[i].path, from, k) != 0 || names[i].path[k] != '/')
            continue;
        snprintf(path, sizeof path, "%s%s", to, names[i].path + k);
        const int file = names[i].file;
        names[i].file = -1;
        *find(names, n, path) = file;
    }
}

static void write_file(disk *d, const note *h, const char *bytes)
{
    stored *f = file_of(d, h->inode);
    f->fresh =
        need(realloc(f->fresh, (size_t)(f->n_fresh + 1) * sizeof(written)));
    f->fresh[f->n_fresh++] = h->act == TT_FILE_CUT
                                 ? (written){.at = h->n}
                                 : (written){f->end, h->n, bytes};
    f->end = h->act == TT_FILE_CUT ? h->n : f->end + h->n;
}

// Puts a write into the text; a hole is zeros.
static void apply(tt_str *text, const written *w)
{
    static const char zeros[4096];
    if (w->bytes == NULL) {
        text->n = w->at < text->n ? w->at : text->n;
        return;
    }
    while (text->n < w->at) {
        const int64_t k = w->at - text->n;
        tt_str_add_bytes(text, zeros, k < 4096 ? k : 4096);
    }
    if (text->n > w->at)
        text->n = w->at; // files only grow at their end
    tt_str_add_bytes(text, w->bytes, w->n);
}

static void sync_file(stored *f)
{
    for (int64_t i = 0; i < f->n_fresh; i++)
        apply(&f->kept, &f->fresh[i]);
    f->n_fresh = 0;
}

// On the disk: a name, and for a folder what is below it.
static void settle_names(disk *d, const change *c)
{
    if (c->n == 2 && d->file[c->set[1].file].is_folder)
        move_below(d->kept, &d->n_kept, c->set[0].path, c->set[1].path);
    for (int i = 0; i < c->n; i++)
        *find(d->kept, &d->n_kept, c->set[i].path) = c->set[i].file;
}

static void sync_folder(disk *d, const char *folder)
{
    change **at = &d->first;
    d->last = NULL;
    while (*at != NULL) {
        change *c = *at;
        if (strcmp(c->folder, folder) == 0) {
            settle_names(d, c);
            *at = c->next;
            free(c);
        } else {
            d->last = c;
            at = &c->next;
        }
    }
}

// Names of folders are paths here, so a rename of one is done on the disk at once with
// all below it, or not at all: it is one change.
static void move(disk *d, const char *from, const char *to)
{
    const int file = *find(d->now, &d->n_now, from);
    CHECK(file >= 0);
    change *c = begin_change(d, to);
    set_name(d, c, from, -1);
    set_name(d, c, to, file);
    if (d->file[file].is_folder)
        move_below(d->now, &d->n_now, from, to);
}

static void play(disk *d, const note *h, const char *path, const char *to,
                 const char *bytes)
{
    switch (h->act) {
    case TT_FILE_OPENED:
        if (*find(d->now, &d->n_now, path) < 0)
            set_name(d, begin_change(d, path), path,
                     new_file(d, false, h->inode));
        break;
    case TT_FILE_WROTE:
    case TT_FILE_CUT:
        write_file(d, h, bytes);
        break;
    case TT_FILE_SYNCED:
        if (path != NULL)
            sync_folder(d, path);
        else
            sync_file(file_of(d, h->inode));
        break;
    case TT_FILE_RENAMED:
        move(d, path, to);
        break;
    case TT_FILE_MADE:
        set_name(d, begin_change(d, path), path, new_file(d, true, 0));
        break;
    case TT_FILE_REMOVED:
        set_name(d, begin_change(d, path), path, -1);
        break;
    default:
        tt_test_fail(__FILE__, __LINE__, "an exchange: not thought of");
    }
}

// ---- after the cut -------------------------------------------------------

typedef enum loss { ALL_FRESH, NO_DATA, SOME, N_LOSSES } loss;

static uint32_t dice(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

// What of a file is there: as it was flushed, and perhaps more.
static void content(const stored *f, loss l, uint32_t *seed, tt_str *out)
{
    tt_str_add_bytes(out, tt_str_text(&f->kept), f->kept.n);
    for (int64_t i = 0; i < f->n_fresh && l == SOME; i++)
        if (dice(seed) % 2 == 0)
            apply(out, &f->fresh[i]);
}

static void make_disk(const disk *d, const char *root, loss l, uint32_t seed)
{
    label *names = need(malloc(MAX_NAMES * sizeof *names));
    int n = d->n_kept;
    memcpy(names, d->kept, (size_t)n * sizeof *names);
    int left = 0;
    for (const change *c = d->first; c != NULL; c = c->next)
        left++;
    // Names that were not flushed: none, all, or the first of them.
    left = l == ALL_FRESH ? 0
           : l == NO_DATA ? left
                          : (int)(dice(&seed) % (uint32_t)(left + 1));
    for (const change *c = d->first; c != NULL && left-- > 0; c = c->next) {
        for (int i = 0; i < c->n; i++) {
            if (c->n == 2 && i == 1 && d->file[c->set[1].file].is_folder)
                move_below(names, &n, c->set[0].path, c->set[1].path);
            *find(names, &n, c->set[i].path) = c->set[i].file;
        }
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s", root, names[i].path);
            if (names[i].file < 0)
                continue;
            const stored *f = &d->file[names[i].file];
            if (f->is_folder && pass == 0)
                CHECK_OK(tt_file_make_folder(path));
            tt_str text = {0};
            char folder[200];
            folder_of(path, folder);
            if (!f->is_folder && pass == 1 && tt_file_is_folder(folder)) {
                content(f, l, &seed, &text);
                CHECK_OK(tt_file_replace(path, tt_str_text(&text), text.n));
            }
            tt_str_fini(&text);
        }
    free(names);
}

static int train_recorded(tape *t)
{
    int result = 0;
    const pid_t child = fork();
    if (child == 0) {
        if (t != NULL)
            tt_file_record(record, t);
        const tt_status status = runs_train("r", tiny, NULL, NULL, NULL);
        if (status != TT_OK)
            fprintf(stderr, "%s\n", tt_error_message());
        _exit(status != TT_OK);
    }
    CHECK(waitpid(child, &result, 0) == child);
    return WIFEXITED(result) ? WEXITSTATUS(result) : -1;
}

// Goes on from one state of the disk and compares.
static void go_on(const disk *d, loss l, int64_t cut, const tt_str *want)
{
    tt_str got = {0};
    CHECK_OK(tt_file_make_folder("after"));
    make_disk(d, "after", l, (uint32_t)cut * 7919u + 1);
    CHECK(chdir("after") == 0);
    CHECK_MSG(train_recorded(NULL) == 0, "cut at %lld, loss %d", (long long)cut,
              (int)l);
    runs_describe("r", &got);
    CHECK_MSG(strcmp(tt_str_text(&got), tt_str_text(want)) == 0,
              "cut at %lld, loss %d:\n%s\n--- but alone:\n%s", (long long)cut,
              (int)l, tt_str_text(&got), tt_str_text(want));
    CHECK(chdir("..") == 0);
    CHECK_OK(tt_file_remove("after"));
    tt_str_fini(&got);
}

static tape *new_tape(void)
{
    tape *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_mutexattr_t shared;
    CHECK(t != MAP_FAILED);
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&t->mutex, &shared);
    return t;
}

static void free_disk(disk *d)
{
    for (int i = 0; i < d->n_files; i++) {
        tt_str_fini(&d->file[i].kept);
        free(d->file[i].fresh);
    }
    while (d->first != NULL) {
        change *next = d->first->next;
        free(d->first);
        d->first = next;
    }
    free(d->file);
    free(d->now);
    free(d->kept);
}

TEST_SLOW(run_after_a_power_cut_ends_like_one_left_alone, 600)
{
    tt_str want = {0};
    tape *t = new_tape();
    disk d = {.file = need(calloc(MAX_FILES, sizeof(stored))),
              .now = need(calloc(MAX_NAMES, sizeof(label))),
              .kept = need(calloc(MAX_NAMES, sizeof(label)))};
    runs_enter_memory();
    CHECK(train_recorded(t) == 0);
    runs_describe("r", &want);
    CHECK(t->n_notes > 100);
    int64_t at = 0;
    for (int64_t i = 0; i < t->n_notes; i++) {
        const note *h = (const note *)(const void *)(t->bytes + at);
        const char *path = t->bytes + at + sizeof *h;
        const char *to = path + h->path, *bytes = to + h->to;
        play(&d, h, h->path > 0 ? path : NULL, to, bytes);
        at += (int64_t)sizeof *h + h->path + h->to + h->data;
        at += -at & 7;
        if (i % 3 == 0 || h->act == TT_FILE_RENAMED)
            go_on(&d, (loss)(i / 3 % N_LOSSES), i, &want);
    }
    tt_str_fini(&want);
    free_disk(&d);
    munmap(t, sizeof *t);
    runs_leave();
}
