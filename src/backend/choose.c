// choose - picks the kernel for a site.
//
// The problem. Lowering has a node with operands in certain forms: plain with strides,
// or in a layout that some library invented (oneDNN's blocks of channels, say). Each
// kernel accepts some forms only. Converting an operand costs a pass over memory, so
// the kernel that takes the operands as they are is usually the best one. But a
// conversion must always be possible, or a layout would become a dead end.
//
// The idea. The kernels of a backend stand in order of preference, then those of ref,
// which can do everything in plain forms. The first def that accepts the site gets it.
// There are three rounds; each offers the operands in another form:
//
//   as they lie   forms stay; a plain operand with gaps is made dense only where the
//                 def does not take gaps
//   flat          all operands in one layout, shown to the kernel as vectors: an
//                 element-wise operator does not care about the order of memory
//   plain         layouts are replaced by dense forms, and lowering converts
//
//   round 1    round 2        round 3
//   own, ref   own, ref       own, ref
//   [layout]   [n elements]   [dense] <- reorder steps in front
//
// So a ReLU between two convolutions stays in the convolution's layout (round 2), and
// a transpose there gets dense operands (round 3).
//
// What comes out. The site says which forms the operands really have; lowering compares
// that with what it has and adds reorder steps. The kernel sees `shown`, which is the
// same except in round 2.
//
// The order in which defs are asked is the only preference; nothing is timed here.
// Measuring is the kernels' own business: see choices.h.

#include "backend/choose.h"

#include "backend/ref/table.h"
#include "backend/stage.h"
#include "base/alloc.h"

#include <assert.h>
#include <string.h>

typedef struct chosen {
    const tt_kernel_def *def;
    void *state;
    tt_site site;    // forms as they lie in memory
    tt_site shown;   // what the def sees: the same, or flat vectors
    tt_stage *stage; // copies in the host's memory; NULL: works where data lie
    tt_operand operand[];
} chosen;

static void free_state(chosen *k)
{
    if (k->def != NULL && k->def->release != NULL)
        k->def->release(k->state);
    else
        tt_free(k->state);
    k->state = NULL;
    k->def = NULL;
}

void tt_kernel_free(void *kernel)
{
    chosen *k = kernel;
    if (k == NULL)
        return;
    free_state(k);
    tt__stage_destroy(k->stage);
    tt_free(k);
}

tt_status tt_kernel_begin(void *kernel, const tt_args *args)
{
    const chosen *k = kernel;
    if (k->stage == NULL)
        return k->def->run(k->state, &k->shown, args);
    tt_args staged;
    TT_TRY(tt__stage_in(k->stage, &k->shown, args, &staged));
    TT_TRY(k->def->run(k->state, &k->shown, &staged));
    return tt__stage_out(k->stage, &k->shown, args);
}

bool tt_kernel_is_staged(const void *kernel)
{
    return ((const chosen *)kernel)->stage != NULL;
}

tt_status tt_kernel_finish(void *kernel, const tt_args *args)
{
    const chosen *k = kernel;
    return k->def->finish == NULL ? TT_OK
                                  : k->def->finish(k->state, &k->shown, args);
}

tt_status tt_kernel_run(void *kernel, const tt_args *args)
{
    TT_TRY(tt_kernel_begin(kernel, args));
    return tt_kernel_finish(kernel, args);
}

static void copy_forms(const tt_site *from, tt_site *to)
{
    memcpy(to->in, from->in, (size_t)from->n_in * sizeof(*to->in));
    memcpy(to->out, from->out, (size_t)from->n_out * sizeof(*to->out));
}

static chosen *create(const tt_site *site)
{
    const int64_t n = site->n_in + site->n_out;
    chosen *k =
        tt_alloc((int64_t)sizeof(*k) + 2 * n * (int64_t)sizeof(k->operand[0]));
    if (k == NULL)
        return NULL;
    k->site = k->shown = *site;
    k->site.in = k->operand;
    k->site.out = k->operand + site->n_in;
    k->shown.in = k->operand + n;
    k->shown.out = k->operand + n + site->n_in;
    return k;
}

static bool is_read(const tt_site *site, int i)
{
    const bool is_shape = i < 32 && (site->op->shape_only >> i & 1) != 0;
    return tt_site_has(site, i) && !is_shape;
}

// Bit 31 speaks for all operands from the 32nd on.
static bool has_bit(uint32_t mask, int i)
{
    return (mask >> (i < 31 ? i : 31) & 1) != 0;
}

// Changes the forms to those that the def accepts. The only change that is possible
// is to dense; false when that does not help.
static bool adapt(const tt_kernel_def *def, tt_site *site)
{
    for (int i = 0; i < site->n_in; i++) {
        tt_operand *o = &site->in[i];
        if (!is_read(site, i))
            continue;
        if (o->layout == 0 && !has_bit(def->strided_in, i))
            tt_operand_set_dense(o);
        if (o->layout != 0 && def->can == NULL)
            return false;
    }
    for (int i = 0; i < site->n_out; i++) {
        tt_operand *o = &site->out[i];
        if (o->layout == 0 ? !has_bit(def->strided_out, i) : def->can == NULL)
            tt_operand_set_dense(o);
    }
    return true;
}

// A kernel of the host for operands in a device's memory: it works on copies. Its
// scratch lies with the copies, so the plan need not reserve any on the device.
static tt_status add_stage(tt_backend *backend, chosen *k, tt_choice *choice)
{
    const tt_status status =
        tt__stage_create(backend, &k->shown, choice->scratch_bytes, &k->stage);
    if (status != TT_OK)
        free_state(k);
    choice->scratch_bytes = 0;
    return status;
}

// TT_ERR_UNSUPPORTED means that the next def is asked. There is no message then,
// because it is no error yet.
static tt_status try_def(tt_backend *backend, const tt_kernel_def *def,
                         const tt_site *wanted, chosen *k, tt_choice *choice)
{
    copy_forms(wanted, &k->shown);
    if (!adapt(def, &k->shown))
        return TT_ERR_UNSUPPORTED;
    if (def->can != NULL && !def->can(backend, &k->shown))
        return TT_ERR_UNSUPPORTED;
    tt_prepared prepared = {.accumulates = def->accumulates,
                            .in_place = def->in_place};
    if (def->prepare != NULL)
        TT_TRY(def->prepare(backend, &k->shown, &prepared));
    k->def = def;
    k->state = prepared.state;
    *choice = (tt_choice){.kernel = k,
                          .name = def->name,
                          .scratch_bytes = prepared.scratch_bytes,
                          .accumulates = prepared.accumulates,
                          .in_place = prepared.in_place};
    return TT_OK;
}

static tt_status search_list(tt_backend *backend,
                             const tt_kernel_def *const *list,
                             const tt_site *wanted, chosen *k,
                             tt_choice *choice)
{
    for (; *list != NULL; list++)
        for (const tt_kernel_def *def = *list; def->name != NULL; def++) {
            if (def->op != wanted->op)
                continue;
            const tt_status s = try_def(backend, def, wanted, k, choice);
            if (s != TT_ERR_UNSUPPORTED)
                return s;
        }
    return TT_ERR_UNSUPPORTED;
}

static tt_status search(tt_backend *backend, const tt_site *wanted, chosen *k,
                        tt_choice *choice)
{
    const tt_kernel_def *const *own = backend->def->kernels;
    tt_status status = search_list(backend, own, wanted, k, choice);
    if (status != TT_ERR_UNSUPPORTED)
        return status;
    if (own != tt_ref_kernels)
        status = search_list(backend, tt_ref_kernels, wanted, k, choice);
    if (status == TT_ERR_UNSUPPORTED && wanted->op->kernel != NULL)
        status = try_def(backend, wanted->op->kernel, wanted, k, choice);
    return status == TT_OK && backend->def->memory != NULL
               ? add_stage(backend, k, choice)
               : status;
}

// The first input in a layout, or NULL: the layout that round 2 would use.
static const tt_operand *find_layout(const tt_site *site)
{
    for (int i = 0; i < site->n_in; i++)
        if (is_read(site, i) && site->in[i].layout != 0)
            return &site->in[i];
    return NULL;
}

static bool same_dims(const tt_operand *a, const tt_operand *b)
{
    return a->dtype == b->dtype &&
           tt_shape_same_dims(&a->local.shape, &b->local.shape);
}

// How long the vectors of round 2 are; 0: the operands cannot be seen as vectors. All
// of them must have the extents and the type of the input in a layout. A layout may
// have padding, which is zero and must stay so. A sum keeps it (zero plus zero);
// other functions might not, exp for instance.
static int64_t flat_count(tt_backend *backend, const tt_site *site,
                          const tt_operand *like)
{
    const bool is_sum = (site->op->flags & TT_OP_ACCUMULATE) != 0;
    if (like == NULL || (!is_sum && (site->op->flags & TT_OP_ELEMENTWISE) == 0))
        return 0;
    for (int i = 0; i < site->n_in; i++)
        if (is_read(site, i) && !same_dims(&site->in[i], like))
            return 0;
    for (int i = 0; i < site->n_out; i++)
        if (!same_dims(&site->out[i], like))
            return 0;
    const int64_t count =
        tt_target_bytes(&backend->target, like) / tt_dtype_bytes(like->dtype);
    return count == tt_operand_count(like) || is_sum ? count : 0;
}

static void make_flat(tt_operand *o, int64_t count)
{
    if (o->dtype == TT_N_DTYPES)
        return;
    tt_shape shape = {.ndim = 1, .n_factors = 1};
    shape.first[1] = 1;
    shape.factor[0].name[0] = 'n';
    shape.factor[0].size = count;
    tt_local_whole(&shape, &o->local);
    tt_operand_set_dense(o);
}

static tt_status search_flat(tt_backend *backend, tt_site *site, chosen *k,
                             tt_choice *choice)
{
    const tt_operand *like = find_layout(site);
    const int64_t count = flat_count(backend, site, like);
    if (count == 0)
        return TT_ERR_UNSUPPORTED;
    // k->site is used as room for the flat operands; the real forms follow below.
    copy_forms(site, &k->site);
    for (int i = 0; i < site->n_in; i++)
        make_flat(&k->site.in[i], count);
    for (int i = 0; i < site->n_out; i++)
        make_flat(&k->site.out[i], count);
    TT_TRY(search(backend, &k->site, k, choice));
    const int32_t layout = like->layout;
    for (int i = 0; i < site->n_in; i++)
        if (is_read(site, i))
            site->in[i].layout = layout;
    for (int i = 0; i < site->n_out; i++)
        site->out[i].layout = layout;
    copy_forms(site, &k->site);
    return TT_OK;
}

static tt_status search_plain(tt_backend *backend, tt_site *site, chosen *k,
                              tt_choice *choice)
{
    for (int i = 0; i < site->n_in; i++)
        if (tt_site_has(site, i) && site->in[i].layout != 0)
            tt_operand_set_dense(&site->in[i]);
    for (int i = 0; i < site->n_out; i++)
        if (site->out[i].layout != 0)
            tt_operand_set_dense(&site->out[i]);
    return search(backend, site, k, choice);
}

static tt_status fail_unsupported(const tt_backend *backend,
                                  const tt_site *site)
{
    tt_str s = {0};
    for (int i = 0; i < site->n_in; i++) {
        tt_str_add(&s, i == 0 ? "" : ", ");
        if (!tt_site_has(site, i)) {
            tt_str_add(&s, "-");
            continue;
        }
        tt_str_addf(&s, "%s [", tt_dtype_name(site->in[i].dtype));
        tt_shape_print(&site->in[i].local.shape, &s);
        tt_str_add(&s, "]");
    }
    (void)tt_fail(TT_ERR_UNSUPPORTED,
                  "%s: backend %s has no kernel for %s of %s", site->origin,
                  backend->def->name, site->op->name, tt_str_text(&s));
    tt_str_fini(&s);
    return TT_ERR_UNSUPPORTED;
}

tt_status tt__backend_choose(tt_target *target, tt_site *site,
                             tt_choice *choice_out)
{
    tt_backend *backend = (tt_backend *)target;
    chosen *k = create(site);
    if (k == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory for a kernel",
                       site->op->name);
    bool is_flat = false;
    tt_status status = search(backend, site, k, choice_out);
    if (status == TT_ERR_UNSUPPORTED) {
        status = search_flat(backend, site, k, choice_out);
        is_flat = status == TT_OK;
    }
    if (status == TT_ERR_UNSUPPORTED)
        status = search_plain(backend, site, k, choice_out);
    if (status == TT_ERR_UNSUPPORTED)
        status = fail_unsupported(backend, site);
    if (status != TT_OK) {
        tt_free(k);
        return status;
    }
    if (!is_flat) {
        copy_forms(&k->shown, site);
        copy_forms(site, &k->site);
    }
    return TT_OK;
}
