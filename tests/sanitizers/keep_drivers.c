/* Loaded before the programs under test in builds with a sanitizer: nothing is ever unloaded, so that a
 * leak's stack still has the name of the driver it lies in, which leaks.supp needs. */
#include <dlfcn.h>

int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
