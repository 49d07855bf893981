// poison - a check for tests: memory that holds NaN until somebody writes it.
//
// All buffers of a plan share one arena, by lifetimes that lowering computed. A mistake
// there, or a kernel that reads or writes too much, gives wrong numbers far away from
// its cause. So tests fill the arena with NaN first. A kernel that reads what no step
// wrote then computes NaN, and a kernel that writes more than its buffer changes a
// guard. The arena looks like this:
//
//   | buffer | guard | buffer | guard |        guards: GUARD bytes after each buffer,
//                                              only where no other buffer lies
//
// How far the arena was written, from its end, is the memory that a plan really used.

#include "base/poison.h"

#include "base/alloc.h"
#include "exec/state.h"

#include <string.h>

enum { GUARD = 64 };

// Poisoned memory ends with bytes that no plan uses.
int64_t tt__guard_bytes(const tt_exec *exec)
{
    return exec->options.poison ? GUARD : 0;
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t end_of(const tt_buffer *b)
{
    return b->offset + b->bytes;
}

// How many of n bytes from `at` on are adjacent: not those that begin in
// the wire's memory and end in the rest.
static int64_t adjacent(const tt_exec *exec, int64_t at, int64_t n)
{
    return at < exec->shared_bytes ? min_i64(n, exec->shared_bytes - at) : n;
}

static tt_status write_arena(const tt_exec *exec, int64_t at,
                             const unsigned char *from, int64_t n)
{
    for (int64_t i = 0, m; i < n; i += m) {
        m = adjacent(exec, at + i, n - i);
        TT_TRY(
            tt_memory_write(exec->backend, tt__at(exec, at + i), from + i, m));
    }
    return TT_OK;
}

static tt_status read_arena(const tt_exec *exec, int64_t at, unsigned char *to,
                            int64_t n)
{
    for (int64_t i = 0, m; i < n; i += m) {
        m = adjacent(exec, at + i, n - i);
        TT_TRY(tt_memory_read(exec->backend, to + i, tt__at(exec, at + i), m));
    }
    return TT_OK;
}

// Whether a byte of the arena belongs to a buffer, in any slot.
static bool is_in(const tt_plan *plan, const tt_buffer *b, int64_t at)
{
    const int64_t slots = b->class_ == TT_SLOT ? plan->n_slots : 1;
    int64_t from = at - b->offset;
    if (b->on_host || from < 0)
        return false;
    if (slots > 1 && from / plan->slot_bytes < slots)
        from %= plan->slot_bytes;
    return from < b->bytes;
}

static bool is_in_any(const tt_plan *plan, int64_t at)
{
    for (int32_t i = 0; i < plan->n_buffers; i++)
        if (is_in(plan, &plan->buffer[i], at))
            return true;
    return false;
}

// The guard after a buffer, poison where another one lies.
static void make_guard(const tt_plan *plan, int64_t first,
                       unsigned char guard[GUARD])
{
    for (int64_t i = 0; i < GUARD; i++)
        guard[i] =
            is_in_any(plan, first + i) ? TT_POISON : tt_guard_byte(first + i);
}

// Poison in all buffers; after each a guard, where no other buffer lies.
tt_status tt__poison(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    const int64_t limit = plan->peak_bytes + GUARD;
    TT_TRY(tt_memory_fill(exec->backend, exec->memory, TT_POISON,
                          limit - exec->shared_bytes));
    if (exec->shared_bytes > 0)
        memset(exec->shared, TT_POISON, (size_t)exec->shared_bytes);
    if (exec->on_host != NULL)
        memset(exec->on_host, TT_POISON, (size_t)plan->host_bytes);
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const int64_t first = end_of(&plan->buffer[i]);
        unsigned char guard[GUARD];
        if (plan->buffer[i].on_host)
            continue;
        make_guard(plan, first, guard);
        TT_TRY(write_arena(exec, first, guard, min_i64(GUARD, limit - first)));
    }
    return TT_OK;
}

// Whether a byte of the arena belongs to a buffer, or to a gap that is summed with
// what lies around it.
static bool is_used(const tt_plan *plan, int64_t at)
{
    return at < plan->shared_bytes || is_in_any(plan, at);
}

// Whether a byte has not been changed. Memory that initialisation borrowed is
// poisoned again, guards too.
static bool is_fresh(const tt_exec *exec, int64_t at, unsigned char byte)
{
    return byte == TT_POISON ||
           (byte == tt_guard_byte(at) && !is_used(exec->plan, at));
}

int64_t tt_exec_peak_used(const tt_exec *exec)
{
    enum { PIECE = 1 << 16 };
    if (!exec->options.poison)
        return -1;
    unsigned char *piece = tt_alloc(PIECE);
    int64_t first = exec->plan->peak_bytes, n = 0;
    // From the end, piece by piece: [first, first + n) is not known to be fresh.
    while (piece != NULL && n == 0 && first > 0) {
        n = min_i64(first, PIECE);
        first -= n;
        if (read_arena(exec, first, piece, n) != TT_OK)
            break;
        while (n > 0 && is_fresh(exec, first + n - 1, piece[n - 1]))
            n--;
    }
    tt_free(piece);
    return first + n;
}

int32_t tt_exec_overrun(const tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    for (int32_t i = 0; i < plan->n_buffers && exec->options.poison; i++) {
        const int64_t end = end_of(&plan->buffer[i]);
        const int64_t limit = plan->peak_bytes + tt__guard_bytes(exec);
        const int64_t n = min_i64(GUARD, limit - end);
        unsigned char after[GUARD];
        if (plan->buffer[i].on_host)
            continue;
        if (read_arena(exec, end, after, n) != TT_OK)
            return i;
        for (int64_t k = 0; k < n; k++)
            if (!is_fresh(exec, end + k, after[k]) && !is_used(plan, end + k))
                return i;
    }
    return -1;
}
