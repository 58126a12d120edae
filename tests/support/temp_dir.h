/* A fresh folder per test and its removal, for the tests that touch the disk. Holds paths in static storage:
 * one folder at a time. */
#ifndef TD_TESTS_TEMP_DIR_H
#define TD_TESTS_TEMP_DIR_H

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char temp_dir[256];

static inline int temp_dir_make(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(temp_dir, sizeof temp_dir, "%s/tandem-test-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(temp_dir) ? 0 : -1;
}

static inline int temp_dir_remove_entry(const char *path, const struct stat *info, int kind,
                                        struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static inline int temp_dir_remove(void **state)
{
    (void)state;
    return nftw(temp_dir, temp_dir_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* The path of `name` inside the folder, valid until the eighth next call. */
static inline const char *temp_path(const char *name)
{
    static char paths[8][512];
    static unsigned turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", temp_dir, name);
    return path;
}

/* How many entries the folder holds, not counting . and .. */
static inline int temp_dir_count(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    while (d && readdir(d))
        n++;
    if (d) closedir(d);
    return n - 2;
}

#endif
