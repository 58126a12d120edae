/* For tests that ask for impossible amounts of memory: the sanitizers' allocators return NULL, as the C
 * library's does, instead of ending the program. Without a sanitizer nobody calls these. */
#ifndef TD_TESTS_SANITIZER_OPTIONS_H
#define TD_TESTS_SANITIZER_OPTIONS_H

const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

#endif
