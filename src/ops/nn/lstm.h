// lstm - long short-term memory: the recurrence over a sequence, and one cell.
//
//   i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of the four gates, in this order
//   c = f * c_prev + i * g        h = o * tanh(c)

#ifndef TT_OPS_NN_LSTM_H
#define TT_OPS_NN_LSTM_H

#include "graph/build.h"

typedef struct tt_lstm_args {
    tt_val xg;     // [seq, batch, 4 * hidden]: x * w_ih + b_ih
    tt_val w_hh;   // [4 * hidden, hidden]
    tt_val b_hh;   // [4 * hidden] or TT_NONE
    tt_val h0, c0; // [batch, hidden]
} tt_lstm_args;

// h of every step [seq, batch, hidden]; c of every step to *c_out unless NULL.
tt_val tt_lstm(tt_builder *b, const tt_lstm_args *args, tt_val *c_out);

#endif
