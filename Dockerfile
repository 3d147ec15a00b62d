# An image with the binary and what it links with, and nothing that it does not need.
#
#   docker build --build-arg COMMIT=$(git rev-parse --short HEAD) -t tidegate .
#   docker run --rm -v tidegate:/var/lib/tidegate tidegate key create --name first
#   docker run -p 7600:7600 -v tidegate:/var/lib/tidegate tidegate
#
# The first of these runs prints a root key on your screen, and its log goes with it. Without it, and
# without TIDEGATE_ROOT_KEY, the server makes a key when it first starts and puts it into the file
# `root-key` of the volume, not into the log of the container, which is JSON. With `-t` there is a
# terminal, and the key is in the welcome. Or give TIDEGATE_ROOT_KEY from a secret of your platform.

FROM rust:1.95-slim-trixie AS build
# What `tidegate --version` and the metrics say; the history is not in the build.
ARG COMMIT=unknown
# `tls` is for --tls-cert, rediss:// and https://. Empty builds without it.
ARG FEATURES=tls
WORKDIR /src
COPY . .
RUN TIDEGATE_COMMIT=$COMMIT cargo build --locked --profile dist -p tidegate-server \
        --bin tidegate --features "$FEATURES" \
    && install -D -s target/dist/tidegate /out/tidegate \
    # A volume takes over who owns the directory that it covers.
    && install -d -m 0700 /out/data

FROM debian:trixie-slim
# The authorities by which encrypted stores are known.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
# A number, not a name: supervisors that refuse root can tell that it is not.
COPY --from=build --chown=65532:65532 /out/data /var/lib/tidegate
COPY --from=build /out/tidegate /usr/bin/tidegate
USER 65532:65532
ENV TIDEGATE_DATA=/var/lib/tidegate
VOLUME /var/lib/tidegate
EXPOSE 7600
# For a scraper in another container: -e TIDEGATE_ADMIN_LISTEN=0.0.0.0:9300
# -e TIDEGATE_ADMIN_EXPOSED=true. It asks for no key and is not encrypted: do not publish the port.
# It stops in order on SIGTERM, within 10 s: give `docker stop -t 15`.
STOPSIGNAL SIGTERM
# With other words than those below, say where it listens: -e TIDEGATE_URL=http://127.0.0.1:…
# With --tls-cert the check would have to know the certificate. Let it ask the admin listener, which
# is never encrypted: -e TIDEGATE_ADMIN_LISTEN=127.0.0.1:9300 -e TIDEGATE_URL=http://127.0.0.1:9300
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["tidegate", "health"]
ENTRYPOINT ["tidegate"]
# Whoever runs a container decides what reaches it; TLS ends in front of it, or is added here.
CMD ["serve", "--listen", "0.0.0.0:7600", "--plain-http"]
