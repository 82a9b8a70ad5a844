# annai as a server, for a folder of documents mounted at /documents.
#
#   docker build --tag annai .
#   docker run --rm --read-only --tmpfs /tmp --volume ./docs:/documents:ro --volume annai:/state \
#     --publish 127.0.0.1:24280:24280 annai
#
# deploy/compose.yaml runs it for a team, with PostgreSQL (docs/team.md).
#
# `docker exec CONTAINER annai token owner` shows the token that callers send. The index is kept in /state: without a
# volume there, each container makes it anew. The documents are only read.

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE NOTICE.md ./
COPY src ./src
RUN python -m venv /annai && /annai/bin/pip install --no-cache-dir '.[documents,postgres]'

FROM python:3.13-slim
RUN useradd --uid 1000 --create-home annai \
  && mkdir -p /home/annai/.config/annai /srv/annai /state \
  && printf '[server]\nhost = "0.0.0.0"\n' > /home/annai/.config/annai/config.toml \
  && chown -R annai:annai /home/annai /srv/annai /state
COPY --from=build /annai /annai
ENV PATH=/annai/bin:$PATH PYTHONDONTWRITEBYTECODE=1 ANNAI_STATE=/state
VOLUME /state
USER 1000
WORKDIR /documents
EXPOSE 24280
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:24280/health')"]
STOPSIGNAL SIGTERM
CMD ["annai", "server", "start", "--foreground"]
