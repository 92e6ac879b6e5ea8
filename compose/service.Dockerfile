# A server that is no Redis: etcd, ZooKeeper or Postgres, from Debian's packages. Built by `lab images build --consensus`.
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
USER root
ARG PACKAGES
# A JRE wants a place for its manual pages, which slim images leave out; and no database is to be made here.
RUN export DEBIAN_FRONTEND=noninteractive && mkdir -p /usr/share/man/man1 /etc/postgresql-common \
    && echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf && apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends ${PACKAGES} >/dev/null \
    && rm -rf /var/lib/apt/lists/*
ENTRYPOINT []
