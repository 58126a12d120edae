/* docs/examples/speak.c in a second thread, and two of it at once: the same bytes each time.
 *
 *   speak_threads VOICE FOLDER
 */
int speak_main(int argc, char **argv);
#define main speak_main
#include "../../docs/examples/speak.c"
#undef main

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 3, PATH_BYTES = 4096 };

typedef struct speaker {
    char *voice, path[PATH_BYTES];
    int code;
    pthread_t thread;
} speaker;

static void *speak(void *context)
{
    static char NAME[] = "speak", TEXT[] = "hello. how are you, world? one two three.";
    speaker *s = context;
    char *arguments[] = {NAME, s->voice, TEXT, s->path, NULL};
    s->code = speak_main(4, arguments);
    return NULL;
}

static size_t read_file(const char *path, char *out, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    const size_t bytes = file ? fread(out, 1, capacity, file) : 0;
    if (file) fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    enum { CAPACITY = 1 << 24 };
    speaker speakers[RUNS] = {{0}};
    char *first = malloc(CAPACITY), *other = malloc(CAPACITY);
    int code = argc != 3 || !first || !other;
    for (int i = 0; i < RUNS && !code; i++) {
        speakers[i].voice = argv[1];
        snprintf(speakers[i].path, PATH_BYTES, "%s/speak-%d.raw", argv[2], i);
        code = pthread_create(&speakers[i].thread, NULL, speak, &speakers[i]);
        if (!code && i == 0)
            code = pthread_join(speakers[0].thread, NULL); /* by itself; the others at once */
    }
    for (int i = 1; i < RUNS && !code; i++)
        code = pthread_join(speakers[i].thread, NULL);
    const size_t bytes = code ? 0 : read_file(speakers[0].path, first, CAPACITY);
    code |= bytes == 0;
    for (int i = 0; i < RUNS && !code; i++) {
        code = speakers[i].code || read_file(speakers[i].path, other, CAPACITY) != bytes ||
               memcmp(first, other, bytes) != 0;
        if (code) fprintf(stderr, "%s is not as it should be\n", speakers[i].path);
    }
    free(first);
    free(other);
    return code;
}
