// own_data - a source of data that is a function of this program, and the whole
// training loop on it: prefetching, evaluation and checkpoints in runs/own_data.

#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

static void need(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_error());
    exit(1);
}

enum { SIDE = 8, CLASSES = 4 };

// Waves of four directions. Any thread may ask for any image, so it depends on the
// index alone.
static tutti_status wave(void *user, int64_t index, float *pixels,
                         int32_t *label_out)
{
    static const int dx[CLASSES] = {1, 0, 1, 1}, dy[CLASSES] = {0, 1, 1, -1};
    uint32_t random = (uint32_t)index * 2654435761u;
    const int label = (int)(index % CLASSES);
    (void)user;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            random = random * 1664525u + 1013904223u;
            pixels[y * SIDE + x] =
                (float)((dx[label] * x + dy[label] * y + 8 + index / 4) / 2 %
                        2) +
                (float)(random >> 8) / (1 << 25);
        }
    *label_out = label;
    return TUTTI_OK;
}

static void show(void *user, const tutti_evaluation *evaluation)
{
    (void)user;
    printf("step %3lld  validation loss %.4f, accuracy %.2f\n",
           (long long)evaluation->step, evaluation->loss, evaluation->accuracy);
}

int main(void)
{
    static const char *const settings[][2] = {
        {"data", "waves"},        {"data.workers", "2"},  {"model", "mlp"},
        {"model.layers", "2"},    {"model.width", "64"},  {"batch", "32"},
        {"optim.lr", "3e-3"},     {"train.steps", "300"}, {"eval.every", "100"},
        {"run", "runs/own_data"},
    };
    const tutti_source waves = {.name = "waves",
                                .doc = "Waves of four directions.",
                                .kind = TUTTI_IMAGES,
                                .count = 4000,
                                .val_count = 400,
                                .classes = CLASSES,
                                .channels = 1,
                                .height = SIDE,
                                .width = SIDE,
                                .image = wave};
    const tutti_watch watch = {.evaluation = show};
    const tutti_train_options options = {.watch = &watch, .is_fresh = true};
    tutti_train_result result;
    tutti_session *s;
    need(tutti_source_register(&waves));
    need(tutti_create(&s));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        need(tutti_set(s, settings[i][0], settings[i][1]));
    need(tutti_train(s, &options, &result));
    tutti_destroy(s);
    printf("%lld steps, validation accuracy %.2f\n", (long long)result.step,
           result.val_accuracy);
    return result.val_accuracy > 0.9 ? 0 : 1;
}
