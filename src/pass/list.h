// The order in which passes follow each other, see chain.h.
TT_PASS(chunk)     // first: it needs loss and product as the model made them
TT_PASS(fp8)       // before partition, so that fp8_pack is placed like any node
TT_PASS(predict)   // before partition, for the same reason
TT_PASS(copies)    // before partition, which places both copies
TT_PASS(partition) // the graph of all ranks
TT_PASS(codes)     // after partition, which makes what is sent; before blocks
TT_PASS(factors)   // the same
TT_PASS(rows)      // before recompute, which computes other copies of what is kept
TT_PASS(exchange)  // before blocks: replicas are ranks of the mesh here
TT_PASS(replicas)  // likewise: each replica has weights of its own
TT_PASS(blocks)    // exact mode: each rank does the work of several
TT_PASS(recompute) // after partition, so that nothing is sent twice
TT_PASS(fuse)      // after all passes that add nodes: fused nodes are not split
TT_PASS(offload)   // last: moves what is left in the device's memory
