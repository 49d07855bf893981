// links - see backend/links.h.

#ifndef TT_BACKEND_CUDA_LINKS_H
#define TT_BACKEND_CUDA_LINKS_H

#include "backend/links.h"

extern const tt_links_def tt__cuda_links;

#endif
