/* Opens a voice and speaks: samples go into a file while the rest of the text is still being made.
 *
 *   cc speak.c $(pkg-config --cflags --libs tandem) -o speak
 *   ./speak voice.safetensors "Hello. How are you?" hello.raw
 *   aplay -f FLOAT_LE -r 22050 hello.raw
 *
 * Built and run by the tests, in one thread and in two at once.
 */
#include <stdio.h>

#include "tandem/voice.h"

static bool write_samples(void *file, const float *samples, size_t count)
{
    return fwrite(samples, sizeof *samples, count, file) == count;
}

int main(int argc, char **argv)
{
    if (argc != 4) return fprintf(stderr, "usage: speak VOICE TEXT FILE\n"), 2;
    const td_voice_options options = {.size = sizeof options, .path = argv[1]};
    td_voice_info info = {.size = sizeof info};
    td_voice *voice;
    td_error error;
    if (td_voice_open(&options, &voice, &error) != TD_OK)
        return fprintf(stderr, "speak: %s\n", error.message), 1;
    td_voice_get_info(voice, &info);
    FILE *file = fopen(argv[3], "wb");
    td_status status = file ? td_voice_stream(voice, argv[2], NULL, write_samples, file) : TD_ERR_IO;
    if (file && fclose(file) != 0) status = TD_ERR_IO;
    if (status == TD_OK)
        printf("%s: %u Hz, 32-bit floats\n", argv[3], info.rate);
    else
        fprintf(stderr, "speak: %s: %s\n", argv[3], td_status_text(status));
    if (td_voice_error(voice)->status != TD_OK)
        fprintf(stderr, "speak: %s\n", td_voice_error(voice)->message);
    td_voice_close(voice);
    return status != TD_OK;
}
