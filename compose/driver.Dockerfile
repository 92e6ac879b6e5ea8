# A client with a lock library in it, and the runtime that the library needs. Built by `lab drivers install NAME --on docker`.
#
# The library comes with the build context, as it was installed on the host; Debian has the runtimes. What is installed
# here does not depend on the lab's own code, so that a new version of the lab finds it in the build cache.
ARG BASE_IMAGE=debian:bookworm-slim
ARG CLIENT_IMAGE
FROM ${CLIENT_IMAGE} AS client

FROM ${BASE_IMAGE}
USER root
ARG PACKAGES=""
# A JRE wants a place for its manual pages, which slim images leave out.
RUN export DEBIAN_FRONTEND=noninteractive && mkdir -p /usr/share/man/man1 && apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends python3 ${PACKAGES} >/dev/null \
    && rm -rf /var/lib/apt/lists/*
COPY driver/ /lock-lab/driver/
# A library's files may hold some for other Pythons, which cannot be compiled here and are not missed.
RUN cd /lock-lab/driver && if [ -d env/venv ]; then \
      python3 -m venv --without-pip env/venv && { python3 -m compileall -q . >/dev/null || true; }; \
    fi
COPY --from=client /lock-lab /lock-lab
ENV PYTHONPATH=/lock-lab/site
ENTRYPOINT []
CMD ["python3", "-m", "lab.client"]
