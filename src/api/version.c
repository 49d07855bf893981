// version - what the linked library is.

#include "tutti/tutti.h"

const char *tutti_version(void)
{
    return TUTTI_VERSION;
}
