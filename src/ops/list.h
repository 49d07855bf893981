// list - every operator, by family. Expanded by ops.h and registry.c.

// Structure.
TT_OP(cast)

// Matrix products, convolution, pooling, batch norm, recurrence.

// Normalisation, embedding, attention, losses.

// Communication.
