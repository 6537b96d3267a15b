# A drop-in for kube-controller-manager's image: same flags, no shell needed.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY controller_manager controller_manager
COPY config config
RUN python -m venv /app && /app/bin/pip install --no-cache-dir --no-compile .

FROM python:3.12-slim
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH PYTHONUNBUFFERED=1
# The user that kubeadm's manifest and Pod Security's "restricted" expect.
USER 65532:65532
ENTRYPOINT ["controller-manager"]
