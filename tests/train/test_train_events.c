/* Event files byte by byte: check values of CRC-32C, the records, and what a reader of the format finds. */
#include "data/fixture.h"

#include "base/file.h"
#include "train/events.h"

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t unmask(uint32_t masked)
{
    const uint32_t rotated = masked - UINT32_C(0xa282ead8);
    return rotated << 15 | rotated >> 17;
}

static void test_crc(void **state)
{
    (void)state;
    assert_int_equal(td_events_crc("123456789", 9), UINT32_C(0xe3069283));
    const uint8_t zeros[32] = {0};
    assert_int_equal(td_events_crc(zeros, sizeof zeros), UINT32_C(0x8a9136aa)); /* RFC 3720, B.4 */
}

/* The data of record `n`, whose checksums are checked on the way. */
static const uint8_t *find_record(const uint8_t *file, size_t bytes, size_t n, size_t *length)
{
    for (size_t at = 0;; n--) {
        assert_true(at + 16 <= bytes);
        *length = read_u32(file + at);
        assert_int_equal(read_u32(file + at + 4), 0);
        assert_true(at + 16 + *length <= bytes);
        assert_int_equal(unmask(read_u32(file + at + 8)), td_events_crc(file + at, 8));
        assert_int_equal(unmask(read_u32(file + at + 12 + *length)), td_events_crc(file + at + 12, *length));
        if (n == 0) return file + at + 12;
        at += 16 + *length;
        if (at == bytes) return NULL;
    }
}

/* The only file of the folder. */
static const char *find_file(void)
{
    td_file_names names;
    assert_int_equal(td_file_list(temp_dir, &names), TD_OK);
    assert_int_equal(names.count, 1);
    assert_int_equal(strncmp(names.at[0], "events.out.tfevents.", 20), 0);
    const char *path = temp_path(names.at[0]);
    td_file_names_free(&names);
    return path;
}

static void test_records(void **state)
{
    (void)state;
    td_events *events;
    char *file;
    size_t bytes, length;
    const float samples[3] = {0, 2, -0.5F};
    assert_int_equal(td_events_open(temp_dir, 7, &events), TD_OK);
    assert_int_equal(td_events_scalar(events, 300, "loss", 0.5), TD_OK);
    assert_int_equal(td_events_image(events, 4, "picture", 5, 6, "PNG", 3), TD_OK);
    assert_int_equal(td_events_audio(events, 4, "sound", 22050, samples, 3), TD_OK);
    assert_int_equal(td_events_flush(events), TD_OK);
    assert_int_equal(td_file_read(find_file(), 1 << 20, &file, &bytes), TD_OK);
    td_events_close(events);
    const uint8_t *at = find_record((uint8_t *)file, bytes, 0, &length);
    assert_int_equal(length, 24);
    assert_memory_equal(at + 9, "\x1a\rbrain.Event:2", 15);
    at = find_record((uint8_t *)file, bytes, 1, &length); /* the session starts at step 8 */
    assert_memory_equal(at + 9, "\x10\x08\x3a\x02\x08\x01", 6);
    at = find_record((uint8_t *)file, bytes, 2, &length);
    assert_memory_equal(at + 9, "\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f", 18);
    assert_int_equal(length, 9 + 18);
    at = find_record((uint8_t *)file, bytes, 3, &length);
    assert_memory_equal(at + 11, "\x2a\x18\x0a\x16\x0a\x07picture\x22\x0b\x08\x06\x10\x05\x18\x03\x22\x03PNG",
                        26);
    at = find_record((uint8_t *)file, bytes, 4, &length);
    const uint8_t *wav = memmem(at, length, "RIFF", 4);
    assert_non_null(wav);
    assert_int_equal(read_u32(wav + 24), 22050);
    assert_memory_equal(wav + 44, "\x00\x00\xff\x7f\x00\xc0", 6); /* cut at 1, -0.5 */
    assert_null(find_record((uint8_t *)file, bytes, 5, &length));
    free(file);
}

static void test_two_files_do_not_meet(void **state)
{
    (void)state;
    td_events *a, *b;
    assert_int_equal(td_events_open(temp_dir, 0, &a), TD_OK);
    assert_int_equal(td_events_open(temp_dir, 0, &b), TD_OK);
    td_events_close(a);
    td_events_close(b);
    td_file_names names;
    assert_int_equal(td_file_list(temp_dir, &names), TD_OK);
    assert_int_equal(names.count, 2);
    td_file_names_free(&names);
    assert_int_equal(td_events_open("/nowhere/at/all", 0, &a), TD_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc),
        cmocka_unit_test_setup_teardown(test_records, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_two_files_do_not_meet, temp_dir_make, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
