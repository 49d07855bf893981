// weights_load - loads open files into a model: what fits, what is missing, what is
// left over.
//
// Everything is compared before anything is loaded, so a file that does not fit
// changes nothing. There are two degrees of strictness. Without notes every tensor
// must match. With notes (init.from) missing and extra tensors are named, and a
// head for another number of classes begins anew; but a wrong shape is always an
// error, and so is a file from which nothing fits.

#include "base/alloc.h"
#include "base/str.h"
#include "state/slices.h"
#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAMED = 3, MAX_LISTED = 20 };

// ---- names that say nothing ----------------------------------------------

// Old files contain causal masks and rotary frequencies, which are no weights.
static bool is_mask(const char *name)
{
    return tt_ends_with(name, ".attn.bias") ||
           tt_ends_with(name, ".masked_bias") ||
           tt_ends_with(name, ".rotary_emb.inv_freq");
}

// Whether two tensors hold the same bytes. What cannot be read is not the same.
static bool is_equal(const tt_safetensor *a, const tt_safetensor *b)
{
    enum { PIECE = 1 << 22 }; // a file is opened for each
    char *room = tt_alloc(2 * (int64_t)PIECE);
    bool is_same = room != NULL;
    for (int64_t at = 0; at < a->bytes && is_same; at += PIECE) {
        const int64_t n = a->bytes - at < PIECE ? a->bytes - at : PIECE;
        is_same = tt_safetensor_copy(a, at, n, room) == TT_OK &&
                  tt_safetensor_copy(b, at, n, room + PIECE) == TT_OK &&
                  memcmp(room, room + PIECE, (size_t)n) == 0;
    }
    tt_free(room);
    return is_same;
}

// Whether it is an output head that equals the embedding, byte by byte (tied
// weights).
static bool is_tied_head(const tt_weights *w, const tt_safetensor *t)
{
    static const char *const embedding[] = {"wte.weight",
                                            "embed_tokens.weight"};
    if (strcmp(tt_weights_plain_name(t->name), "lm_head.weight") != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        const tt_safetensor *e = tt_weights_find(w, embedding[i]);
        if (e != NULL && e->bytes == t->bytes &&
            strcmp(e->dtype, t->dtype) == 0 && is_equal(e, t))
            return true;
    }
    return false;
}

bool tt_weights_is_nothing(const tt_weights *weights,
                           const tt_safetensor *tensor)
{
    return is_mask(tensor->name) || is_tied_head(weights, tensor);
}

// ---- what fits -----------------------------------------------------------

typedef struct fitting {
    const tt_weights *weights;
    const tt_tensors *all;
    const tt_safetensor **from; // per tensor of `all`; NULL: the files lack it
    const tt_graph *graph;
    int64_t n_missing, n_extra, n_skipped, n_heads;
    tt_str missing, extra, skipped, heads; // "a, b and 4 more"
    int64_t max_named;
} fitting;

static void add_name(const fitting *f, tt_str *list, int64_t n,
                     const char *name)
{
    if (n < f->max_named)
        tt_str_addf(list, "%s%s", n == 0 ? "" : ", ", name);
}

static void add_rest(const fitting *f, tt_str *list, int64_t n)
{
    if (n > f->max_named)
        tt_str_addf(list, " and %lld more", (long long)(n - f->max_named));
}

static int by_address(const void *a, const void *b)
{
    const tt_safetensor *x = *(const tt_safetensor *const *)a;
    const tt_safetensor *y = *(const tt_safetensor *const *)b;
    return x < y ? -1 : x > y;
}

// Finds tensors in the files that are not used and not known to be superfluous.
static tt_status find_extra(fitting *f)
{
    const int64_t count = tt_weights_count(f->weights);
    const tt_safetensor **used =
        tt_alloc((f->all->n + 1) * (int64_t)sizeof(*used));
    int64_t n = 0;
    if (used == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to load weights");
    for (int64_t i = 0; i < f->all->n; i++)
        if (tt_tensor_is_model(&f->all->v[i]))
            used[n++] = tt_weights_find(f->weights, f->all->v[i].name);
    qsort(used, (size_t)n, sizeof(*used), by_address);
    for (int64_t i = 0; i < count; i++) {
        const tt_safetensor *t = tt_weights_at(f->weights, i);
        if (bsearch(&t, used, (size_t)n, sizeof(*used), by_address) == NULL &&
            !tt_weights_is_nothing(f->weights, t))
            add_name(f, &f->extra, f->n_extra++, t->name);
    }
    tt_free(used);
    return TT_OK;
}

static tt_status find_all(fitting *f)
{
    for (int64_t i = 0; i < f->all->n; i++) {
        const tt_tensor *t = &f->all->v[i];
        if (!tt_tensor_is_model(t))
            continue;
        if (tt_weights_skips(f->weights, t->name)) {
            add_name(f, &f->skipped, f->n_skipped++, t->name);
            continue;
        }
        f->from[i] = tt_weights_find(f->weights, t->name);
        if (f->from[i] != NULL)
            f->from[i] = tt_weights_average(f->weights, f->from[i]);
        else
            add_name(f, &f->missing, f->n_missing++, t->name);
    }
    TT_TRY(find_extra(f));
    add_rest(f, &f->missing, f->n_missing);
    add_rest(f, &f->extra, f->n_extra);
    add_rest(f, &f->skipped, f->n_skipped);
    TT_TRY(tt_str_status(&f->missing));
    TT_TRY(tt_str_status(&f->skipped));
    return tt_str_status(&f->extra);
}

static tt_status check_form(const fitting *f, const tt_tensor *t,
                            const tt_safetensor *from)
{
    const char *path = tt_weights_path(f->weights);
    tt_dtype dtype;
    if (!tt_tensor_has_shape(t, from)) {
        tt_str here = {0}, there = {0};
        tt_tensor_print_shape(t->dim, t->ndim, &here);
        tt_tensor_print_shape(from->shape, from->ndim, &there);
        (void)tt_fail(TT_ERR_ARG, "%s: %s is %s, but the model wants %s", path,
                      from->name, tt_str_text(&there), tt_str_text(&here));
        tt_str_fini(&here);
        tt_str_fini(&there);
        return TT_ERR_ARG;
    }
    if (!tt_tensor_own_dtype(from->dtype, &dtype) ||
        tt_dtype_is_float(dtype) != tt_dtype_is_float(t->dtype))
        return tt_fail(TT_ERR_ARG,
                       "%s: %s has type %s, which does not become %s", path,
                       from->name, from->dtype, tt_tensor_file_dtype(t->dtype));
    return TT_OK;
}

// Whether only the number of classes differs.
static bool is_other_head(const fitting *f, const tt_tensor *t,
                          const tt_safetensor *from)
{
    const tt_shape *shape = &f->graph->value[t->val.id].type.shape;
    bool differs = false;
    if (from->ndim != t->ndim || shape->ndim != t->ndim)
        return false;
    for (int d = 0; d < t->ndim; d++) {
        if (from->shape[d] == t->dim[d])
            continue;
        if (strcmp(shape->factor[shape->first[d]].name, "classes") != 0)
            return false;
        differs = true;
    }
    return differs;
}

static tt_status check_forms(fitting *f, bool is_strict)
{
    for (int64_t i = 0; i < f->all->n; i++) {
        const tt_tensor *t = &f->all->v[i];
        if (f->from[i] == NULL)
            continue;
        if (!is_strict && is_other_head(f, t, f->from[i])) {
            add_name(f, &f->heads, f->n_heads++, t->name);
            f->from[i] = NULL;
            continue;
        }
        TT_TRY(check_form(f, t, f->from[i]));
    }
    add_rest(f, &f->heads, f->n_heads);
    return tt_str_status(&f->heads);
}

// The verdict: without notes any difference is an error. With notes it is an error
// only if nothing fits.
static tt_status judge(const fitting *f, int64_t n_loaded, tt_str *notes)
{
    const char *path = tt_weights_path(f->weights);
    if (notes == NULL && (f->n_missing > 0 || f->n_extra > 0))
        return tt_fail(
            TT_ERR_ARG, "%s does not fit the model: %s%s%s%s%s", path,
            f->n_missing > 0 ? "it lacks " : "", tt_str_text(&f->missing),
            f->n_missing > 0 && f->n_extra > 0 ? "; " : "",
            f->n_extra > 0 ? "the model has no " : "", tt_str_text(&f->extra));
    if (notes == NULL)
        return TT_OK;
    if (n_loaded == 0)
        return tt_fail(TT_ERR_ARG,
                       "%s has no tensor of this model: it has %s; the model "
                       "wants %s",
                       path, f->n_extra > 0 ? tt_str_text(&f->extra) : "none",
                       tt_str_text(&f->missing));
    tt_str_addf(notes, "Loaded %lld tensors from %s.\n", (long long)n_loaded,
                path);
    if (f->n_skipped > 0)
        tt_str_addf(notes, "Begun anew, as init.skip says: %s.\n",
                    tt_str_text(&f->skipped));
    if (f->n_heads > 0)
        tt_str_addf(notes,
                    "Begun anew, since the number of classes differs: %s.\n",
                    tt_str_text(&f->heads));
    if (f->n_missing > 0)
        tt_str_addf(notes, "It lacks %s: initialised as usual.\n",
                    tt_str_text(&f->missing));
    if (f->n_extra > 0)
        tt_str_addf(notes, "The model has no %s: ignored.\n",
                    tt_str_text(&f->extra));
    return tt_str_status(notes);
}

// ---- loading -------------------------------------------------------------

// The average of a weight starts as the weight.
static void begin_averages(const fitting *f)
{
    const tt_tensors *all = f->all;
    for (int64_t i = 0; i < all->n; i++)
        for (int64_t w = 0; w < all->n && all->v[i].role == TT_TENSOR_EMA; w++)
            if (all->v[w].val.id == all->v[i].of.id)
                f->from[i] = f->from[w];
}

static const tt_peers *peers_of(const tt_tensors *all)
{
    return all->n > 0 ? all->v[0].peers : NULL;
}

// `f->from` is NULL on ranks that have no files.
static tt_status load_all(const fitting *f, tt_exec *exec)
{
    tt_slices_result result;
    const tt_slices slices = {exec, f->all, f->from, "weights"};
    if (f->from != NULL)
        begin_averages(f);
    return tt_slices_load(&slices, &result);
}

tt_status tt_weights_receive(tt_exec *exec, const tt_tensors *all)
{
    const fitting f = {.all = all};
    TT_TRY(tt_peers_follow(peers_of(all), "weights", TT_OK));
    return load_all(&f, exec);
}

// Finds the source of each tensor and decides whether that is good enough.
static tt_status fit_all(fitting *f, tt_str *notes, int64_t *n_loaded_out)
{
    const tt_tensors *all = f->all;
    int64_t n = 0;
    f->max_named = notes != NULL ? MAX_LISTED : MAX_NAMED;
    f->from = tt_alloc((all->n + 1) * (int64_t)sizeof(*f->from));
    if (f->from == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to load weights");
    TT_TRY(find_all(f));
    TT_TRY(check_forms(f, notes == NULL));
    for (int64_t i = 0; i < all->n; i++)
        n += f->from[i] != NULL;
    *n_loaded_out = n;
    return judge(f, n, notes);
}

static void close_fit(fitting *f)
{
    tt_str_fini(&f->missing);
    tt_str_fini(&f->skipped);
    tt_str_fini(&f->heads);
    tt_str_fini(&f->extra);
    tt_free(f->from);
}

tt_status tt_weights_check(const tt_weights *weights, const tt_graph *graph,
                           const tt_tensors *all, tt_str *notes)
{
    fitting f = {.weights = weights, .graph = graph, .all = all};
    int64_t n = 0;
    const tt_status status = fit_all(&f, notes, &n);
    close_fit(&f);
    return status;
}

tt_status tt_weights_load(const tt_weights *weights, tt_exec *exec,
                          const tt_tensors *all, tt_str *notes,
                          tt_weights_fit *fit_out)
{
    fitting f = {
        .weights = weights, .graph = tt_exec_plan(exec)->graph, .all = all};
    tt_weights_fit fit = {0};
    tt_status status = fit_all(&f, notes, &fit.n_loaded);
    if (peers_of(all) != NULL)
        status = tt_peers_follow(peers_of(all), "weights", status);
    if (status == TT_OK)
        status = load_all(&f, exec);
    fit.n_missing = f.n_missing + f.n_heads;
    fit.n_extra = f.n_extra;
    if (status == TT_OK)
        *fit_out = fit;
    close_fit(&f);
    return status;
}
