/* See scratch.h. */
#include "fuzz/scratch.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/temp_dir.h"

static void remove_dir(void)
{
    (void)temp_dir_remove(NULL);
}

const char *scratch_dir(void)
{
    if (*temp_dir == '\0' && (temp_dir_make(NULL) != 0 || atexit(remove_dir) != 0)) abort();
    return temp_dir;
}

const char *scratch_file(const char *name, const void *data, size_t bytes)
{
    (void)scratch_dir();
    const char *path = temp_path(name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
    return path;
}
