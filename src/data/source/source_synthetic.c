// synthetic - data that needs no files and can be learned.
//
//   tokens   blocks in which each token follows from the one before and a bit of
//            the one before that, through a random table; `noise` of them are
//            drawn at random. The table prefers small ids.
//   images   a coarse pattern of each class under noise
//
// It is for tests, benchmarks and first steps: the loss falls, and how far it can fall
// is set by the noise. The pattern depends on the seed, the noise on the split too, so
// validation measures whether the pattern was learnt. Everything can be computed at any
// place: tokens from the start of their block.

#include "base/alloc.h"
#include "base/rng.h"
#include "data/source/source.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { BLOCK = 64, ALPHABET = 64, GRID = 4, CELLS = GRID * GRID };

typedef struct params {
    int kind;
    int64_t size, classes, image, channels;
    double noise;
} params;

typedef enum wanted { AS_MODEL, TOKENS, IMAGES } wanted;

typedef struct synthetic {
    tt_source source;
    uint64_t noise_key;
    uint32_t noise;  // of 2^32
    int64_t letters; // ids that occur
    int32_t follows[ALPHABET][2];
    uint8_t *pattern; // [classes][CELLS][channels]
} synthetic;

// Small ids are more frequent.
static int32_t letter(const synthetic *s, uint32_t random)
{
    const double u = random / 4294967296.0;
    return (int32_t)((double)s->letters * u * u);
}

static void fill_block(const synthetic *s, int64_t block, int32_t *out)
{
    uint32_t word[4];
    int32_t before = 0, last = 0;
    for (int i = 0; i < BLOCK; i++) {
        if (i % 2 == 0)
            tt_rng_philox(s->noise_key, (uint64_t)(block * BLOCK + i), word);
        const uint32_t *r = i % 2 == 0 ? word : word + 2;
        const bool is_random = i < 2 || r[0] < s->noise;
        const int32_t next =
            is_random ? letter(s, r[1]) : s->follows[last][before & 1];
        before = last;
        last = next;
        out[i] = next;
    }
}

static tt_status tokens(const tt_source *source, int64_t first, int64_t n,
                        int32_t *out)
{
    const synthetic *s = (const synthetic *)source;
    int32_t block[BLOCK];
    for (int64_t at = first; at < first + n;) {
        const int64_t from = at % BLOCK;
        fill_block(s, at / BLOCK, block);
        for (int64_t i = from; i < BLOCK && at < first + n; i++)
            out[at++ - first] = block[i];
    }
    return TT_OK;
}

// Adds noise of 6 bits to every byte.
static void add_noise(uint64_t key, uint8_t *byte, int64_t n)
{
    uint32_t word[4];
    for (int64_t i = 0; i < n; i += 16) {
        const int64_t end = n - i < 16 ? n - i : 16;
        tt_rng_philox(key, (uint64_t)(i / 16), word);
        for (int64_t k = 0; k < end; k++)
            byte[i + k] += (uint8_t)(word[k / 4] >> (8 * (k % 4)) & 63);
    }
}

static tt_status label(const tt_source *source, int64_t index,
                       int32_t *label_out)
{
    *label_out = (int32_t)(index % source->classes);
    return TT_OK;
}

static tt_status image(const tt_source *source, int64_t index, tt_image *out,
                       int32_t *label_out)
{
    const synthetic *s = (const synthetic *)source;
    const int64_t c = source->channels, h = source->height, w = source->width;
    TT_TRY(tt_image_reserve(out, c, h, w, false));
    TT_TRY(label(source, index, label_out));
    const uint8_t *pattern = s->pattern + (int64_t)*label_out * CELLS * c;
    uint8_t *to = out->u8;
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++, to += c)
            memcpy(to, pattern + (y * GRID / h * GRID + x * GRID / w) * c,
                   (size_t)c);
    add_noise(tt_rng_key_step(s->noise_key, 0, (uint64_t)index), out->u8,
              c * h * w);
    return TT_OK;
}

static tt_status make_tokens(synthetic *s, uint64_t key)
{
    s->letters = s->source.classes < ALPHABET ? s->source.classes : ALPHABET;
    for (int i = 0; i < ALPHABET; i++)
        for (int k = 0; k < 2; k++)
            s->follows[i][k] =
                letter(s, tt_rng_u32(key, (uint64_t)(2 * i + k)));
    return TT_OK;
}

static tt_status make_images(synthetic *s, uint64_t key)
{
    const int64_t n = s->source.classes * s->source.channels * CELLS;
    s->pattern = tt_alloc(n);
    if (s->pattern == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld classes",
                       (long long)s->source.classes);
    for (int64_t i = 0; i < n; i++)
        s->pattern[i] = (uint8_t)(tt_rng_u32(key, (uint64_t)i) % 192);
    return TT_OK;
}

static int64_t first_set(int64_t a, int64_t b, int64_t c)
{
    return a > 0 ? a : b > 0 ? b : c;
}

static void describe(tt_source *source, const tt_source_request *r,
                     const params *p)
{
    const bool is_image =
        p->kind == IMAGES ||
        (p->kind == AS_MODEL &&
         (r->wants_images || r->image > 0 || r->channels > 0));
    source->kind = is_image ? TT_DATA_IMAGES : TT_DATA_TOKENS;
    source->n = first_set(p->size, is_image ? 2000 : 100000, 0);
    source->classes = first_set(p->classes, r->classes, is_image ? 10 : 64);
    if (r->split == TT_SPLIT_VAL)
        source->n = (int64_t)ceil((double)source->n * r->holdout);
    if (!is_image)
        return;
    source->channels = first_set(p->channels, r->channels, 1);
    source->height = source->width = first_set(p->image, r->image, 28);
}

static void close_source(tt_source *source)
{
    synthetic *s = (synthetic *)source;
    tt_free(s->pattern);
    tt_free(s);
}

extern const tt_source_def tt_source_synthetic;

static tt_status open_source(const tt_source_request *request,
                             const void *params_, tt_source **source_out)
{
    const params *p = params_;
    if (request->path != NULL && request->path[0] != '\0')
        return tt_fail(TT_ERR_ARG,
                       "made-up data do not come from %s; for data of your "
                       "own set data too, as data=text data.path=%s (`tutti "
                       "list sources` names the kinds)",
                       request->path, request->path);
    synthetic *s = tt_alloc(sizeof *s);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for synthetic data");
    s->source.def = &tt_source_synthetic;
    describe(&s->source, request, p);
    s->noise = (uint32_t)(p->noise * 4294967295.0);
    s->noise_key = tt_rng_key(request->seed, "synthetic noise",
                              request->split == TT_SPLIT_TRAIN ? 0 : 1);
    const uint64_t key = tt_rng_key(request->seed, "synthetic pattern", 0);
    const tt_status status = s->source.kind == TT_DATA_TOKENS
                                 ? make_tokens(s, key)
                                 : make_images(s, key);
    if (status != TT_OK) {
        close_source(&s->source);
        return status;
    }
    *source_out = &s->source;
    return TT_OK;
}

static const tt_opt options[] = {
    {"kind", "model", "what is made; model: what the model takes",
     TT_OPT_CHOICE, offsetof(params, kind), "model|tokens|images"},
    {"size", "0", "training tokens or images; 0: 100000 or 2000", TT_OPT_I64,
     offsetof(params, size), NULL, 0, 1LL << 50},
    {"classes", "0", "classes or vocabulary; 0: the model's, or 10 and 64",
     TT_OPT_I64, offsetof(params, classes), NULL, 0, 1 << 24},
    {"image", "0", "height and width; 0: the model's, or 28", TT_OPT_I64,
     offsetof(params, image), NULL, 0, 1 << 14},
    {"channels", "0", "channels; 0: the model's, or 1", TT_OPT_I64,
     offsetof(params, channels), NULL, 0, 4096},
    {"noise", "0.1", "part of the tokens that is random", TT_OPT_F64,
     offsetof(params, noise), NULL, 0, 1},
    {0},
};

const tt_source_def tt_source_synthetic = {
    .name = "synthetic",
    .doc = "Tokens or images with a pattern that can be learned; no files.",
    .options = options,
    .params_bytes = sizeof(params),
    .open = open_source,
    .close = close_source,
    .tokens = tokens,
    .image = image,
    .label = label,
};
