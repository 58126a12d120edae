/* Loaded before the programs under test in builds with a sanitizer.
 *
 * Nothing is ever unloaded, so that a leak's stack still has the name of the driver it lies in, which
 * leaks.supp needs.
 *
 * And before each check for leaks, the thread-local storage of the libraries that were opened later is
 * declared reachable. The checker must not look for it (leaks.supp says why), so it would take those few
 * bytes for leaks and read the debug information of every library to find that they are to be overlooked:
 * most of the time that a short run takes. */
#include <dlfcn.h>
#include <link.h>

void __lsan_ignore_object(const void *object) __attribute__((weak)); /* of AddressSanitizer alone */
int __lsan_do_recoverable_leak_check(void);

int dlclose(void *handle)
{
    (void)handle;
    return 0;
}

static int ignore_storage(struct dl_phdr_info *library, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    if (library->dlpi_tls_data) __lsan_ignore_object(library->dlpi_tls_data);
    return 0;
}

__attribute__((destructor)) static void ignore_all(void)
{
    if (__lsan_ignore_object) (void)dl_iterate_phdr(ignore_storage, 0);
}

/* A check in the middle of a run (tests/faults/walk.c). */
int __lsan_do_recoverable_leak_check(void)
{
    int (*check)(void);
    *(void **)&check = dlsym(RTLD_NEXT, "__lsan_do_recoverable_leak_check");
    ignore_all();
    return check ? check() : 0; /* ThreadSanitizer has none */
}
