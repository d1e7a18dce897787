# pollerd with its libraries and nothing else: no pip, no compiler, a user of its own, nothing to write to but its data.
# trixie for its OpenSSL 3.5: with the 3.0 of bookworm a full handshake costs a third more (ADR 20).
ARG PYTHON=3.11.15-slim-trixie

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv --without-pip /opt/pollerd
WORKDIR /source
# The libraries first: they change less often than the source. Every version and every hash is pinned.
# EXTRA=browser adds Playwright, for pages that need a browser (docs/rendering.md).
ARG EXTRA=
COPY constraints.txt constraints-browser.txt ./
RUN pip --python /opt/pollerd/bin/python install --require-hashes --requirement "constraints${EXTRA:+-$EXTRA}.txt"
COPY pyproject.toml README.md ./
COPY pollerd ./pollerd
COPY migrations ./migrations
# What only builds wheels goes again, and so do the libraries' own tests (a tenth of the whole). `pip check` fails where constraints.txt lacks what pyproject.toml asks for.
RUN pip --python /opt/pollerd/bin/python install --no-deps --no-build-isolation . \
 && pip --python /opt/pollerd/bin/python uninstall --yes --quiet \
      hatchling hatch-fancy-pypi-readme editables packaging pathspec pluggy tomlkit trove-classifiers \
 && find /opt/pollerd/lib -type d -name tests -prune -exec rm -r {} + \
 && pip --python /opt/pollerd/bin/python check \
 && /opt/pollerd/bin/pollerd run --help > /dev/null

FROM python:${PYTHON}
RUN python -m pip uninstall --yes --quiet --root-user-action=ignore setuptools wheel pip \
 && rm -rf /usr/local/lib/python3*/ensurepip \
 && groupadd --system --gid 10001 pollerd \
 && useradd --system --uid 10001 --gid pollerd --no-create-home --home-dir /var/lib/pollerd --shell /usr/sbin/nologin pollerd \
 && install --directory --owner=pollerd --group=pollerd --mode=0750 /var/lib/pollerd
COPY --from=build /opt/pollerd /opt/pollerd
ENV PATH=/opt/pollerd/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
# Without another database, SQLite in this folder: mount a volume here.
WORKDIR /var/lib/pollerd
EXPOSE 8080
STOPSIGNAL SIGTERM
# Alive means that the scheduler's loop turns. A daemon that waits for its database is alive; /readyz tells that.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-I", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8080, timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["pollerd"]
CMD ["run"]
