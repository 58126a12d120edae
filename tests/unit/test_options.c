/* The option engine (src/base/options*.c) on a table of its own: authority of origins, every kind of value,
 * all forms of the command line, INI files with every kind of mistake, and the texts made from the table. The
 * program's own table is tested through the program in tests/cli/test_cli.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/options.h"

enum { COOK, WASH, N_COMMANDS };
enum { ON_COOK = 1, ON_WASH = 2, ON_ALL = 3 };

static const td_option_command COMMANDS[] = {
    {"cook", "DISH [SIDE]", 1, 2, "Cooks a dish", "It takes a while. The kitchen must be clean.", ON_COOK,
     "kitchen cook soup\nkitchen cook \\\n  rice\n"},
    {"wash up", "", 0, 0, "Washes the dishes", "", ON_WASH, NULL},
};

static const td_option OPTIONS[] = {
    {.flag = "help",
     .letter = 'h',
     .type = TD_OPTION_BOOL,
     .group = "General",
     .topics = ON_ALL,
     .help = "Help"},
    {.flag = "config",
     .type = TD_OPTION_CONFIG,
     .placeholder = "FILE",
     .group = "General",
     .topics = ON_ALL,
     .help = "Reads FILE"},
    {.flag = "set",
     .type = TD_OPTION_SET,
     .placeholder = "SECTION.KEY=VALUE",
     .group = "General",
     .topics = ON_ALL,
     .help = "Sets a key"},
    {"oven", "heat", NULL, 0, TD_OPTION_INT, "180", "DEGREES", NULL, 50, 300, "Oven", ON_COOK,
     "Heat of the oven", true, false},
    {"oven", "fan", NULL, 0, TD_OPTION_BOOL, "true", NULL, NULL, 0, 0, "Oven", ON_COOK, "Use the fan", false,
     false},
    {"oven", "door", NULL, 0, TD_OPTION_BOOL, "auto", NULL, "auto|ajar", 0, 0, "Oven", ON_WASH, "Shut it",
     false, false},
    {"oven", "lamp", "enable-lamp", 0, TD_OPTION_BOOL, NULL, NULL, NULL, 0, 0, "Oven", ON_COOK,
     "Use the lamp", false, false},
    {"oven", "mode", NULL, 0, TD_OPTION_CHOICE, "bake", NULL, "bake|grill|roast", 0, 0, "Oven", ON_COOK,
     "How", false, false},
    {"oven", "size", "oven-size", 0, TD_OPTION_SIZE_MB, "8192", "MB", NULL, 1, 1048576, "Oven", ON_COOK,
     "Room", false, false},
    {"dish", "salt_share", NULL, 0, TD_OPTION_FLOAT, "0.5", "F", NULL, 0, 1, "Dish", ON_COOK, "How salty",
     false, false},
    {"dish", "recipe", NULL, 0, TD_OPTION_PATH, NULL, "FILE", NULL, 0, 0, "Dish", ON_COOK, "What to follow",
     false, false},
    {"dish", "plate", "plate-name", 0, TD_OPTION_TEXT, NULL, "NAME", NULL, 0, 0, "Dish", ON_ALL,
     "Which plate", false, false},
    {"dish", "plate", "plate-number", 0, TD_OPTION_INT, NULL, "N", NULL, 0, 63, "Dish", ON_ALL, "Which plate",
     false, false},
    {"dish", "spice", NULL, 0, TD_OPTION_TEXT, NULL, "NAME", NULL, 0, 0, "Dish", ON_COOK, "What to add",
     false, true},
};

static const td_option_synonym SYNONYMS[] = {
    {"temperature", "fan-size"}, {"temperature", "heat"}, {"salt-share", "plate-name"}, {"how-hot", "heat"}};

static const td_option_table TABLE = {
    "kitchen", "A kitchen.", OPTIONS,  sizeof OPTIONS / sizeof OPTIONS[0],
    COMMANDS,  N_COMMANDS,   SYNONYMS, sizeof SYNONYMS / sizeof SYNONYMS[0]};

static int set_up(void **state)
{
    td_options *options;
    if (td_options_create(&TABLE, &options) != TD_OK) return -1;
    *state = options;
    return 0;
}

static int tear_down(void **state)
{
    td_options_destroy(*state);
    return 0;
}

#define PARSE(options, command, ...)                                                                         \
    parse((options), (command), (const char *const[]){__VA_ARGS__},                                          \
          (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static td_status parse(td_options *options, size_t command, const char *const *argv, int argc)
{
    return td_options_parse(options, command, argc, argv);
}

static void read_text(td_options *options, const char *text)
{
    assert_int_equal(td_options_read_text(options, "k.ini", text, strlen(text)), TD_OK);
}

static size_t count_mistakes(const td_options *options)
{
    size_t count;
    td_options_mistakes(options, &count);
    return count;
}

/* Mistake number i is at `place` and its message holds `words`. */
static void expect_mistake(const td_options *options, size_t i, const char *place, const char *words)
{
    size_t count;
    const td_option_mistake *mistakes = td_options_mistakes(options, &count);
    assert_true(i < count);
    assert_string_equal(mistakes[i].place, place);
    if (!strstr(mistakes[i].message, words)) fail_msg("'%s' is not in '%s'", words, mistakes[i].message);
}

static const char *text_of(const td_options *options, const char *name)
{
    return td_options_get(options, name)->text;
}

static void test_defaults(void **state)
{
    const td_options *options = *state;
    assert_int_equal(td_options_get(options, "oven.heat")->integer, 180);
    assert_true(td_options_get(options, "oven.fan")->truth);
    assert_false(td_options_get(options, "oven.lamp")->truth);
    assert_string_equal(text_of(options, "oven.lamp"), "false");
    assert_true(td_options_get(options, "oven.size")->bytes == UINT64_C(8192) << 20);
    assert_true(td_options_get(options, "dish.salt_share")->real == 0.5);
    assert_null(text_of(options, "dish.recipe"));
    assert_string_equal(td_options_get(options, "oven.heat")->place, "default");
    assert_null(td_options_get(options, "oven.heet"));
    assert_null(td_options_get(options, "heat"));
    assert_false(td_options_get(options, "help")->truth);
}

static void test_bad_default_is_refused(void **state)
{
    (void)state;
    td_option row = OPTIONS[3];
    const td_option_table table = {"kitchen", "", &row, 1, COMMANDS, N_COMMANDS, NULL, 0};
    td_options *options;
    row.default_text = "20";
    assert_int_equal(td_options_create(&table, &options), TD_ERR_ARGUMENT);
    assert_null(options);
}

static void test_authority_in_any_order(void **state)
{
    static const struct {
        td_option_origin origin;
        const char *text;
    } GIVEN[] = {{TD_ORIGIN_FILE, "200"}, {TD_ORIGIN_PRESET, "190"},       {TD_ORIGIN_SET, "210"},
                 {TD_ORIGIN_FILE, "201"}, {TD_ORIGIN_COMMAND_LINE, "220"}, {TD_ORIGIN_SET, "211"}};
    static const char *const KEPT[] = {"200", "200", "210", "210", "220", "220"};
    td_options *options = *state;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(td_options_assign(options, "oven.heat", GIVEN[i].text, GIVEN[i].origin, "somewhere"),
                         TD_OK);
        assert_string_equal(text_of(options, "oven.heat"), KEPT[i]);
    }
    assert_int_equal(count_mistakes(options), 0);
}

static void test_value_that_loses_is_still_checked(void **state)
{
    td_options *options = *state;
    assert_int_equal(PARSE(options, COOK, "pie", "--heat", "100"), TD_OK);
    read_text(options, "[oven]\nheat = hot\n");
    expect_mistake(options, 0, "k.ini:2", "a whole number from 50 to 300");
    assert_int_equal(td_options_get(options, "oven.heat")->integer, 100);
}

static void test_forms_of_the_command_line(void **state)
{
    size_t count;
    td_options *options = *state;
    assert_int_equal(PARSE(options, COOK, "pie", "--heat=60", "--salt-share", "0.25", "--no-fan",
                           "--enable-lamp", "--mode", "grill", "--oven-size", "16", "-h", "--", "--heat"),
                     TD_OK);
    assert_int_equal(td_options_get(options, "oven.heat")->integer, 60);
    assert_string_equal(td_options_get(options, "oven.heat")->place, "command line (--heat)");
    assert_true(td_options_get(options, "dish.salt_share")->real == 0.25);
    assert_false(td_options_get(options, "oven.fan")->truth);
    assert_true(td_options_get(options, "oven.lamp")->truth);
    assert_string_equal(text_of(options, "oven.mode"), "grill");
    assert_true(td_options_get(options, "oven.size")->bytes == UINT64_C(16) << 20);
    assert_true(td_options_get(options, "help")->truth);
    const char *const *arguments = td_options_arguments(options, &count);
    assert_int_equal(count, 2);
    assert_string_equal(arguments[0], "pie");
    assert_string_equal(arguments[1], "--heat");
}

static void test_last_of_a_repeated_flag_wins(void **state)
{
    td_options *options = *state;
    assert_int_equal(PARSE(options, COOK, "pie", "--heat", "60", "--heat", "70", "--enable-lamp",
                           "--disable-lamp", "--set", "oven.mode=grill", "--set", "oven.mode=roast"),
                     TD_OK);
    assert_int_equal(td_options_get(options, "oven.heat")->integer, 70);
    assert_false(td_options_get(options, "oven.lamp")->truth);
    assert_string_equal(text_of(options, "oven.mode"), "roast");
    assert_string_equal(td_options_get(options, "oven.mode")->place, "--set");
}

static void test_all_mistakes_of_the_command_line(void **state)
{
    td_options *options = *state;
    assert_int_equal(PARSE(options, WASH, "--plat-name", "x", "--heat", "70", "--zzzzzz", "-x", "--help=yes",
                           "--set", "oven.heet=1", "--set", "oven", "--plate-number"),
                     TD_ERR_CONFIG);
    expect_mistake(options, 0, "command line", "unknown option --plat-name; did you mean --plate-name?");
    expect_mistake(options, 1, "command line", "`wash up` does not take --heat; it is an option of `cook`");
    expect_mistake(options, 2, "command line", "unknown option --zzzzzz; see `kitchen wash up --help`");
    expect_mistake(options, 3, "command line", "unknown option -x");
    expect_mistake(options, 4, "command line", "--help takes no value");
    expect_mistake(options, 5, "--set", "unknown key 'heet' in [oven]; did you mean 'heat'?");
    expect_mistake(options, 6, "--set", "'oven' is not section.key=value");
    expect_mistake(options, 7, "command line", "--plate-number needs a value: a whole number from 0 to 63");
    expect_mistake(options, 8, "command line", "`wash up` does not take 'x'");
    assert_int_equal(count_mistakes(options), 9);
    assert_non_null(strstr(td_error_last()->message, "--plat-name"));
}

static void test_names_of_other_programs_are_known(void **state)
{
    td_options *options = *state;
    assert_int_equal(
        PARSE(options, COOK, "pie", "--temperature", "70", "--rec", "x", "--pla", "y", "--how_hot", "9"),
        TD_ERR_CONFIG);
    expect_mistake(options, 0, "command line", "unknown option --temperature; did you mean --heat?");
    expect_mistake(options, 1, "command line", "unknown option --rec; did you mean --recipe?");
    expect_mistake(options, 2, "command line", "unknown option --pla; see"); /* of two */
    expect_mistake(options, 3, "command line", "unknown option --how_hot; did you mean --heat?");
    td_options *wash;
    assert_int_equal(td_options_create(&TABLE, &wash), TD_OK);
    assert_int_equal(PARSE(wash, WASH, "--temperature", "70", "--salt-share", "1", "--set",
                           "oven.temperature=1", "--set", "dish.rec=1"),
                     TD_ERR_CONFIG);
    expect_mistake(wash, 0, "command line", "unknown option --temperature; see");
    expect_mistake(wash, 1, "command line",
                   "`wash up` does not take --salt-share, an option of `cook`; did you mean --plate-name?");
    expect_mistake(wash, 2, "--set", "unknown key 'temperature' in [oven]; did you mean 'heat'?");
    expect_mistake(wash, 3, "--set", "unknown key 'rec' in [dish]; did you mean 'recipe'?");
    td_options_destroy(wash);
}

static void test_missing_value_and_arguments(void **state)
{
    td_options *options = *state;
    assert_int_equal(PARSE(options, COOK, "--heat", "--no-fan"), TD_ERR_CONFIG);
    expect_mistake(options, 0, "command line", "--heat needs a value");
    expect_mistake(options, 1, "command line", "`cook` needs DISH [SIDE]; see `kitchen cook --help`");
    assert_false(td_options_get(options, "oven.fan")->truth);
}

static void test_bad_values_name_what_is_allowed(void **state)
{
    static const struct {
        const char *flag, *value, *words;
    } CASES[] = {
        {"--heat", "49", "from 50 to 300"},
        {"--heat", "301", "from 50 to 300"},
        {"--heat", "60C", "from 50 to 300"},
        {"--heat", "", "--heat cannot be ''"},
        {"--heat", "99999999999999999999", "from 50 to 300"},
        {"--salt-share", "1.5", "a number from 0 to 1"},
        {"--salt-share", "nan", "a number from 0 to 1"},
        {"--mode", "gril", "did you mean 'grill'? It must be one of: bake, grill, roast"},
        {"--mode", "xyz", "it must be one of: bake, grill, roast"},
        {"--oven-size", "-1", "a whole number of MB from 1 to 1048576"},
        {"--oven-size", "8GB", "a whole number of MB from 1 to 1048576"},
        {"--plate-number", "64", "from 0 to 63"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        td_options *options;
        assert_int_equal(td_options_create(&TABLE, &options), TD_OK);
        assert_int_equal(PARSE(options, COOK, "pie", CASES[i].flag, CASES[i].value), TD_ERR_CONFIG);
        expect_mistake(options, 0, "command line", CASES[i].words);
        assert_int_equal(count_mistakes(options), 1);
        td_options_destroy(options);
    }
    (void)state;
}

static void test_two_flags_of_one_value(void **state)
{
    td_options *options = *state;
    read_text(options, "[dish]\nplate = blue\n");
    assert_string_equal(text_of(options, "dish.plate"), "blue");
    assert_int_equal(PARSE(options, WASH, "--plate-number", "7"), TD_OK);
    assert_string_equal(text_of(options, "dish.plate"), "7");
    assert_int_equal(PARSE(options, WASH, "--plate-name", "red"), TD_ERR_CONFIG);
    expect_mistake(options, 0, "command line", "--plate-number and --plate-name cannot both be given");
    assert_string_equal(text_of(options, "dish.plate"), "7");
}

static void test_a_flag_that_repeats(void **state)
{
    td_options *options = *state;
    read_text(options, "[dish]\nspice = salt\n");
    assert_string_equal(text_of(options, "dish.spice"), "salt");
    assert_int_equal(PARSE(options, COOK, "pie", "--spice", "mint", "--spice", "dill"), TD_OK);
    assert_string_equal(text_of(options, "dish.spice"), "mint\ndill"); /* the file has less authority */
}

static void test_empty_text_means_not_set(void **state)
{
    td_options *options = *state;
    read_text(options, "[dish]\nplate = blue\n");
    setenv("HOME", "/home/cook", 1);
    read_text(options, "[dish]\nrecipe = ~/pie.txt\n");
    assert_string_equal(text_of(options, "dish.recipe"), "/home/cook/pie.txt");
    assert_int_equal(PARSE(options, WASH, "--set", "dish.plate="), TD_OK);
    assert_null(text_of(options, "dish.plate"));
    assert_string_equal(td_options_get(options, "dish.plate")->place, "--set");
}

static void test_good_file(void **state)
{
    td_options *options = *state;
    read_text(options,
              "\xEF\xBB\xBF; a comment\r\n[oven] ; the big one\r\n  heat = 90 ; warm\r\n\r\n\tfan: off\n"
              "# another\n[dish]\nplate = a = b\n[oven]\nmode=roast");
    assert_int_equal(count_mistakes(options), 0);
    assert_int_equal(td_options_get(options, "oven.heat")->integer, 90);
    assert_string_equal(td_options_get(options, "oven.heat")->place, "k.ini:3");
    assert_false(td_options_get(options, "oven.fan")->truth);
    assert_string_equal(td_options_get(options, "oven.fan")->place, "k.ini:5");
    assert_string_equal(text_of(options, "dish.plate"), "a = b");
    assert_string_equal(text_of(options, "oven.mode"), "roast");
    assert_string_equal(td_options_get(options, "oven.mode")->place, "k.ini:10");
}

static void test_finding_23_quotes_are_not_of_the_value(void **state)
{
    static const struct {
        const char *line, *value;
    } CASES[] = {
        {"plate = \"my data\"", "my data"},
        {"plate='it\"s'  ; comment", "it\"s"},
        {"plate: \" a ; b \" # more", " a ; b "},
        {"plate = \"a\"b\"", "a\"b"},
        {"plate = a \"b\"", "a \"b\""},
        {"plate = \"\"", NULL},
        {"plate = 'a'; b'", "a'; b"},
    };
    char text[128], *config;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; ++i) {
        td_options *options, *copy;
        assert_int_equal(td_options_create(&TABLE, &options), TD_OK);
        snprintf(text, sizeof text, "[dish]\n%s\n", CASES[i].line);
        read_text(options, text);
        assert_int_equal(count_mistakes(options), 0);
        const char *value = text_of(options, "dish.plate");
        if (CASES[i].value == NULL)
            assert_null(value);
        else
            assert_string_equal(value, CASES[i].value);
        assert_int_equal(td_options_config(options, &config), TD_OK);
        assert_int_equal(td_options_create(&TABLE, &copy), TD_OK);
        read_text(copy, config);
        assert_int_equal(count_mistakes(copy), 0);
        if (CASES[i].value != NULL) assert_string_equal(text_of(copy, "dish.plate"), CASES[i].value);
        free(config);
        td_options_destroy(copy);
        td_options_destroy(options);
    }
    td_options *options = *state;
    read_text(options, "[dish]\nplate = \"open\n[oven]\nheat = '90' ; twice\nheat = \"91\"\n");
    expect_mistake(options, 0, "k.ini:2", "the quote before 'open' does not close");
    expect_mistake(options, 1, "k.ini:5", "was already given in line 4");
    assert_int_equal(td_options_get(options, "oven.heat")->integer, 90);
}

/* A truth that a word may stand for. */
static void test_words_for_a_truth(void **state)
{
    td_options *options = *state;
    assert_string_equal(text_of(options, "oven.door"), "auto");
    assert_false(td_options_get(options, "oven.door")->truth);
    read_text(options, "[oven]\ndoor = on\n");
    assert_string_equal(text_of(options, "oven.door"), "true");
    assert_true(td_options_get(options, "oven.door")->truth);
    assert_int_equal(td_options_assign(options, "oven.door", "ajar", TD_ORIGIN_SET, "--set"), TD_OK);
    assert_string_equal(text_of(options, "oven.door"), "ajar");
    assert_false(td_options_get(options, "oven.door")->truth);
    assert_int_equal(td_options_assign(options, "oven.door", "shut", TD_ORIGIN_SET, "--set"), TD_OK);
    expect_mistake(options, 0, "--set", "oven.door cannot be 'shut'; it must be true, false or auto|ajar");
}

static void test_all_mistakes_of_a_file(void **state)
{
    td_options *options = *state;
    read_text(options, "heat = 1\n"
                       "[ovne]\n"
                       "heat = 70\n"
                       "[oven]\n"
                       "heta = 70\n"
                       "heat = 1000\n"
                       "plate = 3\n"
                       "what is this\n"
                       "   indented\n"
                       "fan = maybe\n"
                       "heat = 80\n"
                       "[oven\n"
                       "[garage]\n"
                       "[dish] x\n"
                       "[dish]\n"
                       "%s%n = 1\n"
                       "= 2\n");
    expect_mistake(options, 0, "k.ini:1", "'heat = 1' stands before any [section]");
    expect_mistake(options, 1, "k.ini:2", "unknown section [ovne]; did you mean [oven]?");
    expect_mistake(options, 2, "k.ini:5", "unknown key 'heta' in [oven]; did you mean 'heat'?");
    expect_mistake(options, 3, "k.ini:6",
                   "oven.heat cannot be '1000'; it must be a whole number from 50 to 300");
    expect_mistake(options, 4, "k.ini:7", "unknown key 'plate' in [oven]; it belongs in [dish]");
    expect_mistake(options, 5, "k.ini:8", "'what is this' is neither");
    expect_mistake(options, 6, "k.ini:9", "'indented' is neither");
    expect_mistake(options, 7, "k.ini:10", "oven.fan cannot be 'maybe'; it must be true or false");
    expect_mistake(options, 8, "k.ini:11", "'heat' in [oven] was already given in line 6");
    expect_mistake(options, 9, "k.ini:12", "'[oven' is not a section");
    expect_mistake(options, 10, "k.ini:13", "unknown section [garage]; there are [oven], [dish]");
    expect_mistake(options, 11, "k.ini:14", "is not a section");
    expect_mistake(options, 12, "k.ini:16", "unknown key '%s%n' in [dish]");
    expect_mistake(options, 13, "k.ini:17", "does not name a key");
    assert_int_equal(count_mistakes(options), 14);
}

/* The line limit is libinih's: the longest line that is read whole, and the first that is refused. */
static void test_line_limit(void **state)
{
    enum { LIMIT = 199 };
    char text[512];
    td_options *options = *state;
    for (int length = LIMIT; length <= LIMIT + 1; length++) {
        const int head = snprintf(text, sizeof text, "[dish]\nplate = ");
        memset(text + head, 'x', (size_t)(length - 8));
        snprintf(text + head + length - 8, 32, "\n[oven]\nheat = 70\n");
        read_text(options, text);
        assert_int_equal(strlen(text_of(options, "dish.plate")), LIMIT - 8);
    }
    expect_mistake(options, 0, "k.ini:2", "longer than the 199 bytes");
    assert_int_equal(count_mistakes(options), 1);
    assert_int_equal(td_options_get(options, "oven.heat")->integer, 70);
    memset(text, ';', 300);
    text[300] = 0;
    read_text(options, text);
    assert_int_equal(td_options_read_text(options, "k.ini", "[oven]\nhe\0t = 1\n", 16), TD_OK);
    expect_mistake(options, 1, "k.ini:2", "zero byte");
}

static void test_file_named_on_the_command_line(void **state)
{
    char path[] = "/tmp/tandem-options-XXXXXX", place[64];
    td_options *options = *state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "[oven]\nheat = 70\nmode = roast\nfann = on\n", 40), 40);
    close(fd);
    assert_int_equal(
        PARSE(options, COOK, "pie", "--config", path, "--set", "oven.mode=grill", "--heat", "75"),
        TD_ERR_CONFIG);
    unlink(path);
    assert_int_equal(td_options_get(options, "oven.heat")->integer, 75);
    assert_string_equal(text_of(options, "oven.mode"), "grill");
    snprintf(place, sizeof place, "%s:4", path);
    expect_mistake(options, 0, place, "did you mean 'fan'?");
    assert_int_equal(PARSE(options, WASH, "--config", "a.ini"), TD_ERR_CONFIG);
    expect_mistake(options, 1, "command line", "--config may be given only once");
}

static void test_missing_file_is_a_mistake(void **state)
{
    td_options *options = *state;
    assert_int_equal(PARSE(options, WASH, "--config", "/nowhere/at/all.ini"), TD_ERR_CONFIG);
    expect_mistake(options, 0, "--config", "/nowhere/at/all.ini");
}

static void test_config_reads_back(void **state)
{
    char *text, *again, long_name[186];
    td_options *options = *state, *copy;
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    assert_int_equal(td_options_assign(options, "dish.plate", long_name, TD_ORIGIN_SET, "--set"), TD_OK);
    assert_int_equal(PARSE(options, COOK, "pie", "--heat", "75", "--no-fan"), TD_OK);
    assert_int_equal(td_options_config(options, &text), TD_OK);
    assert_non_null(strstr(text, "[oven]\nheat = 75"));
    assert_non_null(strstr(text, "; command line (--heat)\n"));
    assert_non_null(strstr(text, "mode = bake"));
    assert_non_null(strstr(text, "; recipe is not set\n"));
    assert_int_equal(td_options_create(&TABLE, &copy), TD_OK);
    read_text(copy, text);
    assert_int_equal(count_mistakes(copy), 0);
    for (size_t i = 0; i < TABLE.n_options; i++) {
        char name[64];
        if (!OPTIONS[i].section) continue;
        snprintf(name, sizeof name, "%s.%s", OPTIONS[i].section, OPTIONS[i].key);
        const char *a = text_of(options, name), *b = text_of(copy, name);
        assert_true((!a && !b) || strcmp(a, b) == 0);
    }
    assert_int_equal(td_options_config(copy, &again), TD_OK);
    free(again);
    free(text);
    td_options_destroy(copy);
}

static void test_help_of_a_command(void **state)
{
    char *text;
    (void)state;
    assert_int_equal(td_options_help(&TABLE, COOK, false, &text), TD_OK);
    assert_ptr_equal(strstr(text, "Usage: kitchen cook DISH [SIDE] [options]\n"), text);
    assert_non_null(strstr(text, "\nOven:\n  --heat DEGREES"));
    assert_non_null(strstr(text, "\nExamples:\n  kitchen cook soup\n  kitchen cook \\\n    rice\n\n"));
    assert_non_null(strstr(text, "Heat of the oven (default 180) [oven.heat]"));
    assert_non_null(strstr(text, "-h, --help"));
    assert_non_null(strstr(text, "--[no-]fan"));
    assert_non_null(strstr(text, "--enable-lamp, --disable-lamp"));
    assert_non_null(strstr(text, "--mode bake|grill|roast"));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        assert_true(strcspn(line, "\n") <= 80);
    }
    free(text);
    assert_int_equal(td_options_help(&TABLE, WASH, false, &text), TD_OK);
    assert_null(strstr(text, "--heat"));
    assert_null(strstr(text, "Examples:"));
    assert_non_null(strstr(text, "--plate-number N"));
    free(text);
    assert_int_equal(td_options_help(&TABLE, N_COMMANDS, false, &text), TD_OK);
    assert_non_null(strstr(text, "wash up"));
    free(text);
}

/* More lines than a screen has: the usual options are explained, the others named. */
static void test_help_fits_a_screen(void **state)
{
    static const char LONG[] = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\none\ntwo\nthree\n"
                               "four\nfive\nsix\nseven\neight\nnine\nten\none\ntwo\nthree\nfour\nfive\nsix\n";
    const td_option_command commands[] = {
        {"cook", "DISH [SIDE]", 1, 2, "Cooks a dish", "It takes a while.", ON_COOK, LONG}, COMMANDS[WASH]};
    td_option_table table = TABLE;
    char *text;
    (void)state;
    table.commands = commands;
    assert_int_equal(td_options_help(&table, COOK, false, &text), TD_OK);
    assert_non_null(strstr(text, "\nMost used options:\n  --heat DEGREES"));
    assert_non_null(strstr(text, "Heat of the oven (default 180)\n"));
    assert_non_null(strstr(text, "\nMore, explained by `kitchen help cook --all`:\n"));
    assert_non_null(strstr(text, "  Oven: --fan, --enable-lamp, --mode, --oven-size\n"));
    assert_null(strstr(text, "Use the fan"));
    free(text);
    assert_int_equal(td_options_help(&table, COOK, true, &text), TD_OK);
    assert_non_null(strstr(text, "Use the fan"));
    assert_null(strstr(text, "Most used"));
    free(text);
}

/* Rows that came at run time are as good as the others, and a text made for one lives as long. */
static void test_rows_are_added_at_run_time(void **state)
{
    (void)state;
    td_option_rows rows = {0};
    td_options *options;
    char *key;
    assert_int_equal(td_option_rows_add(&rows, OPTIONS, sizeof OPTIONS / sizeof OPTIONS[0]), TD_OK);
    assert_null(td_option_rows_find(&rows, "oven", "racks_2"));
    assert_int_equal(td_option_rows_text(&rows, &key, "racks_%d", 2), TD_OK);
    const td_option row = {"oven", key, NULL,   0, TD_OPTION_INT, "1",   "N",  NULL,
                           0,      5,   "Oven", 0, "Racks",       false, false};
    assert_int_equal(td_option_rows_add(&rows, &row, 1), TD_OK);
    assert_non_null(td_option_rows_find(&rows, "oven", "racks_2"));
    td_option_table table = TABLE;
    table.options = rows.rows;
    table.n_options = rows.count;
    assert_int_equal(td_options_create(&table, &options), TD_OK);
    read_text(options, "[oven]\nracks_2 = 3\nrack_2 = 4\n");
    assert_int_equal(td_options_get(options, "oven.racks_2")->integer, 3);
    expect_mistake(options, 0, "k.ini:3", "did you mean 'racks_2'?");
    td_options_destroy(options);
    td_option_rows_free(&rows);
}

static void test_markdown_holds_every_row(void **state)
{
    char *text, flag[TD_OPTION_FLAG_BYTES];
    (void)state;
    assert_int_equal(td_options_markdown(&TABLE, &text), TD_OK);
    for (size_t i = 0; i < TABLE.n_options; i++) {
        td_option_flag(&OPTIONS[i], flag);
        assert_non_null(strstr(text, flag));
    }
    assert_non_null(strstr(text, "\n- `--mode bake|grill|roast`: "));
    assert_non_null(
        strstr(text, "\n  - key: `oven.mode`\n  - values: one of: bake, grill, roast\n  - default: bake\n"));
    free(text);
}

static void test_config_as_json(void **state)
{
    const char *text;
    td_json *json;
    td_options *options = *state;
    assert_int_equal(PARSE(options, COOK, "pie", "--heat", "75"), TD_OK);
    assert_int_equal(td_json_create(NULL, 0, &json), TD_OK);
    td_options_config_json(options, json);
    assert_int_equal(td_json_finish(json, &text), TD_OK);
    assert_non_null(strstr(text, "oven.heat"));
    assert_non_null(strstr(text, "command line (--heat)"));
    assert_non_null(strstr(text, "null"));
    td_json_destroy(json);
}

int main(void)
{
#define OPTIONS_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        OPTIONS_TEST(test_defaults),
        cmocka_unit_test(test_bad_default_is_refused),
        OPTIONS_TEST(test_authority_in_any_order),
        OPTIONS_TEST(test_value_that_loses_is_still_checked),
        OPTIONS_TEST(test_forms_of_the_command_line),
        OPTIONS_TEST(test_last_of_a_repeated_flag_wins),
        OPTIONS_TEST(test_all_mistakes_of_the_command_line),
        OPTIONS_TEST(test_names_of_other_programs_are_known),
        OPTIONS_TEST(test_missing_value_and_arguments),
        cmocka_unit_test(test_bad_values_name_what_is_allowed),
        OPTIONS_TEST(test_two_flags_of_one_value),
        OPTIONS_TEST(test_a_flag_that_repeats),
        OPTIONS_TEST(test_empty_text_means_not_set),
        OPTIONS_TEST(test_good_file),
        OPTIONS_TEST(test_finding_23_quotes_are_not_of_the_value),
        OPTIONS_TEST(test_words_for_a_truth),
        OPTIONS_TEST(test_all_mistakes_of_a_file),
        OPTIONS_TEST(test_line_limit),
        OPTIONS_TEST(test_file_named_on_the_command_line),
        OPTIONS_TEST(test_missing_file_is_a_mistake),
        OPTIONS_TEST(test_config_reads_back),
        OPTIONS_TEST(test_help_of_a_command),
        OPTIONS_TEST(test_help_fits_a_screen),
        OPTIONS_TEST(test_rows_are_added_at_run_time),
        OPTIONS_TEST(test_markdown_holds_every_row),
        OPTIONS_TEST(test_config_as_json),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
