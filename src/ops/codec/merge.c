// merge - see merge.h.

#include "ops/codec/merge.h"

#include <math.h>
#include <string.h>

// ---- lists ---------------------------------------------------------------

static int64_t place_at(const unsigned char *place, int64_t i)
{
    uint32_t at;
    memcpy(&at, place + 4 * i, sizeof at);
    return at;
}

bool tt_merged_open(const unsigned char *packet, int64_t capacity, int64_t n,
                    int64_t value_bytes, tt_merged_list *out)
{
    const unsigned char *body = packet + TT_PACKET_HEADER;
    const tt_packet about = {
        .kind = TT_PACKET_SPARSE, .n = n, .capacity = capacity};
    int64_t bytes = 0, count = 0;
    if (tt_packet_open(&about, "merge", 0, packet, &bytes) != TT_OK ||
        bytes < TT_PACKET_HEADER + TT_SPARSE_HEAD)
        return false;
    memcpy(&count, body, sizeof count);
    if (count < 0 || count > n ||
        bytes != TT_PACKET_HEADER + tt_sparse_body(count, value_bytes))
        return false;
    body += TT_SPARSE_HEAD;
    *out =
        (tt_merged_list){count, value_bytes, body, body + count * value_bytes};
    return true;
}

// The first entry whose place is not below.
static int64_t find(const tt_merged_list *list, int64_t place)
{
    int64_t low = 0, high = list->n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (place_at(list->place, middle) < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

tt_merged_list tt_merged_cut(const tt_merged_list *list, int64_t first,
                             int64_t end)
{
    const int64_t from = find(list, first), to = find(list, end);
    return (tt_merged_list){to - from, list->value_bytes,
                            list->value + from * list->value_bytes,
                            list->place + 4 * from};
}

// ---- sums ----------------------------------------------------------------

// A byte for each number says whether it has an entry.
static unsigned char *marks_of(const tt_merged_sum *sum)
{
    return (unsigned char *)sum->room + sum->n * sum->value_bytes;
}

int64_t tt_merged_room(int64_t n, int64_t value_bytes)
{
    return n * (value_bytes + 1);
}

void tt_merged_begin(const tt_merged_sum *sum)
{
    memset(sum->room, 0, (size_t)tt_merged_room(sum->n, sum->value_bytes));
}

static void add_one(const tt_merged_sum *sum, int64_t at,
                    const unsigned char *value)
{
    if (sum->value_bytes == 8) {
        double x;
        memcpy(&x, value, sizeof x);
        ((double *)sum->room)[at] += x;
    } else {
        float x;
        memcpy(&x, value, sizeof x);
        ((float *)sum->room)[at] += x;
    }
}

bool tt_merged_add(const tt_merged_sum *sum, const tt_merged_list *list)
{
    unsigned char *mark = marks_of(sum);
    int64_t before = -1;
    for (int64_t i = 0; i < list->n; i++) {
        const int64_t at = place_at(list->place, i) - sum->first;
        if (at <= before || at >= sum->n)
            return false;
        before = at;
        mark[at] = 1;
        add_one(sum, at, list->value + i * list->value_bytes);
    }
    return true;
}

int64_t tt_merged_bytes(int64_t count, int64_t n, int64_t value_bytes)
{
    return count < 0 ? n * value_bytes : count * (value_bytes + 4);
}

int64_t tt_merged_count(const tt_merged_sum *sum)
{
    const unsigned char *mark = marks_of(sum);
    int64_t count = 0;
    for (int64_t i = 0; i < sum->n; i++)
        count += mark[i];
    return tt_merged_bytes(count, sum->n, sum->value_bytes) >
                   tt_merged_bytes(-1, sum->n, sum->value_bytes)
               ? -1
               : count;
}

void tt_merged_write(const tt_merged_sum *sum, int64_t count, unsigned char *to)
{
    const int64_t bytes = sum->value_bytes;
    const unsigned char *mark = marks_of(sum), *from = sum->room;
    if (count < 0) {
        memcpy(to, from, (size_t)(sum->n * bytes));
        return;
    }
    unsigned char *place = to + count * bytes;
    for (int64_t i = 0; i < sum->n; i++) {
        const uint32_t at = (uint32_t)(sum->first + i);
        if (mark[i] == 0)
            continue;
        memcpy(to, from + i * bytes, (size_t)bytes);
        memcpy(place, &at, sizeof at);
        to += bytes;
        place += 4;
    }
}

// ---- packets -------------------------------------------------------------

static bool is_zero(const unsigned char *value, int64_t bytes)
{
    double wide = 0;
    float x = 0;
    if (bytes == 8)
        memcpy(&wide, value, sizeof wide);
    else
        memcpy(&x, value, sizeof x);
    return wide == 0 && x == 0;
}

int64_t tt_merged_most(int64_t capacity, int64_t value_bytes)
{
    return (capacity - TT_PACKET_HEADER - TT_SPARSE_HEAD) / (value_bytes + 4);
}

// What is 0 needs no entry: all numbers begin as 0.
int64_t tt_merged_entries(const tt_merged_sum *part, int64_t count,
                          const unsigned char *data)
{
    const int64_t bytes = part->value_bytes;
    int64_t entries = 0, before = part->first - 1;
    for (int64_t i = 0; i < part->n && count < 0; i++)
        entries += !is_zero(data + i * bytes, bytes);
    if (count < 0)
        return entries;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = place_at(data + count * bytes, i);
        if (at <= before || at >= part->first + part->n)
            return -1;
        before = at;
    }
    return count;
}

// Entries of packet number q: all are full but the last that has some.
static int64_t entries_in(const tt_merged_out *out, int64_t q)
{
    const int64_t most = tt_merged_most(out->capacity, out->value_bytes);
    const int64_t left = out->entries - q * most;
    return left < 0 ? 0 : left < most ? left : most;
}

static void put_one(tt_merged_out *out, const unsigned char *value,
                    uint32_t place)
{
    const int64_t most = tt_merged_most(out->capacity, out->value_bytes);
    const int64_t q = out->at / most, i = out->at % most;
    unsigned char *to =
        out->packet + q * out->capacity + TT_PACKET_HEADER + TT_SPARSE_HEAD;
    memcpy(to + i * out->value_bytes, value, (size_t)out->value_bytes);
    memcpy(to + entries_in(out, q) * out->value_bytes + 4 * i, &place,
           sizeof place);
    out->at++;
}

void tt_merged_put(tt_merged_out *out, const tt_merged_sum *part, int64_t count,
                   const unsigned char *data)
{
    const int64_t bytes = part->value_bytes;
    for (int64_t i = 0; i < count; i++)
        put_one(out, data + i * bytes,
                (uint32_t)place_at(data + count * bytes, i));
    for (int64_t i = 0; i < part->n && count < 0; i++)
        if (!is_zero(data + i * bytes, bytes))
            put_one(out, data + i * bytes, (uint32_t)(part->first + i));
}

void tt_merged_close(tt_merged_out *out)
{
    const tt_packet about = {
        .kind = TT_PACKET_SPARSE, .n = out->n, .capacity = out->capacity};
    for (int64_t q = 0; q < out->packets; q++) {
        unsigned char *packet = out->packet + q * out->capacity;
        unsigned char *body = packet + TT_PACKET_HEADER;
        const int64_t count = entries_in(out, q);
        const int64_t bytes = tt_sparse_body(count, out->value_bytes);
        memcpy(body, &count, sizeof count);
        memset(body + bytes, 0,
               (size_t)(out->capacity - TT_PACKET_HEADER - bytes));
        tt_packet_close(&about, packet, TT_PACKET_HEADER + bytes,
                        tt_packet_hash(body, bytes));
    }
}

// ---- when it pays --------------------------------------------------------

bool tt_merged_pays(const tt_merged_case *c)
{
    const double n = (double)c->n, k = (double)c->k, r = (double)c->replicas;
    const double value = (double)c->value_bytes, each = value + 4;
    if (c->ranks < 2)
        return false;
    const double both = n * (1 - pow(1 - k / n, r));
    const double merged =
        r * k * each / (double)c->ranks + fmin(each * both, value * n);
    return merged < r * k * (double)c->gathered_each;
}
