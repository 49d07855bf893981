// port_config - the config.json that transformers' from_pretrained reads.

#include "base/json.h"
#include "train/port.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A setting of the model, and what the file calls it.
typedef struct key {
    const char *setting, *json;
} key;

typedef struct form {
    const char *model, *type, *architecture;
    const key *keys;
    void (*print_rest)(const tt_port_model *m, tt_json *json);
} form;

static double value_of(const tt_port_model *m, const char *setting)
{
    tt_str text = {0};
    const tt_opt *opt = tt_opt_find(m->job->model->options, setting);
    tt_opt_print_value(opt, m->job->model_params, &text);
    const double value = strcmp(tt_str_text(&text), "true") == 0
                             ? 1
                             : strtod(tt_str_text(&text), NULL);
    tt_str_fini(&text);
    return value;
}

static void print_keys(const tt_port_model *m, const key *keys, tt_json *json)
{
    for (; keys->json != NULL; keys++) {
        const tt_opt *opt = tt_opt_find(m->job->model->options, keys->setting);
        const double value = value_of(m, keys->setting);
        if (opt->type == TT_OPT_F64)
            tt_json_f64(json, keys->json, value);
        else if (opt->type == TT_OPT_BOOL)
            tt_json_bool(json, keys->json, value != 0);
        else
            tt_json_i64(json, keys->json, (int64_t)value);
    }
}

static void print_gpt2(const tt_port_model *m, tt_json *json)
{
    const int64_t ff = (int64_t)value_of(m, "ff");
    tt_json_str(json, "activation_function", "gelu_new");
    if (ff > 0)
        tt_json_i64(json, "n_inner", ff);
    tt_json_f64(json, "attn_pdrop", 0); // their default is not zero
    tt_json_bool(json, "tie_word_embeddings", true);
}

static void print_llama(const tt_port_model *m, tt_json *json)
{
    (void)m;
    tt_json_str(json, "hidden_act", "silu");
    tt_json_bool(json, "attention_bias", false);
    tt_json_bool(json, "mlp_bias", false);
}

static const key gpt2_keys[] = {
    {"vocab", "vocab_size"},
    {"context", "n_positions"},
    {"context", "n_ctx"},
    {"width", "n_embd"},
    {"layers", "n_layer"},
    {"heads", "n_head"},
    {"eps", "layer_norm_epsilon"},
    {"deviation", "initializer_range"},
    {"dropout", "resid_pdrop"},
    {"dropout", "embd_pdrop"},
    {0},
};

static const key llama_keys[] = {
    {"vocab", "vocab_size"},
    {"width", "hidden_size"},
    {"ff", "intermediate_size"},
    {"layers", "num_hidden_layers"},
    {"heads", "num_attention_heads"},
    {"kv_heads", "num_key_value_heads"},
    {"context", "max_position_embeddings"},
    {"eps", "rms_norm_eps"},
    {"theta", "rope_theta"},
    {"tied", "tie_word_embeddings"},
    {"deviation", "initializer_range"},
    {0},
};

static const form forms[] = {
    {"gpt", "gpt2", "GPT2LMHeadModel", gpt2_keys, print_gpt2},
    {"llama", "llama", "LlamaForCausalLM", llama_keys, print_llama},
};

static const char *torch_dtype(const tt_port_model *m)
{
    const char *dtype = m->n > 0 ? m->tensor[0].dtype : "F32";
    return strcmp(dtype, "BF16") == 0  ? "bfloat16"
           : strcmp(dtype, "F16") == 0 ? "float16"
           : strcmp(dtype, "F64") == 0 ? "float64"
                                       : "float32";
}

bool tt_port_config_json(const tt_port_model *model, int32_t end_token,
                         tt_str *out)
{
    for (int i = 0; i < (int)(sizeof forms / sizeof *forms); i++) {
        const form *f = &forms[i];
        if (strcmp(f->model, model->job->model->name) != 0)
            continue;
        tt_json json = {.out = out};
        tt_json_open(&json, NULL, '{');
        tt_json_open(&json, "architectures", '[');
        tt_json_str(&json, NULL, f->architecture);
        tt_json_close(&json, ']');
        tt_json_str(&json, "model_type", f->type);
        print_keys(model, f->keys, &json);
        f->print_rest(model, &json);
        const double end =
            end_token >= 0 ? (double)end_token : (double)NAN; // NaN: null
        tt_json_f64(&json, "bos_token_id", end);
        tt_json_f64(&json, "eos_token_id", end);
        tt_json_str(&json, "torch_dtype", torch_dtype(model));
        tt_json_close(&json, '}');
        tt_str_add(out, "\n");
        return true;
    }
    return false;
}
