// list - every policy. Expanded by policy.c.

TT_POLICY(allreduce)
TT_POLICY(average)
TT_POLICY(elastic)
TT_POLICY(federated)
TT_POLICY(gossip)
TT_POLICY(partial)
TT_POLICY(ps)
TT_POLICY(adpsgd)
TT_POLICY(gosgd)
TT_POLICY(malt)
TT_POLICY(easgd)
TT_POLICY(local)
