TT_PASS(blocks)
TT_PASS(partition)
TT_PASS(recompute)
