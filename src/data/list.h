// list - every source of data. Expanded by registry.c.

// Tokens.
TT_SOURCE(tokens)
TT_SOURCE(megatron)

// Either.
TT_SOURCE(synthetic)
TT_SOURCE(folder)
TT_SOURCE(webdataset)
