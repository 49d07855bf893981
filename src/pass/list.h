TT_PASS(partition)
