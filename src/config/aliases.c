// aliases - the words of other programs (PyTorch, DeepSpeed, Megatron,
// transformers, ...) and what they are called here. They are not accepted as
// settings, only used in the error message: one name for a thing keeps
// configurations readable.

#include "config/aliases.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { WORD = 64 };

// Our key, and the words that mean it, separated by blanks.
static const struct {
    const char *meant, *words;
} keys[] = {
    {"mesh.data", "dp ddp data_parallel data_parallel_size "
                  "data_parallel_degree replicas num_replicas dp_size "
                  "dp_degree data_parallel_replicate_degree"},
    {"mesh.tensor", "tp tensor_parallel tensor_parallel_size "
                    "tensor_parallel_degree tensor_model_parallel_size "
                    "model_parallel model_parallel_size tp_size tp_degree "
                    "megatron"},
    {"mesh.pipe", "pp pipeline pipeline_parallel pipeline_parallel_size "
                  "pipeline_parallel_degree pipeline_model_parallel_size "
                  "pp_size"},
    {"mesh.context", "cp context_parallel context_parallel_size "
                     "context_parallel_degree cp_size ring_attention"},
    {"mesh.expert", "ep expert_parallel expert_parallel_size "
                    "expert_parallel_degree expert_model_parallel_size ep_size "
                    "moe_parallel"},
    {"mesh.space", "spatial spatial_parallel"},
    {"layout.seq=tensor", "sp sequence_parallel"},
    {"mesh.context=N layout.attention=all_to_all",
     "ulysses ulysses_parallel sequence_parallel_size"},
    {"zero=3", "fsdp fsdp2 full_shard hsdp zero3 zero_3 "
               "data_parallel_shard_degree"},
    {"zero=2", "shard_grad_op zero2 zero_2"},
    {"zero=1", "zero1 zero_1 distributed_optimizer "
               "use_distributed_optimizer"},
    {"zero", "zero_stage zero_optimization stage"},
    {"-n N", "n ranks nranks n_ranks num_ranks np nproc nproc_per_node "
             "num_processes world_size num_gpus n_gpus"},
    {"optim.lr", "lr learning_rate learningrate base_lr max_lr peak_lr "
                 "alpha_lr"},
    {"optim.final", "min_lr lr_min end_lr final_lr min_learning_rate"},
    {"optim.schedule", "scheduler schedule lr_scheduler lr_scheduler_type "
                       "lr_schedule lr_decay_style decay_lr"},
    {"optim.warmup", "warmup warm_up warmup_steps warmup_iters lr_warmup_iters "
                     "lr_warmup_steps num_warmup_steps"},
    {"optim.weight_decay", "weight_decay wd l2"},
    {"exchange.optim", "outer outer_optimizer outer_optimiser"},
    {"optim", "optimizer optimiser opt optimizer_type optimizer_name"},
    {"optim.momentum", "momentum"},
    {"optim.beta1", "beta1 betas adam_beta1"},
    {"optim.beta2", "beta2 adam_beta2"},
    {"optim.eps", "epsilon adam_epsilon adam_eps"},
    {"optim.clip", "clip grad_clip clip_grad gradient_clip gradient_clipping "
                   "gradient_clip_val max_grad_norm clip_norm clip_grad_norm "
                   "grad_norm_clip"},
    {"batch", "batch_size batchsize bs global_batch_size "
              "train_batch_size total_batch_size"},
    {"micro", "micro_batch micro_batch_size microbatch mbs "
              "per_device_train_batch_size device_batch_size "
              "train_micro_batch_size_per_gpu"},
    {"accumulate", "gradient_accumulation_steps gradient_accumulation "
                   "grad_accum grad_acc accum accum_steps accumulation "
                   "accumulation_steps grad_accumulation_steps "
                   "accumulate_grad_batches"},
    {"train.steps", "steps max_steps num_steps total_steps training_steps "
                    "iters iterations max_iters num_iterations train_iters "
                    "n_steps"},
    {"train.epochs", "epoch epochs num_epochs n_epochs max_epochs "
                     "num_train_epochs"},
    {"train.patience", "patience early_stopping early_stop "
                       "early_stopping_patience"},
    {"train.ema", "ema ema_decay"},
    {"train.freeze", "freeze frozen"},
    {"eval.every", "eval_every eval_interval eval_steps evaluation_interval "
                   "val_every val_interval val_check_interval "
                   "validation_steps"},
    {"eval.batches", "eval_iters eval_batches val_batches limit_val_batches"},
    {"checkpoint.every", "save_every save_steps save_interval save_freq "
                         "checkpoint_every checkpoint_interval ckpt_every "
                         "ckpt_interval"},
    {"checkpoint.keep", "save_total_limit keep_last max_checkpoints"},
    {"log.every", "log_every log_interval logging_steps log_steps "
                  "print_every"},
    {"log.tensorboard", "tensorboard wandb report_to"},
    {"run", "output_dir out_dir outdir output run_dir run_name "
            "save_dir log_dir logdir checkpoint_dir ckpt_dir name"},
    {"init.from", "resume resume_from resume_from_checkpoint load pretrained "
                  "from_pretrained init_from finetune finetune_from "
                  "checkpoint model_name_or_path"},
    {"seq", "seq_len seq_length sequence_length max_seq_len "
            "max_seq_length seqlen"},
    {"model.context", "block_size context context_length context_size n_ctx "
                      "max_length max_position_embeddings"},
    {"model.layers", "layers n_layer n_layers num_layers num_hidden_layers"},
    {"model.heads", "heads n_head n_heads num_heads num_attention_heads nhead"},
    {"model.kv_heads", "kv_heads n_kv_heads num_kv_heads num_key_value_heads"},
    {"model.width", "n_embd n_embed d_model hidden_size embed_dim "
                    "embedding_dim dim width model_dim"},
    {"model.ff", "ff d_ff ffn ffn_dim ffn_hidden_size intermediate_size "
                 "dim_feedforward"},
    {"model.vocab", "vocab vocab_size"},
    {"model.classes", "num_classes n_classes classes num_labels"},
    {"model.dropout", "dropout drop drop_rate"},
    {"model.experts", "experts moe n_experts num_experts num_local_experts"},
    {"model", "arch architecture network net model_name model_type"},
    {"data.path", "dataset data_path data_dir datadir train_data train_file "
                  "train_path input input_file path file files"},
    {"data.val", "val_data val_file val_path validation_file eval_data "
                 "test_data"},
    {"data.holdout",
     "holdout val_split validation_split val_fraction val_ratio "
     "test_size split"},
    {"data.tokenizer", "tokenizer tokenizer_name tokenizer_path"},
    {"data.workers", "num_workers n_workers dataloader_num_workers workers"},
    {"precision", "dtype torch_dtype amp fp16 bf16 fp8 fp32 mixed_precision "
                  "half float16 bfloat16 autocast"},
    {"recompute", "gradient_checkpointing grad_checkpointing grad_checkpoint "
                  "activation_checkpointing checkpoint_activations "
                  "recompute_activations recompute_granularity remat"},
    {"offload", "cpu_offload offload_optimizer offload_params offloading"},
    {"smoothing", "label_smoothing"},
    {"seed", "random_seed manual_seed rng_seed"},
    {"device=cuda", "gpu gpus cuda use_cuda use_gpu no_cuda"},
    {"threads", "num_threads n_threads nthreads omp_num_threads cpus cores"},
    {"exact", "deterministic reproducible bitwise"},
    {"image", "img_size image_size input_size resolution"},
    {"transport", "backend dist_backend ddp_backend"},
    {"comm.deadline", "timeout ddp_timeout nccl_timeout"},
    {"loss.chunks", "chunked_loss loss_chunk_size fused_cross_entropy"},
};

static const struct {
    const char *key, *meant, *words;
} values[] = {
    {"precision", "fp32", "float32 float f32 single"},
    {"precision", "fp16", "float16 half f16"},
    {"precision", "bf16", "bfloat16 bf amp mixed auto"},
    {"precision", "fp64", "float64 double f64"},
    {"precision", "fp8", "float8 f8 e4m3 int8"},
    {"device", "cuda", "gpu gpus nvidia"},
    {"device", "cpu", "cpus host"},
    {"data", "folder", "images image imagefolder image_folder pictures"},
    {"data", "idx", "mnist fashion_mnist"},
    {"data", "tokens", "bin binary nanogpt llmc"},
    {"data", "npy", "numpy npz"},
    {"data", "text", "string strings jsonl json file"},
    {"data", "webdataset", "tar wds"},
    {"data", "synthetic", "random fake"},
    {"model", "gpt", "transformer decoder"},
    {"model", "lenet", "cnn convnet"},
    {"model", "lstm", "rnn"},
    {"optim", "momentum optim.nesterov=true", "nesterov"},
    {"optim", "momentum", "sgd_momentum sgdm"},
    {"optim.schedule", "cosine",
     "cos cosine_annealing cosineannealing cosine_with_restarts "
     "onecycle"},
    {"optim.schedule", "constant", "none fixed const"},
    {"optim.schedule", "rsqrt", "inverse_sqrt noam"},
    {"optim.schedule", "step", "multistep exponential"},
    {"optim.schedule", "linear", "poly polynomial"},
    {"recompute", "full", "true yes on 1 all"},
    {"recompute", "none", "false no off 0"},
    {"offload", "optimiser", "cpu optimizer true yes"},
    {"layout.attention", "all_to_all", "ulysses alltoall"},
};

// To lower case, with _ for -. False: too long to be one of these words.
static bool fold(const char *text, char *out)
{
    size_t n = 0;
    for (; text[n] != '\0' && n + 1 < WORD; n++)
        out[n] = text[n] == '-' ? '_' : (char)tolower((unsigned char)text[n]);
    out[n] = '\0';
    return text[n] == '\0' && n > 0;
}

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = words; (p = strstr(p, word)) != NULL; p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

static const char *find(const char *word)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (has_word(keys[i].words, word))
            return keys[i].meant;
    return NULL;
}

const char *tt_alias_key(const char *key)
{
    const char *dot = strrchr(key, '.');
    char word[WORD];
    return fold(dot != NULL ? dot + 1 : key, word) ? find(word) : NULL;
}

const char *tt_alias_value(const char *key, const char *value)
{
    char word[WORD];
    if (!fold(value, word))
        return NULL;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (strcmp(values[i].key, key) == 0 && has_word(values[i].words, word))
            return values[i].meant;
    return NULL;
}
