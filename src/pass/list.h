// The order in which passes follow each other, see chain.h.
TT_PASS(chunk)     // finds the loss and the product before it as the model has them
TT_PASS(fp8)       // what packs an operand is then placed like any other node
TT_PASS(partition) // the graph of all ranks
TT_PASS(blocks)    // folds ranks that are not there onto those that are
TT_PASS(recompute) // after partition: what is computed again sends nothing again
TT_PASS(fuse)      // after all that adds nodes, on the nodes that will run
TT_PASS(offload)   // moves what the others left in the device's memory
