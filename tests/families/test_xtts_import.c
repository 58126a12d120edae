/* Coqui's files to a voice and back: the list of tensors against Coqui's own code (tests/oracle/golden/xtts_layout.txt),
 * every tensor to the bit, names as they once were, and what is wrong with a source told by name. */
#include "support/expect.h"
#include "support/temp_dir.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "families/importer.h"
#include "families/xtts/xtts_coqui.h"
#include "families/xtts/xtts_layout.h"
#include "torch/torch_write.h"

static td_model_config config;
static char *lines[1024]; /* of the layout: tensors; they point into `text` */
static size_t n_lines;
static char *text;

static const char VOCAB[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"[STOP]\",\"special\":true},{\"id\":1,"
    "\"content\":"
    "\"[UNK]\",\"special\":true},{\"id\":30,\"content\":\"[START]\",\"special\":true}],\"normalizer\":null,"
    "\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"[UNK]\","
    "\"vocab\":{"
    "\"[STOP]\":0,\"[UNK]\":1,\"a\":2,\"b\":3,\"ab\":4,\"[START]\":30},\"merges\":[\"a b\"]}}";
static const char CONFIG[] =
    "{\"model\":\"xtts\",\"languages\":[\"en\",\"zh-cn\"],\"temperature\":0.65,\"top_k\":40,"
    "\"max_audio_len\":Infinity,\"model_args\":{\"gpt_layers\":2,\"gpt_n_heads\":2,"
    "\"gpt_start_audio_token\":32,\"gpt_stop_audio_token\":33,"
    "\"gpt_start_text_token\":null}}";

static int open_layout(void **state)
{
    (void)state;
    size_t bytes;
    check(td_model_preset(td_family_find("xtts"), "base", &config));
    check(td_file_read(GOLDEN_DIR "/xtts_layout.txt", 1 << 20, &text, &bytes));
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *equals = strstr(line, " = ");
        if (equals == NULL) {
            lines[n_lines++] = line;
            continue;
        }
        *equals = '\0';
        check(td_model_config_put(&config, line, equals + 3));
    }
    return 0;
}

static int close_layout(void **state)
{
    (void)state;
    free(text);
    return 0;
}

/* ---------------------------------------------------------------- the list of tensors */

static size_t n_walked;

static td_status compare_line(void *context, const td_xtts_tensor *t)
{
    (void)context;
    char line[TD_XTTS_NAME_BYTES + 96];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", t->name), i = 0;
    for (size_t d = 0; d < t->rank; d++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %u", (unsigned)t->dims[d]);
    while (i < n_lines && strcmp(lines[i], line) != 0)
        i++;
    if (i == n_lines) fail_msg("Coqui has no \"%s\"", line);
    n_walked++;
    return TD_OK;
}

static void test_tensors_are_those_of_coqui(void **state)
{
    (void)state;
    const td_xtts c = td_xtts_get(&config);
    n_walked = 0;
    check(td_xtts_walk(&c, compare_line, NULL));
    assert_int_equal(n_walked, n_lines);
    assert_true(n_lines > 400);
}

/* The published model, by what is known of it. */
static td_status add_up(void *context, const td_xtts_tensor *t)
{
    uint64_t *sums = context, n = 1;
    const td_family *family = config.family;
    for (size_t d = 0; d < t->rank; d++)
        n *= t->dims[d];
    if (!td_family_is_buffer(family, t->name)) sums[td_family_find_part(family, t->name)] += n;
    return TD_OK;
}

static void test_parameters_of_the_published_model(void **state)
{
    (void)state;
    td_model_config base;
    uint64_t sums[8] = {0};
    check(td_model_preset(config.family, "base", &base));
    const td_xtts c = td_xtts_get(&base);
    check(td_xtts_walk(&c, add_up, sums));
    assert_int_equal(sums[0], 441018563);
    assert_int_equal(sums[1], 17827808);
    assert_int_equal(sums[2], 8028492);
    assert_int_equal(sums[4], 51567184);
}

/* ---------------------------------------------------------------- a source */

/* What a source is to be like. */
typedef struct recipe {
    const char *folder, *prefix; /* before names, in model.pth */
    const char *left_out;        /* a tensor that is not there */
    const char *reshaped;        /* one that has a row more */
    const char *broken;          /* one with a NaN */
    const char *config, *vocab;  /* NULL: as above; "": none */
    bool has_dvae, has_speakers, has_old_names, has_more;
} recipe;

typedef struct cook {
    const recipe *r;
    td_torch_writer *w;
    bool is_writing, is_dvae;
} cook;

/* Numbers that differ from tensor to tensor and are finite. */
static void fill(const char *name, float *out, size_t n)
{
    uint64_t x = td_hash64(name, strlen(name));
    for (size_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        out[i] = (float)(int32_t)(x >> 32) * 0x1p-31F;
    }
}

static void rename_tensor(const cook *k, const char *name, char out[256])
{
    static const char NORM[] = ".parametrizations.weight.original";
    const char *norm = strstr(name, NORM);
    snprintf(out, 256, "%s%s", k->is_dvae ? "" : k->r->prefix, k->is_dvae ? name + 5 : name);
    if (k->r->has_old_names && norm != NULL)
        snprintf(out, 256, "%s%.*s.weight_%c", k->r->prefix, (int)(norm - name), name,
                 norm[strlen(NORM)] == '0' ? 'g' : 'v');
}

static td_status cook_tensor(void *context, const td_xtts_tensor *t)
{
    cook *k = context;
    char name[256];
    uint64_t dims[4], n = 1;
    const int64_t tracked = 12;
    td_status status = TD_OK;
    if ((strncmp(t->name, "dvae.", 5) == 0) != k->is_dvae) return TD_OK;
    if (k->r->left_out != NULL && strcmp(k->r->left_out, t->name) == 0) return TD_OK;
    memcpy(dims, t->dims, sizeof dims);
    if (k->r->reshaped != NULL && strcmp(k->r->reshaped, t->name) == 0) dims[0]++;
    for (size_t d = 0; d < t->rank; d++)
        n *= dims[d];
    if (!k->is_writing) {
        rename_tensor(k, t->name, name);
        TD_TRY(td_torch_writer_key(k->w, name));
        TD_TRY(td_torch_writer_tensor(k->w, t->is_integer ? TD_SAFETENSORS_I64 : TD_SAFETENSORS_F32, t->rank,
                                      dims));
        return TD_OK;
    }
    if (t->is_integer) return td_torch_writer_write(k->w, &tracked, sizeof tracked);
    float *data = malloc((size_t)n * sizeof *data);
    fill(t->name, data, (size_t)n);
    if (k->r->broken != NULL && strcmp(k->r->broken, t->name) == 0) data[n - 1] = NAN;
    status = td_torch_writer_write(k->w, data, n * sizeof *data);
    free(data);
fail:
    return status;
}

static const float MORE[4] = {1, 2, 3, 4};

static void cook_file(const recipe *r, const char *name, bool is_dvae)
{
    const td_xtts c = td_xtts_get(&config);
    cook k = {.r = r, .is_dvae = is_dvae};
    char path[600];
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    check(td_torch_writer_open(path, "archive", &k.w));
    check(td_torch_writer_begin_dict(k.w));
    if (!is_dvae) {
        check(td_torch_writer_key(k.w, "model"));
        check(td_torch_writer_begin_dict(k.w));
    }
    check(td_xtts_walk(&c, cook_tensor, &k));
    if (!is_dvae && r->has_more) {
        check(td_torch_writer_key(k.w, "gpt.gpt_inference.lm_head.0.weight"));
        check(td_torch_writer_tensor(k.w, TD_SAFETENSORS_F32, 1, (uint64_t[]){4}));
    }
    check(td_torch_writer_end_dict(k.w));
    if (!is_dvae) check(td_torch_writer_end_dict(k.w));
    k.is_writing = true;
    check(td_xtts_walk(&c, cook_tensor, &k));
    if (!is_dvae && r->has_more) check(td_torch_writer_write(k.w, MORE, sizeof MORE));
    check(td_torch_writer_commit(k.w));
    td_torch_writer_close(k.w);
}

static void cook_speakers(const recipe *r)
{
    static const char *const NAMES[] = {"Ana", "Ana.h", "Zed L\xc3\xb6w"};
    const td_xtts c = td_xtts_get(&config);
    const size_t n = (size_t)c.perceiver_latents * c.gpt_n_model_channels;
    float *data = malloc(n * sizeof *data);
    td_torch_writer *w;
    char path[600];
    snprintf(path, sizeof path, "%s/speakers_xtts.pth", r->folder);
    check(td_torch_writer_open(path, "speakers_xtts", &w));
    check(td_torch_writer_begin_dict(w));
    for (size_t i = 0; i < 3; i++) {
        check(td_torch_writer_key(w, NAMES[i]));
        check(td_torch_writer_begin_dict(w));
        check(td_torch_writer_key(w, "gpt_cond_latent"));
        check(td_torch_writer_tensor(w, TD_SAFETENSORS_F32, 3,
                                     (uint64_t[]){1, c.perceiver_latents, c.gpt_n_model_channels}));
        check(td_torch_writer_key(w, "speaker_embedding"));
        check(td_torch_writer_tensor(w, TD_SAFETENSORS_F32, 3, (uint64_t[]){1, c.d_vector_dim, 1}));
        check(td_torch_writer_end_dict(w));
    }
    check(td_torch_writer_end_dict(w));
    for (size_t i = 0; i < 3; i++) {
        fill(NAMES[i], data, n);
        check(td_torch_writer_write(w, data, n * sizeof *data));
        check(td_torch_writer_write(w, data, c.d_vector_dim * sizeof *data));
    }
    check(td_torch_writer_commit(w));
    td_torch_writer_close(w);
    free(data);
}

static void cook_source(const recipe *r)
{
    char path[600];
    check(td_file_make_dirs(r->folder));
    cook_file(r, "model.pth", false);
    if (r->has_dvae) cook_file(r, "dvae.pth", true);
    if (r->has_speakers) cook_speakers(r);
    const char *const texts[][2] = {{"config.json", r->config ? r->config : CONFIG},
                                    {"vocab.json", r->vocab ? r->vocab : VOCAB}};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", r->folder, texts[i][0]);
        if (texts[i][1][0] != '\0') check(td_file_write_atomic(path, texts[i][1], strlen(texts[i][1])));
    }
}

static td_status import_to(const char *folder, const char *path, td_safetensors_dtype dtype)
{
    td_status status = TD_OK;
    td_import *import = NULL;
    TD_TRY(td_import_open(folder, false, &import));
    TD_TRY(td_import_write(import, path, dtype));
fail:
    td_import_close(import);
    return status;
}

/* ---------------------------------------------------------------- import */

static td_status expect_tensor(void *context, const td_xtts_tensor *t)
{
    const td_checkpoint *voice = context;
    const td_safetensors_tensor *got;
    if (strncmp(t->name, "dvae.", 5) == 0 &&
        td_xtts_get(&td_checkpoint_get_info(voice)->model).dvae_hidden == 0)
        return TD_OK;
    check(td_checkpoint_tensor(voice, "", t->name, &got));
    if (t->is_integer) {
        assert_int_equal(*(const int64_t *)got->data, 12);
        return TD_OK;
    }
    float *wanted = malloc((size_t)got->bytes);
    fill(t->name, wanted, (size_t)got->bytes / 4);
    assert_memory_equal(got->data, wanted, (size_t)got->bytes);
    free(wanted);
    return TD_OK;
}

static void expect_voice(const char *path)
{
    td_checkpoint *voice;
    const td_safetensors_tensor *t;
    check(td_checkpoint_open(path, &voice));
    check(td_checkpoint_verify(voice));
    const td_xtts got = td_xtts_get(&td_checkpoint_get_info(voice)->model);
    check(td_xtts_walk(&got, expect_tensor, voice));
    assert_int_equal(got.gpt_layers, 2);
    assert_int_equal(got.gpt_start_text_token, 30); /* by vocab.json */
    assert_int_equal(got.top_k, 40);
    assert_true(got.temperature == 0.65F);
    assert_int_equal(got.speaker_blocks_2, 2);
    assert_string_equal(td_checkpoint_text(voice, "languages"), "en\nzh-cn");
    assert_string_equal(td_checkpoint_text(voice, "tokenizer_json"), VOCAB);
    assert_string_equal(td_checkpoint_get_info(voice)->language, "en");
    assert_non_null(strstr(td_checkpoint_text(voice, "licence"), "CPML"));
    check(td_checkpoint_tensor(voice, "param.", "mel_stats", &t)); /* asked for as those of our own */
    refuse(TD_ERR_NOT_FOUND, "param.nothing", td_checkpoint_tensor(voice, "param.", "nothing", &t));
    td_checkpoint_close(voice);
}

static void test_every_tensor_to_the_bit(void **state)
{
    (void)state;
    const recipe r = {
        .folder = temp_path("in"), .prefix = "", .has_dvae = true, .has_speakers = true, .has_more = true};
    td_import *import;
    cook_source(&r);
    check(td_import_open(r.folder, false, &import));
    assert_int_equal(import->ignored.n, 1);
    assert_string_equal(import->ignored.at[0], "gpt.gpt_inference.lm_head.0.weight");
    assert_int_equal(import->missing.n, 0);
    assert_string_equal(import->info.speakers, "Ana\nAna.h\nZed L\xc3\xb6w");
    check(td_import_write(import, temp_path("voice.safetensors"), TD_SAFETENSORS_F32));
    td_import_close(import);
    expect_voice(temp_path("voice.safetensors"));
}

static void test_names_of_older_files(void **state)
{
    (void)state;
    const recipe r = {.folder = temp_path("in"), .prefix = "xtts.", .has_old_names = true};
    td_import *import;
    cook_source(&r);
    check(td_import_open(r.folder, false, &import));
    assert_int_equal(import->missing.n, 2);
    assert_string_equal(import->missing.at[0], "dvae.pth");
    assert_string_equal(import->missing.at[1], "speakers_xtts.pth");
    check(td_import_write(import, temp_path("voice.safetensors"), TD_SAFETENSORS_F32));
    td_import_close(import);
    expect_voice(temp_path("voice.safetensors"));
}

static void expect_same_file(const char *a, const char *b)
{
    char *one, *two;
    size_t one_bytes, two_bytes;
    check(td_file_read(a, 64 << 20, &one, &one_bytes));
    check(td_file_read(b, 64 << 20, &two, &two_bytes));
    assert_int_equal(one_bytes, two_bytes);
    assert_memory_equal(one, two, one_bytes);
    free(one);
    free(two);
}

/* Also in 16 bits, and of a slim copy. */
static void test_import_of_an_export_is_the_voice(void **state)
{
    (void)state;
    static const td_safetensors_dtype DTYPES[] = {TD_SAFETENSORS_F32, TD_SAFETENSORS_BF16,
                                                  TD_SAFETENSORS_F16};
    char folder[600], first[600], second[600], slim[600];
    const recipe r = {.folder = folder, .prefix = "", .has_dvae = true, .has_speakers = true};
    snprintf(folder, sizeof folder, "%s", temp_path("in"));
    cook_source(&r);
    for (size_t i = 0; i < 3; i++) {
        td_checkpoint *voice;
        snprintf(first, sizeof first, "%s", temp_path("voice.safetensors"));
        snprintf(second, sizeof second, "%s", temp_path("again.safetensors"));
        snprintf(slim, sizeof slim, "%s", temp_path("slim.safetensors"));
        check(import_to(r.folder, first, DTYPES[i]));
        check(td_checkpoint_open(first, &voice));
        check(td_export_voice(voice, "coqui", temp_path("out")));
        refuse(TD_ERR_UNSUPPORTED, "other", td_export_voice(voice, "other", temp_path("out")));
        check(td_checkpoint_write_slim(voice, slim));
        td_checkpoint_close(voice);
        check(import_to(temp_path("out"), second, DTYPES[i]));
        expect_same_file(first, second);
        expect_same_file(first, slim);
    }
}

/* ---------------------------------------------------------------- bytes */

static size_t n_matrices;

/* What a matrix of a block must be: the largest of each output 127 or -127, and nothing off by more than half. */
static void expect_bytes(const td_checkpoint *voice, const td_xtts_tensor *t)
{
    const size_t in = (size_t)t->dims[0], out = (size_t)t->dims[1];
    const td_safetensors_tensor *bytes, *scales;
    char name[TD_XTTS_NAME_BYTES + 8];
    float *wanted = malloc(in * out * sizeof *wanted);
    snprintf(name, sizeof name, "%s.scale", t->name);
    check(td_checkpoint_tensor(voice, "", t->name, &bytes));
    check(td_checkpoint_tensor(voice, "", name, &scales));
    assert_int_equal(bytes->dtype, TD_SAFETENSORS_I8);
    assert_int_equal(scales->dtype, TD_SAFETENSORS_F32);
    assert_int_equal(scales->rank, 1);
    assert_int_equal(scales->dims[0], out);
    fill(t->name, wanted, in * out);
    for (size_t j = 0; j < out; j++) {
        const double scale = (double)((const float *)scales->data)[j];
        int most = 0;
        for (size_t i = 0; i < in; i++) {
            const int byte = ((const int8_t *)bytes->data)[i * out + j];
            if (!(fabs((double)wanted[i * out + j] / scale - byte) <= 0.5 + 1e-5))
                fail_msg("%s: %g of a scale of %g became %d", t->name, (double)wanted[i * out + j], scale,
                         byte);
            if (abs(byte) > most) most = abs(byte);
        }
        assert_int_equal(most, 127);
    }
    free(wanted);
    n_matrices++;
}

static td_status expect_bytes_or_floats(void *context, const td_xtts_tensor *t)
{
    if (strncmp(t->name, "gpt.gpt.h.", 10) != 0 || t->rank != 2) return expect_tensor(context, t);
    expect_bytes(context, t);
    return TD_OK;
}

/* Nothing but the matrices of blocks is touched; parameters are counted as before; it is no model for others. */
static void test_matrices_as_bytes(void **state)
{
    (void)state;
    char folder[600], bytes[600], floats[600];
    const recipe r = {.folder = folder, .prefix = "", .has_dvae = true, .has_speakers = true};
    td_import *import;
    td_checkpoint *voice, *wide;
    snprintf(folder, sizeof folder, "%s", temp_path("in"));
    snprintf(bytes, sizeof bytes, "%s", temp_path("bytes.safetensors"));
    snprintf(floats, sizeof floats, "%s", temp_path("floats.safetensors"));
    cook_source(&r);
    check(import_to(folder, floats, TD_SAFETENSORS_F32));
    check(td_import_open(folder, false, &import));
    check(td_import_write(import, bytes, TD_SAFETENSORS_I8));
    const uint64_t imported = td_import_part_size(import, 0);
    td_import_close(import);
    check(td_checkpoint_open(floats, &wide));
    check(td_checkpoint_open(bytes, &voice));
    check(td_checkpoint_verify(voice));
    const td_xtts got = td_xtts_get(&td_checkpoint_get_info(voice)->model);
    n_matrices = 0;
    check(td_xtts_walk(&got, expect_bytes_or_floats, voice));
    assert_int_equal(n_matrices, 4 * got.gpt_layers);
    assert_string_equal(td_checkpoint_text(voice, "weights"), "int8");
    assert_int_equal(td_checkpoint_part_size(voice, 0), td_checkpoint_part_size(wide, 0));
    assert_int_equal(imported, td_checkpoint_part_size(wide, 0));
    refuse(TD_ERR_UNSUPPORTED, "bytes", td_export_voice(voice, "coqui", temp_path("out")));
    td_checkpoint_close(voice);
    td_checkpoint_close(wide);
}

/* ---------------------------------------------------------------- what is wrong with a source */

static void expect_refusal(recipe r, td_status status, const char *words)
{
    char folder[600];
    static unsigned turn;
    snprintf(folder, sizeof folder, "%s/in-%u", temp_dir, turn++);
    r.folder = folder;
    r.prefix = "";
    cook_source(&r);
    refuse(status, words, import_to(folder, temp_path("voice.safetensors"), TD_SAFETENSORS_F32));
    assert_false(td_file_exists(temp_path("voice.safetensors")));
}

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    expect_refusal((recipe){.left_out = "gpt.gpt.h.1.mlp.c_fc.weight"}, TD_ERR_FORMAT,
                   "model.pth|gpt.gpt.h.1.mlp.c_fc.weight|0 others");
    expect_refusal((recipe){.left_out = "gpt.text_embedding.weight"}, TD_ERR_FORMAT,
                   "gpt.text_embedding.weight");
    expect_refusal((recipe){.left_out = "gpt.gpt.h.0.ln_1.weight"}, TD_ERR_FORMAT, "gpt.gpt.h.0.ln_1.weight");
    expect_refusal((recipe){.reshaped = "gpt.mel_head.weight"}, TD_ERR_FORMAT,
                   "gpt.mel_head.weight|[35, 48]|[34, 48]");
    expect_refusal((recipe){.broken = "gpt.final_norm.bias"}, TD_ERR_INTEGRITY,
                   "gpt.final_norm.bias|not finite");
    expect_refusal((recipe){.vocab = ""}, TD_ERR_NOT_FOUND, "vocab.json");
    expect_refusal((recipe){.vocab = "{"}, TD_ERR_FORMAT, "vocab.json");
    expect_refusal((recipe){.config = ""}, TD_ERR_NOT_FOUND, "config.json");
    expect_refusal((recipe){.config = "[1]"}, TD_ERR_FORMAT, "config.json|no JSON object");
    expect_refusal((recipe){.config = "{\"model_args\":{\"gpt_layers\":3}}"}, TD_ERR_FORMAT,
                   "gpt_layers is 2|3 in config.json");
    expect_refusal((recipe){.config = "{\"model_args\":{\"gpt_n_heads\":7}}"}, TD_ERR_FORMAT, "gpt_n_heads");
    expect_refusal((recipe){.config = "{\"temperature\":\"warm\"}"}, TD_ERR_FORMAT,
                   "config.json|temperature");
    expect_refusal((recipe){.config = "{\"top_p\":17}"}, TD_ERR_FORMAT, "config.json|top_p");
    refuse(TD_ERR_NOT_FOUND, "model.pth|config.json|vocab.json",
           import_to(temp_dir, temp_path("voice.safetensors"), TD_SAFETENSORS_F32));
}

int main(void)
{
#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, temp_dir_make, temp_dir_remove)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_those_of_coqui),
        cmocka_unit_test(test_parameters_of_the_published_model),
        IN_A_FOLDER(test_every_tensor_to_the_bit),
        IN_A_FOLDER(test_names_of_older_files),
        IN_A_FOLDER(test_import_of_an_export_is_the_voice),
        IN_A_FOLDER(test_matrices_as_bytes),
        IN_A_FOLDER(test_what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, open_layout, close_layout);
}
