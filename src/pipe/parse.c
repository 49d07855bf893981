// parse - a table from text, see text.h.
//
// Lines before the first `rank` give sizes and lists; the table is made when that line
// is reached, so that lists are read when their length is known.

#include "base/alloc.h"
#include "base/file.h"
#include "pipe/inside.h"
#include "pipe/text.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 16 << 20, WORD_SHOWN = 40, NAME_MAX_BYTES = 100 };

// The rest of a line.
typedef struct span {
    const char *at, *end;
} span;

typedef enum list_kind { PLACE, VERSIONS, SLOTS, N_LISTS } list_kind;

typedef struct parser {
    const char *name; // of the text
    int64_t line;
    tt_pipe sizes;
    char schedule[NAME_MAX_BYTES + 1];
    bool is_filled; // the line `fill`
    struct {
        span text;
        int64_t line; // 0: not there
    } list[N_LISTS];
    tt_pipe *p;    // from the first rank on
    int32_t rank;  // -1: none yet
    bool has_slot; // some row has one
} parser;

// A sentence about a word of the text.
static tt_status wrong(const parser *k, span word, const char *what)
{
    char shown[WORD_SHOWN + 1];
    int n = 0;
    for (const char *c = word.at; c < word.end && n < WORD_SHOWN; c++)
        shown[n++] = *c >= ' ' && *c <= '~' ? *c : '?';
    shown[n] = '\0';
    return tt_fail(TT_ERR_ARG, "%s:%lld: \"%s\": %s", k->name,
                   (long long)k->line, shown, what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

// Takes the next word off a line; false: there is none.
static bool next_word(span *rest, span *word)
{
    while (rest->at < rest->end && is_blank(*rest->at))
        rest->at++;
    word->at = rest->at;
    while (rest->at < rest->end && !is_blank(*rest->at))
        rest->at++;
    word->end = rest->at;
    return word->at < word->end;
}

static bool is_word(span word, const char *text)
{
    const size_t n = strlen(text);
    return (size_t)(word.end - word.at) == n && memcmp(word.at, text, n) == 0;
}

// Takes digits off a word; false: there are none, or too many.
static bool take_number(span *word, int32_t *out)
{
    int64_t n = 0;
    const char *begin = word->at;
    while (word->at < word->end && *word->at >= '0' && *word->at <= '9') {
        n = 10 * n + (*word->at++ - '0');
        if (n > INT32_MAX)
            return false;
    }
    *out = (int32_t)n;
    return word->at > begin;
}

static bool take_sign(span *word, char sign)
{
    if (word->at == word->end || *word->at != sign)
        return false;
    word->at++;
    return true;
}

// ---- lines of the head ---------------------------------------------------

static tt_status read_number(const parser *k, span *rest, int32_t *out)
{
    span word, all;
    if (!next_word(rest, &word))
        return wrong(k, word, "a number is missing here");
    all = word;
    if (!take_number(&word, out) || word.at != word.end)
        return wrong(k, all, "not a whole number");
    return TT_OK;
}

static tt_status read_name(parser *k, span *rest)
{
    span word;
    if (!next_word(rest, &word))
        return wrong(k, word, "the schedule's name is missing");
    if (word.end - word.at > NAME_MAX_BYTES)
        return wrong(k, word, "the name is too long");
    for (const char *c = word.at; c < word.end; c++)
        if (*c <= ' ' || *c > '~')
            return wrong(k, word, "a name has plain characters only");
    memcpy(k->schedule, word.at, (size_t)(word.end - word.at));
    k->schedule[word.end - word.at] = '\0';
    return TT_OK;
}

static tt_status read_rule(parser *k, span *rest)
{
    span word;
    if (next_word(rest, &word))
        for (int i = 0; i < TT_N_PIPE_RULES; i++)
            if (is_word(word, tt_pipe_rule_name((tt_pipe_rule)i))) {
                k->sizes.rule = (tt_pipe_rule)i;
                return TT_OK;
            }
    return wrong(k, word, "a rule is flush, stash, double or predict");
}

static const char *const list_names[N_LISTS] = {
    [PLACE] = "place",
    [VERSIONS] = "versions",
    [SLOTS] = "slots",
};

// A line `word number`, if it is one: where its number goes.
static int32_t *find_size(parser *k, span word)
{
    const struct {
        const char *name;
        int32_t *at;
    } sizes[] = {
        {"ranks", &k->sizes.n_ranks},   {"chunks", &k->sizes.n_chunks},
        {"copies", &k->sizes.n_copies}, {"micro", &k->sizes.n_micro},
        {"steps", &k->sizes.n_steps},   {"bound", &k->sizes.bound},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (is_word(word, sizes[i].name))
            return sizes[i].at;
    return NULL;
}

static tt_status end_line(const parser *k, span *rest)
{
    span word;
    return next_word(rest, &word) ? wrong(k, word, "the line should end here")
                                  : TT_OK;
}

static tt_status read_head(parser *k, span word, span *rest)
{
    int32_t *size = find_size(k, word);
    for (int i = 0; i < N_LISTS; i++)
        if (is_word(word, list_names[i])) {
            k->list[i].text = *rest;
            k->list[i].line = k->line;
            return TT_OK;
        }
    if (size != NULL)
        TT_TRY(read_number(k, rest, size));
    else if (is_word(word, "schedule"))
        TT_TRY(read_name(k, rest));
    else if (is_word(word, "rule"))
        TT_TRY(read_rule(k, rest));
    else if (is_word(word, "fill"))
        k->is_filled = true;
    else
        return wrong(k, word,
                     "not known here; a table begins with schedule, ranks, "
                     "chunks and micro, then come the ranks");
    return end_line(k, rest);
}

// ---- the table -----------------------------------------------------------

static tt_status read_list(parser *k, list_kind kind, int32_t *out)
{
    const int64_t n = (int64_t)k->p->n_copies * k->p->n_chunks;
    const int64_t line = k->line;
    span rest = k->list[kind].text;
    k->line = k->list[kind].line;
    for (int64_t i = 0; i < n; i++)
        TT_TRY(read_number(k, &rest, &out[i]));
    TT_TRY(end_line(k, &rest));
    k->line = line;
    return TT_OK;
}

static tt_status read_lists(parser *k)
{
    tt_pipe *p = k->p;
    for (int32_t i = 0; i < p->n_copies * p->n_chunks; i++) {
        const int32_t r = i % p->n_chunks % p->n_ranks;
        p->place[i] = i < p->n_chunks ? r : p->n_ranks - 1 - r;
        p->n_versions[i] = 1;
    }
    if (k->list[PLACE].line > 0)
        TT_TRY(read_list(k, PLACE, p->place));
    if (k->list[VERSIONS].line > 0)
        TT_TRY(read_list(k, VERSIONS, p->n_versions));
    if (k->list[SLOTS].line > 0)
        TT_TRY(read_list(k, SLOTS, p->n_slots));
    return TT_OK;
}

static tt_status begin_table(parser *k)
{
    k->sizes.name = k->schedule;
    const tt_status status = tt__pipe_new(&k->sizes, &k->p);
    if (status != TT_OK)
        return status == TT_ERR_ARG
                   ? tt_fail_context(status, "%s:%lld: above this line",
                                     k->name, (long long)k->line)
                   : status;
    return read_lists(k);
}

static tt_status read_rank(parser *k, span *rest)
{
    const span all = *rest;
    if (k->p == NULL)
        TT_TRY(begin_table(k));
    TT_TRY(read_number(k, rest, &k->rank));
    if (k->rank >= k->p->n_ranks)
        return wrong(k, all, "there is no such rank");
    if (k->p->rank[k->rank].n > 0)
        return wrong(k, all, "this rank has its rows already");
    return end_line(k, rest);
}

// ---- rows ----------------------------------------------------------------

static bool find_phase(char letter, tt_pipe_phase *phase)
{
    static const char letters[] = "FBIWU"; // in the order of tt_pipe_phase
    const char *at = letter != '\0' ? strchr(letters, letter) : NULL;
    if (at == NULL)
        return false;
    *phase = (tt_pipe_phase)(at - letters);
    return true;
}

static tt_status read_row(parser *k, span word)
{
    const span all = word;
    tt_pipe_row row = {.slot = -1};
    if (!find_phase(*word.at, &row.phase))
        return wrong(k, all, "a row begins with F, B, I, W or U");
    word.at++;
    if (!take_number(&word, &row.chunk))
        return wrong(k, all, "the chunk's number is missing");
    row.copy = take_sign(&word, '\'');
    if (!take_sign(&word, '.') || !take_number(&word, &row.micro))
        return wrong(k, all, "a row is like F3.5: chunk, point, micro-batch");
    if (take_sign(&word, ':')) {
        if (!take_number(&word, &row.slot))
            return wrong(k, all, "the slot's number is missing");
        k->has_slot = true;
    }
    if (take_sign(&word, '@') && !take_number(&word, &row.version))
        return wrong(k, all, "the version's number is missing");
    if (take_sign(&word, '+') && !take_number(&word, &row.ahead))
        return wrong(k, all, "the number of updates ahead is missing");
    row.is_first = take_sign(&word, '<');
    row.is_last = take_sign(&word, '>');
    if (word.at != word.end)
        return wrong(k, all, "a row is like F3.5:0@1+2<>, in this order");
    if (row.chunk >= k->p->n_chunks)
        return wrong(k, all, "there is no such chunk");
    return tt__pipe_add_row(k->p, k->rank, &row);
}

static tt_status read_line(parser *k, span rest)
{
    span word;
    const char *comment = memchr(rest.at, '#', (size_t)(rest.end - rest.at));
    if (comment != NULL)
        rest.end = comment;
    if (!next_word(&rest, &word))
        return TT_OK;
    if (is_word(word, "rank"))
        return read_rank(k, &rest);
    if (k->p == NULL)
        return read_head(k, word, &rest);
    do
        TT_TRY(read_row(k, word));
    while (next_word(&rest, &word));
    return TT_OK;
}

// Slots that no line gave: as many as rows name.
static void count_slots(tt_pipe *p)
{
    for (int32_t r = 0; r < p->n_ranks; r++)
        for (int32_t i = 0; i < p->rank[r].n; i++) {
            const tt_pipe_row *row = &p->rank[r].row[i];
            if (row->copy >= p->n_copies)
                continue;
            int32_t *n = &p->n_slots[tt_pipe_at(p, row->copy, row->chunk)];
            if (row->slot >= *n)
                *n = row->slot < INT32_MAX ? row->slot + 1 : INT32_MAX;
        }
}

static tt_status parse(parser *k, const char *text, int64_t n)
{
    const span all = {text, text + n};
    for (const char *at = text; at < all.end;) {
        const char *end = memchr(at, '\n', (size_t)(all.end - at));
        end = end != NULL ? end : all.end;
        k->line++;
        TT_TRY(read_line(k, (span){at, end}));
        at = end + 1;
    }
    if (k->p == NULL)
        return tt_fail(TT_ERR_ARG, "%s: there is no line `rank 0` with rows",
                       k->name);
    if (k->is_filled && k->has_slot)
        return tt_fail(TT_ERR_ARG,
                       "%s: the table has the line `fill`, but rows with "
                       "slots; leave out one of them",
                       k->name);
    if (k->is_filled) {
        const tt_status status = tt__pipe_finish(k->p);
        return status == TT_ERR_ARG ? tt_fail_context(status, "%s", k->name)
                                    : status;
    }
    if (k->list[SLOTS].line == 0)
        count_slots(k->p);
    return TT_OK;
}

tt_status tt_pipe_parse(const char *text, int64_t n, const char *name,
                        tt_pipe **pipe_out)
{
    parser *k = tt_alloc(sizeof(*k));
    if (k == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to read %s", name);
    k->name = name;
    k->rank = -1;
    k->sizes.n_copies = k->sizes.n_steps = 1;
    memcpy(k->schedule, "own", sizeof("own"));
    const tt_status status =
        n > 0 ? parse(k, text, n) : tt_fail(TT_ERR_ARG, "%s is empty", name);
    if (status == TT_OK)
        *pipe_out = k->p;
    else
        tt_pipe_destroy(k->p);
    tt_free(k);
    return status;
}

tt_status tt_pipe_read(const char *path, tt_pipe **pipe_out)
{
    tt_str text = {0};
    tt_status status = tt_file_read(path, FILE_MAX, &text);
    if (status == TT_OK)
        status = tt_pipe_parse(tt_str_text(&text), text.n, path, pipe_out);
    tt_str_fini(&text);
    return status;
}
