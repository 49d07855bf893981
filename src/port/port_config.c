// port_config - writes the config.json that transformers' from_pretrained reads.
//
// The model "llama" here covers five classes of transformers (Llama, Mistral,
// Mixtral, Qwen2, Qwen3), which differ in biases, norms, windows and experts. The
// class is chosen by what the model computes. If several would do, the one that the
// weights came from is kept, so that an import and an export give the same model
// type.

#include "base/json.h"
#include "base/json_read.h"
#include "port/port.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A setting of the model, and what the file calls it.
typedef struct key {
    const char *setting, *json;
} key;

typedef struct form {
    const char *type, *architecture;
    const key *keys;
    void (*print_rest)(const tt_port_model *m, tt_json *json);
} form;

// Reads the value from the struct: printing it to a text could run out of memory.
static double value_of(const tt_port_model *m, const char *setting)
{
    const tt_opt *opt = tt_opt_find(m->job->model->options, setting);
    const char *at = (const char *)m->job->model_params + opt->offset;
    switch (opt->type) {
    case TT_OPT_F64:
        return *(const double *)(const void *)at;
    case TT_OPT_BOOL:
        return *(const bool *)(const void *)at;
    case TT_OPT_CHOICE:
        return *(const int *)(const void *)at;
    default:
        return (double)*(const int64_t *)(const void *)at;
    }
}

static void print_keys(const tt_port_model *m, const key *keys, tt_json *json)
{
    for (; keys->json != NULL; keys++) {
        const tt_opt *opt = tt_opt_find(m->job->model->options, keys->setting);
        const double value = value_of(m, keys->setting);
        if (opt->type == TT_OPT_F64)
            tt_json_real(json, keys->json, value);
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
    tt_json_real(json, "attn_pdrop", 0); // their default is not zero
    tt_json_bool(json, "tie_word_embeddings", true);
}

static bool is_on(const tt_port_model *m, const char *setting)
{
    return value_of(m, setting) != 0;
}

// Rotary scaling, if there is one, in the older form (rope_scaling), which every
// version of transformers reads.
static void print_rope(const tt_port_model *m, tt_json *json)
{
    tt_str type = {0};
    const tt_opt *opt = tt_opt_find(m->job->model->options, "rope");
    tt_opt_print_value(opt, m->job->model_params, &type);
    const char *name = tt_str_text(&type);
    const bool is_yarn = strcmp(name, "yarn") == 0;
    const double before = value_of(m, "rope_context");
    const double high = value_of(m, "rope_high");
    if (strcmp(name, "none") != 0) {
        tt_json_open(json, "rope_scaling", '{');
        tt_json_str(json, "rope_type", name);
        tt_json_real(json, "factor", value_of(m, "rope_factor"));
    }
    if (is_yarn || strcmp(name, "llama3") == 0) {
        tt_json_i64(json, "original_max_position_embeddings",
                    (int64_t)(before > 0 ? before : value_of(m, "context")));
        tt_json_real(json, is_yarn ? "beta_slow" : "low_freq_factor",
                     value_of(m, "rope_low"));
        tt_json_real(json, is_yarn ? "beta_fast" : "high_freq_factor",
                     high > 0  ? high
                     : is_yarn ? 32
                               : 4);
    }
    if (is_yarn && value_of(m, "rope_amplitude") > 0)
        tt_json_real(json, "attention_factor", value_of(m, "rope_amplitude"));
    if (strcmp(name, "none") != 0)
        tt_json_close(json, '}');
    tt_str_fini(&type);
}

static void print_llama(const tt_port_model *m, tt_json *json)
{
    const double head = value_of(m, "head");
    const int64_t window = (int64_t)value_of(m, "window");
    const double heads = value_of(m, "heads");
    tt_json_str(json, "hidden_act", "silu");
    tt_json_bool(json, "attention_bias", is_on(m, "out_bias"));
    tt_json_bool(json, "mlp_bias", is_on(m, "mlp_bias"));
    tt_json_i64(json, "head_dim",
                (int64_t)(head > 0 ? head : value_of(m, "width") / heads));
    if (window > 0) {
        tt_json_i64(json, "sliding_window", window);
        tt_json_bool(json, "use_sliding_window", true);
        tt_json_i64(json, "max_window_layers", 0);
    } else {
        tt_json_f64(json, "sliding_window", (double)NAN); // null
    }
    if (is_on(m, "experts")) {
        tt_json_i64(json, "num_local_experts", (int64_t)value_of(m, "experts"));
        tt_json_i64(json, "num_experts_per_tok",
                    (int64_t)value_of(m, "choices"));
        tt_json_bool(json, "output_router_logits", is_on(m, "balance"));
        tt_json_real(json, "router_aux_loss_coef", value_of(m, "balance"));
    }
    print_rope(m, json);
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

static const form gpt2 = {"gpt2", "GPT2LMHeadModel", gpt2_keys, print_gpt2};

static const form llamas[] = {
    {"llama", "LlamaForCausalLM", llama_keys, print_llama},
    {"mistral", "MistralForCausalLM", llama_keys, print_llama},
    {"mixtral", "MixtralForCausalLM", llama_keys, print_llama},
    {"qwen2", "Qwen2ForCausalLM", llama_keys, print_llama},
    {"qwen3", "Qwen3ForCausalLM", llama_keys, print_llama},
};
enum { LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN3, N_LLAMAS };

// Whether transformers' model of that kind computes what this one does.
static bool is_llama(const tt_port_model *m, int kind)
{
    const bool qkv = is_on(m, "qkv_bias"), out = is_on(m, "out_bias");
    const bool mlp = is_on(m, "mlp_bias"), norm = is_on(m, "qk_norm");
    const bool window = is_on(m, "window"), experts = is_on(m, "experts");
    if (experts != (kind == MIXTRAL) || norm != (kind == QWEN3))
        return false;
    switch (kind) {
    case LLAMA:
        return qkv == out && !window;
    case QWEN2:
        return qkv && !out && !mlp;
    case QWEN3:
        return qkv == out && !mlp;
    default: // MISTRAL, MIXTRAL
        return !qkv && !out && !mlp;
    }
}

// The form of this model, the one of `origin` (a model_type) if that can be.
static const form *find_form(const tt_port_model *m, const char *origin)
{
    const form *found = NULL;
    if (strcmp(m->job->model->name, "gpt") == 0)
        return is_on(m, "experts") ? NULL : &gpt2;
    if (strcmp(m->job->model->name, "llama") != 0)
        return NULL;
    for (int k = 0; k < N_LLAMAS; k++) {
        if (!is_llama(m, k))
            continue;
        if (strcmp(llamas[k].type, origin) == 0)
            return &llamas[k];
        if (found == NULL)
            found = &llamas[k];
    }
    return found;
}

static const char *torch_dtype(const tt_port_model *m)
{
    const char *dtype = m->n > 0 ? m->tensor[0].dtype : "F32";
    return strcmp(dtype, "BF16") == 0  ? "bfloat16"
           : strcmp(dtype, "F16") == 0 ? "float16"
           : strcmp(dtype, "F64") == 0 ? "float64"
                                       : "float32";
}

// ---- special tokens ------------------------------------------------------

// Copies an id or a list of ids from the original config; false: it has none.
static bool copy_ids(const tt_json_value *root, const char *name, tt_json *json)
{
    const tt_json_value *v = tt_json_get(root, name);
    if (v == NULL)
        return false;
    if (v->type != TT_JSON_ARRAY) {
        tt_json_f64(json, name, tt_json_number(v, (double)NAN)); // NaN: null
        return true;
    }
    tt_json_open(json, name, '[');
    for (const tt_json_value *e = v->first; e != NULL; e = e->next)
        tt_json_i64(json, NULL, tt_json_int(e, -1));
    tt_json_close(json, ']');
    return true;
}

static void print_tokens(const tt_json_value *before, int32_t end_token,
                         tt_json *json)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id"};
    const double end = end_token >= 0 ? (double)end_token : (double)NAN;
    for (int i = 0; i < 2; i++)
        if (!copy_ids(before, keys[i], json))
            tt_json_f64(json, keys[i], end);
    (void)copy_ids(before, "pad_token_id", json);
}

// ---- the file ------------------------------------------------------------

// Why transformers has no such model.
static tt_status refuse(const tt_port_model *m)
{
    const char *name = m->job->model->name;
    if (strcmp(name, "gpt") == 0)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "transformers has no GPT-2 with experts "
                       "(model.experts=%lld); model=llama with model.experts "
                       "is Mixtral and can be exported",
                       (long long)value_of(m, "experts"));
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "transformers has no model that combines these settings of "
                   "%s: qkv_bias, out_bias, mlp_bias, qk_norm, window, experts",
                   name);
}

static bool is_language_model(const tt_port_model *m)
{
    return strcmp(m->job->model->name, "gpt") == 0 ||
           strcmp(m->job->model->name, "llama") == 0;
}

static void print_config(const tt_port_model *m, const form *f,
                         const tt_json_value *before, int32_t end_token,
                         tt_str *out)
{
    tt_json json = {.out = out};
    tt_json_open(&json, NULL, '{');
    tt_json_open(&json, "architectures", '[');
    tt_json_str(&json, NULL, f->architecture);
    tt_json_close(&json, ']');
    tt_json_str(&json, "model_type", f->type);
    print_keys(m, f->keys, &json);
    f->print_rest(m, &json);
    print_tokens(before, end_token, &json);
    tt_json_str(&json, "torch_dtype", torch_dtype(m));
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
}

tt_status tt_port_config_json(const tt_port_model *model,
                              const tt_origin *origin, int32_t end_token,
                              tt_str *out)
{
    const tt_origin_file *file = tt_origin_find(origin, "config.json");
    const tt_json_value *before = NULL;
    if (!is_language_model(model))
        return TT_OK;
    if (file != NULL)
        TT_TRY(tt_json_read(file->text, file->n, file->name, model->arena,
                            &before));
    const form *f =
        find_form(model, tt_json_text(tt_json_get(before, "model_type"), ""));
    if (f == NULL)
        return refuse(model);
    print_config(model, f, before, end_token, out);
    return tt_str_status(out);
}

// With a limited capacity an expert drops tokens. Mixtral in transformers never
// does.
void tt_port_note_config(const tt_port_model *model, tt_str *notes)
{
    if (!is_language_model(model) || !is_on(model, "experts"))
        return;
    const double capacity = value_of(model, "capacity");
    if (capacity == 0 ||
        capacity * value_of(model, "choices") >= value_of(model, "experts"))
        return;
    tt_str_addf(notes,
                "transformers' Mixtral gives every token to its experts, while "
                "model.capacity=%g left out what an expert had no room for: "
                "its numbers will differ where that happened\n",
                capacity);
}
