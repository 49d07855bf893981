// list - every source of data. Expanded by registry.c.

TT_SOURCE(synthetic)
TT_SOURCE(folder)
TT_SOURCE(webdataset)
