/* See recordings.h. Files are kept sorted by what an id would call them. */
#include "data/recordings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"

typedef struct entry {
    const char *id;   /* without ending and without wavs/ */
    const char *file; /* below the dataset's folder */
    bool is_beside;   /* not in wavs/ */
} entry;

struct td_recordings {
    const char *dir;
    td_arena *arena;
    entry *entries; /* owned */
    size_t n_entries, entry_capacity;
    char **folders; /* of ids, "" or "speaker/"; owned */
    size_t n_folders, folder_capacity;
    bool is_sorted;
};

size_t td_recordings_stem(const char *name)
{
    static const char *const ENDINGS[] = {".wav", ".wave", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".aiff",
                                          ".aif", ".aifc", ".au",   ".snd", ".caf", ".w64", ".rf64"};
    const size_t bytes = strlen(name);
    for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; ++i) {
        const size_t ending = strlen(ENDINGS[i]);
        if (bytes > ending && strcasecmp(name + bytes - ending, ENDINGS[i]) == 0) return bytes - ending;
    }
    return bytes;
}

td_status td_recordings_open(const char *dir, td_recordings **out)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW(out));
    (*out)->dir = dir;
    TD_TRY(td_arena_create(0, &(*out)->arena));
    return TD_OK;
fail:
    td_recordings_close(*out);
    *out = NULL;
    return status;
}

void td_recordings_close(td_recordings *recordings)
{
    if (recordings == NULL) return;
    td_arena_destroy(recordings->arena);
    free(recordings->entries);
    free(recordings->folders);
    free(recordings);
}

/* The files of `place` and `folder`, such as wavs/ and speaker/. */
static td_status list_folder(td_recordings *r, const char *place, const char *folder)
{
    td_status status = TD_OK;
    td_file_names names = {0};
    char path[TD_FILE_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s%s", r->dir, place, folder) >= TD_FILE_PATH_BYTES)
        return TD_FAIL(TD_ERR_LIMIT, "the path of the dataset is too long; choose a shorter one");
    if (!td_file_exists(path)) return TD_OK;
    TD_TRY(td_file_list(path, &names));
    for (size_t i = 0; i < names.count; ++i) {
        const size_t stem = td_recordings_stem(names.at[i]);
        char *id, *file;
        if (names.at[i][stem] == '\0') continue;
        TD_TRY(td_arena_printf(r->arena, &id, "%s%.*s", folder, (int)stem, names.at[i]));
        TD_TRY(td_arena_printf(r->arena, &file, "%s%s%s", place, folder, names.at[i]));
        TD_TRY(td_alloc_grow(&r->entries, &r->entry_capacity, r->n_entries + 1, sizeof *r->entries));
        r->entries[r->n_entries++] = (entry){.id = id, .file = file, .is_beside = *place == '\0'};
    }
fail:
    td_file_names_free(&names);
    return status;
}

td_status td_recordings_add(td_recordings *r, const char *id)
{
    td_status status = TD_OK;
    char *folder;
    const char *slash = strrchr(id, '/');
    const size_t bytes = slash != NULL ? (size_t)(slash + 1 - id) : 0;
    for (size_t i = r->n_folders; i-- > 0;) /* neighbours mostly share theirs */
        if (strlen(r->folders[i]) == bytes && memcmp(r->folders[i], id, bytes) == 0) return TD_OK;
    TD_TRY(td_arena_printf(r->arena, &folder, "%.*s", (int)bytes, id));
    TD_TRY(td_alloc_grow((void *)&r->folders, &r->folder_capacity, r->n_folders + 1, sizeof *r->folders));
    r->folders[r->n_folders++] = folder;
    TD_TRY(list_folder(r, "wavs/", folder));
    TD_TRY(list_folder(r, "", folder));
    r->is_sorted = false;
fail:
    return status;
}

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = strcmp(x->id, y->id);
    if (order != 0) return order;
    return x->is_beside != y->is_beside ? x->is_beside - y->is_beside : strcmp(x->file, y->file);
}

td_status td_recordings_find(td_recordings *r, const char *id, td_recording *out)
{
    char *missing;
    size_t low = 0, high = r->n_entries;
    if (!r->is_sorted && r->n_entries > 0)
        qsort(r->entries, r->n_entries, sizeof *r->entries, compare_entries);
    r->is_sorted = true;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(r->entries[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < r->n_entries && strcmp(r->entries[low].id, id) == 0) {
        const entry *found = &r->entries[low];
        const bool is_twin =
            low + 1 < r->n_entries && strcmp(found[1].id, id) == 0 && found[1].is_beside == found->is_beside;
        *out = (td_recording){.file = found->file, .twin = is_twin ? found[1].file : NULL};
        return TD_OK;
    }
    const td_status status = td_arena_printf(r->arena, &missing, "wavs/%s.wav", id);
    *out = (td_recording){.file = missing};
    return status;
}

bool td_recordings_has_any(const td_recordings *recordings)
{
    return recordings->n_entries > 0;
}
