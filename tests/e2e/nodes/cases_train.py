"""Jobs from `kubectl apply` to a trained model that opens elsewhere."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from node_bed import ROOT, Failed, expect, expect_in, mlp, newest_checkpoint, run, weights_of

PROGRAMS = ROOT / "build/release/bin"
# What each example must reach as it stands, and the seconds that it may take on two busy cores.
EXAMPLES = {"mlp": (0.92, 60), "mnist": (0.99, 300), "elastic": (0.99, 400),
            "singa": (0.975, 900), "keras": (0.985, 1500)}


def first_step(scene):
    """The smallest job, images present: how long until it trains."""
    scene.claim("job")
    begin = scene.start(mlp("job", 2))
    scene.trains("job")
    trains = time.monotonic() - begin
    scene.reach("job", "Succeeded", 90)
    return {"seconds to the first step": trains}


def watched(scene):
    """`kubectl get tj -w`, from the first to the last line."""
    with subprocess.Popen(["kubectl", "-n", scene.namespace, "get", "tj", "-w"],
                          stdout=subprocess.PIPE, text=True) as watch:
        scene.start(mlp("job", 8))
        scene.reach("job", "Succeeded", 120)
        time.sleep(5)  # the last counts
        watch.terminate()
        lines = watch.stdout.read().splitlines()
    expect("header", lines[0].split(), ["NAME", "PHASE", "WORKERS", "EPOCH", "ACCURACY", "IMAGES/S",
                                        "CHECKPOINT", "RESTARTS", "AGE"])
    phases = list(dict.fromkeys(line.split()[1] for line in lines[1:] if len(line.split()) > 3))
    expect("phases", [p for p in phases if p != "Starting"], ["Queued", "Running", "Succeeded"])
    last = lines[-1].split()
    expect("last line", (last[2], last[3], last[6]), ("0/2", "8", str(8 * 469)))


def same_bits_as_a_laptop(scene):
    """Over TCP between the nodes, over MPI on the laptop."""
    job = mlp("job", 2)
    scene.start(mlp("job", 2, launcher="Env"))
    scene.reach("job", "Succeeded", 90)
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, "job.json")
        file.write_text(json.dumps(job))
        run(PROGRAMS / "coxswain", "run", "-f", file, "--volume", f"checkpoints={directory}/saved")
        expect("weights", scene.weights("job"), weights_of(f"{directory}/saved"))


def cleaned(scene, policy, left):
    """What is left of the pods of two workers after their success."""
    scene.start(mlp("job", 1, runPolicy={"cleanPodPolicy": policy}))
    scene.reach("job", "Succeeded", 60)
    scene.until(f"pods {left} with cleanPodPolicy {policy}",
                lambda: sorted(scene.pods("job")) == left, 60)


def clean_all(scene):
    cleaned(scene, "All", [])


def clean_running(scene):
    cleaned(scene, "Running", ["job-worker-0"])


def example(name):
    def act(scene):
        accuracy, seconds = EXAMPLES[name]
        begin = time.monotonic()
        said = scene.kubectl("apply", "-f", ROOT / f"examples/{name}.yaml")
        if "Warning" in said:
            raise Failed(said)
        status = scene.reach(name, "Succeeded", seconds)
        reached = status["progress"]["accuracy"]
        if reached < accuracy:
            raise Failed(f"{reached} of the test digits, expected {accuracy}")
        opens_elsewhere(scene, name, reached)
        return {"seconds": time.monotonic() - begin, "accuracy": reached,
                "scaling efficiency": status["progress"]["scalingEfficiency"]}
    act.__name__ = f"example_{name}"
    return act


def volume_of(scene, claim):
    volume = json.loads(scene.kubectl("get", "pvc", claim, "-o", "json"))["spec"]["volumeName"]
    return scene.bed.directory / "volumes" / volume


def opens_elsewhere(scene, name, accuracy):
    """The checkpoint, with the released program of this machine."""
    saved = newest_checkpoint(volume_of(scene, f"{name}-checkpoints"))
    if saved is None:
        raise Failed("no checkpoint on the volume")
    model = re.search(r"model: (\S+)", (ROOT / f"examples/{name}.yaml").read_text())[1]
    said = run(PROGRAMS / "coxswain-trainer", "eval", f"--model={model}", "--data.format=mnist",
               "--checkpoint", saved, "--log-format", "json")
    expect_in("eval", said, f"{accuracy:.4f}"[:6].rstrip("0"))


def example_suspended(scene):
    """Makes nothing, then what it is told to."""
    scene.kubectl("apply", "-f", ROOT / "examples/suspended.yaml")
    scene.reach("suspended", "Suspended", 20)
    expect("pods", scene.pods("suspended"), {})
    scene.kubectl("patch", "tj", "suspended", "--type=merge", "-p",
                  '{"spec": {"runPolicy": {"suspend": false}}}')
    scene.reach("suspended", "Succeeded", 90)


def brings(*images):
    """The case needs these images on the nodes, beside ours."""
    def mark(case):
        case.images = images
        return case
    return mark


def foreign(scene, name, image, changes=None):
    """Applies the example as it stands, but for its image and what that one needs."""
    text = (ROOT / f"examples/{name}.yaml").read_text()
    for old, new in (changes or {}).items():
        text = text.replace(old, new)
    said = scene.kubectl("apply", "-f", "-", text=re.sub(r"image: \S+", f"image: {image}", text))
    if "Warning" in said:
        raise Failed(said)


@brings("pytorch")
def example_pytorch(scene):
    """PyTorch's own program in its own image, from the environment of its rank alone."""
    foreign(scene, "pytorch", "localhost/pytorch:1")
    scene.reach("pytorch", "Succeeded", 240)
    said = scene.kubectl("logs", "pytorch-worker-0")
    expect_in("log", said, "rank 0 of world 2: 100.0%")


@brings("pytorch")
def example_torchrun(scene):
    """torchrun, two pods of two processes; one pod is killed, and the next gang goes on from what was saved."""
    # Debian's torch 1.13 does not know its own default, "0", beside Python 3.11.
    options = "".join(f"            - {word}\n" for word in ("--redirects=1", "--tee=1"))
    before = "            - --no_python\n"
    foreign(scene, "torchrun", "localhost/pytorch:1", {before: options + before})

    def has_saved():
        if scene.status("torchrun").get("phase") == "Failed":
            raise Failed(scene.words("torchrun"))
        return "epoch 1: saved" in scene.kubectl("logs", "torchrun-worker-0", check=False)
    scene.until("epoch saved", has_saved, 240)
    scene.kubectl("delete", "pod", "torchrun-worker-1", "--grace-period=0", "--force")
    status = scene.reach("torchrun", "Succeeded", 300)
    expect("restarts", status["restarts"]["total"], 1)
    expect("first cause", status["lastFailure"]["pod"], "torchrun-worker-1")
    said = scene.kubectl("logs", "torchrun-worker-0")
    expect_in("log", said, "rank 0 of world 4: 100.0%")
    if "begins with epoch 0" in said:
        raise Failed(f"it began anew: {said}")


@brings("mpi4py")
def example_mpi4py(scene):
    """Somebody's program under mpirun, over SSH between the nodes, by our hostfile and keys."""
    foreign(scene, "mpi4py", "localhost/mpi4py:1")
    scene.reach("mpi4py", "Succeeded", 120)
    expect_in("log", scene.kubectl("logs", "mpi4py-worker-0"), "pi is 3.141592654 by 4 ranks on 2 hosts")


def accuracy_said(scene, pod, pattern, least):
    said = scene.kubectl("logs", pod)
    share = re.search(pattern, said)
    if not share or float(share[1]) < least:
        raise Failed(f"{pod} said {said[-500:]}")
    return {"accuracy": float(share[1]) / 100}


@brings("tensorflow")
def example_tensorflow(scene):
    """MultiWorkerMirroredStrategy, from TF_CONFIG alone."""
    foreign(scene, "tensorflow", "localhost/tensorflow:1")
    scene.reach("tensorflow", "Succeeded", 300)
    accuracy_said(scene, "tensorflow-worker-0", r"worker 0 of 2: (\S+)%", 95)
    return accuracy_said(scene, "tensorflow-worker-1", r"worker 1 of 2: (\S+)%", 95)


@brings("tensorflow")
def example_tensorflow_servers(scene):
    """ParameterServerStrategy: the chief's end is the job's, though the others never end."""
    foreign(scene, "tensorflow-parameter-server", "localhost/tensorflow:1")
    scene.reach("tensorflow-parameter-server", "Succeeded", 300)
    return accuracy_said(scene, "tensorflow-parameter-server-worker-0", r"chief: (\S+)%", 85)


@brings("mxnet")
def servers_of_mxnet(scene):
    """A gluon program, its servers and its scheduler find each other as pods, by our variables alone."""
    def template(command, memory):
        resources = {"requests": {"cpu": "100m", "memory": memory}, "limits": {"memory": memory}}
        container = {"name": "trainer", "image": "localhost/mxnet:1", "command": command, "resources": resources}
        return {"spec": {"securityContext": {"runAsUser": 1000}, "containers": [container]}}
    program = (ROOT / "tests/e2e/mxnet_digits.py").read_text()
    train = ["python3", "-c", program, "/digits"]
    scene.start({
        "apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "gluon"},
        "spec": {"strategy": "ParameterServer", "rendezvous": ["MXNet"], "runPolicy": {"backoffLimit": 0},
                 "replicaSpecs": {"Worker": {"replicas": 2, "template": template(train, "1Gi")},
                                  "Server": {"replicas": 2, "template": template(
                                      ["python3", "-c", "import mxnet"], "512Mi")}}}})
    scene.reach("gluon", "Succeeded", 240)
    said = [scene.kubectl("logs", f"gluon-worker-{i}") for i in range(2)]
    for text in said:
        share = re.search(r"of 2: accuracy (\S+)%", text)
        if not share or float(share[1]) < 90:
            raise Failed(f"the worker said {text[-500:]}")
    return {"accuracy": float(share[1]) / 100}


def from_a_pipeline(_scene):
    """The jobs of examples/ci, and the model that they fetch."""
    run(sys.executable, ROOT / "tests/e2e/examples/ci_test.py", timeout=400)


QUICK = [first_step, same_bits_as_a_laptop]
ALL = [first_step, watched, same_bits_as_a_laptop, clean_all, clean_running, example("mlp"),
       example_suspended, example("mnist"), example("elastic"), example("singa"),
       example("keras"), example_pytorch, example_torchrun, example_mpi4py, example_tensorflow,
       example_tensorflow_servers, servers_of_mxnet, from_a_pipeline]
