/*
 * Whether all processes sleep.
 *
 * Quiet: two successive scans over the tasks of the touched processes in which each task sleeps, and in between none
 * of them ran (the kernel counts how often a task was given a CPU). The first scan reads a task's count and then
 * its state, the second its state and then its count, so the time between the scans lies within all of these spans:
 * at that moment all tasks slept at once. Only the conductor gives them anything to do, so they still do.
 *
 * A task whose count is what it was when the process was quiet last has slept since, up to where the second scan
 * has read its state: the first scan leaves it out.
 *
 * If only one task has run since the process was quiet last, the second scan leaves that one out. Let x be the first
 * task that runs after the first scan has seen that one asleep. Another task has woken x: before, as x is the first to
 * run. So it was the one, since the others have not run since they slept last (the second scan reads their counts), and
 * x is one of the others. But when the second scan read their states and counts, none was runnable and none had run.
 */
#include "conductor.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long bytes that were sent may take to wake a process: mostly they have when send() returns, but the kernel
 * may leave the loopback's work to a thread of its own. */
#define WAKE_LIMIT_NS INT64_C(2000000)
#define LOOKS_AT_ONCE 2 /* in succession, after each hint */
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

/* The process has ended. A child needs no block any more; the others are retired by number. */
static void ended(struct conductor *c, int number)
{
    struct watch *watch = &c->watch[number];
    vt_forget_tasks(watch);
    if (atomic_load(&block_of(c, number)->group) == number) {
        watch->gone = watch->listed = true;
        return;
    }
    vt_forget(watch);
    vt_clear(block_of(c, number));
}

/* Brings the list of one process's tasks up to date; `ran` is more by two if it was made anew: some may have ended.
 * False: it cannot be quiet, `trouble` says why. */
static bool update(struct conductor *c, int number, int *ran, struct trouble *trouble)
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
    *ran += 2;
    watch->version = version;
    if (vt_list_tasks(watch))
        return true;
    if (kill(pid, 0) == 0 || errno == EPERM) { /* too many open files, say */
        trouble->state = 'E';
        return false;
    }
    ended(c, number);
    return true;
}

static void note_end(struct watch *watch, struct task *task, char state)
{
    if (task->tid == watch->pid)
        watch->ended = state == 'Z' || state == 'X';
}

/* Over the tasks that ran since the process was quiet last, and the one that mostly does; `ran`: how many, or more,
 * those included that have ended. */
static bool first_scan(struct conductor *c, int group, int *ran, struct trouble *trouble)
{
    *ran = 0;
    for (int i = 0; i < blocks_used(c); i++) {
        if (!in_group(c, i, group))
            continue;
        if (!update(c, i, ran, trouble))
            return false;
        struct watch *watch = &c->watch[i];
        *trouble = (struct trouble){.number = i, .pid = watch->pid, .state = 'R'};
        for (int k = 0; k < watch->count; k++) {
            struct task *task = &watch->task[k];
            if (!task->ran && k != watch->recent)
                continue;
            task->ran = true;
            (*ran)++;
            trouble->tid = task->tid;
            char state = vt_read_runs(task, &task->runs) ? vt_read_state(watch, task) : '\0';
            if (state == '\0') {
                vt_drop(watch, k--);
                continue;
            }
            trouble->state = state;
            if (!vt_asleep(state))
                return false;
            note_end(watch, task, state);
        }
        if (watch->count == 0 && !watch->gone)
            return false;
    }
    return true;
}

/* Over all of them, or all but the `only_one` that the first scan has seen. `more`: all sleep, but some have run that
 * the first scan has left out. */
static bool second_scan(struct conductor *c, int group, bool only_one, bool *more, struct trouble *trouble)
{
    *more = false;
    for (int i = 0; i < blocks_used(c); i++) {
        if (!in_group(c, i, group))
            continue;
        struct watch *watch = &c->watch[i];
        *trouble = (struct trouble){.number = i, .pid = watch->pid, .state = 'R'};
        if (!watch->gone && (!watch->listed || watch->version != atomic_load(&block_of(c, i)->tasks)))
            return false; /* a new child, or a new thread */
        for (int k = 0; k < watch->count; k++) {
            struct task *task = &watch->task[k];
            uint64_t runs;
            if (task->ran && only_one)
                continue;
            trouble->tid = task->tid;
            char state = vt_read_state(watch, task);
            if (!vt_read_runs(task, &runs) || state == '\0') {
                vt_drop(watch, k);
                return false;
            }
            trouble->state = state;
            if (!vt_asleep(state) || (task->ran && runs != task->runs))
                return false;
            if (!task->ran && runs != task->runs_rest) {
                *more = task->ran = true;
                watch->recent = k;
            }
            note_end(watch, task, state);
        }
    }
    return true;
}

static bool both_scans(struct conductor *c, int group, struct trouble *trouble)
{
    bool more = true;
    int ran;
    while (more)
        if (!first_scan(c, group, &ran, trouble) || !second_scan(c, group, ran == 1, &more, trouble))
            return false;
    return true;
}

static bool has_run(struct watch *watch, int k)
{
    struct task *task = &watch->task[k];
    uint64_t runs;
    if (vt_read_runs(task, &runs) && runs == task->runs_rest)
        return false;
    watch->recent = k;
    return task->ran = true;
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
        if (watch->recent < watch->count && has_run(watch, watch->recent))
            return true;
        for (int k = 0; k < watch->count; k++)
            if (has_run(watch, k))
                return true;
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
    if (!both_scans(c, group, trouble))
        return false;
    if (!unnoticed(c, group))
        return true;
    /* Mostly its mutex is taken. But it might be in one of the kernel's short real sleeps. */
    nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    return both_scans(c, group, trouble);
}

static void rest(struct conductor *c, int group)
{
    for (int i = 0; i < blocks_used(c); i++) {
        if (!in_group(c, i, group))
            continue;
        for (int k = 0; k < c->watch[i].count; k++) {
            struct task *task = &c->watch[i].task[k];
            task->runs_rest = task->ran ? task->runs : task->runs_rest;
            task->ran = false;
        }
    }
    c->touched[group] = UNTOUCHED;
}

/* Lets `ns` pass, or less: until a thread is about to wait. */
static void listen_for_hint(struct conductor *c, int32_t heard, int64_t ns)
{
    atomic_store(&c->page->listening, 1);
    syscall(SYS_futex, &c->page->hints, FUTEX_WAIT, heard, &(struct timespec){0, ns}, NULL, 0);
    atomic_store(&c->page->listening, 0);
}

/* Before the next look. Others on this CPU go first; and a thread that has just said that it is about to wait needs
 * a moment until it sleeps. Not all say so: looks come at intervals that grow, of which the last is a small part. */
static void pause_since(struct conductor *c, int64_t begun_ns, int32_t *heard, int *looks)
{
    int32_t hints = atomic_load(&c->page->hints);
    if (hints != *heard)
        *looks = 0;
    *heard = hints;
    if ((*looks)++ < LOOKS_AT_ONCE) {
        sched_yield();
        return;
    }
    int64_t nap_ns = (real_ns() - begun_ns) / 16;
    nap_ns = nap_ns < NAP_NS ? NAP_NS : nap_ns > NAP_LIMIT_NS ? NAP_LIMIT_NS : nap_ns;
    listen_for_hint(c, hints, nap_ns);
}

/* Waits until every touched process, with its children, is quiet. Whether one of them has ended, children aside (0
 * or 1), and the next deadline. Or -1 after `limit_ns` of real time: a process that runs, and on a busy machine
 * mostly waits for a CPU or a disk, may take up to BUSY times as long. */
int vt_settle(struct conductor *c, int64_t limit_ns, struct trouble *trouble, int64_t *deadline_ns)
{
    int64_t begun_ns = real_ns();
    int any_ended = 0;
    for (int i = 0; i < blocks_used(c); i++) {
        c->reads[i] = atomic_load(&block_of(c, i)->clock_reads);
        c->waits[i] = atomic_load(&block_of(c, i)->timed_waits);
    }
    for (int group = 0; group < blocks_used(c); group++) {
        if (c->touched[group] == UNTOUCHED || !in_group(c, group, group))
            continue;
        int32_t heard = atomic_load(&c->page->hints);
        int looks = 0;
        while (c->touched[group] == TOUCHED && atomic_load(&block_of(c, group)->hints) == c->hints[group] &&
               real_ns() - begun_ns < WAKE_LIMIT_NS && (looks < LOOKS_AT_ONCE || !moved(c, group)))
            pause_since(c, begun_ns, &heard, &looks);
        int64_t since_ns = -1;
        while (!quiet(c, group, trouble)) {
            int64_t past_ns = real_ns() - begun_ns;
            if (past_ns > limit_ns / 10 && since_ns < 0)
                since_ns = computed_ns(c, group);
            bool may_take_long = trouble->state == 'R' || trouble->state == 'D';
            if (past_ns > limit_ns && (!may_take_long || past_ns > BUSY * limit_ns ||
                                       computed_ns(c, group) - since_ns > limit_ns / 2)) {
                int number = trouble->number;
                trouble->clock_reads = atomic_load(&block_of(c, number)->clock_reads) - c->reads[number];
                trouble->timed_waits = atomic_load(&block_of(c, number)->timed_waits) - c->waits[number];
                trouble->number = group;
                return -1;
            }
            pause_since(c, begun_ns, &heard, &looks);
        }
        rest(c, group);
        any_ended |= c->watch[group].gone || c->watch[group].ended;
    }
    *deadline_ns = vt_next_deadline(c);
    return any_ended;
}

