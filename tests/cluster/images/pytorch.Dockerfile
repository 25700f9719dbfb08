# An image that is not ours, for jobs that bring their own program: Debian's PyTorch, with gloo.
# Half of what the packages pull in are drivers, tests and data that nothing here opens.
FROM localhost/base:1
COPY install.sh /
RUN /install.sh python3-torch && rm /install.sh && \
    dpkg --remove --force-depends iso-codes libgl1-mesa-dri libllvm15 libtorch-test libz3-4 \
      proj-data python3-sympy && \
    find /usr/lib/python3* -depth -name __pycache__ -exec rm -r {} +
