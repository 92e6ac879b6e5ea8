/*
 * The tasks of a watched process, and what the kernel says of each: how often it was given a CPU, and whether it
 * sleeps. Their files in /proc stay open from one look to the next.
 */
#include "conductor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void close_all(struct task *task)
{
    close(task->place_fd);
    close(task->runs_fd);
    if (task->stat_fd >= 0)
        close(task->stat_fd);
}

void vt_forget_tasks(struct watch *watch)
{
    for (int i = 0; i < watch->count; i++)
        close_all(&watch->task[i]);
    watch->count = 0;
    watch->listed = false;
}

void vt_forget(struct watch *watch)
{
    vt_forget_tasks(watch);
    free(watch->task);
    *watch = (struct watch){0};
}

static int open_file(DIR *directory, const char *tid, const char *file)
{
    char name[300];
    snprintf(name, sizeof name, "%s/%s", tid, file);
    return openat(dirfd(directory), name, O_RDONLY | O_CLOEXEC);
}

/* How often the task was given a CPU; false if it has ended. */
bool vt_read_runs(struct task *task, uint64_t *runs)
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

/* Its files, if it was listed before; they are the new list's from then on. A thread id that is used again is none
 * of these: the files of a task that has ended say so. */
static bool take_over(struct watch *before, int32_t tid, struct task *task)
{
    for (int i = 0; i < before->count; i++) {
        uint64_t runs;
        if (before->task[i].tid != tid || !vt_read_runs(&before->task[i], &runs))
            continue;
        *task = before->task[i];
        before->task[i] = before->task[--before->count];
        return true;
    }
    return false;
}

static struct task *room_for_one(struct watch *watch)
{
    if (watch->count == watch->room) {
        watch->room = watch->room != 0 ? watch->room * 2 : 16;
        watch->task = realloc(watch->task, (size_t)watch->room * sizeof *watch->task);
        if (watch->task == NULL)
            abort();
    }
    return &watch->task[watch->count];
}

/* False: not all could be opened, or there are none. */
bool vt_list_tasks(struct watch *watch)
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
        struct task *task = room_for_one(watch);
        if (take_over(&before, tid, task)) {
            watch->count++;
            continue;
        }
        *task = (struct task){.tid = tid, .ran = true, .stat_fd = -1};
        task->place_fd = open_file(directory, entry->d_name, "wchan");
        task->runs_fd = open_file(directory, entry->d_name, "schedstat");
        if (task->runs_fd >= 0) {
            watch->count++;
            continue;
        }
        if (errno != ENOENT && errno != ESRCH) /* else it ended meanwhile */
            watch->listed = false;
        close_all(task);
    }
    closedir(directory);
    vt_forget_tasks(&before);
    free(before.task);
    watch->listed = watch->listed && watch->count > 0;
    return watch->listed;
}

/* Whether it is off the CPU in one of the kernel's interruptible waits that we know. The kernel names the place in
 * a third of the time that it takes for `stat`; for any other place, `stat` is read. */
static bool waits_at_known_place(struct task *task)
{
    static const char *const places[] = {"futex_",    "do_epoll_wait", "ep_poll",           "poll_schedule",
                                         "do_poll",   "do_sys_poll",   "do_select",         "hrtimer_nanosleep",
                                         "pipe_read", "wait_woken",    "anon_pipe_read", "do_nanosleep"};
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

/* Opens its `stat`, which most tasks never need. Its schedstat, open since it was listed, can be read only as long as
 * it is there: no other task has had its id until then. False, with errno: not opened, or it has ended. */
static bool open_stat(struct watch *watch, struct task *task)
{
    if (task->stat_fd >= 0)
        return true;
    char path[64];
    uint64_t runs;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", watch->pid, task->tid);
    task->stat_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (task->stat_fd >= 0 && !vt_read_runs(task, &runs)) {
        close(task->stat_fd);
        task->stat_fd = -1;
        errno = ESRCH;
    }
    return task->stat_fd >= 0;
}

/* Its state's letter; 0 if it has ended. */
char vt_read_state(struct watch *watch, struct task *task)
{
    if (waits_at_known_place(task))
        return 'S';
    if (!open_stat(watch, task))
        return errno == ENOENT || errno == ESRCH ? '\0' : 'E';
    char text[128];
    ssize_t size = pread(task->stat_fd, text, sizeof text, 0);
    if (size <= 0)
        return 0;
    char *name_end = memrchr(text, ')', (size_t)size); /* a name may have one too; behind it are only numbers */
    return name_end != NULL && name_end + 2 < text + size ? name_end[2] : 'R';
}

bool vt_asleep(char state)
{
    return state != '\0' && strchr("STtZXIP", state) != NULL;
}

/* The task has ended: nothing that it did is missed, since the other tasks are looked at after this. */
void vt_drop(struct watch *watch, int k)
{
    close_all(&watch->task[k]);
    watch->task[k] = watch->task[--watch->count];
    watch->listed = watch->listed && watch->count > 0;
}
