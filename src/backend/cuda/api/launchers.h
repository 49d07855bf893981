// launchers - the list of all kernels that are launched by their arguments alone. Each
// line makes a function NAME in the table of api.h, and is tt_cuda_NAME in dev/. A new
// kernel of this kind needs a line here, a struct in args_*.h, a file in dev/ and one
// in backend/cuda/ that describes sites to it.

#ifndef TT_BACKEND_CUDA_API_LAUNCHERS_H
#define TT_BACKEND_CUDA_API_LAUNCHERS_H

#define TT_CUDA_LAUNCHERS(CALL)                                                \
    CALL(copy, tt_cuda_copy_args)                                              \
    CALL(map, tt_cuda_map_args)                                                \
    CALL(broadcast, tt_cuda_broadcast_args)                                    \
    CALL(sum, tt_cuda_sum_args)                                                \
    CALL(fill_value, tt_cuda_fill_args)                                        \
    CALL(reduce, tt_cuda_reduce_args)                                          \
    CALL(total, tt_cuda_total_args)                                            \
    CALL(squares, tt_cuda_squares_args)                                        \
    CALL(clip, tt_cuda_clip_args)                                              \
    CALL(guard, tt_cuda_guard_args)                                            \
    CALL(fp8_pack, tt_cuda_fp8_pack_args)                                      \
    CALL(largest, tt_cuda_largest_args)                                        \
    CALL(fp8_units, tt_cuda_units_args)                                        \
    CALL(loss_scale, tt_cuda_loss_scale_args)                                  \
    CALL(norm, tt_cuda_norm_args)                                              \
    CALL(norm_grad_x, tt_cuda_norm_args)                                       \
    CALL(norm_grad_w, tt_cuda_norm_args)                                       \
    CALL(norm_grad, tt_cuda_norm_args)                                         \
    CALL(embed, tt_cuda_embed_args)                                            \
    CALL(embed_grad, tt_cuda_embed_args)                                       \
    CALL(position, tt_cuda_position_args)                                      \
    CALL(position_grad, tt_cuda_position_args)                                 \
    CALL(rotary, tt_cuda_rotary_args)                                          \
    CALL(softmax, tt_cuda_softmax_args)                                        \
    CALL(softmax_grad, tt_cuda_softmax_args)                                   \
    CALL(cross_entropy, tt_cuda_loss_args)                                     \
    CALL(cross_entropy_grad, tt_cuda_loss_args)                                \
    CALL(correct, tt_cuda_loss_args)                                           \
    CALL(cross_entropy_step, tt_cuda_loss_args)                                \
    CALL(attention, tt_cuda_attention_args)                                    \
    CALL(attention_grad, tt_cuda_attention_args)                               \
    CALL(optim, tt_cuda_optim_args)                                            \
    CALL(dropout, tt_cuda_dropout_args)                                        \
    CALL(turn, tt_cuda_turn_args)                                              \
    CALL(max_pool, tt_cuda_pool_args)                                          \
    CALL(max_pool_grad, tt_cuda_pool_args)                                     \
    CALL(avg_pool, tt_cuda_pool_args)                                          \
    CALL(avg_pool_grad, tt_cuda_pool_args)                                     \
    CALL(adaptive_pool, tt_cuda_pool_args)                                     \
    CALL(adaptive_pool_grad, tt_cuda_pool_args)                                \
    CALL(bn_train, tt_cuda_bn_args)                                            \
    CALL(bn_sums, tt_cuda_bn_args)                                             \
    CALL(bn_grad, tt_cuda_bn_args)                                             \
    CALL(relu_grad_bias, tt_cuda_bn_args)                                      \
    CALL(row_moment, tt_cuda_parts_args)                                       \
    CALL(rsqrt, tt_cuda_parts_args)                                            \
    CALL(norm_apply, tt_cuda_parts_args)                                       \
    CALL(norm_grad_moments, tt_cuda_parts_args)                                \
    CALL(norm_grad_apply, tt_cuda_parts_args)                                  \
    CALL(row_max, tt_cuda_parts_args)                                          \
    CALL(loss_terms, tt_cuda_parts_args)                                       \
    CALL(loss_join, tt_cuda_parts_args)                                        \
    CALL(correct_terms, tt_cuda_parts_args)                                    \
    CALL(correct_join, tt_cuda_parts_args)                                     \
    CALL(mse, tt_cuda_parts_args)                                              \
    CALL(mse_grad, tt_cuda_parts_args)                                         \
    CALL(count, tt_cuda_parts_args)                                            \
    CALL(reduce_any, tt_cuda_project_args)                                     \
    CALL(max_grad, tt_cuda_project_args)                                       \
    CALL(lstm_step, tt_cuda_lstm_args)                                         \
    CALL(lstm_back, tt_cuda_lstm_args)                                         \
    CALL(dispatch, tt_cuda_moe_args)                                           \
    CALL(combine, tt_cuda_moe_args)                                            \
    CALL(gate_grad, tt_cuda_moe_args)                                          \
    CALL(route, tt_cuda_route_args)                                            \
    CALL(route_grad, tt_cuda_route_args)                                       \
    CALL(cache_write, tt_cuda_cached_args)                                     \
    CALL(attention_cached, tt_cuda_cached_args)                                \
    CALL(attention_merge, tt_cuda_merge_args)                                  \
    CALL(quantize, tt_cuda_codec_args)                                         \
    CALL(dequantize, tt_cuda_codec_args)                                       \
    CALL(onebit, tt_cuda_codec_args)                                           \
    CALL(onebit_decode, tt_cuda_codec_args)                                    \
    CALL(topk, tt_cuda_topk_args)                                              \
    CALL(topk_decode, tt_cuda_topk_args)                                       \
    CALL(orthogonalize, tt_cuda_orthogonalize_args)                            \
    CALL(code_encode, tt_cuda_code_args)                                       \
    CALL(code_sum, tt_cuda_code_sum_args)                                      \
    CALL(pick, tt_cuda_pick_args)                                              \
    CALL(dgc, tt_cuda_dgc_args)                                                \
    CALL(list_sum, tt_cuda_list_sum_args)                                      \
    CALL(qsgd, tt_cuda_entropy_args)                                           \
    CALL(qsgd_sum, tt_cuda_entropy_sum_args)                                   \
    CALL(threelc, tt_cuda_entropy_args)                                        \
    CALL(threelc_sum, tt_cuda_entropy_sum_args)                                \
    CALL(seeds, tt_cuda_seed_args)                                             \
    CALL(narrow, tt_cuda_narrow_args)                                          \
    CALL(widen, tt_cuda_narrow_args)                                           \
    CALL(randomk_take, tt_cuda_randomk_args)                                   \
    CALL(randomk_put, tt_cuda_randomk_args)

#endif
