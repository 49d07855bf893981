#include "exchange/masks.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>
#include <stddef.h>

__extension__ typedef unsigned __int128 u128;

static const uint64_t prime = (UINT64_C(1) << 61) - 1;
static const uint64_t generator = 37;
static const double scale = 4294967296.0;

// ---- the field -----------------------------------------------------------

static uint64_t times(uint64_t a, uint64_t b)
{
    return (uint64_t)((u128)a * b % prime);
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return (a + b) % prime;
}

static uint64_t power(uint64_t a, uint64_t e)
{
    uint64_t r = 1;
    for (; e > 0; e >>= 1, a = times(a, a))
        if ((e & 1) != 0)
            r = times(r, a);
    return r;
}

static uint64_t inverse(uint64_t a)
{
    return power(a, prime - 2);
}

// ---- shares --------------------------------------------------------------

uint64_t tt_masks_share(uint64_t secret, uint64_t key, int32_t threshold,
                        int32_t k)
{
    const uint64_t x = (uint64_t)k + 1;
    uint64_t y = 0;
    for (int32_t d = threshold - 1; d > 0; d--)
        y = times(plus(y, tt_rng_key_step(key, 1, (uint64_t)d) % prime), x);
    return plus(y, secret % prime);
}

// The polynomial at 0, by Lagrange.
uint64_t tt_masks_join(const int32_t *k, const uint64_t *share, int32_t n)
{
    uint64_t secret = 0;
    for (int32_t i = 0; i < n; i++) {
        uint64_t above = 1, below = 1;
        for (int32_t j = 0; j < n; j++) {
            const uint64_t xi = (uint64_t)k[i] + 1, xj = (uint64_t)k[j] + 1;
            if (j == i)
                continue;
            above = times(above, xj);
            below = times(below, plus(xj, prime - xi));
        }
        secret = plus(secret, times(share[i], times(above, inverse(below))));
    }
    return secret;
}

// ---- secrets -------------------------------------------------------------

enum { PRIVATE, OWN, SHARES };

static uint64_t drawn(const tt_masks *m, int32_t i, int which)
{
    const uint64_t key =
        tt_rng_key(m->seed, "exchange.masks", (uint64_t)m->round);
    return tt_rng_key_step(key, (uint64_t)which, (uint64_t)i);
}

static uint64_t secret_of(const tt_masks *m, int32_t i, int which)
{
    return 1 + drawn(m, i, which) % (prime - 2);
}

static uint64_t public_of(const tt_masks *m, int32_t i)
{
    return power(generator, secret_of(m, i, PRIVATE));
}

// What both find: the other's public key to the power of one's own private one.
static uint64_t agreed(uint64_t other, uint64_t own)
{
    return tt_rng_key_step(power(other, own), 2, 0);
}

// ---- rows ----------------------------------------------------------------

static void add_row(uint64_t key, bool is_taken_away, uint64_t *v, int64_t n)
{
    uint32_t word[4];
    for (int64_t i = 0; i < n; i++) {
        if (i % 2 == 0)
            tt_rng_philox(key, (uint64_t)(i / 2), word);
        const uint32_t *w = word + 2 * (i % 2);
        const uint64_t r = (uint64_t)w[0] << 32 | w[1];
        v[i] = is_taken_away ? v[i] - r : v[i] + r;
    }
}

void tt_masks_hide(const tt_masks *masks, int32_t i, uint64_t *v, int64_t n)
{
    const uint64_t own = secret_of(masks, i, PRIVATE);
    add_row(secret_of(masks, i, OWN), false, v, n);
    for (int32_t j = 0; j < masks->n; j++)
        if (j != i)
            add_row(agreed(public_of(masks, j), own), j < i, v, n);
}

// ---- the server ----------------------------------------------------------

typedef struct revealing {
    const tt_masks *masks;
    const bool *is_there;
    int32_t *left; // the first `threshold` who are there
    uint64_t *share;
} revealing;

// A secret from the shares of those who are left.
static uint64_t joined(const revealing *r, int32_t i, int which)
{
    const tt_masks *m = r->masks;
    const uint64_t key =
        tt_rng_key_step(drawn(m, i, SHARES), (uint64_t)which, 0);
    for (int32_t k = 0; k < m->threshold; k++)
        r->share[k] = tt_masks_share(secret_of(m, i, which), key, m->threshold,
                                     r->left[k]);
    return tt_masks_join(r->left, r->share, m->threshold);
}

static void take_out(const revealing *r, uint64_t *sum, int64_t n)
{
    const tt_masks *m = r->masks;
    for (int32_t i = 0; i < m->n; i++) {
        if (r->is_there[i]) {
            add_row(joined(r, i, OWN), true, sum, n);
            continue;
        }
        const uint64_t gone = joined(r, i, PRIVATE);
        for (int32_t j = 0; j < m->n;
             j++) // j has added it where it is before i
            if (r->is_there[j])
                add_row(agreed(public_of(m, j), gone), j < i, sum, n);
    }
}

tt_status tt_masks_reveal(const tt_masks *masks, const bool *is_there,
                          uint64_t *sum, int64_t n)
{
    revealing r = {.masks = masks, .is_there = is_there};
    int32_t there = 0;
    r.left = tt_alloc((masks->threshold + 1) * (int64_t)sizeof *r.left);
    r.share = tt_alloc((masks->threshold + 1) * (int64_t)sizeof *r.share);
    tt_status status = TT_OK;
    if (r.left == NULL || r.share == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory for shares");
    for (int32_t i = 0; status == TT_OK && i < masks->n; i++)
        if (is_there[i] && there++ < masks->threshold)
            r.left[there - 1] = i;
    if (status == TT_OK && there < masks->threshold)
        status = tt_fail(TT_ERR_STATE,
                         "%d of %d clients are left, and %d are needed to take "
                         "the masks out",
                         there, masks->n, masks->threshold);
    if (status == TT_OK)
        take_out(&r, sum, n);
    tt_free(r.left);
    tt_free(r.share);
    return status;
}

tt_masks tt_masks_of(uint64_t seed, int64_t round, int32_t n)
{
    return (tt_masks){seed, round, n, n / 2 + 1};
}

// ---- fixed point ---------------------------------------------------------

bool tt_masks_fits(double x, int32_t n)
{
    return fabs(x) * scale * n < 4611686018427387904.0; // 2^62
}

uint64_t tt_masks_encode(double x)
{
    return (uint64_t)llrint(x * scale);
}

double tt_masks_decode(uint64_t v)
{
    return (double)(int64_t)v / scale;
}
