/* Files that PyTorch wrote (tests/oracle/make_torch_golden.py), read to the bit: every kind of file, of elements and of
 * views; and what is wrong with a file is refused by name. */
#include "make.h"
#include "support/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "torch/pickle_json.h"
#include "torch/torch_file.h"

typedef struct opened {
    td_torch_file *file;
    td_torch_tensor *tensors;
    size_t n;
} opened;

static opened open_golden(const char *name)
{
    opened o = {0};
    check(td_torch_open(golden_path(name), &o.file));
    const td_pickle *p = td_torch_pickle(o.file);
    const td_pickle_id model = td_pickle_find(p, td_pickle_root(p), "model");
    check(td_torch_list(o.file, model != 0 ? model : td_pickle_root(p), 1, &o.tensors, &o.n));
    return o;
}

static void close_golden(opened *o)
{
    free(o->tensors);
    td_torch_close(o->file);
}

static const td_torch_tensor *find(const opened *o, const char *name)
{
    for (size_t i = 0; i < o->n; i++)
        if (strcmp(o->tensors[i].name, name) == 0) return &o->tensors[i];
    fail_msg("there is no tensor %s", name);
    return NULL;
}

/* What the oracle's count() has at a place. */
static float value(size_t i)
{
    return (float)i * 0.25F - 3;
}

/* A tensor of floats: element (i, j) is value(i * row + j * column + first). */
static void expect_floats(const opened *o, const char *name, size_t rows, size_t columns, size_t row,
                          size_t column, size_t first)
{
    const td_torch_tensor *t = find(o, name);
    float got[64];
    for (size_t i = 0; i < 64; i++)
        got[i] = NAN;
    assert_int_equal(t->n, rows * columns);
    check(td_torch_read(o->file, t, TD_SAFETENSORS_F32, got));
    for (size_t i = 0; i < rows * columns; i++)
        if (!(got[i] == value(i / columns * row + i % columns * column + first)))
            fail_msg("%s[%zu] is %g", name, i, (double)got[i]);
    assert_true(isnan(got[rows * columns]));
}

static void expect_integers(const opened *o)
{
    int64_t longs[5], tracked;
    int32_t ints[5];
    uint8_t bytes[5], flags[3];
    check(td_torch_read(o->file, find(o, "i64"), TD_SAFETENSORS_I64, longs));
    check(td_torch_read(o->file, find(o, "i32"), TD_SAFETENSORS_I32, ints));
    check(td_torch_read(o->file, find(o, "u8"), TD_SAFETENSORS_U8, bytes));
    check(td_torch_read(o->file, find(o, "bool"), TD_SAFETENSORS_BOOL, flags));
    check(td_torch_read(o->file, find(o, "tracked"), TD_SAFETENSORS_I64, &tracked));
    for (int i = 0; i < 5; i++)
        assert_true(longs[i] == i - 2 && ints[i] == i - 2 && bytes[i] == i);
    assert_true(flags[0] == 1 && flags[1] == 0 && flags[2] == 1);
    assert_true(tracked == 12345678901);
    assert_int_equal(find(o, "tracked")->rank, 0);
    refuse(TD_ERR_UNSUPPORTED, "i64|I64|F32",
           td_torch_read(o->file, find(o, "i64"), TD_SAFETENSORS_F32, longs));
}

static void expect_all(const char *name)
{
    opened o = open_golden(name);
    assert_int_equal(o.n, 16);
    expect_floats(&o, "f32", 2, 3, 3, 1, 0);
    expect_floats(&o, "f16", 2, 3, 3, 1, 0);
    expect_floats(&o, "bf16", 2, 3, 3, 1, 0);
    expect_floats(&o, "f64", 2, 3, 3, 1, 0);
    expect_floats(&o, "scalar", 1, 1, 0, 0, 42); /* 7.5 */
    expect_floats(&o, "empty", 0, 3, 0, 0, 0);
    expect_floats(&o, "whole", 4, 6, 6, 1, 0);
    expect_floats(&o, "transposed", 6, 4, 1, 6, 0);
    expect_floats(&o, "sliced", 2, 3, 6, 2, 6);
    expect_floats(&o, "parameter", 1, 3, 0, 1, 0);
    expect_floats(&o, "channels_last", 4, 6, 1, 4, 0);
    assert_int_equal(find(&o, "whole")->storage, find(&o, "transposed")->storage);
    expect_integers(&o);
    close_golden(&o);
}

static void test_zip(void **state)
{
    (void)state;
    expect_all("torch_zip.pth");
}

static void test_legacy(void **state)
{
    (void)state;
    expect_all("torch_legacy.pth");
}

static void test_protocol_4(void **state)
{
    (void)state;
    expect_all("torch_protocol4.pth");
}

static void test_without_checksums(void **state)
{
    (void)state;
    expect_all("torch_nocrc.pth");
}

static void test_one_tensor_alone(void **state)
{
    (void)state;
    td_torch_file *file;
    td_torch_tensor *tensors;
    size_t n;
    float got[80];
    check(td_torch_open(golden_path("torch_bare.pth"), &file));
    check(td_torch_list(file, td_pickle_root(td_torch_pickle(file)), 0, &tensors, &n));
    assert_int_equal(n, 1);
    assert_string_equal(tensors[0].name, "");
    check(td_torch_read(file, &tensors[0], TD_SAFETENSORS_F32, got));
    assert_true(got[79] == value(79));
    free(tensors);
    td_torch_close(file);
}

static void test_state_dict_of_a_module(void **state)
{
    (void)state;
    opened o = open_golden("torch_ordered.pth");
    assert_int_equal(o.n, 7);
    expect_floats(&o, "0.weight", 3, 2, 2, 1, 0);
    assert_int_equal(find(&o, "1.num_batches_tracked")->dtype, TD_SAFETENSORS_I64);
    close_golden(&o);
}

/* The configuration is an object of a class that nobody has here; its members can be read all the same. */
static void test_config_of_an_object(void **state)
{
    (void)state;
    opened o = open_golden("torch_zip.pth");
    const td_pickle *p = td_torch_pickle(o.file);
    cJSON *json;
    check(td_pickle_to_json(p, td_pickle_find(p, td_pickle_root(p), "config"), &json));
    const cJSON *args = cJSON_GetObjectItem(json, "model_args");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(json, "model")), "xtts");
    assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "temperature")) == 0.75);
    assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(args, "gpt_layers")) == 30);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(json, "large")));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "languages")), 2);
    cJSON_Delete(json);
    close_golden(&o);
}

/* One flipped bit in a storage is found when it is read, and named. */
static void test_damage_is_found(void **state)
{
    (void)state;
    char *content;
    size_t bytes, n, found = 0;
    check(td_file_read(golden_path("torch_bare.pth"), 1 << 20, &content, &bytes));
    const float first[] = {-3, -2.75F};
    while (memcmp(content + found, first, sizeof first) != 0)
        found++;
    content[found] ^= 1;
    td_torch_file *file;
    td_torch_tensor *tensors;
    float got[80];
    check(td_torch_parse(content, bytes, "damaged", &file));
    check(td_torch_list(file, td_pickle_root(td_torch_pickle(file)), 0, &tensors, &n));
    refuse(TD_ERR_INTEGRITY, "damaged|storage 0|CRC", td_torch_read(file, tensors, TD_SAFETENSORS_F32, got));
    free(tensors);
    td_torch_close(file);
    free(content);
}

static void test_what_is_none(void **state)
{
    (void)state;
    td_torch_file *file;
    refuse(TD_ERR_FORMAT, "a.pth|neither", td_torch_parse("hello world", 11, "a.pth", &file));
    refuse(TD_ERR_FORMAT, "a.pth", td_torch_parse("", 0, "a.pth", &file));
    refuse(TD_ERR_FORMAT, "a.pth|not one of torch.save", td_torch_parse("\x80\x02K\x01.", 5, "a.pth", &file));
    refuse(TD_ERR_NOT_FOUND, "/nowhere/x.pth", td_torch_open("/nowhere/x.pth", &file));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zip),
        cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_protocol_4),
        cmocka_unit_test(test_without_checksums),
        cmocka_unit_test(test_one_tensor_alone),
        cmocka_unit_test(test_state_dict_of_a_module),
        cmocka_unit_test(test_config_of_an_object),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
