#!/usr/bin/env python3
"""The rules of the house that a compiler does not check: who may include whom, where a library's headers may
appear, what the pure core may use, and a few limits of size and style. Prints each breach and the rule."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Folder -> folders whose headers it may include, besides its own and trainer/contract/{error,exit_code,file_extension,printable,rfc3339,words}.h.
EDGES = {
    "trainer/contract": [],
    "trainer/contract/worker": [],
    "trainer/contract/config": ["trainer/options", "trainer/augment"],
    "trainer/contract/program": ["trainer/contract/config"],
    "trainer/options": [],
    "trainer/tensor": [],
    "trainer/augment": ["trainer/tensor"],
    "trainer/picture": ["trainer/augment", "trainer/tensor"],
    "trainer/compress": ["trainer/options", "trainer/tensor"],
    "trainer/graph": ["trainer/options", "trainer/tensor"],
    "trainer/graph/models": ["trainer/graph", "trainer/options", "trainer/tensor"],
    "trainer/optim": ["trainer/options", "trainer/tensor"],
    "trainer/backend": ["trainer/graph", "trainer/optim", "trainer/tensor"],
    "trainer/backend/reference": ["trainer/backend", "trainer/graph", "trainer/optim", "trainer/tensor"],
    "trainer/backend/cuda": ["trainer/backend", "trainer/graph", "trainer/optim", "trainer/tensor"],
    "trainer/backend/onednn": ["trainer/backend", "trainer/graph", "trainer/optim", "trainer/tensor"],
    "trainer/data": ["trainer/options", "trainer/augment", "trainer/picture", "trainer/tensor"],
    "trainer/comm": ["trainer/tensor"],
    "trainer/comm/mpi": ["trainer/comm", "trainer/tensor"],
    "trainer/comm/nccl": ["trainer/backend", "trainer/backend/cuda", "trainer/comm", "trainer/tensor"],
    "trainer/comm/tcp": ["trainer/comm", "trainer/net", "trainer/tensor"],
    "trainer/net": ["trainer/contract/worker"],
    "trainer/ps": ["trainer/backend", "trainer/comm", "trainer/compress", "trainer/net", "trainer/optim", "trainer/tensor"],
    "trainer/checkpoint": ["trainer/tensor"],
    "trainer/onnx": ["trainer/graph", "trainer/checkpoint", "trainer/tensor"],
    "trainer/train": ["trainer/onnx", "trainer/graph", "trainer/graph/models", "trainer/backend", "trainer/data", "trainer/comm", "trainer/compress",
                      "trainer/net", "trainer/optim", "trainer/options", "trainer/ps", "trainer/checkpoint", "trainer/tensor"],
    "trainer/report": ["trainer/train", "trainer/backend", "trainer/contract/worker"],
    "trainer/launch": ["trainer/contract/worker"],
    "trainer": ["*"],  # main.cc, build.cc and the commands wire everything
    "operator/job": ["trainer/contract/worker", "trainer/contract/config", "trainer/options"],
    "operator/convert": ["operator/job", "trainer/contract/config"],
    "operator/kube": ["trainer/contract/worker", "trainer/contract/config"],
    "operator/controller": ["operator/kube", "trainer/contract/worker"],
    "operator/cluster": ["operator/job", "trainer/contract/worker", "trainer/contract/config"],
    "operator/inspect": ["operator/job", "operator/cluster", "trainer/contract/worker"],
    "operator": ["*"],  # main.cc and the commands wire everything
}
EVERYWHERE = {"trainer/contract/error.h", "trainer/contract/exit_code.h",
              "trainer/contract/file_extension.h", "trainer/contract/printable.h",
              "trainer/contract/rfc3339.h", "trainer/contract/words.h"}

# Weights and gradients are looked into where the device is the host: not by the loop, whose memory they need not be in.
HOST_SPAN = ["trainer/tensor/", "trainer/backend/", "trainer/comm/", "trainer/train/parameter_server",
             "trainer/train/server_plan", "trainer/train/async_strategy", "trainer/train/coded_sums"]

DEVICE_SPAN = ["trainer/tensor/", "trainer/backend/cuda/", "trainer/comm/nccl/"]

# Header of a library -> where it may be included (prefixes of paths).
THIRD_PARTY = {
    r"dnnl": ["trainer/backend/onednn/"],
    r"cuda": ["trainer/backend/cuda/"],
    r"cudnn": ["trainer/backend/cuda/cudnn_convolutions.cc", "trainer/backend/cuda/cudnn_plan.cc"],
    r"cublas": ["trainer/backend/cuda/cublas_products.cc"],
    r"nccl": ["trainer/comm/nccl/"],
    r"mpi\.h": ["trainer/comm/mpi/"],
    r"boost/(asio|beast)": ["trainer/contract/worker/http_endpoint", "trainer/net/link", "trainer/net/network",
                            "trainer/net/stream", "operator/kube/http_transport"],
    r"yaml-cpp/": ["trainer/contract/config/", "operator/job/", "operator/kube/config"],
    r"openssl/": ["operator/cluster/keys", "operator/cluster/host_package", "operator/kube/", "trainer/net/psk", "trainer/net/stream"],
    r"(cpprest|pplx)/": ["operator/kube/http_transport"],
    r"prometheus/": ["operator/controller/metrics"],
    r"CLI/": ["trainer/main.cc", "operator/main.cc", "trainer/contract/program/"],
    r"(jpeglib|jerror)\.h": ["trainer/picture/jpeg"],
    r"png\.h": ["trainer/picture/png"],
    r"protozero/": ["trainer/report/tensorboard_records", "trainer/onnx/decode.cc", "trainer/onnx/encode"],
    r"Eigen/": ["trainer/train/whitening"],
    r"boost/crc": ["trainer/report/tensorboard_records"],
    r"zlib\.h": ["trainer/data/", "trainer/checkpoint/"],
}

# The pure core: values in, values out.
PURE = ["operator/job/", "operator/convert/", "operator/inspect/", "operator/kube/watch.", "operator/kube/list_page", "operator/controller/lease",
        "operator/cluster/pod", "operator/cluster/judge",
        "trainer/options/", "trainer/augment/", "trainer/picture/", "trainer/graph/", "trainer/data/sampler", "trainer/optim/", "trainer/checkpoint/format",
        "trainer/compress/",
        "trainer/onnx/model", "trainer/onnx/format", "trainer/onnx/decode", "trainer/onnx/encode", "trainer/onnx/constants",
        "trainer/onnx/node_attributes", "trainer/onnx/translat", "trainer/onnx/weights", "trainer/onnx/network", "trainer/onnx/to_model",
        "trainer/net/frame", "trainer/net/hello", "trainer/comm/reduction", "trainer/ps/client.", "trainer/ps/message", "trainer/ps/push_", "trainer/ps/server", "trainer/ps/shard",
        "trainer/ps/sync", "trainer/ps/async_server", "trainer/ps/async_training",
        "trainer/ps/async_client.", "trainer/ps/coordinator", "trainer/ps/lease_book", "trainer/ps/step_set",
        "trainer/train/step_plan", "trainer/train/buckets", "trainer/train/push_judge", "trainer/train/resume",
        "trainer/report/html_", "trainer/report/run_history", "trainer/report/tensorboard_records"]
IMPURE = re.compile(r"<(fstream|iostream|filesystem|thread|mutex|condition_variable|atomic|random|unistd\.h|fcntl\.h|"
                    r"sys/.*|future|stop_token)>")

GETENV = ["trainer/contract/worker/worker_env.cc", "operator/operator_options.cc"]
MAX_LINES = 400
MAX_LINES_OF_TESTS = 600
MAX_COLUMNS = 100

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def folder_of(path):
    """The longest folder of EDGES that holds the path."""
    return max((f for f in EDGES if path.startswith(f + "/")), key=len, default=None)


# Files that may include more than their folder.
FILE_EDGES = {"operator/cluster/kube_cluster": ["operator/kube", "operator/controller"],
              "operator/cluster/kube_view": ["operator/kube", "operator/controller"],
              "operator/cluster/judge": ["operator/kube"],
              "operator/cluster/namespace_levels": ["operator/kube"]}


def check_include(path, kind, name, report):
    more = next((edges for prefix, edges in FILE_EDGES.items() if path.startswith(prefix)), [])
    if kind == '"' and name.startswith(("trainer/", "operator/")) and name not in EVERYWHERE:
        source, target = folder_of(path), folder_of(name)
        if target != source and "*" not in EDGES[source] and target not in EDGES[source] + more:
            report(f"{source} may not include {target} ({name})")
        if not (ROOT / name).exists():
            report(f"includes {name}, which does not exist")
    if name == "trainer/tensor/host_span.h" and not path.startswith(tuple(HOST_SPAN)):
        report(f"{name} belongs into {', '.join(HOST_SPAN)} alone")
    if name == "trainer/tensor/device_span.h" and not path.startswith(tuple(DEVICE_SPAN)):
        report(f"{name} belongs into {', '.join(DEVICE_SPAN)} alone")
    for header, places in THIRD_PARTY.items():
        if re.match(header, name) and kind == "<" and not path.startswith(tuple(places)):
            report(f"<{name}> belongs into {', '.join(places)} alone")
    if path.startswith(tuple(PURE)) and IMPURE.match(f"<{name}>") and kind == "<":
        report(f"is part of the pure core and may not include <{name}>")


def check_file(path, breaches):
    lines = (ROOT / path).read_text().splitlines()
    most = MAX_LINES_OF_TESTS if str(path).startswith("tests/") else MAX_LINES
    if len(lines) > most:
        breaches.append(f"{path}: {len(lines)} lines, at most {most}")
    production = path.startswith(("trainer/", "operator/"))
    for number, line in enumerate(lines, 1):
        def report(what):
            breaches.append(f"{path}:{number}: {what}")
        include = INCLUDE.match(line)
        if include and production:
            check_include(path, include[1], include[2], report)
        if len(line) > MAX_COLUMNS:
            report(f"{len(line)} columns, at most {MAX_COLUMNS}")
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            report("unfinished business")
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line.split("//")[0])
        if re.search(r"\bgetenv\s*\(", code) and path not in GETENV and production:
            report("getenv: the environment is read in " + ", ".join(GETENV))
        if production and re.search(r"(^|[^\w.])(new|delete)\s+[A-Za-z_(]", code):
            report("new and delete: use a container or a smart pointer")


def main():
    breaches = []
    files = [str(p.relative_to(ROOT)) for top in ("trainer", "operator", "tests")
             for p in sorted((ROOT / top).rglob("*")) if p.suffix in (".h", ".cc", ".cu")]
    for path in files:
        check_file(path, breaches)
    for breach in breaches:
        print(breach)
    print(f"tidy: {len(files)} files, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
