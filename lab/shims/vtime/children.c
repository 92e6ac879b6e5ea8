/*
 * Children, and programs that take a process over.
 *
 * A child's block is reserved before the child exists, so that a process with a child that the conductor does not
 * know is never taken for quiet. It belongs to the group of its parent: one wall clock, paused together, and a
 * seed of its own that follows from the group's. A program that is started by exec keeps the block. Its pid is
 * entered as attached once it has loaded the library: a static program never is.
 */
#include "inside.h"

#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static pid_t forked(struct block *child, pid_t pid)
{
    if (pid > 0)
        vt_child_has_pid(child, pid);
    else if (pid == 0)
        vt_become_child(child);
    else
        vt_release_child(child);
    return pid;
}

/* libc's fork() may come to _Fork(), so to us, a second time: one child, one block. */
static __thread bool forking __attribute__((tls_model("initial-exec")));

static pid_t fork_by(pid_t (*real)(void))
{
    if (forking || !vt_on())
        return real();
    struct block *child = vt_reserve_child();
    forking = true;
    pid_t pid = real();
    forking = false;
    return forked(child, pid);
}

pid_t fork(void)
{
    return fork_by(REAL(fork));
}

pid_t __fork(void)
{
    return fork();
}

pid_t _Fork(void)
{
    return fork_by(REAL(_Fork));
}

/* A true vfork shares the parent's memory, and with it the parent's block and slots. */
pid_t vfork(void)
{
    return fork();
}

#define SPAWN(call)                                                                                            \
    ({                                                                                                         \
        pid_t made;                                                                                            \
        struct block *child = vt_reserve_child();                                                              \
        int error_ = (call);                                                                                   \
        if (error_ == 0) {                                                                                     \
            vt_child_has_pid(child, made);                                                                     \
            if (pid != NULL)                                                                                   \
                *pid = made;                                                                                   \
        } else                                                                                                 \
            vt_release_child(child);                                                                           \
        error_;                                                                                                \
    })

int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                char *const envp[restrict])
{
    if (!vt_on())
        return REAL(posix_spawn)(pid, path, actions, attributes, argv, envp);
    return SPAWN(REAL(posix_spawn)(&made, path, actions, attributes, argv, envp));
}

int posix_spawnp(pid_t *restrict pid, const char *restrict file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                 char *const envp[restrict])
{
    if (!vt_on())
        return REAL(posix_spawnp)(pid, file, actions, attributes, argv, envp);
    return SPAWN(REAL(posix_spawnp)(&made, file, actions, attributes, argv, envp));
}

/* libc makes the shell itself and does not return its pid: the shell takes the block when it attaches. If it could
 * not be started, or has ended, the block is free again. */

int system(const char *command)
{
    struct block *child = command != NULL && vt_on() ? vt_reserve_child() : NULL;
    int status = REAL(system)(command);
    if (child != NULL && atomic_load(&child->state) == STARTING)
        vt_release_child(child);
    return status;
}

FILE *popen(const char *command, const char *type)
{
    struct block *child = vt_on() ? vt_reserve_child() : NULL;
    FILE *made = REAL(popen)(command, type);
    if (made == NULL && child != NULL)
        vt_release_child(child);
    return made;
}

/* exec */

extern char **environ;

/* Returns only on failure. */
#define EXEC(call)                                                                                             \
    ({                                                                                                         \
        bool on_ = vt_on();                                                                                    \
        int32_t pid_ = on_ ? atomic_exchange(&vt_block->attached, 0) : 0;                                      \
        int result_ = (call);                                                                                  \
        if (on_)                                                                                               \
            atomic_store(&vt_block->attached, pid_);                                                           \
        result_;                                                                                               \
    })

int execve(const char *path, char *const argv[], char *const envp[])
{
    return EXEC(REAL(execve)(path, argv, envp));
}

int execv(const char *path, char *const argv[])
{
    return EXEC(REAL(execv)(path, argv));
}

int execvp(const char *file, char *const argv[])
{
    return EXEC(REAL(execvp)(file, argv));
}

int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return EXEC(REAL(execvpe)(file, argv, envp));
}

int fexecve(int fd, char *const argv[], char *const envp[])
{
    return EXEC(REAL(fexecve)(fd, argv, envp));
}

int execveat(int directory, const char *path, char *const argv[], char *const envp[], int flags)
{
    static int (*real)(int, const char *, char *const[], char *const[], int);
    if (real == NULL)
        real = (int (*)(int, const char *, char *const[], char *const[], int))dlsym(RTLD_NEXT, "execveat");
    return EXEC(real(directory, path, argv, envp, flags));
}

/* The arguments of execl and its kin as an array on the stack, and behind them, for execle, the environment. */
#define LISTED(first, environment, call)                                                                       \
    ({                                                                                                         \
        va_list arguments_;                                                                                    \
        va_start(arguments_, first);                                                                           \
        size_t count_ = 1;                                                                                     \
        while (va_arg(arguments_, char *) != NULL)                                                             \
            count_++;                                                                                          \
        va_end(arguments_);                                                                                    \
        char *argv[count_ + 1];                                                                                \
        argv[0] = (char *)first;                                                                               \
        va_start(arguments_, first);                                                                           \
        for (size_t i = 1; i <= count_; i++)                                                                   \
            argv[i] = va_arg(arguments_, char *);                                                              \
        char *const *envp = (environment) ? va_arg(arguments_, char *const *) : environ;                       \
        va_end(arguments_);                                                                                    \
        (void)envp;                                                                                            \
        (call);                                                                                                \
    })

int execl(const char *path, const char *first, ...)
{
    return LISTED(first, false, execve(path, argv, envp));
}

int execle(const char *path, const char *first, ...)
{
    return LISTED(first, true, execve(path, argv, envp));
}

int execlp(const char *file, const char *first, ...)
{
    return LISTED(first, false, execvp(file, argv));
}
