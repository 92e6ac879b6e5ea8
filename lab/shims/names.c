/*
 * LD_PRELOAD shim: lets one process resolve a few names to addresses of its own.
 *
 * The file named by LOCK_LAB_NAMES has one line for each name: "node-a 127.77.3.1". getaddrinfo of such a
 * name is that of its address; every other name is libc's business. The file is read at each call, since it
 * is written after the process was started and calls are rare.
 *
 * Not covered: gethostbyname and its kin, and programs that bypass libc or ignore LD_PRELOAD (Go, static
 * binaries, setuid).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

#define NAME_BYTES 256
#define ADDRESS_BYTES 64

/* Writes the address of `name` to `address`; whether the file has one. */
static int find(const char *name, char address[ADDRESS_BYTES])
{
    const char *path = getenv("LOCK_LAB_NAMES");
    FILE *file = path == NULL || name == NULL ? NULL : fopen(path, "re");
    if (file == NULL)
        return 0;
    char listed[NAME_BYTES], found[ADDRESS_BYTES];
    int there = 0;
    while (!there && fscanf(file, "%255s %63s", listed, found) == 2)
        there = strcasecmp(listed, name) == 0;
    fclose(file);
    if (there)
        memcpy(address, found, sizeof(found));
    return there;
}

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict result)
{
    static getaddrinfo_fn *real;
    if (real == NULL)
        real = (getaddrinfo_fn *)dlsym(RTLD_NEXT, "getaddrinfo");
    if (real == NULL)
        return EAI_SYSTEM;
    char address[ADDRESS_BYTES];
    return real(find(name, address) ? address : name, service, hints, result);
}
