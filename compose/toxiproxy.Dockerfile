# Toxiproxy: the binary that `lab setup` provides, in an image of its own. Built by `lab images build`.
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
COPY toxiproxy-server /usr/local/bin/toxiproxy-server
RUN toxiproxy-server -version
ENTRYPOINT []
CMD ["toxiproxy-server", "-host", "0.0.0.0"]
