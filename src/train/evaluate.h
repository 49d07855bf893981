// evaluate - the mean loss and accuracy of a model over a split.
//
// Over all of it every sample counts once, the last short batch included; over
// some batches they are the same ones every time.

#ifndef TT_TRAIN_EVALUATE_H
#define TT_TRAIN_EVALUATE_H

#include "job/infer.h"
#include "train/loop.h"

typedef struct tt_evaluator tt_evaluator;

// On data.val. The session must outlive it.
tt_status tt_evaluator_open(tt_session *session, tt_evaluator **evaluator_out);
void tt_evaluator_close(tt_evaluator *evaluator); // NULL is fine

tt_inference *
tt_evaluator_infer(const tt_evaluator *evaluator); // to sync or load

// How far an evaluation is that takes long: told every `every` seconds, with what is left
// in words. From the thread that evaluates.
typedef void tt_evaluator_tell_fn(void *user, const char *text);
void tt_evaluator_tell(tt_evaluator *evaluator, double every,
                       tt_evaluator_tell_fn *tell, void *user);

// `stop` as in tt_train_request: when it was set before the end on any rank, all
// are told and there is no score.
tt_status tt_evaluator_run(tt_evaluator *evaluator,
                           const volatile sig_atomic_t *stop,
                           tt_score *score_out, bool *is_stopped_out);

#endif
