/* See importer.h. */
#include "families/importer.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "nn/bytes.h"
#include "torch/convert.h"

/* ---------------------------------------------------------------- what importers call */

td_status td_import_file(td_import *import, const char *path, td_torch_file **out)
{
    *out = NULL;
    TD_REFUSE_IF(import->n_files == TD_IMPORT_FILES, TD_ERR_LIMIT, "a source has at most %d files of tensors",
                 TD_IMPORT_FILES);
    TD_CHECK(td_torch_open(path, out));
    import->files[import->n_files++] = *out;
    return TD_OK;
}

td_status td_import_tensors(td_import *import, td_torch_file *file, td_pickle_id root, size_t depth,
                            const td_torch_tensor **out, size_t *n)
{
    size_t i = 0;
    while (import->files[i] != file)
        i++;
    TD_CHECK(td_torch_list(file, root, depth, &import->lists[i], n));
    *out = import->lists[i];
    return TD_OK;
}

td_status td_import_add(td_import *import, const char *name, td_torch_file *file, const td_torch_tensor *from)
{
    char *copy;
    TD_REFUSE_IF(from->rank > 4, TD_ERR_FORMAT, "tensor %s has %zu dimensions; at most 4 can be stored", name,
                 from->rank);
    TD_CHECK(td_arena_strdup(import->arena, name, &copy));
    TD_CHECK(td_alloc_grow(&import->tensors, &import->tensor_capacity, import->n_tensors + 1,
                           sizeof *import->tensors));
    import->tensors[import->n_tensors++] = (td_import_tensor){copy, file, from, from->dtype, false, 0};
    return TD_OK;
}

static td_status add_text(td_import *import, td_import_list *list, const char *text)
{
    char *copy;
    TD_CHECK(td_arena_strdup(import->arena, text, &copy));
    TD_CHECK(td_alloc_grow(&list->at, &list->capacity, list->n + 1, sizeof *list->at));
    list->at[list->n++] = copy;
    return TD_OK;
}

td_status td_import_ignore(td_import *import, const char *name)
{
    return add_text(import, &import->ignored, name);
}

td_status td_import_lack(td_import *import, const char *what)
{
    return add_text(import, &import->missing, what);
}

td_status td_import_pair(td_import *import, const char *key, const char *value)
{
    char *copy_key, *copy_value;
    TD_CHECK(td_arena_strdup(import->arena, key, &copy_key));
    TD_CHECK(td_arena_strdup(import->arena, value, &copy_value));
    TD_CHECK(
        td_alloc_grow(&import->pairs, &import->pair_capacity, import->n_pairs + 1, sizeof *import->pairs));
    import->pairs[import->n_pairs++] = (td_safetensors_pair){copy_key, copy_value};
    return TD_OK;
}

/* ---------------------------------------------------------------- opening */

static td_status find_family(const char *source, const td_family **out)
{
    const char *files = "none";
    for (size_t i = 0; i < td_family_count(); i++) {
        *out = td_family_at(i);
        if ((*out)->importer == NULL) continue;
        if ((*out)->importer->recognises(source)) return TD_OK;
        files = (*out)->importer->files;
    }
    return TD_FAIL(TD_ERR_NOT_FOUND, "'%.200s' has no model that can be imported; a source is %s", source,
                   files);
}

td_status td_import_open(const char *source, bool grows, td_import **out)
{
    td_status status = TD_OK;
    td_import *import = NULL;
    const td_family *family = NULL;
    *out = NULL;
    TD_TRY(find_family(source, &family));
    TD_TRY(TD_NEW(&import));
    TD_TRY(td_arena_create(0, &import->arena));
    import->source = source;
    import->grows = grows;
    TD_TRY(td_model_preset(family, "base", &import->info.model));
    TD_TRY(family->importer->import(import));
    *out = import;
    return TD_OK;
fail:
    td_import_close(import);
    return status;
}

void td_import_close(td_import *import)
{
    if (import == NULL) return;
    for (size_t i = 0; i < import->n_files; i++) {
        free(import->lists[i]);
        td_torch_close(import->files[i]);
    }
    free(import->tensors);
    free(import->pairs);
    free(import->ignored.at);
    free(import->missing.at);
    td_arena_destroy(import->arena);
    free(import);
}

/* With the rows that are new. */
static uint64_t count_elements(const td_import_tensor *t)
{
    return t->rows ? t->from->n / t->from->dims[0] * t->rows : t->from->n;
}

uint64_t td_import_part_size(const td_import *import, size_t part)
{
    const td_family *family = import->info.model.family;
    uint64_t n = 0;
    for (size_t i = 0; i < import->n_tensors; i++)
        if (!td_family_is_buffer(family, import->tensors[i].name) && !import->tensors[i].is_scale &&
            td_family_find_part(family, import->tensors[i].name) == part)
            n += count_elements(&import->tensors[i]);
    return n;
}

/* ---------------------------------------------------------------- writing */

enum { NEW_ROWS_SEED = 1 };
static const float NEW_ROWS_SPREAD = 0.02F; /* as tables of a GPT begin */

/* What a voice is stored from: one tensor at a time. */
typedef struct feed {
    td_import *import;
    td_checkpoint_tensor_data *tensors; /* in the order of the import's */
    unsigned char *room;                /* for the largest one */
    float *values, *scales;             /* of the matrix with the most, where matrices become bytes */
} feed;

static td_status check_numbers(const void *data, td_safetensors_dtype dtype, const td_import_tensor *from)
{
    const size_t size = td_safetensors_dtype_bytes(dtype);
    if (!td_convert_is_float(dtype)) return TD_OK;
    for (uint64_t i = 0; i < from->from->n; i++) {
        float value;
        td_convert((const unsigned char *)data + i * size, dtype, TD_SAFETENSORS_F32, 1, &value);
        if (!isfinite(value))
            return TD_FAIL(TD_ERR_INTEGRITY,
                           "'%.200s': value %" PRIu64
                           " of tensor %s is not finite, or too large for 16 bits; it cannot speak",
                           td_torch_name(from->file), i, from->from->name);
    }
    return TD_OK;
}

/* A matrix as bytes, or its scales. */
static td_status load_bytes(const feed *f, const td_import_tensor *from)
{
    const size_t in = (size_t)from->from->dims[0], out = (size_t)from->from->dims[1];
    float *scales = from->is_scale ? (float *)f->room : f->scales;
    TD_CHECK(td_torch_read(from->file, from->from, TD_SAFETENSORS_F32, f->values));
    TD_CHECK(check_numbers(f->values, TD_SAFETENSORS_F32, from));
    td_bytes_find_scales(f->values, in, out, scales);
    if (!from->is_scale) td_bytes_make(f->values, in, out, scales, (int8_t *)f->room);
    return TD_OK;
}

/* New rows of a table as those of a model that has learnt nothing; the same every time. */
static void draw_rows(const feed *f, const td_import_tensor *from)
{
    const size_t size = td_safetensors_dtype_bytes(from->dtype);
    const uint64_t stream = td_hash64(from->name, strlen(from->name));
    for (uint64_t i = from->from->n; i < count_elements(from); i++) {
        const float value =
            from->from->rank > 1 ? NEW_ROWS_SPREAD * td_rng_normal(NEW_ROWS_SEED, stream, i) : 0;
        td_convert(&value, TD_SAFETENSORS_F32, from->dtype, 1, f->room + i * size);
    }
}

static td_status load(void *context, size_t i)
{
    const feed *f = context;
    const td_import_tensor *from = &f->import->tensors[i];
    if (from->is_scale || (from->dtype == TD_SAFETENSORS_I8 && td_convert_is_float(from->from->dtype)))
        return load_bytes(f, from);
    TD_CHECK(td_torch_read(from->file, from->from, from->dtype, f->room));
    draw_rows(f, from);
    return check_numbers(f->room, from->dtype, from);
}

/* Wide elements first, since nothing pads between tensors; then by name, so that the same voice is the same file
 * wherever its tensors came from. */
static int compare_tensors(const void *a, const void *b)
{
    const td_import_tensor *x = a, *y = b;
    const size_t x_size = td_safetensors_dtype_bytes(x->dtype), y_size = td_safetensors_dtype_bytes(y->dtype);
    if (x_size != y_size) return x_size > y_size ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool can_be_bytes(const td_importer *importer, const td_import_tensor *t)
{
    for (const char *const *pattern = importer->bytes; pattern != NULL && *pattern != NULL; pattern++)
        if (t->from->rank == 2 && fnmatch(*pattern, t->name, 0) == 0) return true;
    return false;
}

/* Matrices get another type, and scales behind them. */
static td_status choose_bytes(feed *f)
{
    td_import *import = f->import;
    const size_t n = import->n_tensors;
    uint64_t most = 1, most_out = 1;
    TD_CHECK(td_alloc_grow(&import->tensors, &import->tensor_capacity, 2 * n, sizeof *import->tensors));
    for (size_t i = 0; i < n; i++) {
        td_import_tensor *t = &import->tensors[i];
        char *name;
        if (!can_be_bytes(import->info.model.family->importer, t)) continue;
        TD_CHECK(td_arena_printf(import->arena, &name, "%s" TD_BYTES_SCALE, t->name));
        import->tensors[import->n_tensors++] =
            (td_import_tensor){name, t->file, t->from, TD_SAFETENSORS_F32, true, 0};
        t->dtype = TD_SAFETENSORS_I8;
        if (t->from->n > most) most = t->from->n;
        if (t->from->dims[1] > most_out) most_out = t->from->dims[1];
    }
    TD_REFUSE_IF(import->n_tensors == n, TD_ERR_UNSUPPORTED,
                 "a model of family %s has no matrices that can be bytes", import->info.model.family->name);
    TD_CHECK(td_import_pair(import, "weights", "int8"));
    TD_CHECK(TD_NEW_ARRAY(&f->values, (size_t)most));
    return TD_NEW_ARRAY(&f->scales, (size_t)most_out);
}

static td_status describe_tensors(feed *f, td_safetensors_dtype dtype)
{
    td_import *import = f->import;
    const bool has_bytes = dtype == TD_SAFETENSORS_I8;
    size_t largest = 1;
    for (size_t i = 0; i < import->n_tensors; i++)
        if (td_convert_is_float(import->tensors[i].from->dtype))
            import->tensors[i].dtype = has_bytes ? TD_SAFETENSORS_F32 : dtype;
    if (has_bytes) TD_CHECK(choose_bytes(f));
    TD_CHECK(TD_NEW_ARRAY(&f->tensors, import->n_tensors + 1));
    qsort(import->tensors, import->n_tensors, sizeof *import->tensors, compare_tensors);
    for (size_t i = 0; i < import->n_tensors; i++) {
        const td_import_tensor *from = &import->tensors[i];
        td_checkpoint_tensor_data *to = &f->tensors[i];
        *to = (td_checkpoint_tensor_data){
            .prefix = "", .name = from->name, .dtype = from->dtype, .rank = from->from->rank};
        to->bytes = count_elements(from) * td_safetensors_dtype_bytes(to->dtype);
        memcpy(to->dims, from->from->dims, sizeof to->dims);
        if (from->rows) to->dims[0] = from->rows;
        if (from->is_scale) {
            to->rank = 1;
            to->dims[0] = from->from->dims[1];
            to->bytes = 4 * to->dims[0];
        }
        if (to->bytes > largest) largest = (size_t)to->bytes;
    }
    TD_CHECK(TD_NEW_ARRAY(&f->room, largest));
    for (size_t i = 0; i < import->n_tensors; i++)
        f->tensors[i].data = f->room;
    return TD_OK;
}

td_status td_import_write(td_import *import, const char *path, td_safetensors_dtype dtype)
{
    td_status status = TD_OK;
    feed f = {.import = import};
    TD_TRY(describe_tensors(&f, dtype));
    TD_TRY(td_checkpoint_write_loaded(path, &import->info, import->pairs, import->n_pairs, f.tensors,
                                      import->n_tensors, load, &f));
fail:
    free(f.tensors);
    free(f.room);
    free(f.values);
    free(f.scales);
    return status;
}

/* ---------------------------------------------------------------- export */

td_status td_export_voice(const td_checkpoint *voice, const char *format, const char *folder)
{
    const td_family *family = td_checkpoint_get_info(voice)->model.family;
    const td_importer *importer = family->importer;
    const bool is_adapters =
        importer != NULL && importer->adapter_format != NULL && strcmp(importer->adapter_format, format) == 0;
    TD_REFUSE_IF(importer == NULL || (!is_adapters && strcmp(importer->format, format) != 0),
                 TD_ERR_UNSUPPORTED, "'%.200s' is of family %s, which is not written as %.40s",
                 td_checkpoint_path(voice), family->name, format);
    TD_CHECK(td_checkpoint_verify(voice));
    TD_CHECK(td_file_make_dirs(folder));
    return is_adapters ? importer->export_adapters(voice, folder) : importer->export(voice, folder);
}

td_status td_import_attach(td_checkpoint *voice, const char *path)
{
    const td_family *family = td_checkpoint_get_info(voice)->model.family;
    TD_REFUSE_IF(family->importer == NULL || family->importer->attach_adapters == NULL, TD_ERR_UNSUPPORTED,
                 "'%.200s' is of family %s, which takes no adapters", td_checkpoint_path(voice),
                 family->name);
    return family->importer->attach_adapters(voice, path);
}
