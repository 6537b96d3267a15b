# A drop-in for kube-controller-manager's image: same flags, no shell needed.
#
# A tag may name another image tomorrow. Give the digest of one that you have looked at,
# as docs/image.md shows: --build-arg PYTHON_IMAGE=python:3.12-slim@sha256:...
ARG PYTHON_IMAGE=python:3.12-slim
FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY config/image config/image
COPY controller_manager controller_manager
RUN config/image/install /app

FROM ${PYTHON_IMAGE}
COPY --from=build /app /app
# Who runs may write nothing: without this, every start compiles what it imports.
RUN pip uninstall --yes pip \
 && python -m compileall -q -x '/tests?/' "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
ENV PATH=/app/bin:$PATH PYTHONUNBUFFERED=1
# The user that Pod Security's "restricted" expects.
USER 65532:65532
EXPOSE 10257
# For engines that look at it; Kubernetes has probes of its own.
HEALTHCHECK --interval=10s --timeout=15s --retries=8 --start-period=4m \
  CMD ["python", "-c", "import ssl, urllib.request as u; u.urlopen('https://127.0.0.1:10257/livez', context=ssl._create_unverified_context())"]
ENTRYPOINT ["controller-manager"]
