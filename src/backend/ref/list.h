// list - every reference kernel, by family.

// Structure.
TT_KERNEL(ref_cast)

// Matrix products, convolution, pooling, batch norm, recurrence.

// Normalisation, embedding, attention, losses.

// Communication.
