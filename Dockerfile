# The command `crawler` in an image of its own, without a shell, a package manager or root.

# What runs it: the C library and certificates alone. A module `exec=…` needs a shell, which another base has:
#   docker build --build-arg BASE=gcr.io/distroless/cc-debian12:debug-nonroot .
ARG BASE=gcr.io/distroless/cc-debian12:nonroot

# The C library of the builder must not be newer than that of the base: both are Debian 12.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /source
COPY Cargo.toml Cargo.lock ./
COPY crates crates
# Crates and what is built of them are kept between builds, but not in the image.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --locked --release -p crawler-cli \
    && install -D -s -m 755 target/release/crawler /image/crawler \
    && mkdir /image/data

FROM ${BASE}
COPY --from=build /image/crawler /usr/local/bin/crawler
# A volume that is mounted here for the first time becomes the user's, as this is.
COPY --from=build --chown=65532:65532 /image/data /data
# By number, so that a cluster that wants no root can tell.
USER 65532:65532
# Outputs named without a directory go here.
WORKDIR /data
# What is well depends on what it is to do, and a classic crawl needs no Redis: compose.yaml has the health checks.
ENTRYPOINT ["/usr/local/bin/crawler"]
CMD ["--help"]
