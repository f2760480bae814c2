/* The same library, for programs written against this name. */
#include "crawl.h"
