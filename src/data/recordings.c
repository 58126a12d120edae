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
    const char *id;   /* without ending and without its place */
    const char *file; /* below the dataset's folder */
    size_t rank;      /* of its place: the lowest counts */
} entry;

struct td_recordings {
    const char *dir;
    const char *suffix; /* NULL: none */
    char **places;      /* "wavs/", "" for beside the table; owned */
    size_t n_places, place_capacity;
    td_arena *arena;
    entry *entries; /* owned */
    size_t n_entries, entry_capacity;
    char **folders; /* of ids, "" or "speaker/"; owned */
    size_t n_folders, folder_capacity;
    bool is_sorted;
    bool has_place; /* besides the table's own folder */
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

static td_status add_place(td_recordings *r, const char *name, size_t bytes)
{
    char *place;
    TD_CHECK(td_arena_printf(r->arena, &place, "%.*s%s", (int)bytes, name, bytes > 0 ? "/" : ""));
    TD_CHECK(td_alloc_grow((void *)&r->places, &r->place_capacity, r->n_places + 1, sizeof *r->places));
    r->places[r->n_places++] = place;
    return TD_OK;
}

/* "wav*": everything of the folder that begins with wav. */
static td_status add_places(td_recordings *r, const char *place)
{
    td_status status = TD_OK;
    td_file_names names = {0};
    const size_t star = strcspn(place, "*");
    char path[TD_FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", r->dir, place);
    if (place[star] == '\0')
        return td_file_is_folder(path) ? add_place(r, place, strcspn(place, "/")) : TD_OK;
    TD_TRY(td_file_list(r->dir, &names));
    for (size_t i = 0; i < names.count; ++i)
        if (strncmp(names.at[i], place, star) == 0) TD_TRY(add_place(r, names.at[i], strlen(names.at[i])));
fail:
    td_file_names_free(&names);
    return status;
}

td_status td_recordings_open(const char *dir, const td_layout *layout, td_recordings **out)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW(out));
    (*out)->dir = dir;
    (*out)->suffix = layout->suffix;
    TD_TRY(td_arena_create(0, &(*out)->arena));
    for (size_t i = 0; i < TD_LAYOUT_PLACES && layout->places[i] != NULL; ++i)
        TD_TRY(add_places(*out, layout->places[i]));
    (*out)->has_place =
        (*out)->n_places > 0 && ((*out)->places[0][0] != '\0' || layout->places[0][0] == '\0');
    if ((*out)->n_places == 0) TD_TRY(add_place(*out, layout->places[0], strcspn(layout->places[0], "/")));
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
    free(recordings->places);
    free(recordings->entries);
    free(recordings->folders);
    free(recordings);
}

/* Bytes of the id in a file's name. */
static size_t id_bytes(const td_recordings *r, const char *name, size_t stem)
{
    const size_t suffix = r->suffix != NULL ? strlen(r->suffix) : 0;
    const bool has = suffix > 0 && stem > suffix && memcmp(name + stem - suffix, r->suffix, suffix) == 0;
    return has ? stem - suffix : stem;
}

/* The files of a place and `folder`, such as wavs/ and speaker/. */
static td_status list_folder(td_recordings *r, size_t rank, const char *folder)
{
    td_status status = TD_OK;
    td_file_names names = {0};
    char path[TD_FILE_PATH_BYTES];
    const char *place = r->places[rank];
    if (snprintf(path, sizeof path, "%s/%s%s", r->dir, place, folder) >= TD_FILE_PATH_BYTES)
        return TD_FAIL(TD_ERR_LIMIT, "the path of the dataset is too long; choose a shorter one");
    if (!td_file_is_folder(path)) return TD_OK;
    TD_TRY(td_file_list(path, &names));
    for (size_t i = 0; i < names.count; ++i) {
        const size_t stem = td_recordings_stem(names.at[i]);
        char *id, *file;
        if (names.at[i][stem] == '\0') continue;
        TD_TRY(td_arena_printf(r->arena, &id, "%s%.*s", folder, (int)id_bytes(r, names.at[i], stem),
                               names.at[i]));
        TD_TRY(td_arena_printf(r->arena, &file, "%s%s%s", place, folder, names.at[i]));
        TD_TRY(td_alloc_grow(&r->entries, &r->entry_capacity, r->n_entries + 1, sizeof *r->entries));
        r->entries[r->n_entries++] = (entry){.id = id, .file = file, .rank = rank};
    }
fail:
    td_file_names_free(&names);
    return status;
}

td_status td_recordings_add(td_recordings *r, const char *id)
{
    char *folder;
    const char *slash = strrchr(id, '/');
    const size_t bytes = slash != NULL ? (size_t)(slash + 1 - id) : 0;
    for (size_t i = r->n_folders; i-- > 0;) /* neighbours mostly share theirs */
        if (strlen(r->folders[i]) == bytes && memcmp(r->folders[i], id, bytes) == 0) return TD_OK;
    TD_CHECK(td_arena_printf(r->arena, &folder, "%.*s", (int)bytes, id));
    TD_CHECK(td_alloc_grow((void *)&r->folders, &r->folder_capacity, r->n_folders + 1, sizeof *r->folders));
    r->folders[r->n_folders++] = folder;
    for (size_t i = 0; i < r->n_places; ++i)
        TD_CHECK(list_folder(r, i, folder));
    r->is_sorted = false;
    return TD_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = strcmp(x->id, y->id);
    if (order != 0) return order;
    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank) : strcmp(x->file, y->file);
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
            low + 1 < r->n_entries && strcmp(found[1].id, id) == 0 && found[1].rank == found->rank;
        *out = (td_recording){.file = found->file, .twin = is_twin ? found[1].file : NULL};
        return TD_OK;
    }
    const td_status status =
        td_arena_printf(r->arena, &missing, "%s%s.wav", r->n_places > 0 ? r->places[0] : "", id);
    *out = (td_recording){.file = missing};
    return status;
}

bool td_recordings_has_place(const td_recordings *recordings)
{
    return recordings->has_place;
}

bool td_recordings_has_any(const td_recordings *recordings)
{
    return recordings->n_entries > 0;
}
