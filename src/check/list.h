TT_LAW(text)        // print, parse, print: the same text
TT_LAW(cost)        // cost is what was counted by hand
TT_LAW(grad)        // gradient = finite difference
TT_LAW(kernel)      // every kernel = ref
TT_LAW(lower)       // lowered = interpreted
TT_LAW(shard)       // sharded then joined = whole
TT_LAW(codec)       // sizes, residuals, means and refusals of codecs
TT_LAW(policy)      // replicas come together at the rate that a policy promises
TT_LAW(model)       // gradients of models = finite differences
TT_LAW(pass)        // passes change nothing
TT_LAW(train)       // lowered models learn; micro-batches add up
TT_LAW(ranks)       // data parallelism and ZeRO = one rank
TT_LAW(blocks)      // exact mode: the same bits on any number of ranks
TT_LAW(transport)   // what is received is what was sent, in order
TT_LAW(coll)        // collectives = their definition, bytes = their cost
TT_LAW(device_coll) // collectives between devices = their definition
TT_LAW(wire)        // communication operators over a transport = simulated
TT_LAW(flight)      // overlapped ranks = one rank
TT_LAW(pipe)        // schedules are valid, bubble and memory as published
