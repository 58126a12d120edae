/* Safetensors: round trip, exact bytes, hostile files, sizes past 32 bits, misuse of the writer
 * (src/base/safetensors.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "support/share.h"
#include "support/temp_dir.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A file in memory: owned by the caller, free(). The header is padded to a multiple of 8. */
static unsigned char *build(const char *header, size_t data_bytes, size_t *bytes)
{
    const size_t text_bytes = strlen(header);
    const size_t header_bytes = (text_bytes + 7) / 8 * 8;
    *bytes = 8 + header_bytes + data_bytes;
    unsigned char *content = calloc(1, *bytes);
    assert_non_null(content);
    for (size_t i = 0; i < 8; ++i)
        content[i] = (unsigned char)(header_bytes >> 8 * i);
    for (size_t i = 0; i < header_bytes; ++i)
        content[8 + i] = i < text_bytes ? (unsigned char)header[i] : ' ';
    for (size_t i = 0; i < data_bytes; ++i)
        content[8 + header_bytes + i] = (unsigned char)(i * 7 + 1);
    return content;
}

static void assert_message(const char *word)
{
    const char *message = td_error_last()->message;
    if (!strstr(message, word)) fail_msg("no '%s' in: %s", word, message);
    if (strchr(message, '\n')) fail_msg("more than a line: %s", message);
}

static void assert_content_refused(const unsigned char *content, size_t bytes, td_status expected,
                                   const char *word)
{
    td_safetensors *file = (td_safetensors *)&file;
    td_status status = td_safetensors_parse(content, bytes, "hostile.file", &file);
    if (status != expected)
        fail_msg("%s for '%s': %s", td_status_name(status), word, td_error_last()->message);
    assert_null(file);
    assert_message("'hostile.file' is not a valid safetensors file: ");
    assert_message(word);
}

static void assert_refused(const char *header, size_t data_bytes, td_status expected, const char *word)
{
    size_t bytes;
    unsigned char *content = build(header, data_bytes, &bytes);
    assert_content_refused(content, bytes, expected, word);
    free(content);
}

static void assert_accepted(const char *header, size_t data_bytes, size_t n_tensors)
{
    size_t bytes;
    td_safetensors *file = NULL;
    unsigned char *content = build(header, data_bytes, &bytes);
    if (td_safetensors_parse(content, bytes, "good", &file) != TD_OK)
        fail_msg("%s: %s", header, td_error_last()->message);
    assert_int_equal(td_safetensors_count(file), n_tensors);
    td_safetensors_close(file);
    free(content);
}

/* --- Writing and reading back --- */

static const unsigned char PATTERN[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-";

static td_safetensors_writer *begin_file(const char *path)
{
    td_safetensors_writer *writer = NULL;
    assert_int_equal(td_safetensors_writer_open(path, &writer), TD_OK);
    return writer;
}

static void add(td_safetensors_writer *writer, const char *name, td_safetensors_dtype dtype, size_t rank,
                const uint64_t *dims)
{
    assert_int_equal(td_safetensors_writer_add_tensor(writer, name, dtype, rank, dims), TD_OK);
}

static void write_small(const char *path)
{
    td_safetensors_writer *writer = begin_file(path);
    assert_int_equal(td_safetensors_writer_add_metadata(writer, "step", "12"), TD_OK);
    add(writer, "w", TD_SAFETENSORS_F32, 2, (uint64_t[]){2, 3});
    add(writer, "b", TD_SAFETENSORS_BF16, 1, (uint64_t[]){2});
    assert_int_equal(td_safetensors_writer_write(writer, "w", PATTERN, 24), TD_OK);
    assert_int_equal(td_safetensors_writer_write(writer, "b", PATTERN + 24, 4), TD_OK);
    assert_int_equal(td_safetensors_writer_commit(writer), TD_OK);
    td_safetensors_writer_close(writer);
}

static void test_exact_bytes(void **state)
{
    (void)state;
    static const char header[] = "{\"__metadata__\": {\"step\": \"12\"}, "
                                 "\"w\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]}, "
                                 "\"b\": {\"dtype\": \"BF16\", \"shape\": [2], \"data_offsets\": [24, 28]}}";
    size_t expected_bytes, bytes;
    char *got = NULL;
    unsigned char *expected = build(header, 28, &expected_bytes);
    memcpy(expected + expected_bytes - 28, PATTERN, 28);
    assert_true(strlen(header) % 8 != 0); /* so that the padding is seen */
    write_small(temp_path("a"));
    assert_int_equal(td_file_read(temp_path("a"), 4096, &got, &bytes), TD_OK);
    assert_int_equal(bytes, expected_bytes);
    assert_memory_equal(got, expected, bytes);
    assert_int_equal(temp_dir_count(temp_dir), 1);
    free(got);
    free(expected);
}

static void write_all_types(const char *path)
{
    td_safetensors_writer *writer = begin_file(path);
    assert_int_equal(td_safetensors_writer_add_metadata(writer, "z\"\\\n\t", "caf\xC3\xA9 \xF0\x9F\x8E\xB5"),
                     TD_OK);
    assert_int_equal(td_safetensors_writer_add_metadata(writer, "a", ""), TD_OK);
    const size_t widths[] = {8, 4, 2, 1};
    for (size_t w = 0; w < COUNT(widths); ++w) {
        for (size_t i = 0; i < TD_SAFETENSORS_DTYPE_COUNT; ++i) {
            const td_safetensors_dtype dtype = (td_safetensors_dtype)i;
            if (td_safetensors_dtype_bytes(dtype) != widths[w]) continue;
            add(writer, td_safetensors_dtype_name(dtype), dtype, 3, (uint64_t[]){1, 4, 2});
        }
    }
    add(writer, "scalar \"\xE2\x82\xAC\"", TD_SAFETENSORS_U8, 0, NULL);
    add(writer, "empty", TD_SAFETENSORS_U8, 2, (uint64_t[]){3, 0});
    for (size_t w = 0; w < COUNT(widths); ++w) {
        for (size_t i = 0; i < TD_SAFETENSORS_DTYPE_COUNT; ++i) {
            const td_safetensors_dtype dtype = (td_safetensors_dtype)i;
            const char *name = td_safetensors_dtype_name(dtype);
            if (td_safetensors_dtype_bytes(dtype) != widths[w]) continue;
            assert_int_equal(td_safetensors_writer_write(writer, name, PATTERN, 3), TD_OK);
            assert_int_equal(td_safetensors_writer_write(writer, name, PATTERN + 3, 8 * widths[w] - 3),
                             TD_OK);
        }
    }
    assert_int_equal(td_safetensors_writer_write(writer, "scalar \"\xE2\x82\xAC\"", "s", 1), TD_OK);
    assert_int_equal(td_safetensors_writer_write(writer, "empty", NULL, 0), TD_OK);
    assert_int_equal(td_safetensors_writer_commit(writer), TD_OK);
    td_safetensors_writer_close(writer);
}

static void test_round_trip(void **state)
{
    (void)state;
    td_safetensors *file = NULL;
    write_all_types(temp_path("all"));
    assert_int_equal(td_safetensors_open(temp_path("all"), &file), TD_OK);
    assert_int_equal(td_safetensors_count(file), TD_SAFETENSORS_DTYPE_COUNT + 2);
    uint64_t offset = 0;
    for (size_t i = 0; i < td_safetensors_count(file); ++i) {
        const td_safetensors_tensor *tensor = td_safetensors_at(file, i);
        assert_int_equal(tensor->offset, offset);
        offset += tensor->bytes;
        assert_ptr_equal(td_safetensors_find(file, tensor->name), tensor);
        if (tensor->rank != 3) continue;
        assert_string_equal(tensor->name, td_safetensors_dtype_name(tensor->dtype));
        assert_true(tensor->dims[0] == 1 && tensor->dims[1] == 4 && tensor->dims[2] == 2);
        assert_int_equal(tensor->bytes, 8 * td_safetensors_dtype_bytes(tensor->dtype));
        assert_memory_equal(tensor->data, PATTERN, tensor->bytes);
        assert_int_equal((uintptr_t)tensor->data % td_safetensors_dtype_bytes(tensor->dtype), 0);
    }
    const td_safetensors_tensor *scalar = td_safetensors_find(file, "scalar \"\xE2\x82\xAC\"");
    assert_true(scalar && scalar->rank == 0 && scalar->bytes == 1 && *(const char *)scalar->data == 's');
    const td_safetensors_tensor *empty = td_safetensors_find(file, "empty");
    assert_true(empty && empty->rank == 2 && empty->bytes == 0);
    assert_null(td_safetensors_find(file, "F3"));
    assert_null(td_safetensors_find(file, "__metadata__"));
    assert_int_equal(td_safetensors_metadata_count(file), 2);
    assert_string_equal(td_safetensors_metadata_at(file, 0)->key, "a");
    assert_string_equal(td_safetensors_metadata_at(file, 1)->key, "z\"\\\n\t");
    assert_string_equal(td_safetensors_metadata_find(file, "z\"\\\n\t"), "caf\xC3\xA9 \xF0\x9F\x8E\xB5");
    assert_string_equal(td_safetensors_metadata_find(file, "a"), "");
    assert_null(td_safetensors_metadata_find(file, "b"));
    td_safetensors_close(file);
}

static void test_writing_is_deterministic(void **state)
{
    (void)state;
    char *a = NULL, *b = NULL;
    size_t a_bytes, b_bytes;
    write_all_types(temp_path("a"));
    write_all_types(temp_path("b"));
    assert_int_equal(td_file_read(temp_path("a"), 1 << 20, &a, &a_bytes), TD_OK);
    assert_int_equal(td_file_read(temp_path("b"), 1 << 20, &b, &b_bytes), TD_OK);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(a, b, a_bytes);
    free(a);
    free(b);
}

static void test_empty_file_of_no_tensors(void **state)
{
    (void)state;
    td_safetensors *file = NULL;
    td_safetensors_writer *writer = begin_file(temp_path("none"));
    assert_int_equal(td_safetensors_writer_commit(writer), TD_OK);
    td_safetensors_writer_close(writer);
    assert_int_equal(td_safetensors_open(temp_path("none"), &file), TD_OK);
    assert_int_equal(td_safetensors_count(file), 0);
    assert_int_equal(td_safetensors_metadata_count(file), 0);
    assert_null(td_safetensors_find(file, "w"));
    assert_null(td_safetensors_metadata_find(file, "w"));
    td_safetensors_close(file);
    td_safetensors_close(NULL);
    td_safetensors_writer_close(NULL);
}

/* Written by the Python package, version 0.8.0. */
static void test_foreign_file(void **state)
{
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"format\":\"np\"},"
                                 "\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                                 "\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]},"
                                 "\"none\":{\"dtype\":\"U8\",\"shape\":[0,3],\"data_offsets\":[24,24]},"
                                 "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[24,27]}}";
    size_t bytes;
    td_safetensors *file = NULL;
    unsigned char *content = build(header, 27, &bytes);
    const int64_t step = 7;
    const float w[] = {1, 2, 3, 4.5F};
    memcpy(content + bytes - 27, &step, 8);
    memcpy(content + bytes - 19, w, 16);
    memcpy(content + bytes - 3, (const bool[]){true, false, true}, 3);
    assert_int_equal(td_safetensors_parse(content, bytes, "foreign", &file), TD_OK);
    assert_int_equal(td_safetensors_count(file), 4);
    assert_memory_equal(td_safetensors_find(file, "step")->data, &step, 8);
    assert_memory_equal(td_safetensors_find(file, "w")->data, w, 16);
    assert_int_equal(td_safetensors_find(file, "flag")->dtype, TD_SAFETENSORS_BOOL);
    assert_string_equal(td_safetensors_metadata_find(file, "format"), "np");
    td_safetensors_close(file);
    free(content);
}

/* --- Hostile files --- */

#define T(name, dtype, shape, begin, end)                                                                    \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

static void test_header_lengths(void **state)
{
    (void)state;
    size_t bytes;
    unsigned char *content = build("{" T("a", "U8", "8", 0, 8) "}", 8, &bytes);
    const uint64_t header_bytes = bytes - 16;
    const struct {
        uint64_t claim;
        td_status status;
        const char *word;
    } cases[] = {
        {UINT64_C(2) << 30, TD_ERR_LIMIT, "a header of 2147483648 bytes, more than the 100000000 allowed"},
        {UINT64_MAX, TD_ERR_LIMIT, "a header of 18446744073709551615 bytes"},
        {UINT64_MAX - 7, TD_ERR_LIMIT, "a header of 18446744073709551608 bytes"},
        {100000001, TD_ERR_LIMIT, "more than the 100000000 allowed"},
        {100000000, TD_ERR_FORMAT, "a header of 100000000 bytes, but only"},
        {header_bytes + 16, TD_ERR_FORMAT, "follow"},
        {header_bytes + 9, TD_ERR_FORMAT, "follow"},
        {header_bytes + 8, TD_ERR_FORMAT, "only spaces may follow the object"},
        {header_bytes - 1, TD_ERR_FORMAT, "no multiple of 8"},
        {header_bytes - 8, TD_ERR_FORMAT, "ends inside its object"},
        {8, TD_ERR_FORMAT, "ends inside its object"},
        {0, TD_ERR_FORMAT, "does not begin with '{'"},
    };
    for (size_t i = 0; i < COUNT(cases); ++i) {
        for (size_t b = 0; b < 8; ++b)
            content[b] = (unsigned char)(cases[i].claim >> 8 * b);
        assert_content_refused(content, bytes, cases[i].status, cases[i].word);
    }
    for (size_t n = 0; n < 8; ++n)
        assert_content_refused(content, n, TD_ERR_FORMAT, "cannot hold the header's length");
    free(content);
}

static void test_hostile_layouts(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *word;
    } cases[] = {
        {"{" T("a", "F32", "2", 0, 8) "}", 7, "tensor 'a': data_offsets [0, 8] reach past the 7 bytes"},
        {"{" T("a", "F32", "2", 8, 16) "}", 8, "tensor 'a': data_offsets [8, 16] reach past"},
        {"{" T("a", "F32", "2", 8, 0) "}", 8, "tensor 'a': data_offsets [8, 0] run backwards"},
        {"{" T("a", "F32", "2", 0, 4) "}", 4,
         "tensor 'a': data_offsets span 4 bytes, dtype and shape need 8"},
        {"{" T("a", "F32", "2", 0, 12) "}", 12, "tensor 'a': data_offsets span 12 bytes"},
        {"{" T("a", "F64", "0", 0, 8) "}", 8,
         "tensor 'a': data_offsets span 8 bytes, dtype and shape need 0"},
        {"{" T("a", "F32", "2", 0, 8) "," T("b", "F32", "2", 4, 12) "}", 12,
         "tensor 'b': its data overlaps that of 'a'"},
        {"{" T("b", "F32", "2", 0, 8) "," T("a", "F32", "2", 0, 8) "}", 8,
         "tensor 'b': its data overlaps that of 'a'"},
        {"{" T("a", "U8", "9", 0, 9) "," T("in", "U8", "1", 4, 5) "}", 9,
         "'in': its data overlaps that of 'a'"},
        {"{" T("a", "U8", "9", 0, 9) "," T("e", "U8", "0", 4, 4) "}", 9,
         "'e': its data overlaps that of 'a'"},
        {"{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 8, 12) "}", 12,
         "tensor 'b': 4 bytes before it belong to no tensor"},
        {"{" T("a", "F32", "1", 4, 8) "}", 8, "tensor 'a': 4 bytes before it belong to no tensor"},
        {"{" T("a", "F32", "1", 0, 4) "}", 8, "the last 4 of 8 bytes of data belong to no tensor"},
        {"{}", 8, "the last 8 of 8 bytes of data belong to no tensor"},
        {"{" T("a", "U8", "3", 0, 3) "," T("b", "F32", "1", 3, 7) "}", 7,
         "tensor 'b': its data at 3 is not aligned to the 4 bytes of F32"},
        {"{" T("a", "F32", "1", 0, 4) "," T("b", "I64", "1", 4, 12) "}", 12,
         "tensor 'b': its data at 4 is not aligned to the 8 bytes of I64"},
        {"{" T("a", "F32", "4294967296,4294967296", 0, 0) "}", 0,
         "tensor 'a': the product of dtype and shape"},
        {"{" T("a", "F32", "4611686018427387904", 0, 0) "}", 0,
         "tensor 'a': the shape holds a number past 2^53"},
        {"{" T("a", "F64", "9007199254740992,256", 0, 0) "}", 0, "overflows 64 bits"},
        {"{" T("a", "U8", "4294967296,4294967296,0", 0, 0) "}", 0, "overflows 64 bits"},
        {"{" T("a", "U8", "0,4294967296,4294967296", 0, 0) "}", 0, "overflows 64 bits"},
        {"{" T("a", "U8", "1", 18446744073709551615, 0) "}", 0, "data_offsets holds a number past 2^53"},
        {"{" T("a", "U8", "1", 0, 18446744073709551617) "}", 0, "data_offsets holds a number past 2^53"},
        {"{" T("a", "U8", "9007199254740992", 0, 9007199254740992) "}", 8,
         "tensor 'a': data_offsets [0, 9007"},
        {"{" T("a", "F32", "1", 0, 4) "," T("a", "F32", "1", 4, 8) "}", 8, "'a': the name is there twice"},
        {"{" T("a", "F32", "1", 0, 4) "," T("\\u0061", "F32", "1", 4, 8) "}", 8,
         "'a': the name is there twice"},
        {"{" T("e", "U8", "0", 0, 0) "," T("x", "U8", "1", 0, 1) "," T("e", "U8", "0", 1, 1) "}", 1,
         "tensor 'e': the name is there twice"},
    };
    for (size_t i = 0; i < COUNT(cases); ++i)
        assert_refused(cases[i].header, cases[i].data_bytes, TD_ERR_FORMAT, cases[i].word);
}

static void test_hostile_fields(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        const char *word;
    } cases[] = {
        {"{" T("a", "F33", "2", 0, 8) "}", "tensor 'a': the dtype 'F33' is not known"},
        {"{" T("a", "f32", "2", 0, 8) "}", "the dtype 'f32' is not known"},
        {"{" T("a", "", "2", 0, 8) "}", "the dtype '' is not known"},
        {"{\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}",
         "tensor 'a': the dtype is not a string"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}",
         "tensor 'a': the shape is not a list"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", "the shape holds something"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":{\"x\":2},\"data_offsets\":[0,8]}}", "the shape is not a list"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", "no list of two numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4,8]}}", "no list of two numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[]}}", "no list of two numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":8}}", "no list of two numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[\"0\",8]}}",
         "data_offsets holds something"},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "tensor 'a': it has no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "tensor 'a': it has no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "tensor 'a': it has no data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}",
         "it has shape twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}",
         "a field that is none of"},
        {"{\"a\":{}}", "tensor 'a': it has no dtype"},
        {"{\"a\":[0,8]}", "tensor 'a': it is not an object"},
        {"{\"a\":\"F32\"}", "tensor 'a': it is not an object"},
        {"{" T("", "F32", "2", 0, 8) "}", "a tensor has an empty name"},
        {"{" T("a\\nb", "F32", "2", 0, 8) "}", "a tensor's name has a control character at byte 1"},
        {"{" T("a\\u007f", "F32", "2", 0, 8) "}", "a tensor's name has a control character"},
        {"{\"__metadata__\":{\"k\":1}," T("a", "F32", "2", 0, 8) "}", "__metadata__ has a value that is no"},
        {"{\"__metadata__\":[\"k\"]," T("a", "F32", "2", 0, 8) "}", "__metadata__ is not an object"},
        {"{\"__metadata__\":{},\"__metadata__\":{}," T("a", "F32", "2", 0, 8) "}",
         "__metadata__ is there twice"},
        {"{\"__metadata__\":{\"k\":\"1\",\"j\":\"\",\"k\":\"2\"}," T("a", "F32", "2", 0, 8) "}",
         "a key twice"},
    };
    for (size_t i = 0; i < COUNT(cases); ++i)
        assert_refused(cases[i].header, 8, TD_ERR_FORMAT, cases[i].word);
}

static void test_hostile_text(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        const char *word;
    } cases[] = {
        {" {}", "does not begin with '{'"},
        {"\xEF\xBB\xBF{}", "does not begin with '{'"},
        {"[]", "does not begin with '{'"},
        {"", "does not begin with '{'"},
        {"{", "ends inside its object"},
        {"{\"a", "ends inside its object"},
        {"{\"a\\", "ends inside its object"},
        {"{}}", "byte 2 of the header: only spaces may follow"},
        {"{}\n", "only spaces may follow"},
        {"{} x", "byte 3 of the header: only spaces may follow"},
        {"{]", "no valid JSON"},
        {"{\"a\"}", "no valid JSON"},
        {"{\"a\":1,}", "no valid JSON"},
        {"{\"a\\x\":1}", "no valid JSON"},
        {"{\"\\ud800\":1}", "no valid JSON"},
        {"{\"a\xFF\":1}", "byte 3 of the header: the text is not valid UTF-8"},
        {"{\"a\xC0\x80\":1}", "not valid UTF-8"},
        {"{\"a\xED\xA0\x80\":1}", "not valid UTF-8"},
        {"{\"a\\u0000\":1}", "a zero character is in a string"},
        {"{\"a\tb\":1}", "a bare control character is in a string"},
        {"{\"a\":[[[0]]]}", "nested deeper than 3"},
        {"{" T("a", "U8", "-8", 0, 8) "}", "no place between strings and whole numbers"},
        {"{" T("a", "U8", "8.0", 0, 8) "}", "no place between strings and whole numbers"},
        {"{" T("a", "U8", "8e0", 0, 8) "}", "no place between strings and whole numbers"},
        {"{" T("a", "U8", "08", 0, 8) "}", "a number starts with a zero"},
        {"{\"a\":null}", "no place between strings and whole numbers"},
        {"{\"a\":\v1}", "no place between strings and whole numbers"},
    };
    for (size_t i = 0; i < COUNT(cases); ++i)
        assert_refused(cases[i].header, 8, TD_ERR_FORMAT, cases[i].word);
    assert_accepted("{" T("a\\\\u0000", "U8", "10", 0, 10) "\t\r\n}", 10, 1); /* an escaped backslash */
    assert_accepted("{" T("a\\u0062\xEF\xBF\xBD", "U8", "100,0", 0, 0) "}", 0, 1);
    assert_accepted(
        "{" T("b", "F32", "", 8, 12) "," T("e", "I64", "0", 8, 8) "," T("a", "I64", "1", 0, 8) "}", 12,
        3); /* any order */
}

/* {"0":E,"1":E,...} with E = `entry`, inside `before` and `after`. Owned, free(). */
static char *repeat(const char *before, size_t n, const char *entry, const char *after)
{
    char *text = malloc(strlen(before) + n * (strlen(entry) + 16) + strlen(after) + 1);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "%s", before);
    for (size_t i = 0; i < n; ++i)
        at += (size_t)sprintf(text + at, "%s\"%zu\":%s", i ? "," : "", i, entry);
    sprintf(text + at, "%s", after);
    return text;
}

static void test_limits(void **state)
{
    (void)state;
    static const char empty[] = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    char *text = repeat("{", TD_SAFETENSORS_MAX_ENTRIES, empty, "}");
    assert_accepted(text, 0, TD_SAFETENSORS_MAX_ENTRIES);
    free(text);
    text = repeat("{", TD_SAFETENSORS_MAX_ENTRIES + 1, empty, "}");
    assert_refused(text, 0, TD_ERR_LIMIT, "the header has more than 65536 tensors");
    free(text);
    text = repeat("{\"__metadata__\":{", TD_SAFETENSORS_MAX_ENTRIES + 1, "\"\"", "}}");
    assert_refused(text, 0, TD_ERR_LIMIT, "__metadata__ has more than 65536 entries");
    free(text);
    text = repeat("{\"a\":{", 16 * TD_SAFETENSORS_MAX_ENTRIES + 2, "0", "}}");
    assert_refused(text, 0, TD_ERR_LIMIT, "more than 1048576 values");
    free(text);
    assert_accepted("{" T("a", "U8", "1,1,1,1,1,1,1,2", 0, 2) "}", 2, 1);
    assert_refused("{" T("a", "U8", "1,1,1,1,1,1,1,1,2", 0, 2) "}", 2, TD_ERR_LIMIT,
                   "tensor 'a': the shape has more than 8 dimensions");
    char name[TD_SAFETENSORS_MAX_NAME_BYTES + 2] = {0};
    char header[1024];
    for (size_t n = TD_SAFETENSORS_MAX_NAME_BYTES; n <= TD_SAFETENSORS_MAX_NAME_BYTES + 1; ++n) {
        memset(name, 'n', n);
        snprintf(header, sizeof header, "{\"%s\":%s}", name, empty);
        if (n == TD_SAFETENSORS_MAX_NAME_BYTES)
            assert_accepted(header, 0, 1);
        else
            assert_refused(header, 0, TD_ERR_LIMIT, "name has 513 bytes, more than 512");
    }
}

static const char SMALL[] = "{\"__metadata__\":{\"k\":\"v\"}," T("first", "F32", "2,2", 0, 16) "," T(
    "second", "I16", "3", 16, 22) "," T("third", "U8", "", 22, 23) "}";

static void test_truncated_everywhere(void **state)
{
    (void)state;
    size_t bytes;
    unsigned char *content = build(SMALL, 23, &bytes);
    assert_accepted(SMALL, 23, 3);
    for (size_t n = 0; n < bytes; ++n) {
        unsigned char *cut = malloc(n ? n : 1); /* of its own, so that a byte read too far is seen */
        assert_non_null(cut);
        memcpy(cut, content, n);
        assert_content_refused(cut, n, TD_ERR_FORMAT, n > bytes - 23 ? "tensor '" : "");
        free(cut);
    }
    unsigned char *longer = calloc(1, bytes + 1);
    assert_non_null(longer);
    memcpy(longer, content, bytes);
    assert_content_refused(longer, bytes + 1, TD_ERR_FORMAT, "the last 1 of 24 bytes");
    free(longer);
    free(content);
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* What opens in spite of the flips must lie inside the file and cover it; the rest is refused by name. */
static void test_random_flips(void **state)
{
    (void)state;
    size_t bytes;
    unsigned char *content = build(SMALL, 23, &bytes);
    uint64_t seed = 42;
    int n_opened = 0, n_refused = 0;
    const int rounds = 100000 / (int)test_share();
    for (int round = 0; round < rounds; ++round) {
        unsigned char *flipped = malloc(bytes);
        assert_non_null(flipped);
        memcpy(flipped, content, bytes);
        for (uint32_t n = 1 + next_random(&seed) % 3; n > 0; --n) {
            const uint32_t at = next_random(&seed) % (uint32_t)(bytes - 23);
            flipped[at] = (unsigned char)(flipped[at] ^ 1u << next_random(&seed) % 8);
        }
        td_safetensors *file = NULL;
        if (td_safetensors_parse(flipped, bytes, "flipped", &file) != TD_OK) {
            assert_message("'flipped'");
            ++n_refused;
        } else {
            const unsigned char *end = flipped + bytes - 23;
            for (size_t i = 0; i < td_safetensors_count(file); ++i) {
                const td_safetensors_tensor *tensor = td_safetensors_at(file, i);
                assert_ptr_equal(tensor->data, end);
                end += tensor->bytes;
            }
            assert_ptr_equal(end, flipped + bytes);
            ++n_opened;
        }
        td_safetensors_close(file);
        free(flipped);
    }
    free(content);
    assert_true(n_opened > rounds / 100 &&
                n_refused > rounds / 2); /* names and metadata may change; little else */
}

/* --- Files on disk --- */

static void assert_not_opened(const char *path, td_status expected, const char *word)
{
    td_safetensors *file = (td_safetensors *)&file;
    assert_int_equal(td_safetensors_open(path, &file), expected);
    assert_null(file);
    assert_message(word);
    assert_message(path);
}

static void test_what_is_no_file(void **state)
{
    (void)state;
    assert_not_opened(temp_path("missing"), TD_ERR_NOT_FOUND, "cannot open");
    assert_string_equal(td_error_last()->native, "ENOENT");
    assert_not_opened(temp_dir, TD_ERR_FORMAT, "not a regular file");
    assert_int_equal(mkfifo(temp_path("pipe"), 0600), 0);
    assert_not_opened(temp_path("pipe"), TD_ERR_FORMAT, "not a regular file");
    assert_int_equal(td_file_write_atomic(temp_path("empty"), "", 0), TD_OK);
    assert_not_opened(temp_path("empty"), TD_ERR_FORMAT, "0 bytes cannot hold the header's length");
    assert_int_equal(td_file_write_atomic(temp_path("text"), "hello, this is no header", 24), TD_OK);
    assert_not_opened(temp_path("text"), TD_ERR_LIMIT, "it claims a header of");
}

/* A file with a hole of 6 GB: it takes no room on the disk. */
static void test_sizes_past_32_bits(void **state)
{
    (void)state;
    static const char header[] = "{" T("big", "F32", "40000,40000", 0,
                                       6400000000) "," T("mark", "U8", "4", 6400000000, 6400000004) "}";
    size_t bytes;
    td_safetensors *file = NULL;
    unsigned char *head = build(header, 0, &bytes);
    int fd = open(temp_path("big"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, head, bytes, 0), bytes);
    assert_int_equal(pwrite(fd, "last", 4, (off_t)bytes + 6399999996), 4);
    assert_int_equal(pwrite(fd, "mark", 4, (off_t)bytes + 6400000000), 4);
    assert_int_equal(td_safetensors_open(temp_path("big"), &file), TD_OK);
    const td_safetensors_tensor *big = td_safetensors_find(file, "big");
    assert_true(big->bytes == UINT64_C(6400000000));
    assert_memory_equal((const char *)big->data + big->bytes - 4, "last", 4);
    assert_memory_equal(td_safetensors_find(file, "mark")->data, "mark", 4);
    td_safetensors_close(file);
    assert_int_equal(ftruncate(fd, (off_t)bytes + 6400000003), 0);
    assert_not_opened(temp_path("big"), TD_ERR_FORMAT,
                      "tensor 'mark': data_offsets [6400000000, 6400000004]");
    close(fd);
    free(head);
}

static void test_mapping_survives_replacement(void **state)
{
    (void)state;
    td_safetensors *file = NULL;
    write_small(temp_path("a"));
    assert_int_equal(td_safetensors_open(temp_path("a"), &file), TD_OK);
    write_all_types(temp_path("a"));
    assert_memory_equal(td_safetensors_find(file, "w")->data, PATTERN, 24);
    td_safetensors_close(file);
}

/* --- Misuse of the writer --- */

static void assert_use_refused(td_status got, const char *word)
{
    assert_int_equal(got, TD_ERR_ARGUMENT);
    assert_message(word);
    assert_message(temp_dir);
}

static void test_writer_refuses_at_once(void **state)
{
    (void)state;
    const uint64_t two[] = {2};
    const uint64_t huge[] = {UINT64_MAX, 2};
    td_safetensors_writer *w = begin_file(temp_path("a"));
    assert_use_refused(td_safetensors_writer_add_metadata(w, "k", "\xFF"),
                       "'k' is metadata that is not valid");
    assert_use_refused(td_safetensors_writer_add_tensor(w, "a\xFF", TD_SAFETENSORS_F32, 1, two), "cannot be");
    assert_use_refused(td_safetensors_writer_add_tensor(w, "__metadata__", TD_SAFETENSORS_F32, 1, two),
                       "'__metadata__' cannot be a tensor's name");
    assert_use_refused(td_safetensors_writer_add_tensor(w, "h", TD_SAFETENSORS_U8, 2, huge), "past 64 bits");
    assert_use_refused(td_safetensors_writer_add_tensor(w, "d", TD_SAFETENSORS_DTYPE_COUNT, 1, two), "dtype");
    assert_use_refused(td_safetensors_writer_add_tensor(w, "r", TD_SAFETENSORS_U8, 9, two), "dimensions");
    add(w, "first", TD_SAFETENSORS_F32, 1, two);
    add(w, "second", TD_SAFETENSORS_U8, 1, two);
    assert_use_refused(td_safetensors_writer_add_metadata(w, "late", "v"),
                       "'late' is metadata that comes after");
    assert_use_refused(td_safetensors_writer_write(w, "second", "xx", 2),
                       "'second' is not the tensor to write");
    assert_use_refused(td_safetensors_writer_add_tensor(w, "late", TD_SAFETENSORS_U8, 1, two),
                       "after the first");
    assert_use_refused(td_safetensors_writer_write(w, "first", PATTERN, 9), "'first' gets more bytes");
    assert_int_equal(td_safetensors_writer_write(w, "first", PATTERN, 7), TD_OK);
    assert_use_refused(td_safetensors_writer_write(w, "first", PATTERN, 2), "'first' gets more bytes");
    assert_use_refused(td_safetensors_writer_commit(w), "'first' lacks data");
    assert_int_equal(td_safetensors_writer_write(w, "first", PATTERN, 1), TD_OK);
    assert_use_refused(td_safetensors_writer_commit(w), "'second' lacks data");
    assert_int_equal(td_safetensors_writer_write(w, "second", PATTERN, 2), TD_OK);
    assert_use_refused(td_safetensors_writer_write(w, "second", PATTERN, 1),
                       "is not the tensor to write now");
    assert_int_equal(td_safetensors_writer_commit(w), TD_OK);
    td_safetensors_writer_close(w);
}

static void assert_header_refused(td_safetensors_writer *writer, const char *word)
{
    assert_int_not_equal(td_safetensors_writer_commit(writer), TD_OK);
    assert_message("cannot write '");
    assert_message(word);
    assert_int_not_equal(td_safetensors_writer_commit(writer), TD_OK);
    td_safetensors_writer_close(writer);
}

/* What the reader would refuse never replaces a file. */
static void test_writer_obeys_the_reader(void **state)
{
    (void)state;
    const uint64_t none[] = {0};
    const uint64_t three[] = {3};
    write_small(temp_path("a"));
    td_safetensors_writer *w = begin_file(temp_path("a"));
    add(w, "x", TD_SAFETENSORS_U8, 1, none);
    add(w, "x", TD_SAFETENSORS_U8, 1, none);
    assert_header_refused(w, "tensor 'x': the name is there twice");
    w = begin_file(temp_path("a"));
    add(w, "narrow", TD_SAFETENSORS_U8, 1, three);
    add(w, "wide", TD_SAFETENSORS_F32, 1, three);
    assert_header_refused(w, "tensor 'wide': its data at 3 is not aligned");
    w = begin_file(temp_path("a"));
    add(w, "", TD_SAFETENSORS_U8, 1, none);
    assert_header_refused(w, "empty name");
    w = begin_file(temp_path("a"));
    assert_int_equal(td_safetensors_writer_add_metadata(w, "k", "1"), TD_OK);
    assert_int_equal(td_safetensors_writer_add_metadata(w, "k", "2"), TD_OK);
    assert_header_refused(w, "__metadata__ has a key twice");
    td_safetensors *file = NULL;
    assert_int_equal(td_safetensors_open(temp_path("a"), &file), TD_OK);
    assert_int_equal(td_safetensors_count(file), 2);
    td_safetensors_close(file);
    assert_int_equal(temp_dir_count(temp_dir), 1);
    assert_int_equal(td_safetensors_writer_open(temp_path("no/such/folder"), &w), TD_ERR_NOT_FOUND);
    assert_null(w);
}

#define DISK_TEST(test) cmocka_unit_test_setup_teardown(test, temp_dir_make, temp_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DISK_TEST(test_exact_bytes),
        DISK_TEST(test_round_trip),
        DISK_TEST(test_writing_is_deterministic),
        DISK_TEST(test_empty_file_of_no_tensors),
        cmocka_unit_test(test_foreign_file),
        cmocka_unit_test(test_header_lengths),
        cmocka_unit_test(test_hostile_layouts),
        cmocka_unit_test(test_hostile_fields),
        cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_truncated_everywhere),
        cmocka_unit_test(test_random_flips),
        DISK_TEST(test_what_is_no_file),
        DISK_TEST(test_sizes_past_32_bits),
        DISK_TEST(test_mapping_survives_replacement),
        DISK_TEST(test_writer_refuses_at_once),
        DISK_TEST(test_writer_obeys_the_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
