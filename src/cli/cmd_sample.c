// sample - text from a trained model, printed as it is generated.

#include "base/json.h"
#include "cli/command.h"
#include "cli/signals.h"
#include "cli/term.h"
#include "text/generate.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct options {
    const char *prompt;
    int64_t tokens, n;
} options;

static const tt_opt own_table[] = {
    {"prompt", "", "what the text begins with; - reads it from stdin",
     TT_OPT_STR, offsetof(options, prompt)},
    {"tokens", "200", "most tokens to write", TT_OPT_I64,
     offsetof(options, tokens), NULL, 0, 1 << 24},
    {"n", "1", "texts", TT_OPT_I64, offsetof(options, n), NULL, 1, 1 << 24},
    {0},
};

// Settings of the model that may be given here.
static const char *const model_keys[] = {"precision", "device", "threads",
                                         "seq"};
enum { N_MODEL_KEYS = sizeof model_keys / sizeof *model_keys, MAX_KEYS = 32 };

typedef struct sampling {
    options options;
    tt_sampler_options sampler;
    tt_settings model; // for the generator
    tt_str prompt;
    bool is_json, only_new, is_terminal;
    tt_str text; // the whole one, for JSON
    char last;   // the last character that was written
    bool has_begun;
} sampling;

// ---- settings ------------------------------------------------------------

static int add_names(const tt_opt *table, const char **names, int n)
{
    for (; table->name != NULL; table++)
        names[n++] = table->name;
    return n;
}

static tt_status read_options(tt_cli *cli, sampling *s)
{
    const char *known[MAX_KEYS];
    int n = add_names(own_table, known, 0);
    n = add_names(tt_sampler_option_table, known, n);
    TT_TRY(tt_opt_defaults(own_table, &s->options, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", own_table, &s->options,
                             cli->arena));
    TT_TRY(tt_opt_defaults(tt_sampler_option_table, &s->sampler, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", tt_sampler_option_table,
                             &s->sampler, cli->arena));
    for (int i = 0; i < N_MODEL_KEYS; i++) {
        known[n++] = model_keys[i];
        const tt_setting *set = tt_settings_find(&cli->settings, model_keys[i]);
        const char *value = tt_settings_get(&cli->settings, model_keys[i]);
        if (value != NULL)
            TT_TRY(tt_settings_set(&s->model, model_keys[i], value, set->origin,
                                   cli->arena));
    }
    s->model.cache = cli->settings.cache;
    return tt_settings_check_unused(&cli->settings, known, n);
}

static tt_status read_prompt(sampling *s)
{
    char bytes[4096];
    size_t n;
    if (strcmp(s->options.prompt, "-") != 0) {
        tt_str_add(&s->prompt, s->options.prompt);
        return tt_str_status(&s->prompt);
    }
    while ((n = fread(bytes, 1, sizeof bytes, stdin)) > 0)
        tt_str_add_bytes(&s->prompt, bytes, (int64_t)n);
    if (ferror(stdin))
        return tt_fail(TT_ERR_IO, "stdin: cannot read the prompt");
    return tt_str_status(&s->prompt);
}

// ---- writing -------------------------------------------------------------

static tt_status put(sampling *s, const char *text, int64_t n)
{
    if (n == 0)
        return TT_OK;
    s->last = text[n - 1];
    if (fwrite(text, 1, (size_t)n, stdout) == (size_t)n && fflush(stdout) == 0)
        return TT_OK;
    return tt_fail(TT_ERR_IO, "stdout: cannot write the text");
}

// A terminal would obey control characters, so they are replaced there. Files and
// pipes get the bytes as they are.
static tt_status put_safe(sampling *s, const char *text, int64_t n)
{
    if (s->is_json) {
        tt_str_add_bytes(&s->text, text, n);
        return tt_str_status(&s->text);
    }
    if (!s->is_terminal)
        return put(s, text, n);
    tt_str safe = {0}, copy = {0};
    tt_str_add_bytes(&copy, text, n);
    tt_term_add_foreign(tt_str_text(&copy), true, &safe);
    tt_status status = tt_str_status(&safe);
    if (status == TT_OK)
        status = put(s, tt_str_text(&safe), safe.n);
    tt_str_fini(&copy);
    tt_str_fini(&safe);
    return status;
}

// The prompt is printed once the model has accepted it, and not before an error
// message.
static tt_status begin(sampling *s)
{
    if (s->has_begun)
        return TT_OK;
    s->has_begun = true;
    return s->only_new ? TT_OK
                       : put_safe(s, tt_str_text(&s->prompt), s->prompt.n);
}

static tt_status write_text(void *user, const char *text, int64_t n)
{
    TT_TRY(begin(user));
    return put_safe(user, text, n);
}

static tt_status print_json(sampling *s, const tt_generate_result *r)
{
    tt_str out = {0};
    tt_json json = {.out = &out};
    const double rate =
        r->token_seconds > 0 ? (double)r->n_tokens / r->token_seconds : 0;
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "text", tt_str_text(&s->text));
    tt_json_i64(&json, "prompt_tokens", r->n_prompt);
    tt_json_i64(&json, "tokens", r->n_tokens);
    tt_json_bool(&json, "ended", r->is_end);
    tt_json_f64(&json, "prompt_seconds", r->prompt_seconds);
    tt_json_f64(&json, "tokens_per_second", rate);
    tt_json_close(&json, '}');
    tt_str_add(&out, "\n");
    tt_status status = tt_str_status(&out);
    if (status == TT_OK)
        status = put(s, tt_str_text(&out), out.n);
    tt_str_fini(&out);
    return status;
}

// ---- texts ---------------------------------------------------------------

static tt_status write_one(sampling *s, tt_generator *g, int64_t number)
{
    const tt_generate_request request = {
        .prompt = tt_str_text(&s->prompt),
        .n_prompt = s->prompt.n,
        .tokens = s->options.tokens,
        .sampler = s->sampler,
        .number = number,
        .write = write_text,
        .user = s,
    };
    tt_generate_result result = {0};
    tt_str_clear(&s->text);
    s->last = '\n';
    s->has_begun = false;
    if (number > 0 && !s->is_json)
        TT_TRY(put(s, "---\n", 4));
    TT_TRY(tt_generate(g, &request, &result));
    TT_TRY(begin(s));
    if (result.n_cut > 0 && number == 0)
        fprintf(stderr,
                "note: the prompt has %lld tokens; the model reads the last "
                "%lld\n",
                (long long)result.n_prompt,
                (long long)(result.n_prompt - result.n_cut));
    if (s->is_json)
        return print_json(s, &result);
    return s->last != '\n' ? put(s, "\n", 1) : TT_OK;
}

static void print_notes(const tt_str *notes)
{
    const char *line = tt_str_text(notes);
    while (*line != '\0') {
        const int n = (int)strcspn(line, "\n");
        tt_str one = {0};
        tt_str_add(&one, "note: ");
        tt_str_add_bytes(&one, line, n);
        tt_str_add(&one, "\n");
        tt_term_print_foreign(stderr, tt_str_text(&one));
        tt_str_fini(&one);
        line += n + (line[n] == '\n');
    }
}

static tt_status sample(tt_cli *cli, sampling *s)
{
    tt_generator *g = NULL;
    tt_str notes = {0};
    TT_TRY(read_options(cli, s));
    TT_TRY(read_prompt(s));
    tt_status status = tt_generator_open_files(
        cli->word[0], tt_cli_has(cli, "--best"), &s->model, &notes, &g);
    print_notes(&notes);
    tt_str_fini(&notes);
    for (int64_t i = 0; i < s->options.n && status == TT_OK; i++)
        status = write_one(s, g, i);
    tt_generator_close(g);
    return status;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    (void)exit_out;
    TT_TRY(tt_cli_need_model(cli, "which model? usage: tutti sample "
                                  "RUN|CHECKPOINT|FOLDER [prompt=TEXT]"));
    sampling s = {.is_json = tt_cli_has(cli, "--json"),
                  .only_new = tt_cli_has(cli, "--only-new"),
                  .is_terminal = isatty(STDOUT_FILENO) == 1};
    tt_signals_end_at_once("stopped; the text is not finished");
    const tt_status status = sample(cli, &s);
    tt_str_fini(&s.prompt);
    tt_str_fini(&s.text);
    return status;
}

static const tt_flag flags[] = {
    {"--best", "the checkpoint with the lowest validation loss"},
    {"--only-new", "do not repeat the prompt"},
    {"--json", "one JSON object per text, with counts and rates"},
    {0},
};

const tt_command_def tt_command_sample = {
    .name = "sample",
    .doc = "Text from a trained model.",
    .usage = "RUN|CHECKPOINT|FOLDER [prompt=TEXT] [tokens=200] "
             "[temperature=0.8] [top_k=0] [top_p=1]\n"
             "                    [seed=1] [n=1] [--best] [--only-new] "
             "[--json]",
    .detail =
        "Continues the prompt (prompt=- reads it from stdin) until `tokens` "
        "were written or the\nmodel ends the text. FOLDER may be one of "
        "Hugging Face's: GPT-2, Llama, Mistral,\nMixtral or Qwen with "
        "config.json, tokenizer.json and weights. temperature=0 takes the "
        "likeliest token\nalways; the "
        "same seed gives the same text. When the model's context is full, it "
        "goes\non from the last half of it.",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .run = run,
};
