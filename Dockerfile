# docker build -t keel . && docker run --rm -v "$PWD:/work" keel train config.yaml
FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends make ca-certificates git && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/keel
COPY . .
RUN make build

# The program needs LibTorch (and pyarrow for data files), which lie in .deps, and a few libraries of the system; reward
# functions in Python need the interpreter.
FROM debian:12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 libyaml-cpp0.7 libpcre2-8-0 libutf8proc2 libcpp-httplib0.11 python3 bubblewrap \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/keel/.deps /opt/keel/.deps
COPY --from=build /opt/keel/build/keel /opt/keel/build/keel
ENV PATH=/opt/keel/build:$PATH
WORKDIR /work
ENTRYPOINT ["keel"]
