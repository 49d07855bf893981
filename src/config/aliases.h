// aliases - what people mean who come from other programs: "tp" is mesh.tensor,
// "learning_rate" is optim.lr, precision=bfloat16 is precision=bf16.

#ifndef TT_CONFIG_ALIASES_H
#define TT_CONFIG_ALIASES_H

// What to write for a key of other programs: "optim.lr", "zero=3", "-n N"; NULL: it
// is none of them. Upper case, dashes and sections before the last dot do not matter.
const char *tt_alias_key(const char *key);

// What to write for a value that others give to `key`; NULL: it is none of them.
const char *tt_alias_value(const char *key, const char *value);

#endif
