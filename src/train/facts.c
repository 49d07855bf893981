#include "train/facts.h"

#include "backend/cpu/isa.h"
#include "backend/machine.h"
#include "base/arena.h"
#include "store/report/report.h"
#include "tutti/tutti.h"

#include <string.h>
#include <sys/utsname.h>
#include <time.h>

// The facts are rows of text: a missing one is left out, so a lack of memory makes
// the page shorter and never fails a run.
typedef struct list { // rows in an arena; one that found no memory is left out
    tt_arena *arena;
    tt_report_row row[24];
    int n;
} list;

static void add(list *l, const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0' && l->n < 23)
        l->row[l->n++] = (tt_report_row){name, value};
}

static void add_batch(list *l, const tt_run_facts *f)
{
    const long long batch = f->batch, seq = f->seq, image = f->image;
    const char *of =
        seq > 0 ? tt_arena_printf(l->arena, "%lld x %lld tokens", batch, seq)
                : tt_arena_printf(l->arena, "%lld images of %lldx%lld", batch,
                                  image, image);
    add(l, "batch", of);
    if (f->accumulate > 1)
        add(l, "micro-batch",
            tt_arena_printf(l->arena, "%lld, %lld times", (long long)f->micro,
                            (long long)f->accumulate));
}

static void add_memory(list *l, const tt_run_facts *f)
{
    const double mb = (double)f->peak_bytes / 1e6;
    add(l, "memory",
        f->peak_rank < 0
            ? tt_arena_printf(l->arena, "%.4g MB planned%s", mb,
                              f->n_ranks > 1 ? ", on every rank" : "")
            : tt_arena_printf(l->arena,
                              "%.4g MB planned on rank %d, the most of %d "
                              "ranks",
                              mb, f->peak_rank, f->n_ranks));
}

static void list_facts(list *l, const tt_run_facts *f)
{
    add(l, "model", f->model);
    add(l, "parameters",
        f->frozen > 0
            ? tt_arena_printf(l->arena, "%lld trained, %lld frozen",
                              (long long)f->parameters, (long long)f->frozen)
            : tt_arena_printf(l->arena, "%lld", (long long)f->parameters));
    add(l, "data", f->data);
    add_batch(l, f);
    add(l, "steps", tt_arena_printf(l->arena, "%lld", (long long)f->steps));
    add(l, "optimiser", f->optim);
    add(l, "precision", f->precision);
    add(l, "work per step",
        tt_arena_printf(l->arena, "%.4g GFLOP", f->flops_per_step / 1e9));
    add_memory(l, f);
    add(l, "ranks", f->ranks);
    add(l, "pace", f->pace);
    add(l, "mesh", f->mesh);
    add(l, "layout", f->layout);
    add(l, "cut", f->cut);
    if (f->mesh != NULL && f->mesh[0] != '\0')
        add(l, "zero", tt_arena_printf(l->arena, "%lld", (long long)f->zero));
    add(l, "seed", tt_arena_printf(l->arena, "%lld", (long long)f->seed));
    add(l, "command", f->command);
    add(l, "forked from", f->parent);
    add(l, "version", "Tutti " TUTTI_VERSION);
    add(l, "note", f->note);
}

static const char *instructions(tt_arena *arena)
{
    const tt_isa used = tt_isa_used(), here = tt_isa_here();
    return used == here
               ? tt_arena_printf(arena, "%s: %s", tt_isa_name[used],
                                 tt_isa_doc[used])
               : tt_arena_printf(arena, "%s: %s; limited, the processor has %s",
                                 tt_isa_name[used], tt_isa_doc[used],
                                 tt_isa_name[here]);
}

static void list_machine(list *l, const tt_run_facts *f)
{
    struct utsname system = {0};
    char cpu[256];
    const bool is_known = uname(&system) == 0;
    tt_machine_cpu(cpu, sizeof cpu);
    if (is_known)
        add(l, "host", tt_arena_strdup(l->arena, system.nodename));
    add(l, "processor", tt_arena_strdup(l->arena, cpu));
    add(l, "device", f->device);
    add(l, "instructions", instructions(l->arena));
    add(l, "threads",
        tt_arena_printf(l->arena, "%lld of %d cores", (long long)f->threads,
                        tt_machine_cores()));
    add(l, "free memory",
        tt_arena_printf(l->arena, "%.3g GB",
                        (double)tt_machine_memory() / 1e9));
    if (is_known)
        add(l, "system",
            tt_arena_printf(l->arena, "%s %s, %s", system.sysname,
                            system.release, system.machine));
}

void tt_stamp_now(char out[TT_STAMP_BYTES])
{
    struct tm parts;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &parts) == NULL ||
        strftime(out, TT_STAMP_BYTES, "%FT%TZ", &parts) == 0)
        out[0] = '\0';
}

tt_status tt_facts_text(const tt_run_facts *f, const tt_report_time *time,
                        const tt_run_end *end, tt_str *out)
{
    static const char *const outcome[] = {
        [TT_RUN_DONE] = "done",
        [TT_RUN_EARLY] = "stopped early",
        [TT_RUN_SIGNAL] = "stopped",
        [TT_RUN_FAILED] = "failed",
    };
    const char *slash = strrchr(f->folder, '/');
    char now[TT_STAMP_BYTES];
    list facts = {.arena = tt_arena_create()};
    list machine = {.arena = facts.arena};
    if (facts.arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the facts of the run");
    list_facts(&facts, f);
    list_machine(&machine, f);
    tt_stamp_now(now);
    tt_report_facts r = {.title = slash != NULL && slash[1] != '\0' ? slash + 1
                                                                    : f->folder,
                         .unit = f->unit,
                         .units = f->units,
                         .memory = f->peak_bytes,
                         .started = f->started,
                         .updated = now,
                         .parent = f->parent,
                         .time = *time,
                         .settings = f->changed,
                         .facts = facts.row,
                         .machine = machine.row};
    if (end != NULL) {
        r.outcome = outcome[end->reason];
        r.error = end->error;
    }
    const tt_status status = tt_report_facts_text(&r, out);
    tt_arena_destroy(facts.arena);
    return status;
}
