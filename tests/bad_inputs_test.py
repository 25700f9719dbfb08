#!/usr/bin/env python3
"""bad_inputs_test.py BIN_DIR    the catalogue of bad inputs: each is answered by a test

An entry is run through the real program, whose exit code and words are compared; or it names the
test that covers it, which must be there; or it says why this version has no such input. What is run
ends soon, says one thing a line, shortly, and nothing that a terminal would obey.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/cluster"))
import bad_jobs_test as jobs  # noqa: E402

SECONDS = 20  # of a machine that others keep busy; each takes a few tenths
LONGEST_LINE = 600

CATALOGUE = {
    "A, jobs": """
        B001 B002 B003 B005 B006 B007 B009 B010 B011 B013 B014 B015 B017 B018 B019 B021 B022 B023
        B025 B026 B027 B029 B030 B031 B033 B034 B035 B037 B038 B039 B041 B042 B043 B045 B046 B047
        B049 B050 B051 B053 B054 B055 B057 B058 B059 B061 B062 B063 B065 B066 B067 B069 B070 B071
        B073 B074 B075 B077 B078 B079 B081 B082 B083 B085 B086 B087 B089 B090 B091 B093 B094""",
    "B, flags": """
        B095 B097 B098 B099 B101 B102 B103 B105 B106 B107 B109 B110 B111 B113 B114 B115 B117 B118
        B119 B121 B122 B123 B125 B126 B127 B129""",
    "C, data": """
        B130 B131 B133 B134 B135 B137 B138 B139 B141 B142 B143 B145 B146 B147 B149 B150 B151 B153
        B154 B155 B157 B158""",
    "D, checkpoints": """
        B159 B161 B162 B163 B165 B166 B167 B169 B170 B171 B173 B174 B175 B177 B178 B179 B181 B182
        B183""",
    "E, messages": """
        B185 B186 B187 B189 B190 B191 B193 B194 B195 B197 B198 B199 B201 B202 B203""",
    "F, kubeconfigs": """
        B205 B206 B207 B209 B210 B211 B213 B214 B215 B217 B218 B219""",
    "G, values of the chart": """
        B221 B222 B223 B225 B226 B227 B229 B230 B231""",
    "H, networks of ONNX": """
        B233 B234 B235 B237 B238 B239 B241 B242 B243 B245 B246 B247 B249""",
}

# What `coxswain validate` says to the rows of bad_jobs_test.py, which asks the API server first.
JOBS = {
    "B001 spec missing": "spec: required",
    "B002 spec null": "spec: required",
    "B003 empty file": "no document; write a TrainingJob",
    "B005 tabs": ":6:1: tab not allowed as indentation",
    "B006 duplicate key": ':8:3: duplicate key "image"',
    "B007 unknown field": ":7: spec.worker: unknown field; known: ",
    "B009 unknown kind": ":2: kind: must be TrainingJob",
    "B010 name missing": ":3: metadata.name: required",
    "B011 name with capitals": "metadata.name: must be lower-case",
    "B013 name ending in -": "metadata.name: must be lower-case",
    "B017 workers -1": ":5: spec.replicaSpecs.Worker.replicas: must be at least 1, got -1",
    "B018 workers 4097": "Worker.replicas: must be at most 4096, got 4097",
    "B019 workers 1000000": "Worker.replicas: must be at most 4096, got 1000000",
    "B021 workers a text": "Worker.replicas: must be an integer",
    "B022 workers beyond 64 bits": "Worker.replicas: must be at most 4096",
    "B023 workers true": "Worker.replicas: must be an integer, got true",
    "B025 servers with AllReduce": "spec.replicaSpecs.Server: only with strategy ParameterServer",
    "B026 no servers with ParameterServer": "Server.replicas: must be at least 1, got 0",
    "B027 strategy unknown": "spec.strategy: must be ",
    "B029 template without containers": "template.spec.containers: ",
    "B029 template with an empty list of containers": "template.spec.containers: ",
    "B030 two containers of one name": "containers[1].name: ",
    "B031 no trainer among the containers": "name the container that trains `trainer` (found a, b)",
    "B033 image malformed": "spec.image: not an image",
    "B034 image with a newline": r'spec.image: not an image ([registry/]name[:tag]): "a\nb"',
    "B035 command a text": "containers[0].command: must be a list",
    "B037 LD_PRELOAD": '"LD_PRELOAD" is for the operator to set',
    "B038 NCCL_COMM_ID": '"NCCL_COMM_ID" is for the operator to set',
    "B039 name of a variable": 'not a name of an environment variable: "A=B"',
    "B041 environment too large": "env: at most 131072 bytes in all, got 200001",
    "B042 secret of another namespace": "not a name of an object in the job's namespace",
    "B042 namespace in an affinity": "a job acts in its own namespace",
    "B043 restartPolicy Always": "restartPolicy: must be Never",
    "B045 backoffLimit too large": "backoffLimit: must be at most 2147483647",
    "B046 activeDeadlineSeconds 0": "activeDeadlineSeconds: must be at least 1, got 0",
    "B047 ttlSecondsAfterFinished a text": "ttlSecondsAfterFinished: must be an integer",
    "B049 cleanPodPolicy unknown": "cleanPodPolicy: must be one of Running, All, None",
    "B050 successPolicy unknown": "successPolicy: must be one of RankZero, AllWorkers",
    "B050 failure rule for an unknown role": "onRoles[0]: must be one of Worker, Server",
    "B051 minReplicas above replicas": "minReplicas: 3 is above Worker.replicas, 2",
    "B053 cpu no quantity": "limits.cpu: not a quantity",
    "B054 memory out of range": "limits.memory: not a quantity",
    "B055 limit below request": '"2Gi" is above its limit "512Mi"',
    "B061 checkpoint interval a text": "everySeconds: must be an integer",
    "B062 checkpoint keep 0": "keep: must be at least 2, got 0",
    "B065 mount of no volume": 'no volume of this name: "nothing"',
    "B066 hostPath": "volumes[0].hostPath: not allowed by Pod Security",
    "B067 privileged": "securityContext.privileged: true is outside Pod Security",
    "B069 capability": '"SYS_ADMIN" is outside Pod Security',
    "B070 root": "runAsUser: 0 is outside Pod Security",
    "B071 seccomp Unconfined": '"Unconfined" is outside Pod Security',
    "B074 nodeSelector a number": "nodeSelector.disk: must be a text, got 3",
    "B075 toleration operator": "operator: must be Exists or Equal",
    "B085 port 0": "containerPort: must be at least 1, got 0",
    "B085 port 70000": "containerPort: must be at most 65535, got 70000",
    "B085 port -1": "containerPort: must be at least 1, got -1",
    "B085 port a text": "containerPort: must be an integer",
    "B089 nested 10,000 deep": "nested deeper than 64 levels",
    "B091 invalid UTF-8": ":6:21: byte 0xff is not UTF-8",
    "B093 alias within itself": "cycle: an alias within its anchor",
    "B094 JSON with a trailing comma": "required",
    "B094 JSON with NaN": "required",
}

MORE_JOBS = {
    "B087 TF_CONFIG of 4096 workers": (
        jobs.HEAD + "spec:\n  rendezvous: [TensorFlow]\n  replicaSpecs: {Worker: {replicas: 4096, "
        "template: {spec: {containers: [{name: a, image: b}]}}}}\n",
        "spec.rendezvous: TF_CONFIG would take"),
    "B090 YAML of 10 MB": (jobs.GOOD + "# " + "x" * (10 << 20), "above the limit of 1 MiB"),
    "B091 UTF-16": (jobs.GOOD.encode("utf-16"), "UTF-16"),
    "B057 checkpoint.path in a job": (
        jobs.GOOD + "  checkpoint: {path: ../../etc}\n", "spec.checkpoint.path: unknown field"),
}

# Flags of `coxswain-trainer train` beside the good ones; what is said.
TRAINER_FLAGS = {
    "B095 unknown": (["--batchsiz=3"], 2, "did you mean --batchSize?"),
    "B097 batchSize a text": (["--batchSize=abc"], 2, "--batchSize: must be an integer"),
    **{f"B102 lr {value}": ([f"--optimizer.lr={value}"], 2, "--optimizer.lr: ")
       for value in ("0", "-1", "nan", "inf", "1e400")},
    "B103 batchSize 0": (["--batchSize=0"], 2, "1..1048576"),
    "B103 batchSize 2^31": (["--batchSize=2147483648"], 2, "1..1048576"),
    "B105 epochs -1": (["--epochs=-1"], 2, "--epochs: out of range"),
    "B106 seed 2^64": (["--seed=18446744073709551616"], 2, "0..18446744073709551615"),
    "B107 device": (["--device=gpu"], 2, 'must be one of cpu, cuda, auto'),
    "B107 device of another build": (["--device=cuda"], 65, "this program was built without CUDA"),
    "B114 data.path missing": (
        ["--data.format=mnist", "--data.path=/nowhere"], 65, "/nowhere: No such file"),
    "B117 checkpoint.path where nothing can be written": (
        ["--checkpoint.path=/proc/here"], 74, "/proc/here"),
    "B119 log format": (["--log-format", "verbose"], 2, "log-format"),
    "B121 twice with two values": (["--batchSize=3", "--batchSize=4"], 2, "--batchSize"),
    "B122 a unit": (["--stepDeadlineSeconds=5s"], 2, "--stepDeadlineSeconds: must be an integer"),
    "B123 threads 0": (["--threads=0"], 2, "1..1024"),
    "B123 threads 10^6": (["--threads=1000000"], 2, "1..1024"),
    "B125 10,000 arguments": (["--seed=1"] * 10000, 2, "1000"),
    "B125 an argument of 100 KB": (["--seed=" + "1" * 100000], 2, ""),
}

# Where an entry is tested otherwise: the file, and what it holds.
COVERED = {
    "B014": ("tests/e2e/operator/cases_refusal.py", "name_is_taken"),
    "B015": ("tests/cluster/bad_jobs_test.py", "B015 namespace that does not exist"),
    "B063": ("tests/operator/job/golden_plan_test.cc", "says_why_it_is_not_ready"),
    "B077": ("tests/cluster/bad_jobs_test.py", "B077 annotations too large"),
    "B079": ("tests/e2e/operator/sweep_workloads.py", "deleted_in_the_foreground"),
    "B081": ("tests/cluster/bad_jobs_test.py", "fixed once the job has started"),
    "B082": ("tests/operator/job/golden_plan_test.cc", "heals_a_lost_status"),
    "B099": ("tests/trainer/contract/worker_env_test.cc", '"COXSWAIN_INDEX", "-1"'),
    "B109": ("tests/trainer/contract/worker_env_test.cc", '"COXSWAIN_SERVERS", "a:1,b"'),
    "B110": ("tests/e2e/operator/command_test.py", '"[::1"'),
    "B111": ("tests/trainer/contract/worker_env_test.cc", '"COXSWAIN_SERVERS", "a:99999"'),
    "B113": ("tests/e2e/operator/command_test.py", "Address already in use"),
    "B115": ("tests/trainer/data/file_bytes_test.cc", "says_when_permission_is_denied"),
    "B141": ("tests/trainer/picture/decode_test.cc", "is a JPEG that ends too early"),
    "B142": ("tests/trainer/picture/decode_test.cc", "IDAT: incorrect data check"),
    "B143": ("tests/trainer/picture/decode_test.cc", "is GIF; JPEG and PNG can be read"),
    "B149": ("tests/trainer/data/recordio_test.cc", "no record begins at byte 4"),
    "B150": ("tests/trainer/data/recordio_test.cc", "lists again the record at byte 0"),
    "B153": ("tests/trainer/data/image_folder_test.cc", "follows_links_within_the_folder_alone"),
    "B155": ("tests/trainer/data/file_bytes_test.cc", "says_when_a_file_shrinks_or_cannot_be_read"),
    "B163": ("tests/trainer/checkpoint/format_test.cc",
             "header_length_stays_inside_the_file_and_the_limit"),
    "B165": ("tests/trainer/checkpoint/format_test.cc",
             "refuses_headers_that_do_not_describe_the_data_exactly"),
    "B166": ("tests/trainer/checkpoint/format_test.cc",
             "refuses_headers_that_do_not_describe_the_data_exactly"),
    "B167": ("tests/trainer/checkpoint/format_test.cc",
             "refuses_headers_that_do_not_describe_the_data_exactly"),
    "B169": ("tests/trainer/checkpoint/format_test.cc",
             "refuses_headers_that_do_not_describe_the_data_exactly"),
    "B177": ("tests/trainer/checkpoint/format_test.cc", "TEST(State, names_what_is_wrong)"),
    "B178": ("tests/trainer/checkpoint/publisher_test.cc",
             "values_that_are_not_finite_never_take_the_place_of_good_ones"),
    "B179": ("tests/trainer/train/resume_test.cc",
             "keeps_the_global_batch_of_the_first_start_on_another_world_size"),
    "B185": ("tests/trainer/contract/http_endpoint_test.cc", "says_what_it_does_not_do"),
    "B186": ("tests/trainer/net/hello_test.cc", "it speaks versions 7 to 7 of the protocol"),
    "B187": ("tests/trainer/ps/hostile_callers.cc", '"a rank too many"'),
    "B189": ("tests/trainer/ps/hostile_callers.cc", '"another model"'),
    "B190": ("tests/trainer/net/network_test.cc", "without_the_key_nobody_comes_in"),
    "B191": ("tests/trainer/ps/hostile_callers.cc", '"all of what an honest one said"'),
    "B193": ("tests/trainer/contract/http_endpoint_test.cc",
             "serves_others_while_some_connections_say_nothing"),
    "B194": ("tests/trainer/ps/mad_frames.h", '"half a block"'),
    "B195": ("tests/trainer/ps/mad_frames.h", '"another server\'s block"'),
    "B197": ("tests/trainer/train/non_finite_test.cc", "on_one_rank_skips_the_step_on_all"),
    "B199": ("tests/trainer/net/frame_test.cc", "of_another_kind_or_length_is_refused"),
    "B201": ("tests/trainer/ps/mad_frames.h", '"a message of tag "'),
    "B202": ("tests/trainer/ps/mad_frames.h", '"a greeting once more, "'),
    "B203": ("tests/trainer/ps/hostile_test.cc", "ten_thousand_callers_change_nothing"),
    "B211": ("tests/e2e/operator/command_test.py", "key of another"),
    "B217": ("tests/e2e/operator/command_test.py", "401 Unauthorized"),
    "B218": ("tests/operator/kube/service_account_test.cc", "is_read_anew_after_ten_seconds"),
    "B219": ("tests/operator/kube/service_account_test.cc", "a_ca_replaced_by_garbage_is_kept"),
    "B221": ("tests/chart/render_test.py", "image.repository="),
    "B222": ("tests/chart/render_test.py", "replica=2"),
    "B223": ("tests/chart/render_test.py", "namespaces={Team}"),
    "B225": ("tests/chart/render_test.py", "runAsUser=0"),
    "B230": ("tests/chart/install_test.py", "a_crd_that_is_there_is_taken_over_by_the_commands_told"),
    "B231": ("tests/chart/install_test.py", "the_crd_and_jobs_outlive_the_release"),
}

NO_RANK_FLAG = "no such flag: a rank is told by its launcher alone"
# Why there is no such input.
NOT_HERE = {
    "B058": "a job's checkpoints lie in its volume: there is no path to write",
    "B059": "a job's checkpoints lie in its volume: there is no path to write",
    "B073": "Pod Security allows it: a namespace's accounts are its users' to choose",
    "B078": "a job's owners are the garbage collector's affair: the operator reads none of them",
    "B083": "there is one version of the CRD",
    "B086": "all ports are constants of the contract",
    "B101": NO_RANK_FLAG,
    "B127": "the lease's times are constants",
    "B145": "no CSV", "B146": "no CSV", "B147": "no CSV",
    "B181": "checkpoints are neither compressed nor encrypted",
    "B198": "nothing is pulled: a server sends weights when it has made the step",
    "B226": "no webhook: the CRD's own rules refuse",
    "B227": "metrics and health share one port",
    "B229": "the namespace's own Pod Security label decides",
}


class Files:
    """Directories of bad data, bad checkpoints and bad kubeconfigs."""

    def __init__(self, root, trainer):
        self.root = pathlib.Path(root)
        self.trainer = trainer

    def directory(self, name):
        path = self.root / name
        path.mkdir()
        return path

    def mnist(self, name, change):
        """16 images of 28x28; `change` takes the directory."""
        path = self.directory(name)
        for part in ("train", "t10k"):
            (path / f"{part}-images-idx3-ubyte").write_bytes(images(16))
            (path / f"{part}-labels-idx1-ubyte").write_bytes(labels(16))
        change(path, path / "train-images-idx3-ubyte", path / "train-labels-idx1-ubyte")
        return path

    def cifar(self, name, change):
        path = self.directory(name)
        for part in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
            (path / f"{part}.bin").write_bytes(bytes(3073) * 4)
        change(path)
        return path

    def good_checkpoint(self):
        path = self.root / "good"
        done = subprocess.run([*self.trainer, *SMALL, f"--checkpoint.path={path}"], timeout=60,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode())
        return path / "step-00000001.g1"

    def checkpoint(self, name, good, change):
        """A directory with the good checkpoint alone, changed."""
        path = self.directory(name)
        shutil.copytree(good, path / good.name)
        change(path / good.name)
        return path

    def kubeconfig(self, name, **fields):
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "work",
            "contexts": [{"name": "work", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"token": SECRET}}], **fields}
        path = self.root / name
        path.write_text(json.dumps(document))
        return path


SECRET = "eyJhbGciOi-the-token"
SMALL = ["--model=mlp", "--data.format=synthetic", "--data.shape=[1,6,6]", "--data.classes=4",
         "--data.size=8", "--batchSize=8", "--threads=1", "--epochs=1"]
OF_MNIST = ["--model=mlp", "--data.format=mnist", "--batchSize=8", "--threads=1", "--steps=1"]
OF_CIFAR = ["--model=keras-cnn", "--data.format=cifar10", "--batchSize=8", "--threads=1",
            "--steps=1"]
OF_NETWORK = ["--data.shape=[3,8,8]", "--data.classes=2",
              *(flag for flag in SMALL if flag.split("=")[0] not in
                ("--model", "--data.shape", "--data.classes"))]


def images(count, rows=28, columns=28, pixels=None):
    return (struct.pack(">4I", 2051, count % (1 << 32), rows, columns) +
            (bytes(count * rows * columns) if pixels is None else pixels))


def labels(count):
    return struct.pack(">2I", 2049, count) + bytes(i % 10 for i in range(count))


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def folder(path):
    path.unlink()
    path.mkdir()


def data_rows(files):
    rows = {
        "B130 empty file": (lambda _, i, l: i.write_bytes(b""), "0 bytes"),
        "B131 wrong magic": (lambda _, i, l: i.write_bytes(b"\x89PNG" + bytes(100)), "magic 0x"),
        "B133 count beyond the file": (
            lambda _, i, l: i.write_bytes(images(-1, pixels=bytes(784))), "4294967295"),
        "B134 cut within the last record": (
            lambda _, i, l: i.write_bytes(images(16)[:-100]), "record 15"),
        "B135 bytes behind the end": (
            lambda _, i, l: i.write_bytes(images(16) + b"abc"), "3 "),
        "B137 other number of labels": (
            lambda _, i, l: l.write_bytes(labels(15)), "15 labels"),
        "B138 image of 0x0": (
            lambda _, i, l: i.write_bytes(images(16, 0, 0)), "empty image of 0x0"),
        "B138 image of 1x0": (
            lambda _, i, l: i.write_bytes(images(16, 1, 0)), "empty image of 1x0"),
        "B139 image of 65,536 x 65,536": (
            lambda _, i, l: i.write_bytes(images(1, 65536, 65536, bytes(100))), "65536"),
        "B154 FIFO": (lambda _, i, l: fifo(i), "not a regular file"),
        "B154 directory": (lambda _, i, l: folder(i), "directory"),
        "B154 device": (lambda _, i, l: (i.unlink(), i.symlink_to("/dev/zero")),
                        "not a regular file"),
    }
    for name, (change, said) in rows.items():
        path = files.mnist(name, change)
        yield name, ["train", *OF_MNIST, f"--data.path={path}"], 65, said
    strange = files.directory("a\nb\x1b[31m")
    yield "B157 name with a newline", ["train", *OF_MNIST, f"--data.path={strange}"], 2, r"a\nb\x1b"
    path = files.cifar("shards", lambda path: (path / "data_batch_3.bin").unlink())
    yield "B151 a shard missing", ["train", *OF_CIFAR, f"--data.path={path}"], 65, "data_batch_3.bin"
    few = ["train", *SMALL, "--data.size=2", "--data.lastBatch=discard"]
    few.remove("--data.size=8")
    yield "B158 fewer images than a batch", few, 65, "2 samples do not fill one batch of 8"


def change_json(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def checkpoint_rows(files):
    good = files.good_checkpoint()
    model = next(path.name for path in good.iterdir() if path.name.startswith("model"))
    manifest = "MANIFEST.json"
    rows = {
        "B159 0 bytes": (lambda c: (c / model).write_bytes(b""), model),
        "B161 of another program": (lambda c: (c / manifest).write_text("PK\x03\x04"), manifest),
        "B162 format 99": (
            lambda c: change_json(c / manifest, lambda d: d.update({"format": 99, "version": 99})),
            "99"),
        "B173 a bit of a tensor": (lambda c: flip(c / model, -5), model),
        "B174 a bit of the manifest": (lambda c: flip(c / manifest, -20), manifest),
        "B175 a file missing": (lambda c: (c / model).unlink(), model),
        "B182 FIFO": (lambda c: fifo(c / model), model),
        "B182 directory": (lambda c: folder(c / model), model),
        "B182 link": (lambda c: ((c / model).rename(c.parent / "x"),
                                 (c / model).symlink_to(c.parent / "x")), model),
    }
    for name, (change, said) in rows.items():
        path = files.checkpoint(name, good, change)
        yield name, ["eval", *SMALL, "--checkpoint", str(path)], 65, said
    unfinished = files.directory("unfinished")
    (unfinished / ".tmp-1").mkdir()
    yield ("B183 nothing complete", ["eval", *SMALL, "--checkpoint", str(unfinished)], 65,
           "holds no checkpoint")
    yield ("B118 nothing to evaluate", ["eval", *SMALL, "--checkpoint", "/nowhere"], 65, "/nowhere")
    other = [flag.replace("[1,6,6]", "[1,7,7]") for flag in SMALL]
    yield ("B171 another shape", ["eval", *other, "--checkpoint", str(good)], 65,
           'tensor "fc1.weight": file 128x36, model 128x49')
    other = ["--model=lenet" if flag == "--model=mlp" else flag.replace("6,6", "28,28")
             for flag in SMALL]
    yield ("B170 another model", ["eval", *other, "--checkpoint", str(good)], 65, "is not of model")


def kubeconfig_rows(files):
    make = files.kubeconfig
    empty = files.root / "empty"
    empty.write_text("")
    clusters = {
        "B209 server of a file": ({"server": "file:///"}, "unsupported URL"),
        "B209 password in the server": (
            {"server": f"https://me:{SECRET}@host"}, "a user or password in it"),
        "B210 ca no base64": (
            {"server": "https://h", "certificate-authority-data": "%"}, "is no base64"),
        "B210 ca no PEM": (
            {"server": "https://h", "certificate-authority-data": "aGVsbG8="},
            "certificate-authority-data"),
        "B215 insecure": (
            {"server": "https://h", "insecure-skip-tls-verify": True}, "--allow-insecure"),
    }
    users = {
        "B213 exec": ({"exec": {"command": "sh"}}, "--allow-exec"),
        "B214 auth-provider": ({"auth-provider": {"name": "gcp"}}, "is not supported"),
    }
    rows = {
        "B205 missing": ("/nowhere", "not found"),
        "B205 empty": (empty, "is empty"),
        "B206 no context chosen": (make("B206", **{"current-context": ""}), "name one of"),
        "B207 context unknown": (make("B207a", **{"current-context": "x"}), "there are: work"),
        "B207 cluster unknown": (make("B207b", clusters=[]), "not found"),
        "B207 user unknown": (make("B207c", users=[]), "not found"),
        **{name: (make(name, clusters=[{"name": "c", "cluster": cluster}]), said)
           for name, (cluster, said) in clusters.items()},
        **{name: (make(name, users=[{"name": "u", "user": user}]), said)
           for name, (user, said) in users.items()},
    }
    for name, (path, said) in rows.items():
        yield name, ["operator", "--kubeconfig", str(path)], 65, said
    yield "B129 no API server named", ["operator"], 2, "neither a kubeconfig nor a service account"


def field(number, value):
    """A field of a protobuf message: a number, or bytes."""
    def varint(left):
        low = bytes([left & 127 | (128 if left > 127 else 0)])
        return low + varint(left >> 7) if left > 127 else low
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(number, values):
    return b"".join(field(number, value) for value in values)


def network_node(op, name, inputs, output, attributes=b""):
    return fields(1, inputs) + field(2, output) + field(3, name) + field(4, op) + attributes


def network_tensor(name, dims, outside=None):
    """Floats, all 0; or in a file of their own."""
    count = 1
    for dim in dims:
        count *= dim
    values = field(9, bytes(4 * count)) if outside is None else (
        field(13, field(1, "location") + field(2, outside)) + field(14, 1))
    return fields(1, dims) + field(2, 1) + field(8, name) + values


def network_port(name, dims):
    shape = b"".join(field(1, field(2 if isinstance(dim, str) else 1, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


IMAGES = network_port("x", ["N", 3, 8, 8])
LOGITS = network_port("logits", ["N", 2])
TRANSPOSED = field(5, field(1, "transB") + field(3, 1) + field(20, 2))


def network(op="Relu", attributes=b"", dense=network_tensor("fc.weight", [2, 4]), inputs=(IMAGES,),
            outputs=(LOGITS,), opset=17):
    """A convolution, `op`, a mean and a dense layer."""
    nodes = [network_node("Conv", "conv", ["x", "conv.weight"], "a"),
             network_node(op, "second", ["a"], "b", attributes),
             network_node("GlobalAveragePool", "mean", ["b"], "c"),
             network_node("Flatten", "flat", ["c"], "d"),
             network_node("Gemm", "fc", ["d", "fc.weight"], "logits", TRANSPOSED)]
    graph = (fields(1, nodes) + fields(5, [network_tensor("conv.weight", [4, 3, 3, 3]), dense]) +
             fields(11, inputs) + fields(12, outputs))
    return field(1, 8) + field(7, graph) + field(8, field(2, opset))


def network_rows(files):
    whole = network()
    branch = field(5, field(1, "then_branch") + field(6, b"") + field(20, 5))
    outside = "../" * 12 + "etc/passwd"
    no_file = "which is no file in the model's folder"
    unknown = "an operation that is not known"
    contents = {
        "B233 cut": (whole[:len(whole) // 2], "is no ONNX model, or not all of one"),
        "B234 a picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "is no ONNX model"),
        "B234 empty": (b"", "is no ONNX model: it holds no graph"),
        "B235 unknown operation": (network("Einsum"), f"node second (Einsum): {unknown}"),
        "B237 If": (network("If", branch), f"node second (If): {unknown}"),
        "B237 Loop": (network("Loop"), f"node second (Loop): {unknown}"),
        "B238 a shape that does not fit": (
            network(dense=network_tensor("fc.weight", [2, 5])),
            "tensor fc.weight is (2, 5), and fc.weight needs (2, 4)"),
        "B239 external data missing": (
            network(dense=network_tensor("fc.weight", [2, 4], "net.onnx.data")),
            f'tensor fc.weight: its values are in "net.onnx.data", {no_file}'),
        "B241 external data elsewhere": (
            network(dense=network_tensor("fc.weight", [2, 4], outside)),
            f'tensor fc.weight: its values are in "{outside}", {no_file}'),
        "B241 external data by a whole path": (
            network(dense=network_tensor("fc.weight", [2, 4], "/etc/passwd")),
            f'tensor fc.weight: its values are in "/etc/passwd", {no_file}'),
        "B242 a part of 2^31 bytes": (
            b"\x08\x08\x3a\x80\x80\x80\x80\x08" + bytes(100),
            "is no ONNX model, or not all of one"),
        "B242 a shape of 2^62 values": (
            network(dense=network_tensor("fc.weight", [1 << 31, 1 << 31], "")),
            "tensor fc.weight: dimension 2147483648 of its shape is out of range"),
        "B243 rows and columns of any number": (
            network(inputs=[network_port("x", ["N", 3, "H", "W"])]),
            "its input x must be (N, C, H, W) of fixed C, H and W"),
        "B245 two inputs": (network(inputs=[IMAGES, network_port("y", ["N", 3, 8, 8])]),
                            "has two inputs, x and y"),
        "B245 two outputs": (network(outputs=[LOGITS, network_port("b", ["N", 4, 6, 6])]),
                             "has 2 outputs: must be one"),
        "B246 opset too old": (network(opset=6), "is of opset 6, 7 and later are read"),
        "B247 opset too new": (network(opset=99), "is of opset 99, "),
    }
    for number, (name, (content, said)) in enumerate(contents.items()):
        file = files.directory(f"network-{number}") / "net.onnx"
        file.write_bytes(content)
        yield from network_runs(files, name, file, said)
    folder = files.directory("networks")
    with open(folder / "large.onnx", "wb") as large:
        large.truncate(1 << 32)
    yield from network_runs(files, "B242 a file of 2^32 bytes", folder / "large.onnx", "the limit is")
    os.mkfifo(folder / "fifo.onnx")
    yield from network_runs(files, "B249 FIFO", folder / "fifo.onnx", "not a regular file")


def network_runs(files, name, file, said):
    yield name, ["models", "--file", str(file)], 65, said
    yield (f"{name}, trained", ["train", *OF_NETWORK, f"--modelFile={file}",
                                f"--checkpoint.path={files.root / 'of-networks'}"], 65, said)


def full_device_rows():
    for program, arguments in (("coxswain", ["--help"]), ("coxswain-trainer", ["--help"]),
                               ("coxswain-trainer", ["models"])):
        yield f"B126 {program} {arguments[0]}", program, arguments


class Runner:
    """Runs entries and collects what is wrong with the answers."""

    def __init__(self, programs):
        self.programs = pathlib.Path(programs)
        self.failures = []
        self.seen = set()

    def fail(self, name, what):
        self.failures.append(f"{name}: {what}")

    def run(self, name, program, arguments, code, said, text=b"", stdout=subprocess.PIPE,
            variables=None):
        self.seen.add(name[:4])
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(variables or {})}
        try:
            done = subprocess.run([self.programs / program, *arguments], input=text, stdout=stdout,
                                  stderr=subprocess.PIPE, timeout=SECONDS, env=environment,
                                  check=False)
        except subprocess.TimeoutExpired:
            return self.fail(name, f"no answer after {SECONDS} s")
        answer = done.stderr.decode(errors="replace")
        if done.returncode != code:
            self.fail(name, f"exit code {done.returncode}, not {code}: {answer[:LONGEST_LINE]}")
        if said not in answer:
            self.fail(name, f"{said!r} is not in: {answer[:LONGEST_LINE]}")
        if SECRET in answer:
            self.fail(name, "the answer tells a secret")
        if re.search(r"[\x00-\x09\x0b-\x1f\x7f]", answer):
            self.fail(name, f"raw control characters: {answer[:LONGEST_LINE]!r}")
        longest = max(map(len, answer.split("\n")))
        if longest > LONGEST_LINE:
            self.fail(name, f"a line of {longest} characters: {answer[:LONGEST_LINE]}")
        return None


def rows(runner, files):
    """Each entry that is run, as arguments of Runner.run."""
    for name, said in JOBS.items():
        yield name, "coxswain", ["validate", "-f", "-"], 65, said, jobs.as_bytes(jobs.ROWS[name])
    for name, (text, said) in MORE_JOBS.items():
        yield name, "coxswain", ["validate", "-f", "-"], 65, said, jobs.as_bytes(text)
    for name, (flags, code, said) in TRAINER_FLAGS.items():
        keys = {flag.split("=")[0] for flag in flags}
        small = [flag for flag in SMALL if flag.split("=")[0] not in keys]
        if "--data.format" in keys:
            small = [flag for flag in small if not flag.startswith("--data.")]
        yield name, "coxswain-trainer", ["train", *small, *flags], code, said
    for name, arguments, code, said in (*data_rows(files), *checkpoint_rows(files),
                                        *network_rows(files)):
        yield name, "coxswain-trainer", arguments, code, said
    key, hosts = files.root / "key", files.root / "hosts"
    key.write_text("0" * 64)
    hosts.write_text("localhost\n" * 4)
    yield ("B098 rank 4 of 4", "coxswain-trainer", ["train", *SMALL], 65, "worker 4 of 4", b"",
           subprocess.PIPE, {"COXSWAIN_JOB": "a", "COXSWAIN_INDEX": "4",
                             "COXSWAIN_WORLD_SIZE": "4", "COXSWAIN_KEY": str(key),
                             "COXSWAIN_HOSTFILE": str(hosts)})
    for name, arguments, code, said in kubeconfig_rows(files):
        yield name, "coxswain", arguments, code, said


def check_catalogue(runner):
    """Every entry is run, covered or not here; what covers it is there."""
    catalogue = " ".join(CATALOGUE.values()).split()
    known = {*runner.seen, *COVERED, *NOT_HERE}
    for entry in catalogue:
        if entry not in known:
            runner.fail(entry, "nothing answers it")
    for entry in sorted(known - set(catalogue)):
        runner.fail(entry, "is not in the catalogue")
    for entry in sorted(set(NOT_HERE) & (runner.seen | set(COVERED))):
        runner.fail(entry, "is here after all")
    for entry, (file, holds) in COVERED.items():
        path = ROOT / file
        if not path.exists() or holds not in path.read_text():
            runner.fail(entry, f"{file} has no {holds!r}")


def main():
    runner = Runner(sys.argv[1])
    with tempfile.TemporaryDirectory() as root, open("/dev/full", "wb") as full:
        files = Files(root, [runner.programs / "coxswain-trainer", "train"])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = [pool.submit(runner.run, *row) for row in rows(runner, files)]
            done += [pool.submit(runner.run, name, program, arguments, 74, "", b"", full)
                     for name, program, arguments in full_device_rows()]
            for one in done:
                one.result()
        of_networks = files.root / "of-networks"
        if of_networks.exists() and list(of_networks.glob("step-*")):
            runner.fail("H", "a network that was refused left a checkpoint")
    check_catalogue(runner)
    for failure in sorted(runner.failures):
        print("FAILED:", failure)
    print(f"{len(done)} inputs run, {len(COVERED)} covered elsewhere, {len(NOT_HERE)} not in this "
          f"version, {len(runner.failures)} failures")
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
