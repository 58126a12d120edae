/* Build-time program: writes the text of every kernel of ops.def as C arrays,
 * for kernel.c to include.
 *
 *   td_embed OUT SRC_DIR CL_DIR SPIRV_DIR
 *
 * OpenCL C goes in as source: #include "..." lines are replaced by the files
 * they name (looked for beside the including file, then in SRC_DIR), all other
 * lines stay, because the class and the vector width are chosen when a driver
 * builds the text. #line directives keep a driver's messages pointing at the
 * real files. SPIR-V goes in as words of SPIRV_DIR/NAME.cpu.spv and
 * NAME.gpu.spv. Not part of the library. Its output is covered by
 * tests/device/test_kernel_text.c.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 16
#define MAX_PATH 4096

static const struct {
    const char *name, *body;
} kernels[] = {
#define TD_KERNEL(name, body, ...) {#name, #body},
#include "kernels/ops.def"
#undef TD_KERNEL
};

typedef struct embedder {
    FILE *out;
    const char *src_dir;
} embedder;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("td_embed: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

__attribute__((format(printf, 2, 3))) static void make_path(char out[MAX_PATH], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(out, MAX_PATH, format, args);
    va_end(args);
    if (length < 0 || length >= MAX_PATH) die("path too long: %s", out);
}

/* Writes one line of text as a piece of a C string literal. */
static void write_line(FILE *out, const char *line)
{
    fputs("    \"", out);
    for (; *line != '\0' && *line != '\n'; line++) {
        if (*line == '"' || *line == '\\') fputc('\\', out);
        fputc(*line, out);
    }
    fputs("\\n\"\n", out);
}

static void write_line_directive(FILE *out, unsigned number, const char *label)
{
    char directive[MAX_PATH];
    make_path(directive, "#line %u \"%s\"", number, label);
    write_line(out, directive);
}

/* The name between the quotes when `line` is an include, else false. */
static int parse_include(const char *line, char name[MAX_PATH])
{
    return sscanf(line, " # include \"%4095[^\"]\"", name) == 1;
}

static FILE *open_include(const embedder *e, const char *includer, const char *name, char path[MAX_PATH])
{
    const char *slash = strrchr(includer, '/');
    make_path(path, "%.*s%s", slash ? (int)(slash - includer + 1) : 0, includer, name);
    FILE *file = fopen(path, "r");
    if (file) return file;
    make_path(path, "%s/%s", e->src_dir, name);
    return fopen(path, "r");
}

static void flatten(const embedder *e, FILE *file, const char *path, const char *label, int depth)
{
    char *line = NULL;
    size_t capacity = 0;
    char name[MAX_PATH], inner_path[MAX_PATH];

    if (depth > MAX_DEPTH) die("%s: includes nested deeper than %d, probably in a circle", path, MAX_DEPTH);
    write_line_directive(e->out, 1, label);
    for (unsigned number = 1; getline(&line, &capacity, file) >= 0; number++) {
        if (!parse_include(line, name)) {
            write_line(e->out, line);
            continue;
        }
        FILE *inner = open_include(e, path, name, inner_path);
        if (!inner) die("%s:%u: cannot open \"%s\"", path, number, name);
        flatten(e, inner, inner_path, name, depth + 1);
        write_line_directive(e->out, number + 1, label);
    }
    free(line);
    fclose(file);
}

static void embed_cl(const embedder *e, const char *cl_dir, const char *name)
{
    char path[MAX_PATH], label[MAX_PATH];
    make_path(path, "%s/%s.cl", cl_dir, name);
    make_path(label, "%s.cl", name);
    FILE *file = fopen(path, "r");
    if (!file) die("cannot open %s", path);
    fprintf(e->out, "static const char cl_%s[] =\n", name);
    flatten(e, file, path, label, 0);
    fputs("    ;\n", e->out);
}

static void embed_spirv(const embedder *e, const char *spirv_dir, const char *name, const char *kernel_class)
{
    char path[MAX_PATH];
    make_path(path, "%s/%s.%s.spv", spirv_dir, name, kernel_class);
    FILE *file = fopen(path, "rb");
    if (!file) die("cannot open %s", path);
    fprintf(e->out, "static const uint32_t spirv_%s_%s[] = {", kernel_class, name);
    uint32_t word;
    for (unsigned i = 0; fread(&word, sizeof word, 1, file) == 1; i++)
        fprintf(e->out, "%s0x%08x,", i % 8 == 0 ? "\n    " : " ", (unsigned)word);
    fputs("\n};\n", e->out);
    fclose(file);
}

/* Kernels that share a body share its text. */
static int is_first_of_body(size_t index)
{
    size_t i = 0;
    while (strcmp(kernels[i].body, kernels[index].body) != 0)
        i++;
    return i == index;
}

int main(int argc, char **argv)
{
    if (argc != 5) die("usage: td_embed OUT SRC_DIR CL_DIR SPIRV_DIR");
    const embedder e = {.out = fopen(argv[1], "w"), .src_dir = argv[2]};
    if (!e.out) die("cannot write %s", argv[1]);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (is_first_of_body(i)) embed_cl(&e, argv[3], kernels[i].body);
        embed_spirv(&e, argv[4], kernels[i].name, "cpu");
        embed_spirv(&e, argv[4], kernels[i].name, "gpu");
    }
    const int failed = ferror(e.out);
    if (fclose(e.out) != 0 || failed) {
        remove(argv[1]);
        die("cannot write %s", argv[1]);
    }
    return 0;
}
