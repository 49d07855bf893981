// With a flush: all micro-batches of a step, then the update.
TT_PIPE(gpipe)
TT_PIPE(one_f_one_b)
