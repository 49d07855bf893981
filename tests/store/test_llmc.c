// Model files of llm.c: what is written is read back; matrices are turned.

#include "base/alloc.h"
#include "store/llmc.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POSITIONS = 3, VOCAB = 5, LAYERS = 2, WIDTH = 2, N_TENSORS = 28 };

static const tt_llmc_sizes sizes = {.positions = POSITIONS,
                                    .vocab = VOCAB,
                                    .layers = LAYERS,
                                    .heads = 1,
                                    .width = WIDTH};

// Tensors whose every element says which one it is.
typedef struct source {
    char name[N_TENSORS][64];
    float data[N_TENSORS][64];
    tt_safetensor tensor[N_TENSORS];
    int n;
} source;

static const tt_safetensor *find(void *user, const char *name)
{
    source *s = user;
    const struct {
        const char *end;
        int64_t count;
    } known[] = {{"wte.weight", VOCAB * WIDTH},
                 {"wpe.weight", POSITIONS * WIDTH},
                 {"c_attn.weight", 3 * WIDTH * WIDTH},
                 {"c_attn.bias", 3 * WIDTH},
                 {"attn.c_proj.weight", WIDTH * WIDTH},
                 {"c_fc.weight", 4 * WIDTH * WIDTH},
                 {"c_fc.bias", 4 * WIDTH},
                 {"mlp.c_proj.weight", 4 * WIDTH * WIDTH}};
    int64_t count = WIDTH;
    for (int i = 0; i < 8; i++)
        if (strlen(name) > strlen(known[i].end) &&
            strcmp(name + strlen(name) - strlen(known[i].end), known[i].end) ==
                0)
            count = known[i].count;
    CHECK(s->n < N_TENSORS);
    const int i = s->n++;
    snprintf(s->name[i], sizeof s->name[i], "%s", name);
    for (int64_t k = 0; k < count; k++)
        s->data[i][k] = (float)(100 * i + k);
    s->tensor[i] = (tt_safetensor){.name = s->name[i],
                                   .dtype = "F32",
                                   .data = s->data[i],
                                   .bytes = count * 4};
    return &s->tensor[i];
}

static char *temporary_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/tutti-llmc-%d", (int)getpid());
    return path;
}

static float at_byte(const char *path, long offset)
{
    float value = -1;
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL && fseek(f, offset, SEEK_SET) == 0 &&
          fread(&value, sizeof value, 1, f) == 1);
    fclose(f);
    return value;
}

TEST(llmc_files_are_read_back_as_they_were_written)
{
    static source s;
    const char *path = temporary_path();
    tt_llmc *file = NULL;
    CHECK_OK(tt_llmc_write(path, &sizes, find, &s));
    CHECK(s.n == N_TENSORS && tt_llmc_is(path));
    CHECK_OK(tt_llmc_read(path, &file));
    CHECK(file->n == N_TENSORS && file->sizes.vocab == VOCAB &&
          file->sizes.heads == 1 && !file->sizes.is_bf16);
    for (int i = 0; i < N_TENSORS; i++) {
        CHECK(strcmp(file->tensor[i].name, s.name[i]) == 0);
        CHECK(file->tensor[i].bytes == s.tensor[i].bytes);
        CHECK_MSG(memcmp(file->tensor[i].data, s.data[i],
                         (size_t)s.tensor[i].bytes) == 0,
                  "%s differs", s.name[i]);
    }
    tt_llmc_close(file);
    CHECK(unlink(path) == 0);
}

TEST(llmc_matrices_lie_turned_after_the_padded_vocabulary)
{
    static source s;
    const char *path = temporary_path();
    CHECK_OK(tt_llmc_write(path, &sizes, find, &s));
    const long padded = 1024 + 128 * WIDTH * 4;
    CHECK(at_byte(path, 1024) == 0 && at_byte(path, padded - 4) == 0);
    CHECK(at_byte(path, padded) == 100); // the first of the positions
    // Behind positions and the four vectors of both layers: c_attn of layer 0.
    const long attn = padded + (POSITIONS + 2 * LAYERS) * WIDTH * 4L;
    int i = 0;
    while (strcmp(s.name[i], "transformer.h.0.attn.c_attn.weight") != 0)
        i++;
    CHECK(at_byte(path, attn) == s.data[i][0]);
    CHECK(at_byte(path, attn + 4) == s.data[i][3L * WIDTH]); // row 1, column 0
    CHECK(unlink(path) == 0);
}

TEST(llmc_writing_names_what_is_missing)
{
    const tt_llmc_sizes none = {
        .positions = 1, .vocab = 1, .layers = 1, .heads = 1, .width = 1};
    static source s;
    s.n = 0;
    CHECK(tt_llmc_write("/nowhere/model.bin", &none, find, &s) == TT_ERR_IO);
    CHECK(strstr(tt_error_message(), "/nowhere/model.bin") != NULL);
}
