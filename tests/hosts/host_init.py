"""The first process of a host: makes its file systems its own, and lives as long as the rig does.

Started by rig.py in new namespaces, as: host_init.py NAME FOLDER KEEP... FOLDER holds the files that
stand for those of /etc; each KEEP is a folder that must stay visible. Says "ready", then waits for the end of its
input. When it ends, however that comes, the kernel ends every process of the host with it.
"""

import os
import signal
import socket
import subprocess
import sys

OWN = ("/tmp", "/run", "/dev/shm")


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def own_file_systems(keep):
    """Empty ones, so that hosts share no socket, no memory and no temporary file; not over what is kept."""
    kept = {folder: os.open(folder, os.O_PATH) for folder in keep}
    for path in OWN:
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", path)
    for folder, handle in kept.items():
        if any(os.path.commonpath([folder, path]) == path for path in OWN):
            os.makedirs(folder, exist_ok=True)
            mount("--no-canonicalize", "--bind", f"/proc/{os.getpid()}/fd/{handle}", folder)
        os.close(handle)
    # The old one shows the interfaces of the machine.
    mount("-t", "sysfs", "sysfs", "/sys")


def main():
    name, folder, *keep = sys.argv[1:]
    socket.sethostname(name)
    own_file_systems(keep)
    for file in ("hosts", "ssh/ssh_config"):
        mount("--bind", f"{folder}/etc/{file}", f"/etc/{file}")
    os.makedirs("/tmp/home")
    os.makedirs("/run/sshd", mode=0o755)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Orphans are handed to the first process: nobody has to wait for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
