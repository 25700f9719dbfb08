# An image that is not ours, for jobs whose servers are not ours either: MXNet 1.9.1, and the digits. The wheels were
# fetched where there is a network for it.
FROM localhost/base:1
COPY install.sh /
RUN /install.sh python3-pip libgomp1 libquadmath0 && rm /install.sh
COPY wheels /wheels
RUN pip install -q --break-system-packages --no-index --find-links /wheels mxnet numpy && rm -r /wheels
COPY mnist /digits
