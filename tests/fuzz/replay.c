/* Runs a fuzz target without libFuzzer, so that the usual tests do it with any compiler: each file of a
 * folder as it is, cut short, and with one byte changed. A crash, an abort or a sanitizer's word is the
 * failure. fuzz_NAME FOLDER
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

enum { MAX_BYTES = 1 << 20, VARIANTS = 100 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static size_t try_file(const char *path)
{
    char *data;
    size_t bytes, tried = 1;
    if (td_file_read(path, MAX_BYTES, &data, &bytes) != TD_OK) {
        fprintf(stderr, "%s\n", td_error_last()->message);
        exit(1);
    }
    uint8_t *input = (uint8_t *)data;
    const size_t stride = bytes / VARIANTS + 1;
    LLVMFuzzerTestOneInput(input, bytes);
    for (size_t at = 0; at < bytes; at += stride) {
        uint8_t *cut = malloc(at + 1); /* exact, so that a byte too far is seen */
        if (cut == NULL) exit(1);
        memcpy(cut, input, at);
        LLVMFuzzerTestOneInput(cut, at);
        free(cut);
        input[at] ^= (uint8_t)(1u << at % 8);
        LLVMFuzzerTestOneInput(input, bytes);
        input[at] ^= (uint8_t)(1u << at % 8);
        tried += 2;
    }
    free(data);
    return tried;
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    size_t files = 0, tried = 0;
    if (dir == NULL) {
        fprintf(stderr, "usage: %s FOLDER, which holds the inputs\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[TD_FILE_PATH_BYTES];
        if (entry->d_name[0] == '.') continue;
        if (snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name) >= (int)sizeof path) return 2;
        tried += try_file(path);
        ++files;
    }
    closedir(dir);
    printf("%zu files, %zu inputs\n", files, tried);
    return files > 0 ? 0 : 1;
}
