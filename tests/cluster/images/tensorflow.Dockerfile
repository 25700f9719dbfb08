# An image that is not ours: TensorFlow with tf-keras, as tests/e2e/programs/tensorflow.txt names them. The wheels were
# fetched where there is a network for it, and are no layer: nodes keep each of an image's bytes twice.
FROM localhost/base:1
COPY install.sh /
RUN /install.sh python3-pip && rm /install.sh
RUN --mount=type=bind,source=wheels,target=/wheels \
    pip install -q --no-compile --break-system-packages --no-index --find-links /wheels tensorflow-cpu tf-keras && \
    rm -r /usr/local/lib/python3*/dist-packages/tensorflow/include
