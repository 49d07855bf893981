// torch_pickle - the stack machine of pickles, as far as dictionaries of tensors
// need it.
//
// Instructions push values, collect what lies above a mark into a tuple, list or
// dict, remember the top in a memo, and call functions. Nothing is ever executed: a
// call of torch's own function for tensors gives a TENSOR, OrderedDict a DICT, and
// any other call gives an ODD value that nobody uses. Memory is bounded by the
// length of the file, since every instruction adds a limited amount.

#include "store/torch_parts.h"

#include <string.h>

enum { MIN_CAPACITY = 8 };

typedef struct machine {
    const unsigned char *at, *end;
    int64_t n; // bytes in all, which bound what may be remembered
    const char *name;
    tt_arena *arena;
    tt__pickle *stack, *memo; // lists
    int64_t *mark;            // where marks lie in the stack
    int64_t n_marks, max_marks;
} machine;

static tt_status damaged(const machine *m, const char *what)
{
    return tt_fail(TT_ERR_ARG, "%s: damaged pickle: %s", m->name, what);
}

// ---- values --------------------------------------------------------------

static tt__pickle *make(machine *m, tt__pickle_type type)
{
    tt__pickle *v = tt_arena_alloc(m->arena, sizeof *v);
    if (v != NULL)
        *v = (tt__pickle){.type = type};
    return v;
}

static tt_status add(machine *m, tt__pickle *list, tt__pickle *v)
{
    if (v == NULL)
        return TT_ERR_NOMEM;
    if (list->n == list->capacity) {
        const int64_t room =
            list->capacity > 0 ? 2 * list->capacity : MIN_CAPACITY;
        tt__pickle **item =
            tt_arena_alloc(m->arena, room * (int64_t)sizeof *item);
        if (item == NULL)
            return TT_ERR_NOMEM;
        if (list->n > 0)
            memcpy(item, list->item, (size_t)list->n * sizeof *item);
        list->item = item;
        list->capacity = room;
    }
    list->item[list->n++] = v;
    return TT_OK;
}

static tt_status push(machine *m, tt__pickle *v)
{
    return add(m, m->stack, v);
}

static tt_status push_new(machine *m, tt__pickle_type type)
{
    return push(m, make(m, type));
}

static tt_status push_int(machine *m, int64_t number)
{
    tt__pickle *v = make(m, TT__PICKLE_INT);
    if (v != NULL)
        v->number = number;
    return push(m, v);
}

// NULL: there is none.
static tt__pickle *pop(machine *m)
{
    tt__pickle *s = m->stack;
    if (s->n == 0 || s->item[s->n - 1]->type == TT__PICKLE_MARK)
        return NULL;
    return s->item[--s->n];
}

static tt__pickle *top(const machine *m)
{
    const tt__pickle *s = m->stack;
    return s->n > 0 && s->item[s->n - 1]->type != TT__PICKLE_MARK
               ? s->item[s->n - 1]
               : NULL;
}

// Where the values after the last mark begin; -1: no mark.
static int64_t after_mark(const machine *m)
{
    return m->n_marks > 0 ? m->mark[m->n_marks - 1] + 1 : -1;
}

static tt_status push_mark(machine *m)
{
    if (m->n_marks == m->max_marks) {
        const int64_t room = 2 * m->max_marks + MIN_CAPACITY;
        int64_t *mark = tt_arena_alloc(m->arena, room * (int64_t)sizeof *mark);
        if (mark == NULL)
            return TT_ERR_NOMEM;
        if (m->n_marks > 0)
            memcpy(mark, m->mark, (size_t)m->n_marks * sizeof *mark);
        m->mark = mark;
        m->max_marks = room;
    }
    m->mark[m->n_marks++] = m->stack->n;
    return push_new(m, TT__PICKLE_MARK);
}

// Drops the values from `depth` on, and their marks.
static void cut(machine *m, int64_t depth)
{
    m->stack->n = depth;
    while (m->n_marks > 0 && m->mark[m->n_marks - 1] >= depth)
        m->n_marks--;
}

// ---- bytes ---------------------------------------------------------------

static bool has(const machine *m, uint64_t n)
{
    return n <= (uint64_t)(m->end - m->at);
}

static bool take(machine *m, int bytes, uint64_t *out)
{
    if (!has(m, (uint64_t)bytes))
        return false;
    *out = 0;
    for (int i = bytes; i-- > 0;)
        *out = *out << 8 | m->at[i];
    m->at += bytes;
    return true;
}

static tt_status cut_off(const machine *m)
{
    return damaged(m, "it ends in the middle");
}

static tt_status push_text(machine *m, tt__pickle_type type, int length_bytes)
{
    uint64_t n = 0;
    if (!take(m, length_bytes, &n) || !has(m, n))
        return cut_off(m);
    tt__pickle *v = make(m, type);
    char *text = tt_arena_alloc(m->arena, (int64_t)n + 1);
    if (v == NULL || text == NULL)
        return TT_ERR_NOMEM;
    memcpy(text, m->at, (size_t)n);
    text[n] = '\0';
    v->text = text;
    m->at += n;
    return push(m, v);
}

static tt_status push_number(machine *m, int bytes, bool is_signed)
{
    uint64_t n = 0;
    if (!take(m, bytes, &n))
        return cut_off(m);
    return push_int(m, is_signed ? (int64_t)(int32_t)n : (int64_t)n);
}

// A number of any length. More than 8 bytes give an ODD value.
static tt_status push_long(machine *m)
{
    uint64_t bytes = 0, value = 0;
    if (!take(m, 1, &bytes) || !has(m, bytes))
        return cut_off(m);
    const uint64_t sign =
        bytes > 0 && (m->at[bytes - 1] & 0x80) != 0 ? UINT64_MAX : 0;
    if (bytes > 8) {
        m->at += bytes;
        return push_new(m, TT__PICKLE_ODD);
    }
    value = sign;
    for (uint64_t i = bytes; i-- > 0;)
        value = value << 8 | m->at[i];
    m->at += bytes;
    return push_int(m, (int64_t)value);
}

static tt_status skip(machine *m, uint64_t n)
{
    if (!has(m, n))
        return cut_off(m);
    m->at += n;
    return TT_OK;
}

// ---- the memo ------------------------------------------------------------

static tt_status keep(machine *m, uint64_t at)
{
    tt__pickle *v = top(m);
    if (v == NULL || at > (uint64_t)m->n)
        return damaged(m, "it remembers nothing");
    while (m->memo->n <= (int64_t)at)
        TT_TRY(add(m, m->memo, v));
    m->memo->item[at] = v;
    return TT_OK;
}

static tt_status recall(machine *m, int bytes)
{
    uint64_t at = 0;
    if (!take(m, bytes, &at))
        return cut_off(m);
    if (at >= (uint64_t)m->memo->n)
        return damaged(m, "it recalls what it never had");
    return push(m, m->memo->item[at]);
}

static tt_status keep_at(machine *m, int bytes)
{
    uint64_t at = 0;
    return take(m, bytes, &at) ? keep(m, at) : cut_off(m);
}

// ---- collections ---------------------------------------------------------

static tt_status pop_tuple(machine *m, int64_t n)
{
    tt__pickle *s = m->stack, *v = make(m, TT__PICKLE_TUPLE);
    if (v == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = s->n - n; i < s->n; i++)
        TT_TRY(add(m, v, s->item[i]));
    s->n -= n;
    return push(m, v);
}

static tt_status small_tuple(machine *m, int64_t n)
{
    const int64_t from = after_mark(m) < 0 ? 0 : after_mark(m);
    return m->stack->n - from >= n ? pop_tuple(m, n)
                                   : damaged(m, "a tuple lacks values");
}

static tt_status collect(machine *m, tt__pickle_type type)
{
    const int64_t from = after_mark(m);
    if (from < 0)
        return damaged(m, "a mark is missing");
    TT_TRY(pop_tuple(m, m->stack->n - from));
    tt__pickle *v = m->stack->item[m->stack->n - 1];
    v->type = type;
    cut(m, from - 1); // the mark goes too
    return push(m, v);
}

// Adds the values after `from` to the collection before it.
// `to` is the collection's place in the stack.
static tt_status extend(machine *m, int64_t from, int64_t to)
{
    tt__pickle *s = m->stack;
    if (to < 0 || from < 0 || s->item[to]->type == TT__PICKLE_MARK)
        return damaged(m, "a collection is missing");
    tt__pickle *into = s->item[to];
    const bool is_dict = into->type == TT__PICKLE_DICT;
    if ((s->n - from) % 2 != 0 && is_dict)
        return damaged(m, "a key without value");
    if (is_dict || into->type == TT__PICKLE_LIST)
        for (int64_t i = from; i < s->n; i++)
            TT_TRY(add(m, into, s->item[i]));
    cut(m, to + 1);
    return TT_OK;
}

static tt_status extend_marked(machine *m)
{
    const int64_t from = after_mark(m);
    return extend(m, from, from - 2);
}

static tt_status extend_by(machine *m, int64_t n)
{
    const int64_t mark = after_mark(m), from = m->stack->n - n;
    return extend(m, from > (mark < 0 ? 0 : mark) ? from : -1, from - 1);
}

// ---- calls ---------------------------------------------------------------

static tt_status push_global(machine *m)
{
    const unsigned char *first = m->at;
    const unsigned char *middle = memchr(first, '\n', (size_t)(m->end - first));
    const unsigned char *last =
        middle == NULL
            ? NULL
            : memchr(middle + 1, '\n', (size_t)(m->end - middle - 1));
    tt__pickle *v = make(m, TT__PICKLE_GLOBAL);
    if (last == NULL)
        return cut_off(m);
    if (v == NULL)
        return TT_ERR_NOMEM;
    v->text = tt_arena_printf(m->arena, "%.*s %.*s", (int)(middle - first),
                              (const char *)first, (int)(last - middle - 1),
                              (const char *)middle + 1);
    m->at = last + 1;
    return v->text != NULL ? push(m, v) : TT_ERR_NOMEM;
}

static tt_status stack_global(machine *m)
{
    const tt__pickle *name = pop(m), *module = pop(m);
    tt__pickle *v = make(m, TT__PICKLE_GLOBAL);
    if (name == NULL || module == NULL || name->type != TT__PICKLE_TEXT ||
        module->type != TT__PICKLE_TEXT)
        return damaged(m, "a name is no text");
    if (v == NULL)
        return TT_ERR_NOMEM;
    v->text = tt_arena_printf(m->arena, "%s %s", module->text, name->text);
    return v->text != NULL ? push(m, v) : TT_ERR_NOMEM;
}

static bool is_global(const tt__pickle *v, const char *text)
{
    return v->type == TT__PICKLE_GLOBAL && strcmp(v->text, text) == 0;
}

// OrderedDict([[key, value], ..]); mostly it is empty and filled later.
static tt_status make_dict(machine *m, const tt__pickle *args, tt__pickle **out)
{
    *out = make(m, TT__PICKLE_DICT);
    if (*out == NULL)
        return TT_ERR_NOMEM;
    const tt__pickle *list =
        args->n > 0 && args->item[0]->type == TT__PICKLE_LIST ? args->item[0]
                                                              : NULL;
    for (int64_t i = 0; list != NULL && i < list->n; i++)
        for (int k = 0; k < 2 && list->item[i]->n == 2; k++)
            TT_TRY(add(m, *out, list->item[i]->item[k]));
    return TT_OK;
}

static tt_status reduce(machine *m)
{
    const tt__pickle *args = pop(m);
    const tt__pickle *what = pop(m);
    tt__pickle *v = NULL;
    if (args == NULL || what == NULL || args->type != TT__PICKLE_TUPLE)
        return damaged(m, "a call without arguments");
    if (is_global(what, "collections OrderedDict")) {
        TT_TRY(make_dict(m, args, &v));
    } else if (is_global(what, "torch._utils _rebuild_tensor_v2") &&
               args->n >= 4) {
        v = make(m, TT__PICKLE_TENSOR);
        for (int i = 0; v != NULL && i < 4; i++)
            TT_TRY(add(m, v, args->item[i]));
    } else if ((is_global(what, "torch._utils _rebuild_parameter") ||
                is_global(what,
                          "torch._utils _rebuild_parameter_with_state")) &&
               args->n >= 1) {
        v = args->item[0];
    } else {
        v = make(m, TT__PICKLE_ODD);
    }
    return push(m, v);
}

// BUILD: sets attributes of an object, which nobody needs here.
static tt_status build(machine *m)
{
    return pop(m) != NULL && top(m) != NULL
               ? TT_OK
               : damaged(m, "attributes without object");
}

static tt_status new_object(machine *m, int n_args)
{
    for (int i = 0; i <= n_args; i++)
        if (pop(m) == NULL)
            return damaged(m, "an object without class");
    return push_new(m, TT__PICKLE_ODD);
}

// ("storage", type, key, location, elements)
static tt_status persistent(machine *m)
{
    const tt__pickle *id = pop(m);
    tt__pickle *v = make(m, TT__PICKLE_STORAGE);
    if (id == NULL)
        return damaged(m, "a reference to nothing");
    if (v == NULL)
        return TT_ERR_NOMEM;
    const bool is_storage = id->type == TT__PICKLE_TUPLE && id->n >= 5 &&
                            id->item[0]->type == TT__PICKLE_TEXT &&
                            strcmp(id->item[0]->text, "storage") == 0 &&
                            id->item[1]->type == TT__PICKLE_GLOBAL &&
                            id->item[2]->type == TT__PICKLE_TEXT &&
                            id->item[4]->type == TT__PICKLE_INT;
    if (!is_storage) {
        v->type = TT__PICKLE_ODD;
        return push(m, v);
    }
    v->text = id->item[2]->text;
    v->number = id->item[4]->number;
    TT_TRY(add(m, v, id->item[1]));
    return push(m, v);
}

// ---- instructions --------------------------------------------------------

static tt_status pop_one(machine *m)
{
    if (m->stack->n == 0)
        return damaged(m, "the stack is empty");
    cut(m, m->stack->n - 1);
    return TT_OK;
}

static tt_status pop_marked(machine *m)
{
    const int64_t from = after_mark(m);
    if (from < 0)
        return damaged(m, "a mark is missing");
    cut(m, from - 1);
    return TT_OK;
}

static tt_status unknown(const machine *m, int code)
{
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "%s: instruction 0x%02x of its pickle is none of those that "
                   "a file of weights has; save model.state_dict(), or as "
                   "safetensors",
                   m->name, code);
}

// Numbers, texts and constants.
static tt_status push_constant(machine *m, int code)
{
    switch (code) {
    case 'N':
        return push_new(m, TT__PICKLE_NONE);
    case 0x88: // True
    case 0x89: // False
        return push_int(m, code == 0x88);
    case 'J':
        return push_number(m, 4, true);
    case 'K':
        return push_number(m, 1, false);
    case 'M':
        return push_number(m, 2, false);
    case 0x8a:
        return push_long(m);
    case 'G':
        TT_TRY(skip(m, 8));
        return push_new(m, TT__PICKLE_ODD);
    case 'X':
        return push_text(m, TT__PICKLE_TEXT, 4);
    case 0x8c:
        return push_text(m, TT__PICKLE_TEXT, 1);
    case 0x8d:
        return push_text(m, TT__PICKLE_TEXT, 8);
    case 'U':
    case 'C':
        return push_text(m, TT__PICKLE_ODD, 1);
    case 'T':
    case 'B':
        return push_text(m, TT__PICKLE_ODD, 4);
    default:
        return unknown(m, code);
    }
}

static tt_status collect_or_push(machine *m, int code)
{
    switch (code) {
    case '(':
        return push_mark(m);
    case '}':
        return push_new(m, TT__PICKLE_DICT);
    case ']':
        return push_new(m, TT__PICKLE_LIST);
    case 0x8f: // a set
        return push_new(m, TT__PICKLE_LIST);
    case ')':
        return push_new(m, TT__PICKLE_TUPLE);
    case 't':
        return collect(m, TT__PICKLE_TUPLE);
    case 'l':
        return collect(m, TT__PICKLE_LIST);
    case 0x85:
    case 0x86:
    case 0x87:
        return small_tuple(m, code - 0x84);
    case 's':
        return extend_by(m, 2);
    case 'a':
        return extend_by(m, 1);
    case 'u':
    case 'e':
    case 0x90:
        return extend_marked(m);
    default:
        return push_constant(m, code);
    }
}

static tt_status run_one(machine *m, int code)
{
    switch (code) {
    case 0x80: // which version: all of them have these instructions
        return skip(m, 1);
    case 0x95: // a frame
        return skip(m, 8);
    case 'q':
        return keep_at(m, 1);
    case 'r':
        return keep_at(m, 4);
    case 0x94:
        return keep(m, (uint64_t)m->memo->n);
    case 'h':
        return recall(m, 1);
    case 'j':
        return recall(m, 4);
    case 'c':
        return push_global(m);
    case 0x93:
        return stack_global(m);
    case 'R':
        return reduce(m);
    case 'b':
        return build(m);
    case 0x81:
        return new_object(m, 1);
    case 0x92:
        return new_object(m, 2);
    case 'Q':
        return persistent(m);
    case '0':
        return pop_one(m);
    case '1':
        return pop_marked(m);
    case '2':
        return top(m) != NULL ? push(m, top(m)) : damaged(m, "nothing to copy");
    default:
        return collect_or_push(m, code);
    }
}

tt_status tt__pickle_read(const char *bytes, int64_t n, const char *name,
                          tt_arena *arena, tt__pickle **out)
{
    machine m = {.at = (const unsigned char *)bytes,
                 .end = (const unsigned char *)bytes + n,
                 .n = n,
                 .name = name,
                 .arena = arena};
    m.stack = make(&m, TT__PICKLE_LIST);
    m.memo = make(&m, TT__PICKLE_LIST);
    if (m.stack == NULL || m.memo == NULL)
        return TT_ERR_NOMEM;
    while (m.at < m.end) {
        const int code = *m.at++;
        if (code == '.') {
            *out = pop(&m);
            return *out != NULL ? TT_OK : damaged(&m, "it describes nothing");
        }
        TT_TRY(run_one(&m, code));
    }
    return cut_off(&m);
}
