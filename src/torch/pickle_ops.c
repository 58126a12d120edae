/* The opcodes of pickles: a table by their byte. Each reads its operand, moves values on the stack, and calls
 * nothing. The meaning of opcodes is that of Python's pickletools. See pickle.h. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "torch/bytes.h"
#include "torch/pickle_internal.h"

typedef struct opcode {
    const char *name;
    td_status (*run)(td_pickle *p, int argument); /* NULL: refused by name */
    int argument;
} opcode;

/* ---------------------------------------------------------------- operands */

/* A length or number of 1, 2, 4 or 8 bytes. */
static td_status read_number(td_pickle *p, int bytes, uint64_t *out)
{
    const unsigned char *at;
    const td_status status = td_pickle_take(p, (uint64_t)bytes, &at);
    if (status != TD_OK) return status;
    *out = bytes == 1 ? at[0] : bytes == 2 ? td_read_u16(at) : bytes == 4 ? td_read_u32(at) : td_read_u64(at);
    return TD_OK;
}

/* A line, without its end; both are borrowed from the content. */
static td_status read_line(td_pickle *p, const unsigned char **out, size_t *bytes)
{
    const unsigned char *end = memchr(p->content + p->at, '\n', p->bytes - p->at);
    TD_REFUSE_IF(end == NULL, TD_ERR_FORMAT, "it is cut inside a line");
    *bytes = (size_t)(end - (p->content + p->at));
    TD_REFUSE_IF(*bytes > TD_PICKLE_MAX_TEXT_BYTES, TD_ERR_LIMIT, "a line has %zu bytes", *bytes);
    return td_pickle_take(p, *bytes + 1, out);
}

/* ---------------------------------------------------------------- plain values */

static td_status push_constant(td_pickle *p, int argument)
{
    if (argument < 0) return td_pickle_push(p, (td_pickle_value){.kind = TD_PICKLE_NONE});
    return td_pickle_push(p, (td_pickle_value){.kind = TD_PICKLE_BOOL, .as.integer = argument});
}

/* Of four bytes it has a sign. */
static td_status push_int(td_pickle *p, int bytes)
{
    uint64_t number;
    TD_CHECK(read_number(p, bytes, &number));
    const int64_t integer = bytes == 4 ? (int32_t)(uint32_t)number : (int64_t)number;
    return td_pickle_push(p, (td_pickle_value){.kind = TD_PICKLE_INT, .as.integer = integer});
}

static td_status push_long(td_pickle *p, int length_bytes)
{
    const unsigned char *at;
    uint64_t bytes, number = 0;
    TD_CHECK(read_number(p, length_bytes, &bytes));
    TD_REFUSE_IF(bytes > 1024, TD_ERR_LIMIT, "an integer has %llu bytes", (unsigned long long)bytes);
    TD_CHECK(td_pickle_take(p, bytes, &at));
    td_pickle_value value = {.kind = TD_PICKLE_LONG, .n = (uint32_t)bytes, .as.bytes = at};
    if (bytes <= 8) {
        for (size_t i = 0; i < bytes; i++)
            number |= (uint64_t)at[i] << 8 * i;
        if (bytes > 0 && bytes < 8 && (at[bytes - 1] & 0x80) != 0) number |= UINT64_MAX << 8 * bytes;
        value = (td_pickle_value){.kind = TD_PICKLE_INT, .as.integer = (int64_t)number};
    }
    return td_pickle_push(p, value);
}

static td_status push_float(td_pickle *p, int argument)
{
    const unsigned char *at;
    uint64_t bits = 0;
    td_pickle_value value = {.kind = TD_PICKLE_FLOAT};
    (void)argument;
    TD_CHECK(td_pickle_take(p, 8, &at));
    for (size_t i = 0; i < 8; i++)
        bits = bits << 8 | at[i];
    memcpy(&value.as.number, &bits, sizeof bits);
    return td_pickle_push(p, value);
}

static td_status push_bytes(td_pickle *p, td_pickle_kind kind, int length_bytes)
{
    const unsigned char *at;
    uint64_t bytes;
    TD_CHECK(read_number(p, length_bytes, &bytes));
    TD_REFUSE_IF(bytes > TD_PICKLE_MAX_TEXT_BYTES, TD_ERR_LIMIT, "a text has %llu bytes, more than %d",
                 (unsigned long long)bytes, TD_PICKLE_MAX_TEXT_BYTES);
    TD_CHECK(td_pickle_take(p, bytes, &at));
    return td_pickle_push(p, (td_pickle_value){.kind = kind, .n = (uint32_t)bytes, .as.bytes = at});
}

static td_status push_text(td_pickle *p, int length_bytes)
{
    return push_bytes(p, TD_PICKLE_TEXT, length_bytes);
}

static td_status push_binary(td_pickle *p, int length_bytes)
{
    return push_bytes(p, TD_PICKLE_BYTES, length_bytes);
}

/* INT, LONG and FLOAT as digits: "12", "01" for true, "12L", "0.5". */
static td_status push_digits(td_pickle *p, int kind)
{
    td_status status = TD_OK;
    const unsigned char *line;
    size_t bytes;
    char text[64];
    td_pickle_value value = {.kind = kind == 'F' ? TD_PICKLE_FLOAT : TD_PICKLE_INT};
    TD_TRY(read_line(p, &line, &bytes));
    TD_FAIL_IF(bytes >= sizeof text, TD_ERR_FORMAT, "a number has %zu digits", bytes);
    memcpy(text, line, bytes);
    text[bytes] = '\0';
    if (kind == 'L' && bytes > 0 && text[bytes - 1] == 'L') text[bytes - 1] = '\0';
    if (kind == 'F')
        TD_TRY(td_text_parse_double(text, &value.as.number));
    else
        TD_TRY(td_text_parse_i64(text, &value.as.integer));
    if (kind == 'I' && bytes == 2 && text[0] == '0') value.kind = TD_PICKLE_BOOL;
    TD_TRY(td_pickle_push(p, value));
fail:
    return status == TD_ERR_CONFIG ? TD_FAIL(TD_ERR_FORMAT, "a number cannot be read") : status;
}

/* ---------------------------------------------------------------- containers */

static td_status push_empty(td_pickle *p, int kind)
{
    return td_pickle_push(p, (td_pickle_value){.kind = (td_pickle_kind)kind});
}

static td_status push_mark(td_pickle *p, int argument)
{
    (void)argument;
    if (p->n_marks == TD_PICKLE_MAX_DEPTH)
        return TD_FAIL(TD_ERR_LIMIT, "it is nested deeper than %d", TD_PICKLE_MAX_DEPTH);
    p->marks[p->n_marks++] = p->n_stack;
    return TD_OK;
}

/* From the mark on: TUPLE, LIST, DICT, FROZENSET. */
static td_status push_marked(td_pickle *p, int kind)
{
    const td_pickle_id *items;
    size_t n;
    TD_CHECK(td_pickle_pop_mark(p, &items, &n));
    TD_REFUSE_IF(kind == TD_PICKLE_DICT && n % 2 != 0, TD_ERR_FORMAT, "a key has no value");
    return td_pickle_push_items(p, (td_pickle_kind)kind, items, n);
}

/* TUPLE1 to TUPLE3. */
static td_status push_tuple(td_pickle *p, int n)
{
    td_pickle_id items[3] = {0};
    for (int i = n - 1; i >= 0; i--)
        TD_CHECK(td_pickle_pop(p, &items[i]));
    return td_pickle_push_items(p, TD_PICKLE_TUPLE, items, (size_t)n);
}

/* Objects whose class we do not know may be containers; what goes into them is dropped. */
static td_status put_items(td_pickle *p, td_pickle_kind kind, const td_pickle_id *items, size_t n)
{
    td_pickle_id to;
    TD_REFUSE_IF(kind == TD_PICKLE_DICT && n % 2 != 0, TD_ERR_FORMAT, "a key has no value");
    TD_CHECK(td_pickle_top(p, &to));
    if (p->values[to].kind == TD_PICKLE_OBJECT) return TD_OK;
    TD_REFUSE_IF(p->values[to].kind != kind, TD_ERR_FORMAT, "what it puts items into is no %s",
                 kind == TD_PICKLE_DICT ? "dict" : "list");
    return td_pickle_append(p, to, items, n);
}

static td_status put_marked(td_pickle *p, int kind)
{
    const td_pickle_id *items;
    size_t n;
    TD_CHECK(td_pickle_pop_mark(p, &items, &n));
    return put_items(p, (td_pickle_kind)kind, items, n);
}

/* APPEND, SETITEM. */
static td_status put_one(td_pickle *p, int kind)
{
    td_pickle_id items[2] = {0};
    const size_t n = kind == TD_PICKLE_DICT ? 2 : 1;
    for (size_t i = n; i-- > 0;)
        TD_CHECK(td_pickle_pop(p, &items[i]));
    return put_items(p, (td_pickle_kind)kind, items, n);
}

static td_status drop_one(td_pickle *p, int argument)
{
    td_pickle_id id;
    (void)argument;
    if (p->n_marks > 0 && p->marks[p->n_marks - 1] == p->n_stack) {
        p->n_marks--;
        return TD_OK;
    }
    return td_pickle_pop(p, &id);
}

static td_status drop_marked(td_pickle *p, int argument)
{
    const td_pickle_id *items;
    size_t n;
    (void)argument;
    return td_pickle_pop_mark(p, &items, &n);
}

static td_status push_again(td_pickle *p, int argument)
{
    td_pickle_id id;
    (void)argument;
    TD_CHECK(td_pickle_top(p, &id));
    return td_pickle_push_id(p, id);
}

/* ---------------------------------------------------------------- the memo */

static td_status remember(td_pickle *p, uint64_t number)
{
    td_pickle_id id;
    TD_CHECK(td_pickle_top(p, &id));
    TD_REFUSE_IF(number >= TD_PICKLE_MAX_VALUES, TD_ERR_LIMIT, "it remembers value %llu, more than %d",
                 (unsigned long long)number, TD_PICKLE_MAX_VALUES);
    TD_CHECK(td_alloc_grow(&p->memo, &p->memo_capacity, (size_t)number + 1, sizeof *p->memo));
    p->memo[number] = id;
    if (number >= p->n_memo) p->n_memo = (size_t)number + 1;
    return TD_OK;
}

static td_status put_memo(td_pickle *p, int bytes)
{
    uint64_t number = p->n_memo; /* MEMOIZE: the next one */
    if (bytes > 0) TD_CHECK(read_number(p, bytes, &number));
    return remember(p, number);
}

static td_status get_memo(td_pickle *p, int bytes)
{
    uint64_t number;
    TD_CHECK(read_number(p, bytes, &number));
    TD_REFUSE_IF(number >= p->n_memo || p->memo[number] == 0, TD_ERR_FORMAT,
                 "it asks for value %llu, which it did not remember", (unsigned long long)number);
    return td_pickle_push_id(p, p->memo[number]);
}

/* ---------------------------------------------------------------- names and calls, of which none is made */

static td_status push_global(td_pickle *p, int argument)
{
    td_pickle_id of[2];
    (void)argument;
    for (size_t i = 0; i < 2; i++) {
        td_pickle_value value = {.kind = TD_PICKLE_TEXT};
        size_t bytes;
        TD_CHECK(read_line(p, &value.as.bytes, &bytes));
        value.n = (uint32_t)bytes;
        TD_CHECK(td_pickle_push(p, value));
        TD_CHECK(td_pickle_pop(p, &of[i]));
    }
    return td_pickle_push_global(p, of[0], of[1]);
}

static td_status push_stack_global(td_pickle *p, int argument)
{
    td_pickle_id module, name;
    (void)argument;
    TD_CHECK(td_pickle_pop(p, &name));
    TD_CHECK(td_pickle_pop(p, &module));
    return td_pickle_push_global(p, module, name);
}

/* OrderedDict() and Counter({...}) are dicts to us. */
static td_status push_dict(td_pickle *p, td_pickle_id arguments)
{
    const td_pickle_id first = td_pickle_item(p, arguments, 0);
    if (first != 0 && p->values[first].kind == TD_PICKLE_DICT) return td_pickle_push_id(p, first);
    return td_pickle_push(p, (td_pickle_value){.kind = TD_PICKLE_DICT});
}

/* REDUCE, NEWOBJ (2 values) and NEWOBJ_EX (3, of which the named arguments are dropped). */
static td_status note_call(td_pickle *p, int n)
{
    td_pickle_id called, arguments, named;
    if (n == 3) TD_CHECK(td_pickle_pop(p, &named));
    TD_CHECK(td_pickle_pop(p, &arguments));
    TD_CHECK(td_pickle_pop(p, &called));
    TD_REFUSE_IF(p->values[arguments].kind != TD_PICKLE_TUPLE, TD_ERR_FORMAT,
                 "it calls something with arguments that are no tuple");
    if (td_pickle_is_global(p, called, "collections", "OrderedDict") ||
        td_pickle_is_global(p, called, "collections", "Counter"))
        return push_dict(p, arguments);
    return td_pickle_push(p, (td_pickle_value){.kind = TD_PICKLE_OBJECT, .as.of = {called, arguments, 0}});
}

/* The state of an object. Of a dict (the _metadata of torch's modules) it is dropped. */
static td_status note_state(td_pickle *p, int argument)
{
    td_pickle_id state, object;
    (void)argument;
    TD_CHECK(td_pickle_pop(p, &state));
    TD_CHECK(td_pickle_top(p, &object));
    if (p->values[object].kind == TD_PICKLE_DICT) return TD_OK;
    TD_REFUSE_IF(p->values[object].kind != TD_PICKLE_OBJECT, TD_ERR_FORMAT,
                 "it gives a state to something that is no object");
    p->values[object].as.of.c = state;
    return TD_OK;
}

static td_status push_persistent(td_pickle *p, int argument)
{
    td_pickle_id id;
    (void)argument;
    TD_CHECK(td_pickle_pop(p, &id));
    return td_pickle_push(p, (td_pickle_value){.kind = TD_PICKLE_PERSISTENT, .as.of = {id, 0, 0}});
}

/* ---------------------------------------------------------------- the pickle itself */

static td_status read_protocol(td_pickle *p, int argument)
{
    uint64_t version;
    (void)argument;
    TD_CHECK(read_number(p, 1, &version));
    TD_REFUSE_IF(version > 5, TD_ERR_UNSUPPORTED, "its protocol is %u; 5 is the last that is known",
                 (unsigned)version);
    return TD_OK;
}

static td_status read_frame(td_pickle *p, int argument)
{
    uint64_t bytes;
    (void)argument;
    const td_status status = read_number(p, 8, &bytes);
    if (status != TD_OK || bytes <= p->bytes - p->at) return status;
    return TD_FAIL(TD_ERR_FORMAT, "it is cut inside a frame");
}

static td_status stop(td_pickle *p, int argument)
{
    (void)argument;
    TD_REFUSE_IF(p->n_marks > 0, TD_ERR_FORMAT, "it ends inside a container");
    TD_CHECK(td_pickle_pop(p, &p->root));
    p->is_done = true;
    return TD_OK;
}

static const opcode OPCODES[256] = {
    [0x80] = {"PROTO", read_protocol, 0},
    [0x95] = {"FRAME", read_frame, 0},
    ['.'] = {"STOP", stop, 0},
    ['('] = {"MARK", push_mark, 0},
    ['0'] = {"POP", drop_one, 0},
    ['1'] = {"POP_MARK", drop_marked, 0},
    ['2'] = {"DUP", push_again, 0},
    ['N'] = {"NONE", push_constant, -1},
    [0x88] = {"NEWTRUE", push_constant, 1},
    [0x89] = {"NEWFALSE", push_constant, 0},
    ['I'] = {"INT", push_digits, 'I'},
    ['L'] = {"LONG", push_digits, 'L'},
    ['F'] = {"FLOAT", push_digits, 'F'},
    ['J'] = {"BININT", push_int, 4},
    ['K'] = {"BININT1", push_int, 1},
    ['M'] = {"BININT2", push_int, 2},
    [0x8a] = {"LONG1", push_long, 1},
    [0x8b] = {"LONG4", push_long, 4},
    ['G'] = {"BINFLOAT", push_float, 0},
    ['X'] = {"BINUNICODE", push_text, 4},
    [0x8c] = {"SHORT_BINUNICODE", push_text, 1},
    [0x8d] = {"BINUNICODE8", push_text, 8},
    ['U'] = {"SHORT_BINSTRING", push_text, 1},
    ['T'] = {"BINSTRING", push_text, 4},
    ['C'] = {"SHORT_BINBYTES", push_binary, 1},
    ['B'] = {"BINBYTES", push_binary, 4},
    [0x8e] = {"BINBYTES8", push_binary, 8},
    [0x96] = {"BYTEARRAY8", push_binary, 8},
    ['}'] = {"EMPTY_DICT", push_empty, TD_PICKLE_DICT},
    [']'] = {"EMPTY_LIST", push_empty, TD_PICKLE_LIST},
    [')'] = {"EMPTY_TUPLE", push_empty, TD_PICKLE_TUPLE},
    [0x8f] = {"EMPTY_SET", push_empty, TD_PICKLE_LIST},
    ['t'] = {"TUPLE", push_marked, TD_PICKLE_TUPLE},
    ['l'] = {"LIST", push_marked, TD_PICKLE_LIST},
    ['d'] = {"DICT", push_marked, TD_PICKLE_DICT},
    [0x91] = {"FROZENSET", push_marked, TD_PICKLE_LIST},
    [0x85] = {"TUPLE1", push_tuple, 1},
    [0x86] = {"TUPLE2", push_tuple, 2},
    [0x87] = {"TUPLE3", push_tuple, 3},
    ['a'] = {"APPEND", put_one, TD_PICKLE_LIST},
    ['e'] = {"APPENDS", put_marked, TD_PICKLE_LIST},
    [0x90] = {"ADDITEMS", put_marked, TD_PICKLE_LIST},
    ['s'] = {"SETITEM", put_one, TD_PICKLE_DICT},
    ['u'] = {"SETITEMS", put_marked, TD_PICKLE_DICT},
    ['q'] = {"BINPUT", put_memo, 1},
    ['r'] = {"LONG_BINPUT", put_memo, 4},
    [0x94] = {"MEMOIZE", put_memo, 0},
    ['h'] = {"BINGET", get_memo, 1},
    ['j'] = {"LONG_BINGET", get_memo, 4},
    ['c'] = {"GLOBAL", push_global, 0},
    [0x93] = {"STACK_GLOBAL", push_stack_global, 0},
    ['R'] = {"REDUCE", note_call, 2},
    [0x81] = {"NEWOBJ", note_call, 2},
    [0x92] = {"NEWOBJ_EX", note_call, 3},
    ['b'] = {"BUILD", note_state, 0},
    ['Q'] = {"BINPERSID", push_persistent, 0},
    ['P'] = {"PERSID", NULL, 0},
    ['S'] = {"STRING", NULL, 0},
    ['V'] = {"UNICODE", NULL, 0},
    ['p'] = {"PUT", NULL, 0},
    ['g'] = {"GET", NULL, 0},
    ['i'] = {"INST", NULL, 0},
    ['o'] = {"OBJ", NULL, 0},
    [0x82] = {"EXT1", NULL, 0},
    [0x83] = {"EXT2", NULL, 0},
    [0x84] = {"EXT4", NULL, 0},
    [0x97] = {"NEXT_BUFFER", NULL, 0},
    [0x98] = {"READONLY_BUFFER", NULL, 0},
};

td_status td_pickle_run_opcode(td_pickle *p)
{
    td_status status = TD_OK;
    const unsigned char *at;
    const opcode *op = NULL;
    TD_TRY(td_pickle_take(p, 1, &at));
    op = &OPCODES[*at];
    TD_FAIL_IF(op->name == NULL, TD_ERR_FORMAT, "0x%02x is no opcode", *at);
    TD_FAIL_IF(op->run == NULL, TD_ERR_UNSUPPORTED, "opcode %s is not one that files of tensors need",
               op->name);
    status = op->run(p, op->argument);
    if (status != TD_OK) (void)td_error_context("%s", op->name);
fail:
    return status;
}
