# Somebody's own image for launcher MPI, built from ours: mpi4py as Debian has it.
ARG BASE=localhost/coxswain/trainer-cpu
FROM ${BASE}
USER 0
COPY install.sh /
RUN /install.sh python3-mpi4py && rm /install.sh
USER 10001:10001
