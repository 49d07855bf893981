// npy_header - the first bytes of a .npy file.

#ifndef TT_DATA_SOURCE_NPY_HEADER_H
#define TT_DATA_SOURCE_NPY_HEADER_H

#include "data/source/source_array.h"

// Reads type and shape from the array's blob and checks its size. Versions 1 to 3;
// Fortran order, structures and complex numbers are refused.
tt_status tt__npy_read(tt_array *array);

#endif
