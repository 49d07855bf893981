TT_PASS(partition)
TT_PASS(recompute)
