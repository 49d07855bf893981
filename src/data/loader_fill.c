// loader_fill - where a sample is, what it holds and whether the model can take it.
//
// Everything about a sample follows from its position: the index (order.h), the window
// of tokens or the image, and the random numbers of augmentation, whose key is made of
// seed and position. So any thread can make any sample.
//
// Ids and labels are checked here. On a GPU an id beyond the vocabulary would read
// foreign memory; here it is an error that names the token.

#include "data/loader_fill.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <string.h>

int64_t tt_loader_epoch(const tt_source *source, int64_t seq)
{
    return source->kind == TT_DATA_IMAGES ? source->n
                                          : tt_window_count(source->n, seq);
}

static tt_status too_short(const tt_source *source, int64_t seq)
{
    if (source->n < 2)
        return tt_fail(TT_ERR_ARG,
                       "%s: there is no more than one token; training "
                       "needs at least two",
                       source->def->name);
    return tt_fail(TT_ERR_ARG,
                   "%s: seq=%lld needs %lld tokens and there are %lld; "
                   "seq=%lld or less would fit",
                   source->def->name, (long long)seq, (long long)seq + 1,
                   (long long)source->n, (long long)source->n - 1);
}

static tt_status plan_tokens(tt_fill_plan *plan)
{
    const int64_t seq = plan->seq;
    if (seq < 1)
        return tt_fail(TT_ERR_ARG,
                       "%s: tokens need seq, the length of a window",
                       plan->source->def->name);
    if (plan->source->n <= seq)
        return too_short(plan->source, seq);
    plan->x_count = plan->y_count = seq;
    return TT_OK;
}

static tt_status plan_images(tt_fill_plan *plan)
{
    const tt_source *s = plan->source;
    tt_transform *t = &plan->transform;
    if (t->channels == 0)
        t->channels = s->channels;
    if (t->image == 0 && s->height == s->width)
        t->image = s->height;
    if (t->channels < 1 || t->image < 1)
        return tt_fail(TT_ERR_ARG,
                       "%s: its images differ in size; set image, the height "
                       "and width that the model sees",
                       s->def->name);
    if (__builtin_mul_overflow(t->image, t->image, &plan->x_count) ||
        __builtin_mul_overflow(plan->x_count, t->channels, &plan->x_count))
        return tt_fail(TT_ERR_ARG, "image=%lld is too large",
                       (long long)t->image);
    plan->y_count = 1;
    return tt_transform_check(t);
}

tt_status tt_fill_plan_init(tt_fill_plan *plan, const tt_source *source,
                            const tt_loader_options *options)
{
    *plan = (tt_fill_plan){
        .source = source,
        .order = {.seed = options->seed,
                  .n = tt_loader_epoch(source, options->seq),
                  .shuffle = options->shuffle},
        .shares = options->shares,
        .transform = options->transform,
        .seq = options->seq,
        .classes = options->classes > 0  ? options->classes
                   : source->classes > 0 ? source->classes
                                         : (int64_t)INT32_MAX + 1,
    };
    TT_TRY(source->kind == TT_DATA_IMAGES ? plan_images(plan)
                                          : plan_tokens(plan));
    if (plan->order.n < 1)
        return tt_fail(TT_ERR_ARG, "%s: there are no images",
                       source->def->name);
    return TT_OK;
}

static int64_t bytes_of(int64_t samples, int64_t count)
{
    int64_t bytes = 0;
    if (__builtin_mul_overflow(samples, count, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)sizeof(int32_t), &bytes))
        return -1; // which no allocation gives
    return bytes;
}

tt_status tt_fill_to_init(const tt_fill_plan *plan, int64_t samples,
                          tt_fill_to *to)
{
    const int64_t bytes = bytes_of(samples, plan->x_count);
    to->x = tt_alloc_aligned(bytes, 64);
    to->y = tt_alloc_aligned(bytes_of(samples, plan->y_count), 64);
    if (to->x == NULL || to->y == NULL)
        return tt_fail(TT_ERR_NOMEM,
                       "no memory for a batch of %lld samples; a smaller "
                       "micro-batch or data.ahead needs less",
                       (long long)samples);
    return TT_OK;
}

void tt_fill_to_fini(tt_fill_to *to)
{
    tt_free_aligned(to->x);
    tt_free_aligned(to->y);
}

tt_status tt_filler_init(const tt_fill_plan *plan, tt_filler *filler)
{
    if (plan->source->kind != TT_DATA_TOKENS)
        return TT_OK;
    filler->tokens = tt_alloc(bytes_of(plan->seq + 1, 1));
    if (filler->tokens == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a window of %lld tokens",
                       (long long)plan->seq);
    return TT_OK;
}

void tt_filler_fini(tt_filler *filler)
{
    tt_free(filler->tokens);
    tt_image_fini(&filler->image);
    tt_image_fini(&filler->scratch);
}

static tt_status bad_token(const tt_fill_plan *plan, const int32_t *token,
                           int64_t first)
{
    int64_t i = 0;
    while (token[i] >= 0 && token[i] < plan->classes)
        i++;
    return tt_fail(TT_ERR_ARG,
                   "%s: token %lld is id %d, which a vocabulary of %lld does "
                   "not have",
                   plan->source->def->name, (long long)(first + i), token[i],
                   (long long)plan->classes);
}

// The image, or the first token of the window.
static int64_t place_of(const tt_fill_plan *plan, int64_t position)
{
    int64_t place = 0;
    if (plan->shares != NULL)
        (void)tt_shares_find(plan->shares, position, &place);
    else if (plan->source->kind == TT_DATA_IMAGES)
        place = tt_order_index(&plan->order, position);
    else
        place =
            tt_window_first(&plan->order, plan->source->n, plan->seq, position);
    return place;
}

static tt_status fill_tokens(const tt_fill_plan *plan, tt_filler *filler,
                             int64_t position, const tt_fill_to *to, int64_t i)
{
    const int64_t seq = plan->seq;
    const int64_t first = place_of(plan, position);
    int32_t *token = filler->tokens;
    TT_TRY(tt_source_read_tokens(plan->source, first, seq + 1, token));
    uint32_t largest = 0; // a negative id is larger than any
    for (int64_t k = 0; k <= seq; k++)
        largest = (uint32_t)token[k] > largest ? (uint32_t)token[k] : largest;
    if (largest >= (uint64_t)plan->classes)
        return bad_token(plan, token, first);
    const size_t bytes = (size_t)seq * sizeof *token;
    memcpy((int32_t *)to->x + i * seq, token, bytes);
    memcpy(to->y + i * seq, token + 1, bytes);
    return TT_OK;
}

static tt_status fill_image(const tt_fill_plan *plan, tt_filler *filler,
                            int64_t position, const tt_fill_to *to, int64_t i)
{
    const tt_source *s = plan->source;
    const int64_t index = place_of(plan, position);
    int32_t label = 0;
    TT_TRY(tt_source_read_image(s, index, &filler->image, &label));
    if (label >= plan->classes)
        return tt_source_blame(
            s, index,
            tt_fail(TT_ERR_ARG, "it is of class %d, and there are %lld classes",
                    label, (long long)plan->classes));
    const uint64_t key =
        tt_rng_key(plan->order.seed, "augment", (uint64_t)position);
    const tt_status status = tt_transform_apply(
        &plan->transform, &filler->image, key, &filler->scratch,
        (float *)to->x + i * plan->x_count);
    if (status != TT_OK)
        return tt_source_blame(s, index, status);
    to->y[i] = label;
    return TT_OK;
}

static void leave_out(const tt_fill_plan *plan, const tt_fill_to *to, int64_t i)
{
    for (int64_t k = 0; k < plan->y_count; k++)
        to->y[i * plan->y_count + k] = -1;
}

tt_status tt_fill_sample(const tt_fill_plan *plan, tt_filler *filler,
                         int64_t position, const tt_fill_to *to, int64_t i)
{
    int64_t place = 0;
    TT_TRY(plan->source->kind == TT_DATA_IMAGES
               ? fill_image(plan, filler, position, to, i)
               : fill_tokens(plan, filler, position, to, i));
    if (plan->shares != NULL && !tt_shares_find(plan->shares, position, &place))
        leave_out(plan, to, i);
    return TT_OK;
}

void tt_fill_nothing(const tt_fill_plan *plan, const tt_fill_to *to, int64_t i)
{
    memset((int32_t *)to->x + i * plan->x_count, 0,
           (size_t)plan->x_count * sizeof(int32_t));
    leave_out(plan, to, i);
}
