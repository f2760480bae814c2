/* An alias of crawl.h for programs that include this name. */
#include "crawl.h"
