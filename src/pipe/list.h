// With a flush: all micro-batches of a step, then the update.
TT_PIPE(gpipe)
TT_PIPE(one_f_one_b)
TT_PIPE(interleaved)
TT_PIPE(zb_h1)
TT_PIPE(zb_h2)
TT_PIPE(gems)
TT_PIPE(chimera)
TT_PIPE(message_driven)
// Without: the next step's micro-batches follow at once.
TT_PIPE(pipedream)
TT_PIPE(two_bw)
TT_PIPE(predict)
// One rank: sums of gradients end in the next step.
TT_PIPE(late)
