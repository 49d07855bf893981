TT_PASS(blocks)
TT_PASS(fuse)
TT_PASS(partition)
TT_PASS(recompute)
