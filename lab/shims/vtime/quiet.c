/*
 * Whether all processes sleep.
 *
 * Quiet: two successive scans over all tasks of the touched processes in which each task sleeps, and in between
 * none of them ran (the kernel counts how often a task was given a CPU). The first scan reads a task's count and
 * then its state, the second its state and then its count, so the time between the scans lies within all of these
 * spans: at that moment all tasks slept at once. Only the conductor gives them anything to do, so they still do.
 */
#include "conductor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long bytes that were sent may take to wake a process: mostly they have when send() returns, but the kernel
 * may leave the loopback's work to a thread of its own. */
#define WAKE_LIMIT_NS INT64_C(2000000)
#define SPIN_NS INT64_C(300000)
#define NAP_NS 50000L
#define BUSY 12
#define NAP_LIMIT_NS INT64_C(2000000)

/* Why a process is not quiet; virtual_time.py makes a sentence of it. */
struct trouble {
    int32_t number; /* of the block, and in the end of its group */
    int32_t pid, tid;
    char state; /* as in /proc; '?': the library was not loaded; '+': a child is being made; 'E': cannot be read */
    int64_t clock_reads, timed_waits;
};

static int64_t real_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void vt_wipe(struct block *block)
{
    memset((char *)block + sizeof block->state, 0, sizeof *block - sizeof block->state);
    atomic_store(&block->group, -1);
}

void vt_clear(struct block *block)
{
    vt_wipe(block);
    atomic_store(&block->state, FREE); /* last: from here on a process may take it for a child */
}

static void close_all(struct task *task)
{
    close(task->place_fd);
    close(task->stat_fd);
    close(task->runs_fd);
}

static void forget_tasks(struct watch *watch)
{
    for (int i = 0; i < watch->count; i++) {
        close_all(&watch->task[i]);
    }
    watch->count = 0;
    watch->listed = false;
}

void vt_forget(struct watch *watch)
{
    forget_tasks(watch);
    free(watch->task);
    *watch = (struct watch){0};
}

static int open_file(DIR *directory, const char *tid, const char *file)
{
    char name[300];
    snprintf(name, sizeof name, "%s/%s", tid, file);
    return openat(dirfd(directory), name, O_RDONLY | O_CLOEXEC);
}

/* False: not all could be opened, or there are none. */
static bool list_tasks(struct watch *watch)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", watch->pid);
    DIR *directory = opendir(path);
    if (directory == NULL)
        return false;
    struct watch before = *watch;
    *watch = (struct watch){.pid = before.pid, .version = before.version, .listed = true};
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        int32_t tid = atoi(entry->d_name);
        if (tid <= 0)
            continue;
        if (watch->count == watch->room) {
            watch->room = watch->room != 0 ? watch->room * 2 : 16;
            watch->task = realloc(watch->task, (size_t)watch->room * sizeof *watch->task);
            if (watch->task == NULL)
                abort();
        }
        struct task *task = &watch->task[watch->count];
        *task = (struct task){.tid = tid};
        for (int i = 0; i < before.count; i++)
            if (before.task[i].tid == tid)
                task->runs_rest = before.task[i].runs_rest;
        task->place_fd = open_file(directory, entry->d_name, "wchan");
        task->stat_fd = open_file(directory, entry->d_name, "stat");
        task->runs_fd = open_file(directory, entry->d_name, "schedstat");
        if (task->stat_fd >= 0 && task->runs_fd >= 0) {
            watch->count++;
            continue;
        }
        if (errno != ENOENT && errno != ESRCH) /* else it ended meanwhile */
            watch->listed = false;
        close_all(task);
    }
    closedir(directory);
    forget_tasks(&before);
    free(before.task);
    watch->listed = watch->listed && watch->count > 0;
    return watch->listed;
}

/* For how long the tasks of a group have had a CPU. */
static int64_t computed_ns(struct conductor *c, int group)
{
    int64_t sum_ns = 0;
    for (int i = 0; i < blocks_used(c); i++) {
        if (!in_group(c, i, group))
            continue;
        for (int k = 0; k < c->watch[i].count; k++) {
            char text[80];
            ssize_t size = pread(c->watch[i].task[k].runs_fd, text, sizeof text - 1, 0);
            text[size > 0 ? size : 0] = '\0';
            sum_ns += strtoll(text, NULL, 10);
        }
    }
    return sum_ns;
}

/* How often the task was given a CPU; false if it has ended. */
static bool read_runs(struct task *task, uint64_t *runs)
{
    char text[80];
    ssize_t size = pread(task->runs_fd, text, sizeof text - 1, 0);
    if (size <= 0)
        return false;
    text[size] = '\0';
    char *last = strrchr(text, ' ');
    *runs = last != NULL ? strtoull(last, NULL, 10) : 0;
    return true;
}

/* Whether it is off the CPU in one of the kernel's interruptible waits that we know. The kernel names the place in
 * a third of the time that it takes for `stat`; for any other place, `stat` is read. */
static bool waits_at_known_place(struct task *task)
{
    static const char *const places[] = {"futex_", "do_epoll_wait", "ep_poll",  "poll_schedule", "do_poll",
                                         "do_sys_poll", "do_select", "hrtimer_nanosleep", "do_nanosleep"};
    char text[64];
    ssize_t size = pread(task->place_fd, text, sizeof text - 1, 0);
    if (size <= 0)
        return false;
    text[size] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strncmp(text, places[i], strlen(places[i])) == 0)
            return true;
    return false;
}

/* Its state's letter; 0 if it has ended. */
static char read_state(struct task *task)
{
    if (waits_at_known_place(task))
        return 'S';
    char text[128];
    ssize_t size = pread(task->stat_fd, text, sizeof text, 0);
    if (size <= 0)
        return 0;
    char *name_end = memrchr(text, ')', (size_t)size); /* a name may have one too; behind it are only numbers */
    return name_end != NULL && name_end + 2 < text + size ? name_end[2] : 'R';
}

static bool asleep(char state)
{
    return state != '\0' && strchr("STtZXIP", state) != NULL;
}

/* The process has ended. A child needs no block any more; the others are retired by number. */
static void ended(struct conductor *c, int number)
{
    struct watch *watch = &c->watch[number];
    forget_tasks(watch);
    if (atomic_load(&block_of(c, number)->group) == number) {
        watch->gone = watch->listed = true;
        return;
    }
    vt_forget(watch);
    vt_clear(block_of(c, number));
}

/* Brings the list of one process's tasks up to date. False: it cannot be quiet, `trouble` says why. */
static bool update(struct conductor *c, int number, struct trouble *trouble)
{
    struct block *block = block_of(c, number);
    struct watch *watch = &c->watch[number];
    int32_t pid = atomic_load(&block->pid);
    *trouble = (struct trouble){.number = number, .pid = pid};
    if (pid == 0 || atomic_load(&block->state) != ALIVE) {
        trouble->state = atomic_load(&block->state) == ADMITTED ? '?' : '+';
        return false;
    }
    if (watch->pid != pid) {
        vt_forget(watch);
        watch->pid = pid;
    }
    uint32_t version = atomic_load(&block->tasks);
    /* A program that did not load the library makes threads without counting them. */
    bool counted = atomic_load(&block->attached) == pid;
    if (watch->gone || (watch->listed && watch->version == version && counted))
        return true;
    watch->version = version;
    if (list_tasks(watch))
        return true;
    if (kill(pid, 0) == 0 || errno == EPERM) { /* too many open files, say */
        trouble->state = 'E';
        return false;
    }
    ended(c, number);
    return true;
}

static bool scan(struct conductor *c, int group, bool second, struct trouble *trouble)
{
    for (int i = 0; i < blocks_used(c); i++) {
        if (!in_group(c, i, group))
            continue;
        if (!second && !update(c, i, trouble))
            return false;
        struct watch *watch = &c->watch[i];
        *trouble = (struct trouble){.number = i, .pid = watch->pid, .state = 'R'};
        if (second && !watch->gone &&
            (!watch->listed || watch->version != atomic_load(&block_of(c, i)->tasks)))
            return false; /* a new child, or a new thread */
        for (int k = 0; k < watch->count; k++) {
            struct task *task = &watch->task[k];
            uint64_t runs = 0;
            bool alive = second || read_runs(task, &task->runs);
            trouble->tid = task->tid;
            trouble->state = read_state(task);
            if (second)
                alive = read_runs(task, &runs);
            if (!alive || trouble->state == '\0') {
                watch->listed = false;
                trouble->state = 'R';
                return false;
            }
            if (!asleep(trouble->state) || (second && runs != task->runs))
                return false;
        }
    }
    return true;
}

/* Whether any task of the group ran, or is about to, since it was quiet last. */
static bool moved(struct conductor *c, int group)
{
    for (int i = 0; i < blocks_used(c); i++) {
        struct watch *watch = &c->watch[i];
        if (!in_group(c, i, group))
            continue;
        if (!watch->listed || watch->version != atomic_load(&block_of(c, i)->tasks))
            return true;
        for (int k = 0; k < watch->count; k++) {
            uint64_t runs;
            if (!read_runs(&watch->task[k], &runs) || runs != watch->task[k].runs_rest)
                return true;
        }
    }
    return false;
}

/* Whether a thread of the group was woken for its deadline and is still in its wait. */
static bool unnoticed(struct conductor *c, int group)
{
    for (int i = 0; i < blocks_used(c); i++) {
        struct block *block = block_of(c, i);
        if (!in_group(c, i, group))
            continue;
        for (uint32_t s = 0; s < atomic_load(&block->slots); s++) {
            int64_t ns = atomic_load(&block->slot[s].deadline_ns);
            if (ns != 0 && atomic_load(&block->slot[s].woken_ns) == ns)
                return true;
        }
    }
    return false;
}

static bool quiet(struct conductor *c, int group, struct trouble *trouble)
{
    if (!scan(c, group, false, trouble) || !scan(c, group, true, trouble))
        return false;
    if (!unnoticed(c, group))
        return true;
    /* Mostly its mutex is taken. But it might be in one of the kernel's short real sleeps. */
    nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    return scan(c, group, false, trouble) && scan(c, group, true, trouble);
}

static void rest(struct conductor *c, int group)
{
    for (int i = 0; i < blocks_used(c); i++)
        if (in_group(c, i, group))
            for (int k = 0; k < c->watch[i].count; k++)
                c->watch[i].task[k].runs_rest = c->watch[i].task[k].runs;
    c->touched[group] = UNTOUCHED;
}

/* Looks in quick succession at first, then after naps that grow: what a nap is too long stays a small part. */
static void pause_since(int64_t begun_ns)
{
    int64_t past_ns = real_ns() - begun_ns;
    if (past_ns < SPIN_NS) {
        sched_yield();
        return;
    }
    int64_t nap_ns = past_ns / 16 < NAP_LIMIT_NS ? past_ns / 16 : NAP_LIMIT_NS;
    nanosleep(&(struct timespec){0, nap_ns}, NULL);
}

/* Waits until every touched process, with its children, is quiet. 0, or -1 after `limit_ns` of real time; a process
 * that runs, and on a busy machine mostly waits for a CPU, may take up to BUSY times as long. */
int vt_settle(struct conductor *c, int64_t limit_ns, struct trouble *trouble)
{
    int64_t begun_ns = real_ns();
    for (int i = 0; i < blocks_used(c); i++) {
        c->reads[i] = atomic_load(&block_of(c, i)->clock_reads);
        c->waits[i] = atomic_load(&block_of(c, i)->timed_waits);
    }
    for (int group = 0; group < blocks_used(c); group++) {
        if (c->touched[group] == UNTOUCHED || !in_group(c, group, group))
            continue;
        if (c->touched[group] == TOUCHED)
            while (!moved(c, group) && real_ns() - begun_ns < WAKE_LIMIT_NS)
                sched_yield();
        int64_t since_ns = -1;
        while (!quiet(c, group, trouble)) {
            int64_t past_ns = real_ns() - begun_ns;
            if (past_ns > limit_ns / 10 && since_ns < 0)
                since_ns = computed_ns(c, group);
            if (past_ns > limit_ns && (trouble->state != 'R' || past_ns > BUSY * limit_ns ||
                                       computed_ns(c, group) - since_ns > limit_ns / 2)) {
                int number = trouble->number;
                trouble->clock_reads = atomic_load(&block_of(c, number)->clock_reads) - c->reads[number];
                trouble->timed_waits = atomic_load(&block_of(c, number)->timed_waits) - c->waits[number];
                trouble->number = group;
                return -1;
            }
            pause_since(begun_ns);
        }
        rest(c, group);
    }
    return 0;
}

