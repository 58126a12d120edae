/* Files made to do harm: each is refused by name, within a second and 200 MB, and nothing in it is run. */
#include "make.h"
#include "support/expect.h"
#include "support/temp_dir.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/file.h"
#include "torch/pickle_json.h"
#include "torch/torch_file.h"
#include "torch/zip.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

static clock_t started;

static int begin(void **state)
{
    started = clock();
    return temp_dir_make(state);
}

/* Time of the processor, since others may be using the computer too. */
static int end(void **state)
{
    struct rusage used;
    const double seconds = (double)(clock() - started) / CLOCKS_PER_SEC;
    getrusage(RUSAGE_SELF, &used);
    if (!IS_SANITIZED && (!(seconds < 1) || used.ru_maxrss > 200 * 1024)) {
        print_error("%.2f s, %ld KB\n", seconds, used.ru_maxrss);
        return -1;
    }
    return temp_dir_remove(state);
}

/* Reads all there is to read of a file: its list and its elements. */
static td_status read_all(const void *content, size_t bytes)
{
    td_status status = TD_OK;
    td_torch_file *file = NULL;
    td_torch_tensor *tensors = NULL;
    void *room = NULL;
    size_t n;
    TD_TRY(td_torch_parse(content, bytes, "evil.pth", &file));
    const td_pickle *p = td_torch_pickle(file);
    TD_TRY(td_torch_list(file, p != NULL ? td_pickle_root(p) : 0, 3, &tensors, &n));
    for (size_t i = 0; i < n; i++) {
        free(room);
        room = NULL;
        TD_TRY(
            td_alloc_zeroed((size_t)tensors[i].n + 1, td_safetensors_dtype_bytes(tensors[i].dtype), &room));
        TD_TRY(td_torch_read(file, &tensors[i], tensors[i].dtype, room));
    }
fail:
    free(room);
    free(tensors);
    td_torch_close(file);
    return status;
}

static void refuse_pile(td_status expected, const char *words, pile *p)
{
    refuse(expected, words, read_all(p->data, p->bytes));
    pile_free(p);
}

/* ---------------------------------------------------------------- calls */

static void refuse_pickle(td_status expected, const char *words, pile *pickle)
{
    pile zip = {0};
    const part parts[] = {{.name = "x/data.pkl", .data = pickle->data, .bytes = pickle->bytes}};
    make_zip(&zip, parts, 1, 0);
    pile_free(pickle);
    refuse_pile(expected, words, &zip);
}

static void test_nothing_is_called(void **state)
{
    (void)state;
    static const char *const CALLS[][2] = {
        {"os", "system"},        {"posix", "system"},     {"nt", "system"},
        {"subprocess", "Popen"}, {"builtins", "eval"},    {"__builtin__", "exec"},
        {"os.path", "join"},     {"builtins", "getattr"}, {"runpy", "run_path"}};
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        for (int is_new = 0; is_new < 2; is_new++) {
            pile p = {0};
            char command[600], name[64];
            snprintf(command, sizeof command, "touch %s", temp_path("harmed"));
            snprintf(name, sizeof name, "evil.pth|%s.%s|nothing of it was run", CALLS[i][0], CALLS[i][1]);
            pile_text(&p, "\x80\x04}");
            pickle_text(&p, "model");
            if (is_new) {
                pickle_text(&p, CALLS[i][0]);
                pickle_text(&p, CALLS[i][1]);
                pile_byte(&p, 0x93);
            } else {
                pile_text(&p, "c");
                pile_text(&p, CALLS[i][0]);
                pile_text(&p, "\n");
                pile_text(&p, CALLS[i][1]);
                pile_text(&p, "\n");
            }
            pickle_text(&p, command);
            pile_text(&p, "\x85Rs.");
            refuse_pickle(TD_ERR_FORMAT, name, &p);
        }
    }
    assert_int_equal(temp_dir_count(temp_dir), 0);
}

/* Classes that are not known are neither called nor an offence. */
static void test_unknown_classes_are_passed_over(void **state)
{
    (void)state;
    pile p = {0}, zip = {0};
    pile_text(&p, "\x80\x02}");
    pickle_text(&p, "config");
    pile_text(&p, "csome.where\nConfig\n)\x81}");
    pickle_text(&p, "layers");
    pile_text(&p, "K\x1esbs.");
    const part parts[] = {{.name = "x/data.pkl", .data = p.data, .bytes = p.bytes}};
    make_zip(&zip, parts, 1, 0);
    check(read_all(zip.data, zip.bytes));
    pile_free(&p);
    pile_free(&zip);
}

static void test_opcodes_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pickle, *words;
    } CASES[] = {
        {"\x80\x02(ios\nsystem\n.", "INST"},
        {"\x80\x02(cx\ny\no.", "OBJ"},
        {"\x80\x02\x82\x01.", "EXT1"},
        {"\x80\x02Pabc\n.", "PERSID"},
        {"\x80\x05\x97.", "NEXT_BUFFER"},
        {"\x80\x02\xff.", "0xff is no opcode"},
        {"\x80\x09.", "protocol"},
        {"\x80\x02.", "STOP|empty"},
        {"\x80\x02h\x05.", "BINGET|did not remember"},
        {"\x80\x02t.", "TUPLE|no mark"},
        {"\x80\x02}K\x01K\x02K\x03(K\x01us.", "no value"},
        {"\x80\x02K\x01K\x02R.", "REDUCE|no tuple"},
        {"\x80\x02K\x01Nb.", "BUILD|no object"},
        {"\x80\x02(K\x01.", "inside a container"},
        {"\x80\x02Xzzzz", "BINUNICODE|bytes"},
        {"\x80\x02K\x01Q.", "no storage"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        pile p = {0};
        td_torch_file *file;
        pile zip = {0};
        pile_text(&p, CASES[i].pickle);
        const part parts[] = {{.name = "x/data.pkl", .data = p.data, .bytes = p.bytes}};
        make_zip(&zip, parts, 1, 0);
        const td_status status = td_torch_parse(zip.data, zip.bytes, "evil.pth", &file);
        refuse(status, CASES[i].words, status);
        pile_free(&p);
        pile_free(&zip);
    }
}

/* ---------------------------------------------------------------- much from little */

static void test_values_without_end(void **state)
{
    (void)state;
    pile many = {0}, deep = {0}, far = {0};
    pile_text(&many, "\x80\x02");
    for (size_t i = 0; i < 3 << 20; i++)
        pile_text(&many, "N0");
    refuse_pickle(TD_ERR_LIMIT, "evil.pth|values", &many);
    pile_text(&deep, "\x80\x02");
    for (size_t i = 0; i < 1000; i++)
        pile_text(&deep, "(");
    refuse_pickle(TD_ERR_LIMIT, "nested", &deep);
    pile_text(&far, "\x80\x02Nr");
    pile_u32(&far, 0xfffffff0);
    refuse_pickle(TD_ERR_LIMIT, "remembers", &far);
}

/* A list that holds itself, and lists of lists of lists, each twice in the next. */
static void test_values_that_contain_themselves(void **state)
{
    (void)state;
    pile cycle = {0}, bomb = {0};
    td_pickle *p;
    cJSON *json;
    pile_text(&cycle, "\x80\x02]q\x01h\x01"
                      "a.");
    check(td_pickle_parse(cycle.data, cycle.bytes, NULL, &p));
    refuse(TD_ERR_LIMIT, "nested", td_pickle_to_json(p, td_pickle_root(p), &json));
    td_pickle_close(p);
    pile_text(&bomb, "\x80\x02]q\x01");
    for (size_t i = 0; i < 50; i++) {
        pile_text(&bomb, "](h");
        pile_byte(&bomb, (unsigned)i + 1);
        pile_text(&bomb, "h");
        pile_byte(&bomb, (unsigned)i + 1);
        pile_text(&bomb, "eq");
        pile_byte(&bomb, (unsigned)i + 2);
    }
    pile_text(&bomb, ".");
    check(td_pickle_parse(bomb.data, bomb.bytes, NULL, &p));
    refuse(TD_ERR_LIMIT, "values", td_pickle_to_json(p, td_pickle_root(p), &json));
    td_pickle_close(p);
    pile_free(&cycle);
    pile_free(&bomb);
}

/* A dict that holds one large dict many times: a list of its tensors would never end. */
static void test_dicts_in_dicts(void **state)
{
    (void)state;
    pile p = {0};
    pile_text(&p, "\x80\x02}q\x01(");
    for (size_t i = 0; i < 5000; i++)
        pickle_text(&p, "a"), pile_text(&p, "}");
    pile_text(&p, "u}q\x02(");
    for (size_t i = 0; i < 5000; i++)
        pickle_text(&p, "b"), pile_text(&p, "h\x01");
    pile_text(&p, "u0h\x02.");
    refuse_pickle(TD_ERR_LIMIT, "evil.pth|items", &p);
}

static void test_compressed_entries(void **state)
{
    (void)state;
    pile bomb = {0}, locked = {0};
    const part deflated[] = {{.name = "x/data.pkl", .data = "N.", .bytes = 2, .method = 8}};
    const part hidden[] = {{.name = "x/data.pkl", .data = "N.", .bytes = 2, .flags = 1}};
    make_zip(&bomb, deflated, 1, 0);
    refuse_pile(TD_ERR_UNSUPPORTED, "evil.pth|x/data.pkl|compressed", &bomb);
    make_zip(&locked, hidden, 1, 0);
    refuse_pile(TD_ERR_UNSUPPORTED, "evil.pth|encrypted", &locked);
}

/* Entries inside of entries: the way small archives unfold into large ones. */
static void test_entries_that_overlap(void **state)
{
    (void)state;
    pile inner = {0}, zip = {0}, twice = {0};
    const part first[] = {{.name = "x/data/1", .data = "12345678", .bytes = 8}};
    make_zip(&inner, first, 1, 0);
    const uint64_t at = 30 + strlen("x/data/0");
    const part parts[] = {{.name = "x/data/0", .data = inner.data, .bytes = inner.bytes},
                          {.name = "x/data/1", .data = "12345678", .bytes = 8, .header = at}};
    make_zip(&zip, parts, 2, 0);
    refuse_pile(TD_ERR_FORMAT, "x/data/0|x/data/1|overlap", &zip);
    const part same[] = {{.name = "x/data/0", .data = "1", .bytes = 1},
                         {.name = "x/data/0", .data = "2", .bytes = 1}};
    make_zip(&twice, same, 2, 0);
    refuse_pile(TD_ERR_FORMAT, "x/data/0|twice", &twice);
    pile_free(&inner);
}

static void test_sizes_past_the_file(void **state)
{
    (void)state;
    static const uint64_t SIZES[] = {3, 100000, 0xfffffffe, UINT64_C(1) << 33, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        pile zip = {0};
        const part parts[] = {{.name = "x/data.pkl", .data = "N.", .bytes = 2, .told_bytes = SIZES[i]}};
        make_zip(&zip, parts, 1, 0);
        refuse_pile(TD_ERR_FORMAT, "evil.pth|x/data.pkl|reach past", &zip);
    }
    static const uint64_t PLACES[] = {1, 50, 0xfffffff0, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        pile zip = {0};
        const part parts[] = {
            {.name = "x/data.pkl", .data = "N.", .bytes = 2, .header = PLACES[i], .is_far = 1}};
        make_zip(&zip, parts, 1, 1);
        refuse_pile(TD_ERR_FORMAT, "evil.pth|x/data.pkl|header", &zip);
    }
}

/* ---------------------------------------------------------------- tensors */

static void test_views_out_of_their_storage(void **state)
{
    (void)state;
    static const float DATA[6] = {0};
    static const struct {
        view v;
        const char *words;
    } CASES[] = {
        {{"FloatStorage", "0", 6, 1, 1, {6}, {1}}, "reaches to element 6"},
        {{"FloatStorage", "0", 6, 0, 2, {2, 3}, {4, 1}}, "reaches to element 6"},
        {{"FloatStorage", "0", 6, 0, 1, {7}, {1}}, "7 elements"},
        {{"FloatStorage", "0", 6, 0, 1, {7}, {0}}, "7 elements"},
        {{"FloatStorage", "0", 6, 0, 2, {INT64_MAX, INT64_MAX}, {0, 0}}, "too many"},
        {{"FloatStorage", "0", 6, 0, 2, {INT64_MIN, 2}, {1, 1}}, "shape|negative"},
        {{"FloatStorage", "0", 6, 0, 1, {2}, {-1}}, "stride|negative"},
        {{"FloatStorage", "0", 6, -1, 1, {2}, {1}}, "offset|negative"},
        {{"FloatStorage", "0", 6, INT64_MAX, 1, {2}, {1}}, "reaches"},
        {{"FloatStorage", "0", 6, 2, 2, {2, 2}, {INT64_MAX, INT64_MAX}}, "strides"},
        {{"FloatStorage", "0", 7, 0, 1, {6}, {1}}, "24 bytes|28"},
        {{"FloatStorage", "0", INT64_MAX, 0, 1, {6}, {1}}, "storage 0"},
        {{"FloatStorage", "0", INT64_MIN, 0, 1, {6}, {1}}, "storage 0"},
        {{"FloatStorage", "1", 6, 0, 1, {6}, {1}}, "x/data/1"},
        {{"FloatStorage", "../0", 6, 0, 1, {6}, {1}}, "no number"},
        {{"ComplexFloatStorage", "0", 3, 0, 1, {3}, {1}}, "torch.ComplexFloatStorage"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        pile zip = {0};
        make_tensor_file(&zip, &CASES[i].v, DATA, sizeof DATA);
        const td_status status = read_all(zip.data, zip.bytes);
        refuse(status, CASES[i].words, status);
        refuse(status, "evil.pth", status);
        pile_free(&zip);
    }
    pile good = {0};
    make_tensor_file(&good, &(view){"FloatStorage", "0", 6, 0, 2, {3, 2}, {1, 3}}, DATA, sizeof DATA);
    check(read_all(good.data, good.bytes));
    pile_free(&good);
}

/* Archives past 4 GB have their places and counts elsewhere. */
static void test_zip64_is_read(void **state)
{
    (void)state;
    pile zip = {0};
    td_zip *archive;
    const part parts[] = {{.name = "x/a", .data = "first", .bytes = 5, .is_far = 1},
                          {.name = "x/b", .data = "second", .bytes = 6, .is_far = 1}};
    make_zip(&zip, parts, 2, 1);
    check(td_zip_parse(zip.data, zip.bytes, &archive));
    assert_int_equal(td_zip_count(archive), 2);
    assert_memory_equal(td_zip_find(archive, "x/b")->data, "second", 6);
    assert_null(td_zip_find(archive, "x/c"));
    td_zip_close(archive);
    pile_free(&zip);
}

/* ---------------------------------------------------------------- cut files */

static void test_cut_at_200_places(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"torch_zip.pth", "torch_legacy.pth", "torch_protocol4.pth"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char *content;
        size_t bytes;
        check(td_file_read(golden_path(NAMES[i]), 1 << 20, &content, &bytes));
        check(read_all(content, bytes));
        for (size_t k = 0; k < 200; k++) {
            const size_t cut = bytes * k / 200;
            unsigned char *exact = malloc(cut + 1); /* so that a byte too far is seen */
            memcpy(exact, content, cut);
            exact = realloc(exact, cut > 0 ? cut : 1);
            const td_status status = read_all(exact, cut);
            refuse(status, "evil.pth", status);
            assert_int_not_equal(status, TD_OK);
            free(exact);
        }
        free(content);
    }
}

int main(void)
{
#define HOSTILE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        HOSTILE(test_nothing_is_called),
        HOSTILE(test_unknown_classes_are_passed_over),
        HOSTILE(test_opcodes_that_are_refused),
        HOSTILE(test_values_without_end),
        HOSTILE(test_values_that_contain_themselves),
        HOSTILE(test_dicts_in_dicts),
        HOSTILE(test_compressed_entries),
        HOSTILE(test_entries_that_overlap),
        HOSTILE(test_sizes_past_the_file),
        HOSTILE(test_views_out_of_their_storage),
        HOSTILE(test_zip64_is_read),
        HOSTILE(test_cut_at_200_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
