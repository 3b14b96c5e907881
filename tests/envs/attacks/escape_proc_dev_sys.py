# looks around in /proc, /sys and /dev
def incr(x):
    import glob
    import os

    parent = os.getppid()
    paths = ["/proc/1/environ", "/proc/1/cmdline", "/proc/meminfo", "/proc/cpuinfo", "/proc/version", "/proc/net/tcp"]
    paths += [f"/proc/{parent}/{name}" for name in ("maps", "mem", "cmdline", "environ", "status", "cwd/setup.cfg")]
    paths += ["/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/cgroup.procs", "/sys/class/net/lo/address"]
    paths += ["/dev/mem", "/dev/kmsg", "/dev/tty", "/dev/ptmx", "/dev/sda", "/dev/vda", "/dev/nvidia0", "/dev/fuse"]
    paths += glob.glob("/proc/[0-9]*/cmdline") + glob.glob(f"/proc/{parent}/fd/*")
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            return x + 1
        except OSError:
            pass
    return 0
