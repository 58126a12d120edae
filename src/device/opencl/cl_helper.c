/* Processes that compile kernels beside this one; see cl_helper.h. All look at one board in shared memory: a state for
 * each kernel, changed by compare and exchange, so that each kernel is compiled by one process alone. */
#include "device/opencl/cl_helper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "device/opencl/opencl.h"

#define LOOK_AGAIN_MS 500 /* while waiting for a helper: is it still alive? */
#define IDLE_MS 10000     /* after which a helper ends */
#define LOOKS_MOST 60     /* and then its work is done here */
#define LINKS_OF_ONE 3  /* that /proc/self/task has where there is one thread: its own two and the thread's */
#define FIRST_FILE 3u   /* behind the standard three */
#define WORTH_WAKING 4u /* missing kernels for which a helper loads the functions that PoCL links into each */

/* What is to be done with a kernel. Who changes WANTED does it, and no one else. */
enum { IDLE, WANTED, DONE, TAKEN /* and more: the helper's number */ };

typedef struct board {
    _Atomic(uint32_t) state[TD_KERNEL_COUNT];
} board;

struct td_cl_helpers {
    board *board; /* shared by all processes */
    size_t count;
    pid_t pids[TD_CL_HELPERS_MOST]; /* 0: ended */
    int wake[2];                    /* a byte for each helper that is to look at the board; closed: end */
    int told[2];                    /* a byte for each kernel that a helper is through with */
    bool awake;                     /* they have loaded PoCL, or are about to */
    pthread_mutex_t mutex;          /* one list at a time */
};

/* Kernels that take long, the longest first: at the end no process should wait for another's. The first of them are
 * in every model that computes on a processor. */
static const td_kernel_id LONG[] = {TD_K_chain,       TD_K_gemm_register_direct, TD_K_gemm_register_rows,
                                    TD_K_winograd,    TD_K_istft_1024,           TD_K_stft_1024,
                                    TD_K_attention_64};
#define N_LONG (sizeof LONG / sizeof LONG[0])
#define N_ALWAYS 2u

/* The kernels in the order in which they are taken. */
static td_kernel_id at_place(size_t place)
{
    return place < N_LONG ? LONG[place] : (td_kernel_id)(place - N_LONG);
}

/* A kernel that was wanted and now is `state`, of those that are `asked` for (NULL: any); TD_KERNEL_COUNT: none. */
static td_kernel_id take(board *b, const bool *asked, uint32_t state)
{
    for (size_t place = 0; place < N_LONG + TD_KERNEL_COUNT; place++) {
        const td_kernel_id id = at_place(place);
        uint32_t wanted = WANTED;
        if (asked && !asked[id]) continue;
        if (atomic_compare_exchange_strong(&b->state[id], &wanted, state)) return id;
    }
    return TD_KERNEL_COUNT;
}

static td_status compile(td_cl_device *device, td_kernel_id id)
{
    td_cl_program *program = NULL;
    TD_CHECK(td_cl_program_get(device, td_kernel_get(id), &program));
    return td_cl_program_warm(device, program);
}

/* ---------------------------------------------------------------- a helper */

/* Files of this process are not the helper's: a lock would outlive its owner, a pipe would have no end. */
static void leave_files(int keep, int keep_too)
{
    const int low = keep < keep_too ? keep : keep_too;
    const int high = keep < keep_too ? keep_too : keep;
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int file = 0; file < (int)FIRST_FILE; file++)
        if (null >= 0) (void)dup2(null, file);
    if (low > (int)FIRST_FILE) (void)close_range(FIRST_FILE, (unsigned)low - 1, 0);
    if (high > low + 1) (void)close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    (void)close_range((unsigned)high + 1, ~0u, 0);
}

/* The first processor that PoCL offers. */
static td_status open_device(const td_registry_options *options, td_cl_device **out)
{
    const td_registry_options mine = {.opencl_library = options->opencl_library, .no_timestamps = true};
    td_info_list infos = {0};
    td_api_report report = {0};
    td_blob_cache *cache = NULL;
    void *state = NULL;
    TD_CHECK(td_blob_cache_open(NULL, &cache));
    TD_CHECK(td_cl_probe(&mine, &infos, &report, &state));
    for (size_t i = 0; i < infos.count; i++) {
        const td_device_info *info = &infos.items[i];
        td_device *device = NULL;
        if (info->type != TD_DEVICE_CPU || !td_cl_is_pocl(info)) continue;
        TD_CHECK(td_backend_opencl.open(state, &info, 1, cache, &device));
        *out = td_cl_device_of(device);
        return TD_OK;
    }
    return TD_ERR_NOT_FOUND;
}

/* True once this helper is asked for; false if it is not any more. One that has loaded PoCL takes some 200 MB, so it
 * ends when it has waited for long. */
static bool wait_for_work(const td_cl_helpers *h, bool loaded)
{
    struct pollfd asked = {.fd = h->wake[0], .events = POLLIN};
    char byte;
    return poll(&asked, 1, loaded ? IDLE_MS : -1) == 1 && read(h->wake[0], &byte, 1) == 1;
}

/* Until there is nobody left to help. What it holds ends with it: nothing is freed. */
__attribute__((noreturn)) static void help(td_cl_helpers *h, uint32_t number,
                                           const td_registry_options *options, pid_t parent)
{
    td_cl_device *device = NULL;
    static const char BYTE;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_DUMPABLE, 0);
    if (getppid() != parent) _exit(0);
    leave_files(h->wake[0], h->told[1]);
    while (wait_for_work(h, device != NULL)) {
        if (!device && open_device(options, &device) != TD_OK) _exit(1);
        td_kernel_id id;
        while ((id = take(h->board, NULL, TAKEN + number)) != TD_KERNEL_COUNT) {
            const uint32_t end = compile(device, id) == TD_OK ? DONE : IDLE;
            atomic_store(&h->board->state[id], end);
            if (write(h->told[1], &BYTE, 1) != 1) _exit(0);
        }
    }
    _exit(0);
}

/* ---------------------------------------------------------------- start, stop */

static bool has_one_thread(void)
{
    struct stat folder;
    return stat("/proc/self/task", &folder) == 0 && folder.st_nlink == LINKS_OF_ONE;
}

static void close_both(int files[2])
{
    for (int i = 0; i < 2; i++)
        if (files[i] >= 0) (void)close(files[i]);
}

static td_cl_helpers *create(void)
{
    td_cl_helpers *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    h->wake[0] = h->wake[1] = h->told[0] = h->told[1] = -1;
    pthread_mutex_init(&h->mutex, NULL);
    h->board = mmap(NULL, sizeof *h->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (h->board == MAP_FAILED) h->board = NULL;
    if (h->board && pipe2(h->wake, O_CLOEXEC) == 0 && pipe2(h->told, O_CLOEXEC) == 0) return h;
    td_cl_helpers_stop(h);
    return NULL;
}

td_cl_helpers *td_cl_helpers_start(const td_registry_options *options)
{
    const pid_t parent = getpid();
    size_t most = options->compile_helpers;
    if (most == 0 || options->gpu_kernels || options->hooks || !has_one_thread()) return NULL;
    td_cl_helpers *h = create();
    if (most > TD_CL_HELPERS_MOST) most = TD_CL_HELPERS_MOST;
    for (; h && h->count < most; h->count++) {
        const pid_t pid = fork();
        if (pid == 0) help(h, (uint32_t)h->count, options, parent);
        if (pid < 0) break;
        h->pids[h->count] = pid;
    }
    if (h && h->count == 0) {
        td_cl_helpers_stop(h);
        return NULL;
    }
    return h;
}

static void end(td_cl_helpers *h, size_t i)
{
    if (h->pids[i] == 0) return;
    (void)kill(h->pids[i], SIGKILL);
    (void)waitpid(h->pids[i], NULL, 0);
    h->pids[i] = 0;
}

void td_cl_helpers_stop(td_cl_helpers *h)
{
    if (!h) return;
    for (size_t i = 0; i < h->count; i++)
        end(h, i);
    close_both(h->wake);
    close_both(h->told);
    if (h->board) (void)munmap(h->board, sizeof *h->board);
    pthread_mutex_destroy(&h->mutex);
    free(h);
}

/* ---------------------------------------------------------------- together */

static void wake_all(td_cl_helpers *h)
{
    static const char BYTES[TD_CL_HELPERS_MOST];
    const ssize_t sent = write(h->wake[1], BYTES, h->count); /* cannot fail: who reads is open here too */
    (void)sent;
    h->awake = true;
}

void td_cl_helpers_wake(td_cl_helpers *h)
{
    for (size_t i = 0; i < N_ALWAYS; i++)
        atomic_store(&h->board->state[LONG[i]], WANTED);
    wake_all(h);
}

/* True while a helper of that number lives. */
static bool is_alive(td_cl_helpers *h, size_t i)
{
    if (h->pids[i] && waitpid(h->pids[i], NULL, WNOHANG) == h->pids[i]) h->pids[i] = 0;
    return h->pids[i] != 0;
}

/* Waits until nobody is at work on the kernel; one that takes too long is not waited for again. */
static void wait_for(td_cl_helpers *h, td_kernel_id id)
{
    struct pollfd told = {.fd = h->told[0], .events = POLLIN};
    for (int looks = 0;;) {
        const uint32_t state = atomic_load(&h->board->state[id]);
        char byte;
        if (state < TAKEN) return;
        const size_t helper = state - TAKEN;
        if (looks == LOOKS_MOST) end(h, helper);
        if (!is_alive(h, helper)) {
            uint32_t seen = state;
            (void)atomic_compare_exchange_strong(&h->board->state[id], &seen, IDLE);
        } else if (poll(&told, 1, LOOK_AGAIN_MS) != 1 || read(h->told[0], &byte, 1) != 1) {
            looks++;
        }
    }
}

/* How many of the list's kernels are missing, and which. */
static size_t find_missing(td_cl_device *device, const td_list *list, bool missing[TD_KERNEL_COUNT])
{
    bool seen[TD_KERNEL_COUNT] = {false};
    size_t count = 0;
    for (size_t i = 0; i < list->n_commands; i++) {
        const td_command *command = &list->commands[i];
        if (command->kind != TD_COMMAND_DISPATCH) continue;
        const size_t id = (size_t)(command->kernel - td_kernel_get((td_kernel_id)0));
        if (seen[id]) continue;
        seen[id] = true;
        missing[id] = !td_cl_program_is_known(device, command->kernel);
        count += missing[id];
    }
    return count;
}

static void compile_together(td_cl_helpers *h, td_cl_device *device, const bool missing[TD_KERNEL_COUNT],
                             size_t count)
{
    size_t own = 0;
    td_kernel_id id;
    for (int i = 0; i < TD_KERNEL_COUNT; i++) {
        uint32_t idle = IDLE;
        if (missing[i]) (void)atomic_compare_exchange_strong(&h->board->state[i], &idle, WANTED);
    }
    wake_all(h);
    for (; (id = take(h->board, missing, IDLE)) != TD_KERNEL_COUNT; own++)
        if (compile(device, id) != TD_OK)
            td_log_debug("kernel %s: %s", td_kernel_get(id)->name, td_error_last()->message);
    for (int i = 0; i < TD_KERNEL_COUNT; i++)
        if (missing[i]) wait_for(h, (td_kernel_id)i);
    td_log_debug("%zu of %zu kernels were left to %zu other processes", count - own, count, h->count);
}

void td_cl_helpers_prepare(td_cl_helpers *h, td_cl_device *device, const td_list *list)
{
    bool missing[TD_KERNEL_COUNT] = {false};
    const size_t count = find_missing(device, list, missing);
    if (count < 2) return;
    pthread_mutex_lock(&h->mutex);
    if (h->awake || count >= WORTH_WAKING) compile_together(h, device, missing, count);
    pthread_mutex_unlock(&h->mutex);
}
