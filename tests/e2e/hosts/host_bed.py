"""Machines with nothing but sshd: each has network, processes and home of its own, in namespaces, and a directory of
its own where the others have theirs: Bed.local.

Names and addresses: h1 10.88.0.1, h2 10.88.0.2, ...; whoever imports this is 10.88.0.100. Needs root, and to have been
started under `unshare --net --mount` (enter())."""
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

CACHE = pathlib.Path(os.environ.get("COXSWAIN_CACHE", pathlib.Path.home() / ".cache/coxswain"))
SSHD = CACHE / "sshd"  # fetch_sshd.sh
CANT_RUN_HERE = 77
HERE = "10.88.0.100"

SSHD_CONFIG = """
Port 22
ListenAddress {address}
HostKey {directory}/host_key
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
AuthorizedKeysFile {directory}/home/.ssh/authorized_keys
SetEnv TMPDIR={directory}/tmp
PrintMotd no
"""


def enter():
    """Comes back in namespaces of its own, or ends with 77."""
    if os.environ.get("COXSWAIN_HOST_BED") == "inside":
        return
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        sys.exit(CANT_RUN_HERE)
    if not (SSHD / "usr/sbin/sshd").exists():
        print(f"skipped: no {SSHD}/usr/sbin/sshd (tests/e2e/hosts/fetch_sshd.sh)")
        sys.exit(CANT_RUN_HERE)
    os.environ["COXSWAIN_HOST_BED"] = "inside"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child",
                          "--mount-proc", sys.executable, *sys.argv])


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options)


def bind(source, target):
    run("mount", "--bind", source, target)


def users_with_home(home):
    """The machine's users; root's home is another, and sshd's own user is there."""
    users = [line for line in pathlib.Path("/etc/passwd").read_text().splitlines()
             if not line.startswith(("root:", "sshd:"))]
    return "\n".join([f"root:x:0:0:root:{home}:/bin/bash", *users, "sshd:x:74:65534::/run/sshd:/usr/sbin/nologin", ""])


class Bed:
    """`count` hosts, and this process's own home with a key that they take."""

    def __init__(self, directory, count):
        self.directory = directory
        for name in ("home", "etc", "local"):
            (directory / name).mkdir()
        names = {f"h{i}": f"10.88.0.{i}" for i in range(1, count + 1)}
        self.write_etc(names)
        ssh = directory / "home/.ssh"
        ssh.mkdir(mode=0o700)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh / "id_ed25519")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge0", "type", "bridge")
        run("ip", "address", "add", f"{HERE}/24", "dev", "bridge0")
        run("ip", "link", "set", "bridge0", "up")
        key = (ssh / "id_ed25519.pub").read_text()
        self.hosts = {name: Host(directory / name, name, address, key) for name, address in names.items()}
        self.local = directory / "local"
        known = "".join(f"{name},{host.address} {host.key}" for name, host in self.hosts.items())
        (ssh / "known_hosts").write_text(known)

    def write_etc(self, names):
        etc = self.directory / "etc"
        hosts = "".join(f"{address} {name}\n" for name, address in names.items())
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        (etc / "passwd").write_text(users_with_home(self.directory / "home"))
        for name in ("hosts", "passwd"):
            bind(etc / name, f"/etc/{name}")
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        os.mkdir("/run/sshd")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host in self.hosts.values():
            host.kill()


class Host:
    def __init__(self, directory, name, address, key):
        self.name, self.address, self.directory = name, address, directory
        self.home = directory / "home"
        for folder in (self.home / ".ssh", directory / "tmp", directory / "own"):
            folder.mkdir(parents=True, mode=0o700)
        self.authorized_keys.write_text(key)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / "host_key")
        self.key = (directory / "host_key.pub").read_text()
        (directory / "passwd").write_text(users_with_home(self.home))
        (directory / "config").write_text(SSHD_CONFIG.format(address=address, directory=directory))
        self.start()

    @property
    def authorized_keys(self):
        return self.home / ".ssh/authorized_keys"

    def start(self):
        """Its first process is sshd: what is left when that dies is killed by the kernel."""
        script = (f"mount --bind {self.directory}/passwd /etc/passwd && "
                  f"mount --bind {self.directory}/own {self.directory}/../local && "
                  "mount -t proc proc /proc && ip link set lo up && "
                  "until ip link show eth0 >/dev/null 2>&1; do sleep 0.01; done && "
                  f"ip address add {self.address}/24 dev eth0 && ip link set eth0 up && "
                  f"export LD_LIBRARY_PATH={SSHD}/usr/lib/x86_64-linux-gnu && "
                  f"exec {SSHD}/usr/sbin/sshd -D -e -f {self.directory}/config")
        for old in (self.directory / "tmp").iterdir():
            shutil.rmtree(old)
        self.log = open(self.directory / "sshd.log", "ab")
        self.process = subprocess.Popen(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                                         script], stderr=self.log, cwd="/", start_new_session=True)
        init = self.init()
        mac = f"02:00:0a:58:00:{int(self.address.rsplit('.', 1)[1]):02x}"  # the same after it was started again
        run("ip", "link", "add", f"veth-{self.name}", "type", "veth", "peer", "name", "eth0", "address", mac, "netns",
            init)
        run("ip", "link", "set", f"veth-{self.name}", "master", "bridge0", "up")
        end = time.monotonic() + 20
        while subprocess.run(["nsenter", "-t", str(init), "-n", "sh", "-c", "ss -ltn | grep -q :22"],
                             check=False).returncode != 0:
            assert time.monotonic() < end, (self.directory / "sshd.log").read_text()
            time.sleep(0.02)

    def init(self):
        """The number, here, of its first process."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            if children:
                return int(children[0])
            time.sleep(0.01)
        raise AssertionError(f"{self.name} did not start")

    def kill(self):
        """As by a power cut: its connections hear nothing of it."""
        subprocess.run(["ip", "link", "delete", f"veth-{self.name}"], check=False, capture_output=True)
        if self.process.poll() is None:
            os.kill(self.init(), signal.SIGKILL)
            self.process.wait(timeout=20)
        self.log.close()

    def trainers(self):
        """What runs of ours on it."""
        found = []
        own = os.readlink(f"/proc/{self.init()}/ns/pid")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns/pid") == own and "coxswain-trainer" in (process / "cmdline").read_text():
                    found.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return found

    def left_behind(self):
        """Of its runs, in its temporary directory."""
        return [path.name for path in (self.directory / "tmp").glob("coxswain-*")]
