# The operator's image: what is locked in requirements/runtime.txt, and nothing that builds.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN python -m venv /app \
    && /app/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
RUN python -m venv /build \
    && /build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN /build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /app/bin/pip install --no-cache-dir --no-deps /wheels/*.whl \
    && /app/bin/pip uninstall --yes pip setuptools

FROM python:3.11-slim-bookworm
ENV PATH=/app/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /app /app
USER 65532:65532
ENTRYPOINT ["kvscale"]
CMD ["operator"]
