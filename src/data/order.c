// order - a permutation of [0, n) that is computed, not stored.
//
// The problem. Samples are shuffled, and any rank and any thread must know which sample
// stands at any position, also after a restart. A stored permutation of 10 billion
// samples needs 80 GB.
//
// The idea. A Feistel network is a permutation made of random functions. n is laid out
// as a rectangle of about sqrt(n) x sqrt(n) cells. A round adds to one coordinate a
// random function of the other. That can be undone (subtract the same number), so each
// cell goes to exactly one cell. After a few rounds the order looks random.
//
//   cell = row * columns + column
//   row    += random(key, round, column)      mod rows
//   column += random(key, round + 1, row)     mod columns        8 rounds in all
//
// The rectangle has a few more cells than n. A cell at n or above is permuted again
// until it lands below n ("cycle walking"). This is again a permutation of [0, n),
// since the walk follows a cycle of the larger one. It takes 1 + 1/sqrt(n) passes on
// average.
//
//   cost     no memory; 8 hashes per sample
//   source   Black and Rogaway 2002, Ciphers with arbitrary finite domains

#include "data/order.h"

#include "base/rng.h"

#include <math.h>

enum { ROUNDS = 8 };

__extension__ typedef unsigned __int128 u128;

typedef struct rectangle {
    uint64_t rows, columns; // rows * columns >= n
    uint64_t key;
} rectangle;

static uint64_t root_above(uint64_t n)
{
    uint64_t root = (uint64_t)sqrt((double)n);
    while (root * root < n)
        root++;
    return root;
}

// Uniform in [0, n): the upper half of a 128-bit product. Cheaper than a division.
static uint64_t below(uint64_t key, uint64_t round, uint64_t x, uint64_t n)
{
    const uint64_t random = tt_rng_key_step(key, round, x);
    return (uint64_t)(((u128)random * n) >> 64);
}

static uint64_t permute(const rectangle *r, uint64_t cell)
{
    uint64_t row = cell / r->columns, column = cell % r->columns;
    for (uint64_t round = 0; round < ROUNDS; round += 2) {
        row += below(r->key, round, column, r->rows);
        row -= row >= r->rows ? r->rows : 0;
        column += below(r->key, round + 1, row, r->columns);
        column -= column >= r->columns ? r->columns : 0;
    }
    return row * r->columns + column;
}

int64_t tt_order_epoch(const tt_order_of *order, int64_t position)
{
    return position / order->n;
}

int64_t tt_order_index(const tt_order_of *order, int64_t position)
{
    const uint64_t n = (uint64_t)order->n;
    const uint64_t epoch = (uint64_t)tt_order_epoch(order, position);
    uint64_t cell = (uint64_t)position % n;
    if (!order->shuffle)
        return (int64_t)cell;
    rectangle r = {.rows = root_above(n),
                   .key = tt_rng_key(order->seed, "order", epoch)};
    r.columns = (n + r.rows - 1) / r.rows;
    do
        cell = permute(&r, cell);
    while (cell >= n);
    return (int64_t)cell;
}

int64_t tt_window_count(int64_t tokens, int64_t seq)
{
    return seq > 0 && tokens > seq ? (tokens - 1) / seq : 0;
}

// With an offset the last window may not fit; it then stands at the start of the
// stream. So less than one window of tokens is left out of any epoch.
int64_t tt_window_first(const tt_order_of *order, int64_t tokens, int64_t seq,
                        int64_t position)
{
    const uint64_t epoch = (uint64_t)tt_order_epoch(order, position);
    const uint64_t key = tt_rng_key(order->seed, "window", epoch);
    const int64_t offset =
        order->shuffle ? (int64_t)below(key, 0, 0, (uint64_t)seq) : 0;
    const int64_t first = offset + tt_order_index(order, position) * seq;
    return first + seq < tokens ? first : 0;
}
