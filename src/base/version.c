/* See include/tandem/version.h. */
#include "tandem/version.h"

const char *td_version(void)
{
    return TANDEM_VERSION;
}
