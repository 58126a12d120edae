/* libFuzzer target: a folder whose table, or whose one text file, holds any bytes. The first byte chooses
 * where they lie and whether the layout is told; whatever is recognised must be read into sound rows, and
 * each line must have a place. clang -fsanitize=fuzzer,address,undefined; start it with the files of
 * tests/fuzz/corpus/layout.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/metadata.h"
#include "data/source.h"
#include "fuzz/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Each with the folders that make it one of its layout. */
static const struct {
    const char *folder, *file, *beside;
} SETS[] = {
    {"plain", "metadata.csv", "wavs"},
    {"piper", "metadata.csv", "wav"},
    {"voice", "train.tsv", "clips"},
    {"vctk", "txt/p1/p1_001.txt", "wav48"},
    {"libri", "train-x/7/8/7_8_1.normalized.txt", "train-x/7"},
};
enum { N_SETS = sizeof SETS / sizeof SETS[0] };

static void make_folders(const char *folder)
{
    char path[512];
    for (size_t i = 0; i < N_SETS; ++i) {
        snprintf(path, sizeof path, "%s/%s/%s", folder, SETS[i].folder, SETS[i].beside);
        if (td_file_make_dirs(path) != TD_OK) abort();
        snprintf(path, sizeof path, "%s/%s/%s", folder, SETS[i].folder, SETS[i].file);
        *strrchr(path, '/') = '\0';
        if (td_file_make_dirs(path) != TD_OK) abort();
    }
}

static void check(td_source *source)
{
    td_metadata_settings form = {0};
    td_metadata *table = NULL;
    char *text, place[TD_FILE_PATH_BYTES + 16];
    size_t bytes;
    if (td_source_read(source, &form, &text, &bytes) != TD_OK) return;
    if (strlen(text) > bytes || td_metadata_parse(text, bytes, source->path, &form, &table) != TD_OK) abort();
    for (size_t i = 0; i < table->n_rows; ++i) {
        const td_metadata_row *row = &table->rows[i];
        if (*row->id == '\0' || row->text_bytes == 0 || row->speaker >= table->n_speakers) abort();
        td_source_place(source, row->line, place);
        if (strncmp(place, source->dir, strlen(source->dir)) != 0) abort();
        if (source->layout->text_ending != NULL && row->line > source->files.count) abort();
    }
    td_metadata_destroy(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char folder[256];
    char name[64], path[512];
    td_source source;
    if (bytes == 0) return 0;
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "%s", scratch_dir());
        make_folders(folder);
    }
    const size_t chosen = data[0] % N_SETS, told = data[0] / N_SETS % (td_layout_count() + 1);
    snprintf(name, sizeof name, "%s/%s", SETS[chosen].folder, SETS[chosen].file);
    (void)scratch_file(name, data + 1, bytes - 1);
    snprintf(path, sizeof path, "%s/%s", folder, SETS[chosen].folder);
    const td_source_request request = {
        .path = path, .layout = told > 0 ? td_layout_at(told - 1)->name : NULL, .validates = data[0] & 0x80};
    if (td_source_find(&request, &source) == TD_OK) check(&source);
    td_source_free(&source);
    return 0;
}
