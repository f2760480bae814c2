# An image with the command `crawler`, without a shell, a package manager or root.

# The base has only the C library and CA certificates. The module `exec=…` needs a shell, which this base has:
#   docker build --build-arg BASE=gcr.io/distroless/cc-debian12:debug-nonroot .
ARG BASE=gcr.io/distroless/cc-debian12:nonroot

# The C library of the builder must not be newer than that of the base: both are Debian 12.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /source
COPY Cargo.toml Cargo.lock ./
COPY crates crates
# The crates and the build directory are cached between builds, but not part of the image.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --locked --release -p crawler-cli \
    && install -D -s -m 755 target/release/crawler /image/crawler \
    && mkdir /image/data

FROM ${BASE}
COPY --from=build /image/crawler /usr/local/bin/crawler
# A new volume that is mounted here gets the owner of this directory.
COPY --from=build --chown=65532:65532 /image/data /data
# Numeric, so that Kubernetes can check `runAsNonRoot`.
USER 65532:65532
# The directory of outputs with relative paths.
WORKDIR /data
# Secrets are not part of the image. Pass them when a container starts: docker run --env CRAWLER_PAGERANK_KEY …
# No HEALTHCHECK: it depends on the sub-command. compose.yaml has the health checks of the roles.
ENTRYPOINT ["/usr/local/bin/crawler"]
CMD ["--help"]
