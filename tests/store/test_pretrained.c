// config.json and tokenizer.json of Hugging Face folders.

#include "store/pretrained.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static tt_settings settings;
static tt_arena *arena;

static tt_status read_config(const char *text)
{
    if (arena != NULL)
        tt_arena_destroy(arena);
    arena = tt_arena_create();
    settings = (tt_settings){0};
    return tt_pretrained_read(text, (int64_t)strlen(text), "config.json", arena,
                              &settings);
}

static void check_setting(const char *key, const char *value)
{
    const tt_setting *s = tt_settings_find(&settings, key);
    CHECK_MSG(s != NULL && strcmp(s->value, value) == 0, "%s is %s, not %s",
              key, s != NULL ? s->value : "not set", value);
}

TEST(a_gpt2_config_gives_the_settings)
{
    CHECK_OK(read_config("{\"model_type\": \"gpt2\", \"n_layer\": 3, "
                         "\"n_embd\": 48, \"n_head\": 6, \"n_inner\": null, "
                         "\"layer_norm_epsilon\": 1e-06}"));
    check_setting("model", "gpt");
    check_setting("model.layers", "3");
    check_setting("model.width", "48");
    check_setting("model.heads", "6");
    check_setting("model.vocab", "50257");
    check_setting("model.context", "1024");
    check_setting("model.ff", "0");
    check_setting("model.eps", "1e-06");
    CHECK(tt_settings_find(&settings, "precision") == NULL);
}

TEST(a_llama_config_gives_the_settings)
{
    CHECK_OK(read_config(
        "{\"model_type\": \"llama\", \"hidden_size\": 64, "
        "\"num_attention_heads\": 8, \"intermediate_size\": 100, "
        "\"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": "
        "\"default\"}, \"tie_word_embeddings\": true, \"head_dim\": 8, "
        "\"dtype\": \"bfloat16\", \"rope_scaling\": null}"));
    check_setting("model", "llama");
    check_setting("model.kv_heads", "8");
    check_setting("model.theta", "500000");
    check_setting("model.tied", "true");
    check_setting("model.eps", "1e-06");
    check_setting("precision", "bf16");
}

static void check_unset(const char *key)
{
    CHECK_MSG(tt_settings_find(&settings, key) == NULL, "%s is set", key);
}

TEST(configs_like_llamas_give_the_settings)
{
    CHECK_OK(read_config(
        "{\"model_type\": \"llama\", \"head_dim\": 100, \"attention_bias\": "
        "true, \"mlp_bias\": true, \"rope_theta\": 5e5, \"rope_scaling\": "
        "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": "
        "1.0, "
        "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": "
        "8192}}"));
    check_setting("model.head", "100");
    check_setting("model.qkv_bias", "true");
    check_setting("model.out_bias", "true");
    check_setting("model.mlp_bias", "true");
    check_setting("model.theta", "500000");
    check_setting("model.rope", "llama3");
    check_setting("model.rope_factor", "8");
    check_setting("model.rope_context", "8192");
    check_setting("model.rope_high", "4");
    CHECK_OK(read_config("{\"model_type\": \"mistral\", "
                         "\"num_key_value_heads\": null}"));
    check_setting("model.window", "4096");
    check_setting("model.kv_heads", "32");
    check_setting("model.ff", "14336");
    CHECK_OK(
        read_config("{\"model_type\": \"mistral\", \"sliding_window\": null}"));
    check_unset("model.window");
    check_setting("model.kv_heads", "8");
    CHECK_OK(read_config("{\"model_type\": \"qwen2\", \"sliding_window\": "
                         "4096, \"use_sliding_window\": false}"));
    check_unset("model.window");
    check_setting("model.qkv_bias", "true");
    check_setting("model.out_bias", "false");
    check_setting("model.qk_norm", "false");
    CHECK_OK(read_config("{\"model_type\": \"qwen3\", \"sliding_window\": "
                         "4096, \"use_sliding_window\": true, "
                         "\"rope_parameters\": {\"rope_type\": \"yarn\", "
                         "\"factor\": null, \"rope_theta\": 1e6, "
                         "\"original_max_position_embeddings\": 8192, "
                         "\"mscale\": 1.0, \"mscale_all_dim\": 1.0}, "
                         "\"max_position_embeddings\": 32768}"));
    check_setting("model.window", "4096");
    check_setting("model.head", "0"); // 4096 / 32 is 128
    check_setting("model.qk_norm", "true");
    check_setting("model.qkv_bias", "false");
    check_setting("model.rope_factor", "4");
    check_setting("model.rope_amplitude", "1");
    CHECK_OK(read_config("{\"model_type\": \"mixtral\", "
                         "\"num_local_experts\": 6}"));
    check_setting("model.experts", "6");
    check_setting("model.choices", "2");
    check_setting("model.capacity", "0");
    check_setting("model.balance", "0");
    check_setting("model.theta", "1000000");
}

TEST(configs_of_other_models_are_refused)
{
    static const char *const bad[][2] = {
        {"{\"model_type\": \"t5\"}", "t5"},
        {"{}", "model_type"},
        {"[]", "model_type"},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}",
         "activation_function=relu"},
        {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": false}",
         "tie_word_embeddings=false"},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": "
         "\"dynamic\", \"factor\": 2}}",
         "rope_type=dynamic"},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": "
         "\"llama3\"}}",
         "factor"},
        {"{\"model_type\": \"qwen3\", \"rope_parameters\": "
         "{\"full_attention\": {\"rope_type\": \"default\"}}}",
         "differ between layers"},
        {"{\"model_type\": \"llama\", \"partial_rotary_factor\": 0.5}",
         "partial_rotary_factor"},
        {"{\"model_type\": \"mixtral\", \"router_jitter_noise\": 0.1}",
         "router_jitter_noise"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": \"12\"}", "n_layer"},
        {"{\"model_type\": \"llama\", \"quantization_config\": "
         "{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true}}",
         "bitsandbytes"},
        {"{\"model_type\": \"llama\", \"quantization_config\": {}}",
         "quantized"},
        {"{\"model_type\": \"llama\", \"architectures\": "
         "[\"LlamaForSequenceClassification\"]}",
         "LlamaForSequenceClassification"},
        {"{\"model_type\": \"gpt2\", \"architectures\": "
         "[\"GPT2ForTokenClassification\"]}",
         "GPT2ForTokenClassification"},
        {"{\"model_type\": \"gpt2\", \"architectures\": "
         "[\"GPT2DoubleHeadsModel\"]}",
         "GPT2DoubleHeadsModel"},
        {"{\"model_type\": ", "config.json"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(read_config(bad[i][0]) != TT_OK);
        CHECK_MSG(strstr(tt_error_message(), bad[i][1]) != NULL, "%s: %s",
                  bad[i][0], tt_error_message());
    }
}

// The ids that end a text, as text: "1 2".
static const char *ends_of(const char *text, const char *other)
{
    static char out[64];
    const char *const texts[] = {text, other};
    tt_pretrained_ids ids = {0};
    tt_arena *own = tt_arena_create();
    for (int i = 0; i < 2; i++)
        if (texts[i] != NULL)
            CHECK_OK(tt_pretrained_ends(texts[i], (int64_t)strlen(texts[i]),
                                        "config.json", own, &ids));
    out[0] = '\0';
    for (int64_t i = 0; i < ids.n; i++)
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%d",
                 i > 0 ? " " : "", ids.v[i]);
    tt_arena_destroy(own);
    return out;
}

static void check_ends(const char *text, const char *other, const char *want)
{
    const char *have = ends_of(text, other);
    CHECK_MSG(strcmp(have, want) == 0, "%s: %s, not %s", text, have, want);
}

static int32_t begin_of(const char *text)
{
    int32_t id = -7;
    tt_arena *own = tt_arena_create();
    CHECK_OK(tt_pretrained_begin(text, (int64_t)strlen(text), "tokenizer.json",
                                 own, &id));
    tt_arena_destroy(own);
    return id;
}

#define TEMPLATE                                                               \
    "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "      \
    "{\"id\": \"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\"}}], "   \
    "\"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [17]}}}"

TEST(special_tokens_of_pretrained_models)
{
    check_ends("{\"eos_token_id\": 50256}", NULL, "50256");
    check_ends("{\"eos_token_id\": [128001, 128009]}", NULL, "128001 128009");
    check_ends("{\"eos_token_id\": 2}", "{\"eos_token_id\": [5, 2, 7]}",
               "2 5 7");
    check_ends("{\"eos_token_id\": null}", "{\"eos_token_id\": 3}", "3");
    check_ends("{\"eos_token_id\": [-5, 4]}", NULL, "4");
    check_ends("{\"eos_token_id\": []}", NULL, "");
    check_ends("{}", NULL, "");
    CHECK(begin_of("{\"post_processor\": " TEMPLATE "}") == 17);
    CHECK(begin_of("{\"post_processor\": {\"type\": \"Sequence\", "
                   "\"processors\": [{\"type\": \"ByteLevel\"}, " TEMPLATE
                   "]}}") == 17);
    CHECK(begin_of("{\"post_processor\": {\"type\": \"ByteLevel\"}}") == -1);
    CHECK(begin_of("{\"post_processor\": null}") == -1);
    CHECK(begin_of("{}") == -1);
    CHECK(begin_of("{\"post_processor\": {\"type\": \"TemplateProcessing\", "
                   "\"single\": [{\"Sequence\": {\"id\": \"A\"}}]}}") == -1);
}
