# A node, or the store: a Redis or Valkey with the lab's preload shims. Built by `lab images build`.
#
# The server is the one that comes with the build context, with the libraries that it brings (REDIS_IMAGE is then
# debian:bookworm-slim), or the one of REDIS_IMAGE: any image with redis-server or valkey-server in it (redis:8,
# redis:8-alpine, valkey/valkey:8 …). The shims are compiled in the same image, so they fit its libc, be it glibc or musl.
ARG REDIS_IMAGE=debian:bookworm-slim

FROM ${REDIS_IMAGE} AS server
USER root
ARG REDIS_IMAGE
COPY server/ /lock-lab/server/
RUN for server in /lock-lab/server/*-server; do \
      if [ -x "$server" ]; then ln -s "$server" /usr/local/bin/redis-server; fi; \
    done
RUN if command -v redis-server >/dev/null; then exit 0; \
    elif valkey=$(command -v valkey-server); then mkdir -p /usr/local/bin && ln -s "$valkey" /usr/local/bin/redis-server; \
    else echo "REFUSED: the image $REDIS_IMAGE has neither redis-server nor valkey-server" >&2; exit 1; fi
RUN told=$(redis-server --version) \
    && case "$told" in Valkey*) exit 0 ;; esac \
    && version=$(echo "$told" | sed -n 's/.* v=\([0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]*\).*/\1/p') \
    && major=${version%%.*} && minor=${version#*.} && minor=${minor%%.*} \
    && { [ "${major:-0}" -gt 6 ] || { [ "${major:-0}" -eq 6 ] && [ "$minor" -ge 2 ]; } \
         || { echo "REFUSED: the image $REDIS_IMAGE has Redis ${version:-of unknown version}, which is too old: Redis 6.2 or later is needed, or Valkey" >&2; exit 1; }; }

FROM ${REDIS_IMAGE} AS shims
USER root
RUN if command -v apt-get >/dev/null; then \
      export DEBIAN_FRONTEND=noninteractive && apt-get update -qq \
      && apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null; \
    elif command -v apk >/dev/null; then apk add --no-cache --quiet gcc musl-dev; \
    else echo "REFUSED: the image has neither apt-get nor apk, so the shims can't be compiled in it" >&2; exit 1; fi
COPY shims/ /shims/
RUN mkdir -p /lock-lab \
    && for shim in clock sync; do \
         gcc -std=gnu11 -O2 -Wall -fPIC -shared -o "/lock-lab/$shim.so" "/shims/$shim.c" -ldl || exit 1; \
       done \
    && gcc -std=gnu11 -O2 -Wall -o /lock-lab/witness /shims/witness.c

FROM server
COPY --from=shims /lock-lab /lock-lab
# A clock file that says: a day ahead. A libc that ignores LD_PRELOAD must not get as far as a scenario.
RUN printf '\002\0\0\0\0\0\0\0\0\0\117\221\224\116\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >/tmp/ahead \
    && real=$(/lock-lab/witness) \
    && shown=$(LD_PRELOAD=/lock-lab/clock.so LOCK_LAB_CLOCK=/tmp/ahead /lock-lab/witness) \
    && rm /tmp/ahead \
    && { [ $((${shown%% *} - ${real%% *})) -gt 86000000000000 ] \
         || { echo "REFUSED: the clock shim has no effect in this image" >&2; exit 1; }; } \
    && { LD_PRELOAD="/lock-lab/sync.so /lock-lab/clock.so" redis-server --version \
         || { echo "REFUSED: redis-server does not start with the shims" >&2; exit 1; }; }
ENTRYPOINT []
CMD ["redis-server"]
