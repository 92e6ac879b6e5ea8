/*
 * Sockets: SO_RCVTIMEO and SO_SNDTIMEO become waits for virtual time; what is written to TCP is counted, and can
 * be stopped. And read() of what entropy.c has opened.
 *
 * Nothing is remembered about what a descriptor is: libc closes descriptors by itself, unseen, and their numbers
 * come back as something else.
 */
#include "inside.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>

#define DESCRIPTORS 65536

/* Of the socket `inode`, set by way of this descriptor; other descriptors of that socket look for it here. */
struct timeouts {
    _Atomic uint64_t inode;
    _Atomic int64_t receive_ns, send_ns; /* 0: none */
};
static struct timeouts timeouts[DESCRIPTORS];
static _Atomic int timeouts_end; /* 0: the process has set none */

static uint64_t inode_of(int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

static struct timeouts *timeouts_of(int fd)
{
    int end = atomic_load_explicit(&timeouts_end, memory_order_relaxed);
    if (end == 0 || fd < 0)
        return NULL;
    uint64_t inode = inode_of(fd);
    if (inode == 0)
        return NULL;
    if (fd < end && atomic_load(&timeouts[fd].inode) == inode)
        return &timeouts[fd];
    for (int i = 0; i < end; i++)
        if (atomic_load(&timeouts[i].inode) == inode)
            return &timeouts[i];
    return NULL;
}

static void remember(int fd, bool receive, int64_t ns)
{
    if (fd < 0 || fd >= DESCRIPTORS)
        vt_die("SO_RCVTIMEO or SO_SNDTIMEO on a descriptor beyond 65535; virtual time has no room for it");
    struct timeouts *entry = timeouts_of(fd);
    if (entry == NULL) {
        entry = &timeouts[fd];
        atomic_store(&entry->receive_ns, 0);
        atomic_store(&entry->send_ns, 0);
        atomic_store(&entry->inode, inode_of(fd));
        int end = atomic_load(&timeouts_end);
        while (end <= fd && !atomic_compare_exchange_weak(&timeouts_end, &end, fd + 1))
            ;
    }
    atomic_store(receive ? &entry->receive_ns : &entry->send_ns, ns);
}

static bool is_timeout(int level, int option)
{
    return level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    if (!is_timeout(level, option) || size < sizeof(struct timeval) || !vt_on())
        return REAL(setsockopt)(fd, level, option, value, size);
    struct timeval timeout, none = {0, 0};
    memcpy(&timeout, value, sizeof timeout);
    bool invalid = timeout.tv_usec < 0 || timeout.tv_usec >= 1000000;
    int result = REAL(setsockopt)(fd, level, option, invalid ? &timeout : &none, sizeof none);
    if (result == 0) {
        int64_t s = timeout.tv_sec < 0 ? 0 : timeout.tv_sec < FAR_S ? timeout.tv_sec : FAR_S;
        remember(fd, option == SO_RCVTIMEO, s * NS_PER_S + timeout.tv_usec * 1000);
    }
    return result;
}

int getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict size)
{
    int result = REAL(getsockopt)(fd, level, option, value, size);
    if (result != 0 || !is_timeout(level, option) || *size < sizeof(struct timeval) || !vt_on())
        return result;
    struct timeouts *of = timeouts_of(fd);
    int64_t ns = of == NULL ? 0 : option == SO_RCVTIMEO ? of->receive_ns : of->send_ns;
    struct timeval timeout = {ns / NS_PER_S, ns % NS_PER_S / 1000};
    memcpy(value, &timeout, sizeof timeout);
    return 0;
}

/* The time-out that a blocking call on `fd` has to keep to; 0: none. */
static int64_t timeout_ns(int fd, bool receive, int flags)
{
    int error = errno;
    struct timeouts *of = (flags & MSG_DONTWAIT) == 0 && vt_on() ? timeouts_of(fd) : NULL;
    int64_t ns = of == NULL ? 0 : atomic_load(receive ? &of->receive_ns : &of->send_ns);
    if (ns != 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0)
        ns = 0;
    errno = error;
    return ns;
}

/* Whether the descriptor got ready; else errno says why not. */
static bool ready(int fd, short events, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - vt_now_ns();
    struct timespec left = {left_ns > 0 ? left_ns / NS_PER_S : 0, left_ns > 0 ? left_ns % NS_PER_S : 0};
    struct pollfd one = {fd, events, 0};
    int count = ppoll(&one, 1, &left, NULL);
    if (count == 0)
        errno = EAGAIN;
    return count > 0;
}

/* `call` does not block (MSG_DONTWAIT): another thread may have been faster, after which we wait on. */
#define IN_TIME(fd, events, ns, call)                                                                          \
    ({                                                                                                         \
        int64_t deadline_ns_ = vt_in((ns) / NS_PER_S, (ns) % NS_PER_S);                                        \
        ssize_t result_;                                                                                       \
        do                                                                                                     \
            result_ = ready(fd, events, deadline_ns_) ? (call) : -2;                                           \
        while (result_ == -1 && errno == EAGAIN);                                                              \
        result_ == -2 ? -1 : result_;                                                                          \
    })

/* Reading. */

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    vt_waited();
    int64_t ns = timeout_ns(fd, true, flags);
    if (ns == 0)
        return REAL(recvmsg)(fd, message, flags);
    if ((flags & MSG_WAITALL) != 0)
        vt_die("MSG_WAITALL on a socket with SO_RCVTIMEO is not there in virtual time");
    return IN_TIME(fd, POLLIN, ns, REAL(recvmsg)(fd, message, flags | MSG_DONTWAIT));
}

ssize_t recvfrom(int fd, void *restrict to, size_t size, int flags, struct sockaddr *restrict from,
                 socklen_t *restrict from_size)
{
    vt_waited();
    int64_t ns = timeout_ns(fd, true, flags);
    if (ns == 0)
        return REAL(recvfrom)(fd, to, size, flags, from, from_size);
    if ((flags & MSG_WAITALL) != 0)
        vt_die("MSG_WAITALL on a socket with SO_RCVTIMEO is not there in virtual time");
    return IN_TIME(fd, POLLIN, ns, REAL(recvfrom)(fd, to, size, flags | MSG_DONTWAIT, from, from_size));
}

ssize_t recv(int fd, void *to, size_t size, int flags)
{
    return recvfrom(fd, to, size, flags, NULL, NULL);
}

ssize_t read(int fd, void *to, size_t size)
{
    if (vt_is_entropy(fd)) {
        vt_entropy(to, size);
        return (ssize_t)size;
    }
    vt_hint();
    return timeout_ns(fd, true, 0) != 0 ? recv(fd, to, size, 0) : REAL(read)(fd, to, size);
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
    if (count > 0 && vt_is_entropy(fd))
        return read(fd, parts[0].iov_base, parts[0].iov_len);
    if (timeout_ns(fd, true, 0) == 0)
        return REAL(readv)(fd, parts, count);
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    return recvmsg(fd, &message, 0);
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    if (vt_on() && (timeout != NULL || timeout_ns(fd, true, flags) != 0))
        vt_die("recvmmsg with a time-out is not there in virtual time");
    return REAL(recvmmsg)(fd, messages, count, flags, timeout);
}

int accept4(int fd, struct sockaddr *restrict from, socklen_t *restrict size, int flags)
{
    int64_t ns = timeout_ns(fd, true, 0);
    if (ns != 0 && !ready(fd, POLLIN, vt_in(ns / NS_PER_S, ns % NS_PER_S)))
        return -1;
    return REAL(accept4)(fd, from, size, flags);
}

int accept(int fd, struct sockaddr *restrict from, socklen_t *restrict size)
{
    return accept4(fd, from, size, 0);
}

/* What programs built with _FORTIFY_SOURCE call; `room` is the size of the buffer. */
static void fits(size_t size, size_t room)
{
    if (size > room)
        vt_die("read: buffer overflow");
}

ssize_t __read_chk(int fd, void *to, size_t size, size_t room)
{
    fits(size, room);
    return read(fd, to, size);
}

ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
    fits(size, room);
    return recv(fd, to, size, flags);
}

ssize_t __recvfrom_chk(int fd, void *to, size_t size, size_t room, int flags, struct sockaddr *from,
                       socklen_t *from_size)
{
    fits(size, room);
    return recvfrom(fd, to, size, flags, from, from_size);
}

/* Writing. */

static bool is_tcp(int fd)
{
    int protocol = 0;
    socklen_t size = sizeof protocol;
    long result = vt_kernel(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, (long)&protocol, (long)&size, 0);
    return result == 0 && protocol == IPPROTO_TCP;
}

/* A thread that is to be stopped before its write waits here: asleep, as a scan of the conductor's sees it. */
static void before_write(int fd)
{
    if (!vt_on())
        return;
    int32_t in = atomic_load_explicit(&vt_group->stop_in, memory_order_relaxed);
    if ((in == 0 && atomic_load_explicit(&vt_group->stopped, memory_order_relaxed) == 0) || !is_tcp(fd))
        return;
    while (in > 0 && !atomic_compare_exchange_weak(&vt_group->stop_in, &in, in - 1))
        ;
    if (in == 1)
        atomic_store(&vt_group->stopped, 1);
    while (atomic_load(&vt_group->stopped) != 0)
        vt_sleep_on(&vt_group->stopped, 1);
}

static ssize_t written(int fd, ssize_t size)
{
    if (size > 0 && vt_on() && is_tcp(fd))
        atomic_fetch_add(&vt_group->tcp_bytes_written, size);
    return size;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    before_write(fd);
    int64_t ns = timeout_ns(fd, false, flags);
    return written(fd, ns == 0 ? REAL(sendmsg)(fd, message, flags)
                               : IN_TIME(fd, POLLOUT, ns, REAL(sendmsg)(fd, message, flags | MSG_DONTWAIT)));
}

/* Everything, or as much as the peer takes until the deadline. */
static ssize_t send_until(int fd, const char *from, size_t size, int flags, const struct sockaddr *to,
                          socklen_t to_size, int64_t deadline_ns)
{
    size_t done = 0;
    do {
        if (!ready(fd, POLLOUT, deadline_ns))
            break;
        ssize_t result = REAL(sendto)(fd, from + done, size - done, flags | MSG_DONTWAIT, to, to_size);
        if (result < 0 && errno != EAGAIN)
            break;
        done += result > 0 ? (size_t)result : 0;
    } while (done < size);
    return done > 0 || size == 0 ? (ssize_t)done : -1;
}

ssize_t sendto(int fd, const void *from, size_t size, int flags, const struct sockaddr *to, socklen_t to_size)
{
    before_write(fd);
    int64_t ns = timeout_ns(fd, false, flags);
    if (ns == 0)
        return written(fd, REAL(sendto)(fd, from, size, flags, to, to_size));
    return written(fd, send_until(fd, from, size, flags, to, to_size, vt_in(ns / NS_PER_S, ns % NS_PER_S)));
}

ssize_t send(int fd, const void *from, size_t size, int flags)
{
    return sendto(fd, from, size, flags, NULL, 0);
}

ssize_t write(int fd, const void *from, size_t size)
{
    if (timeout_ns(fd, false, 0) != 0)
        return send(fd, from, size, 0);
    before_write(fd);
    return written(fd, REAL(write)(fd, from, size));
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    if (timeout_ns(fd, false, 0) != 0) {
        struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
        return sendmsg(fd, &message, 0);
    }
    before_write(fd);
    return written(fd, REAL(writev)(fd, parts, count));
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    if (timeout_ns(fd, false, flags) != 0) /* one is enough: the caller sends the rest again */
        count = count > 1 ? 1 : count;
    before_write(fd);
    int done = REAL(sendmmsg)(fd, messages, count, flags);
    for (int i = 0; i < done; i++)
        written(fd, messages[i].msg_len);
    return done;
}

ssize_t sendfile(int to, int from, off_t *offset, size_t size)
{
    static ssize_t (*real)(int, int, off_t *, size_t);
    if (real == NULL)
        real = (ssize_t(*)(int, int, off_t *, size_t))dlsym(RTLD_NEXT, "sendfile");
    before_write(to);
    return written(to, real(to, from, offset, size));
}

ssize_t sendfile64(int to, int from, off_t *offset, size_t size)
{
    return sendfile(to, from, offset, size);
}

int shutdown(int fd, int how)
{
    int result = REAL(shutdown)(fd, how);
    if (result == 0 && how == SHUT_WR && vt_on())
        atomic_fetch_add(&vt_group->halves_ended, 1);
    return result;
}

int connect(int fd, const struct sockaddr *to, socklen_t size)
{
    int64_t ns = timeout_ns(fd, false, 0); /* as Linux does: what limits a send limits a connect */
    if (ns == 0)
        return REAL(connect)(fd, to, size);
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    int result = REAL(connect)(fd, to, size), error = result == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        socklen_t error_size = sizeof error;
        if (ready(fd, POLLOUT, vt_in(ns / NS_PER_S, ns % NS_PER_S)))
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
        else
            error = errno == EAGAIN ? EINPROGRESS : errno;
    }
    fcntl(fd, F_SETFL, flags);
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}
