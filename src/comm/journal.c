// journal - see the header.
//
// The writer fills the slot first and counts it afterwards (release), so the newest
// event that a reader sees counted is complete. A reader would only meet a slot that
// is being written if 255 more events began while it reads. It reads after the
// writer's end, or for a message to people.

#include "comm/journal.h"

#include <stdio.h>
#include <string.h>

void tt_journal_text(tt_journal_event *event, const char *what,
                     const char *where)
{
    snprintf(event->what, sizeof event->what, "%s", what);
    snprintf(event->where, sizeof event->where, "%s", where ? where : "");
}

void tt_journal_add(tt_journal *journal, const tt_journal_event *event)
{
    if (journal == NULL)
        return;
    const uint64_t n = atomic_load_explicit(&journal->n, memory_order_relaxed);
    journal->event[n % TT_JOURNAL_EVENTS] = *event;
    atomic_store_explicit(&journal->n, n + 1, memory_order_release);
}

uint64_t tt_journal_last(const tt_journal *journal, tt_journal_event *event_out)
{
    const uint64_t n = atomic_load_explicit(&journal->n, memory_order_acquire);
    if (n > 0)
        *event_out = journal->event[(n - 1) % TT_JOURNAL_EVENTS];
    return n;
}

void tt_journal_print_last(const tt_journal *journal, tt_str *out)
{
    tt_journal_event e;
    if (tt_journal_last(journal, &e) == 0)
        return;
    tt_str_addf(out, " in %s", e.what);
    if (e.number > 0)
        tt_str_addf(out, " %lld", (long long)e.number);
    if (e.step >= 0)
        tt_str_addf(out, " of step %lld", (long long)e.step);
    if (e.where[0] != '\0')
        tt_str_addf(out, " (%s)", e.where);
}
