# The server of Hoptree; compose.yaml starts it, and docker/start.sh says what it does there.
FROM python:3.12-slim

# For the embedded model.
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/hoptree
COPY pyproject.toml README.md LICENSE ./
COPY experiments experiments
COPY weights weights
COPY src src
RUN pip install --quiet --no-cache-dir ./weights '.[local]' && pip install --quiet --no-cache-dir '.[server]'

# Models, replies, corpora and keys live in the volume: a new image keeps them.
ENV XDG_CACHE_HOME=/data/cache XDG_DATA_HOME=/data
COPY docker/start.sh /usr/local/bin/start-hoptree
RUN useradd --create-home hoptree && mkdir /data && chown hoptree /data && chmod 755 /usr/local/bin/start-hoptree
USER hoptree
WORKDIR /data
VOLUME /data
EXPOSE 8080
# The first start fetches 1.1 GB.
HEALTHCHECK --start-period=30m CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health')"
ENTRYPOINT ["start-hoptree"]
