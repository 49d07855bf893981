// tutti.h - the only installed header of libtutti.

#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#define TUTTI_VERSION "0.1.0"

// The version of the library that is linked, like TUTTI_VERSION.
const char *tutti_version(void);

#endif
