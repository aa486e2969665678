# Two stages: only the binary and the certificates for S3 go into the image.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin whyslow

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --home-dir /var/lib/whyslow whyslow
COPY --from=build /src/target/release/whyslow /usr/local/bin/whyslow
USER whyslow
WORKDIR /var/lib/whyslow
EXPOSE 4317 4318 7070
ENTRYPOINT ["whyslow"]
CMD ["serve"]
