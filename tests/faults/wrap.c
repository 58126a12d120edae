/* See wrap.h. */
#include "wrap.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "walk.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
char *__real_strdup(const char *text);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*run)(void *), void *context);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
char *__wrap_strdup(const char *text);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*run)(void *), void *context);

static bool is_open;

void wrap_open(bool open)
{
    is_open = open;
}

static bool wrapped_fails(const char *call)
{
    return is_open && walk_fails(call);
}

void *__wrap_malloc(size_t bytes)
{
    return wrapped_fails("malloc") ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return wrapped_fails("calloc") ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return wrapped_fails("realloc") ? NULL : __real_realloc(block, bytes);
}

char *__wrap_strdup(const char *text)
{
    return wrapped_fails("strdup") ? NULL : __real_strdup(text);
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    return wrapped_fails("posix_memalign") ? ENOMEM : __real_posix_memalign(out, align, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return wrapped_fails("aligned_alloc") ? NULL : __real_aligned_alloc(align, bytes);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*run)(void *), void *context)
{
    return wrapped_fails("pthread_create") ? EAGAIN : __real_pthread_create(out, how, run, context);
}
