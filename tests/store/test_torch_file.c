// Files of torch.save, made here byte by byte: what is read, and that nothing is called.

#include "store/torch_file.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- an archive ----------------------------------------------------------

typedef struct bytes {
    char at[16384];
    int64_t n;
} bytes;

static void put(bytes *b, const void *from, int64_t n)
{
    CHECK(b->n + n <= (int64_t)sizeof b->at);
    memcpy(b->at + b->n, from, (size_t)n);
    b->n += n;
}

static void put_number(bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) {
        const unsigned char byte = i < 8 ? (unsigned char)(value >> 8 * i) : 0;
        put(b, &byte, 1);
    }
}

static void put_text(bytes *b, const char *text)
{
    put(b, text, (int64_t)strlen(text));
}

typedef struct entry {
    const char *name, *data;
    int64_t n;
} entry;

// Stored, not compressed; with zip64's extra fields where they are asked for.
static void archive(bytes *b, const entry *e, int n, bool is_64)
{
    int64_t local[8];
    for (int i = 0; i < n; i++) {
        local[i] = b->n;
        put_number(b, 0x04034b50, 4);
        put_number(b, 0, 14);
        put_number(b, (uint64_t)e[i].n, 4);
        put_number(b, (uint64_t)e[i].n, 4);
        put_number(b, strlen(e[i].name), 2);
        put_number(b, 3, 2); // padding, as torch has it
        put_text(b, e[i].name);
        put(b, "FB", 3);
        put(b, e[i].data, e[i].n);
    }
    const int64_t start = b->n;
    for (int i = 0; i < n; i++) {
        put_number(b, 0x02014b50, 4);
        put_number(b, 0, 16);
        put_number(b, is_64 ? UINT32_MAX : (uint64_t)e[i].n, 4);
        put_number(b, is_64 ? UINT32_MAX : (uint64_t)e[i].n, 4);
        put_number(b, strlen(e[i].name), 2);
        put_number(b, is_64 ? 28 : 0, 2);
        put_number(b, 0, 10);
        put_number(b, is_64 ? UINT32_MAX : (uint64_t)local[i], 4);
        put_text(b, e[i].name);
        if (is_64) {
            put_number(b, 1, 2);
            put_number(b, 24, 2);
            put_number(b, (uint64_t)e[i].n, 8);
            put_number(b, (uint64_t)e[i].n, 8);
            put_number(b, (uint64_t)local[i], 8);
        }
    }
    const int64_t size = b->n - start, end64 = b->n;
    if (is_64) {
        put_number(b, 0x06064b50, 4);
        put_number(b, 0, 28);
        put_number(b, (uint64_t)n, 8);
        put_number(b, (uint64_t)size, 8);
        put_number(b, (uint64_t)start, 8);
        put_number(b, 0x07064b50, 4);
        put_number(b, 0, 4);
        put_number(b, (uint64_t)end64, 8);
        put_number(b, 1, 4);
    }
    put_number(b, 0x06054b50, 4);
    put_number(b, 0, 6);
    put_number(b, is_64 ? UINT16_MAX : (uint64_t)n, 2);
    put_number(b, is_64 ? UINT32_MAX : (uint64_t)size, 4);
    put_number(b, is_64 ? UINT32_MAX : (uint64_t)start, 4);
    put_number(b, 0, 2);
}

// ---- a pickle ------------------------------------------------------------

static void text(bytes *b, const char *s)
{
    put_text(b, "X");
    put_number(b, strlen(s), 4);
    put_text(b, s);
}

static void tuple(bytes *b, const int64_t *v, int n)
{
    put_text(b, "(");
    for (int i = 0; i < n; i++) {
        put_text(b, "J");
        put_number(b, (uint64_t)v[i], 4);
    }
    put_text(b, "t");
}

typedef struct tensor {
    const char *storage, *key;
    int64_t elements, offset;
    int ndim;
    int64_t size[3], stride[3];
} tensor;

static void put_tensor(bytes *b, const tensor *t)
{
    put_text(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    text(b, "storage");
    put_text(b, "ctorch\n");
    put_text(b, t->storage);
    put_text(b, "\n");
    text(b, t->key);
    text(b, "cpu");
    put_text(b, "J");
    put_number(b, (uint64_t)t->elements, 4);
    put_text(b, "tQJ");
    put_number(b, (uint64_t)t->offset, 4);
    tuple(b, t->size, t->ndim);
    tuple(b, t->stride, t->ndim);
    put_text(b, "\x89"
                "ccollections\nOrderedDict\n)RtR");
}

static const float numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};

static tt_status read_file(const bytes *pickle, bool is_64, bytes *out,
                           tt_torch_file **file)
{
    const entry e[] = {
        {"archive/data.pkl", pickle->at, pickle->n},
        {"archive/byteorder", "little", 6},
        {"archive/data/0", (const char *)numbers, (int64_t)sizeof numbers}};
    out->n = 0;
    archive(out, e, 3, is_64);
    return tt_torch_file_read(out->at, out->n, "x.pt", file);
}

static const tensor plain = {"FloatStorage", "0", 8, 0, 2, {2, 4}, {4, 1}};
static const tensor turned = {"FloatStorage", "0", 8, 2, 2, {3, 2}, {1, 3}};

static void begin(bytes *b)
{
    b->n = 0;
    put(b, "\x80\x02}q\0(", 6);
}

static void end(bytes *b)
{
    put_text(b, "u.");
}

TEST(torch_files_are_dictionaries_of_tensors)
{
    static bytes pickle, whole;
    for (int i = 0; i < 2; i++) {
        tt_torch_file *file = NULL;
        begin(&pickle);
        text(&pickle, "a.weight");
        put_tensor(&pickle, &plain);
        text(&pickle, "epoch");
        put(&pickle, "K\x07", 2);
        text(&pickle, "b.weight");
        put_tensor(&pickle, &turned);
        end(&pickle);
        CHECK_OK(read_file(&pickle, i == 1, &whole, &file));
        CHECK(file->n == 2);
        const tt_safetensor *a = &file->tensor[0], *b = &file->tensor[1];
        CHECK(strcmp(a->name, "a.weight") == 0 && strcmp(a->dtype, "F32") == 0);
        CHECK(a->ndim == 2 && a->shape[0] == 2 && a->shape[1] == 4);
        CHECK(a->bytes == 32 && memcmp(a->data, numbers, 32) == 0);
        CHECK(strcmp(b->name, "b.weight") == 0 && b->bytes == 24);
        CHECK(memcmp(b->data, (const float[]){2, 5, 3, 6, 4, 7}, 24) == 0);
        tt_torch_file_close(file);
    }
}

// {"state_dict": OrderedDict, "args": an object that calls system}
TEST(torch_files_call_nothing)
{
    static bytes pickle, whole;
    tt_torch_file *file = NULL;
    begin(&pickle);
    text(&pickle, "args");
    put_text(&pickle, "cposix\nsystem\n(");
    text(&pickle, "touch /tmp/tutti-was-called");
    put_text(&pickle, "tR");
    text(&pickle, "state_dict");
    put_text(&pickle, "ccollections\nOrderedDict\n)R(");
    text(&pickle, "w");
    put_tensor(&pickle, &plain);
    put_text(&pickle, "u}b"); // attributes of the dictionary
    end(&pickle);
    CHECK_OK(read_file(&pickle, false, &whole, &file));
    CHECK(file->n == 1 && strcmp(file->tensor[0].name, "w") == 0);
    tt_torch_file_close(file);
    CHECK(access("/tmp/tutti-was-called", F_OK) != 0);
}

static void refused(const bytes *pickle, const char *why)
{
    static bytes whole;
    tt_torch_file *file = NULL;
    CHECK(read_file(pickle, false, &whole, &file) != TT_OK);
    CHECK_MSG(strstr(tt_error_message(), why) != NULL, "\"%s\" lacks \"%s\"",
              tt_error_message(), why);
}

static void refused_tensor(tensor t, const char *why)
{
    static bytes pickle;
    begin(&pickle);
    text(&pickle, "w");
    put_tensor(&pickle, &t);
    end(&pickle);
    refused(&pickle, why);
}

TEST(torch_files_that_lie_are_refused)
{
    static bytes pickle, whole;
    tt_torch_file *file = NULL;
    tensor t = plain;
    t.offset = 1;
    refused_tensor(t, "the data of w are not there");
    t = plain;
    t.size[0] = INT32_MAX;
    t.stride[0] = INT32_MAX;
    refused_tensor(t, "the data of w are not there");
    t = plain;
    t.size[0] = 1000;
    t.stride[0] = 0;
    refused_tensor(t, "smaller tensor, repeated");
    t = plain;
    t.size[0] = -1;
    refused_tensor(t, "no shape");
    t = plain;
    t.key = "1";
    refused_tensor(t, "the data of w are not there");
    t = plain;
    t.storage = "QInt8Storage";
    refused_tensor(t, "not supported");
    // Objects, programs, nothing.
    pickle.n = 0;
    put_text(&pickle, "cmodel\nNet\n)\x81}b.");
    refused(&pickle, "save model.state_dict()");
    begin(&pickle);
    text(&pickle, "epoch");
    put(&pickle, "K\x07", 2);
    end(&pickle);
    refused(&pickle, "at the top: epoch");
    pickle.n = 0;
    put_text(&pickle, "u.");
    refused(&pickle, "damaged pickle");
    pickle.n = 0;
    put_text(&pickle, "I1\n.");
    refused(&pickle, "instruction 0x49");
    // Every beginning of a good file, and every byte of it changed.
    begin(&pickle);
    text(&pickle, "w");
    put_tensor(&pickle, &turned);
    end(&pickle);
    CHECK_OK(read_file(&pickle, false, &whole, &file));
    tt_torch_file_close(file);
    for (int64_t n = 0; n < whole.n; n++)
        CHECK(tt_torch_file_read(whole.at, n, "x.pt", &file) != TT_OK);
    for (int64_t i = 0; i < whole.n; i++) {
        const char was = whole.at[i];
        whole.at[i] = (char)(was ^ 0x55);
        file = NULL;
        if (tt_torch_file_read(whole.at, whole.n, "x.pt", &file) == TT_OK)
            tt_torch_file_close(file);
        whole.at[i] = was;
    }
    CHECK(tt_torch_file_read("\x80\x02\x8a\nl\xfc", 6, "x.pt", &file) != TT_OK);
    CHECK(strstr(tt_error_message(), "before 1.6") != NULL);
}
