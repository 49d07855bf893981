// list - every source of data. Expanded by registry.c.

// Tokens.
TT_SOURCE(text)
TT_SOURCE(tokens)
TT_SOURCE(megatron)

// Images.
TT_SOURCE(idx)
TT_SOURCE(cifar)
TT_SOURCE(csv)
TT_SOURCE(folder)
TT_SOURCE(webdataset)

// Either.
TT_SOURCE(npy)
TT_SOURCE(synthetic)
