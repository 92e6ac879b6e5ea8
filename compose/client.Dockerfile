# A client of the lock under test: Python, the lab's own code, and what it imports. Built by `lab images build`.
#
# The code and the wheels come with the build context, in the versions that the lab itself runs with.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS shims
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

FROM ${BASE_IMAGE}
USER root
RUN export DEBIAN_FRONTEND=noninteractive && apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends python3 >/dev/null \
    && rm -rf /var/lib/apt/lists/*
COPY --from=shims /lock-lab /lock-lab
COPY site/ /lock-lab/site/
ENV PYTHONPATH=/lock-lab/site
RUN python3 -m compileall -q /lock-lab/site && python3 -c "import lab.client.__main__; from lab.locks import BUILT_IN, lock_class; [lock_class(name) for name in BUILT_IN]"
ENTRYPOINT []
CMD ["python3", "-m", "lab.client"]
