// write_text - trains a small language model on a text of its own, opens the run in
// a second session, and lets it write; looks at tokens and logits on the way.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

static void need(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_error());
    exit(1);
}

static void write_corpus(const char *path)
{
    static const char *const who[] = {"the cat", "a dog", "the old fox"};
    static const char *const what[] = {"sat on the mat", "ran home",
                                       "slept all day"};
    FILE *f = fopen(path, "w");
    if (f == NULL)
        exit(1);
    for (int i = 0; i < 2000; i++)
        fprintf(f, "%s %s.\n", who[i % 3], what[i / 3 * 7 % 3]);
    fclose(f);
}

static void train(void)
{
    static const char *const settings[][2] = {
        {"model", "gpt"},
        {"model.layers", "2"},
        {"model.width", "32"},
        {"model.heads", "4"},
        {"seq", "32"},
        {"batch", "16"},
        {"data", "text"},
        {"data.path", "corpus.txt"},
        {"data.tokenizer", "bytes"},
        {"optim.lr", "0.005"},
        {"train.steps", "150"},
        {"run", "runs/text"},
    };
    const tutti_train_options options = {.is_fresh = false};
    tutti_session *s;
    tutti_train_result result;
    need(tutti_create(&s));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        need(tutti_set(s, settings[i][0], settings[i][1]));
    need(tutti_train(s, &options, &result));
    printf("%lld steps, validation loss %.2f\n", (long long)result.step,
           result.val_loss);
    tutti_destroy(s);
}

static void print(void *user, const char *text)
{
    (void)user;
    fputs(text, stdout);
}

// The likeliest byte after "the c", by the logits of the last position.
static void look(tutti_session *s)
{
    static const char prompt[] = "the c";
    tutti_types types;
    int64_t n = 0;
    need(tutti_get_types(s, &types));
    int32_t *x = calloc((size_t)types.x.count, sizeof *x);
    float *logits = calloc((size_t)types.logits.count, sizeof *logits);
    if (x == NULL || logits == NULL)
        exit(1);
    need(tutti_encode(s, prompt, -1, x, types.x.count, &n));
    const tutti_forward_args args = {
        .x = x,
        .x_bytes = types.x.count * (int64_t)sizeof *x,
        .logits = logits,
        .logits_bytes = types.logits.count * (int64_t)sizeof *logits};
    need(tutti_forward(s, &args, NULL));
    const int64_t classes = types.logits.dim[types.logits.ndim - 1];
    const float *row = logits + (n - 1) * classes;
    int32_t best = 0;
    for (int32_t c = 1; c < classes; c++)
        if (row[c] > row[best])
            best = c;
    printf("after \"%s\" comes \"", prompt);
    need(tutti_decode(s, &best, 1, print, NULL));
    printf("\"\n");
    free(x);
    free(logits);
}

int main(void)
{
    const tutti_generate_options options = {
        .prompt = "the ", .tokens = 60, .temperature = 0.5, .seed = 1};
    tutti_session *s;
    tutti_evaluation score;
    write_corpus("corpus.txt");
    train();
    need(tutti_create(&s));
    need(tutti_open(s, "runs/text"));
    need(tutti_evaluate(s, &score));
    printf("opened again: validation loss %.2f\n", score.loss);
    look(s);
    printf("%s", options.prompt);
    need(tutti_generate(s, &options, print, NULL, NULL));
    printf("\n");
    tutti_destroy(s);
    return 0;
}
