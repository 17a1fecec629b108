"""`ci/compare-peers --between-hosts`: over TCP, between two network namespaces as hosts.

Each host has processors of its own: as many as it has ranks, if the machine has as many, so that
a target that computes does so on all of its host's. Two ranks make all lines but the fence, which
is of four. Beside the MPIs stands one TCP connection
without any library (bare.c), whose server sleeps until something comes, as Transom's agent does.
The MPIs are those that --cache holds, and run onesided.c.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from table import Table, better, bound, reached

HERE = Path(__file__).resolve().parent
HOSTS = "TRANSOM_CI_HOSTS"
PINNED = HERE / "pinned"
SSH = HERE.parent / "tcp.d" / "enter"

# A line, the line with which it is compared, and the ratio that it must reach.
LINES = [
    ("put8_flush", "pingpong", 1.25),
    ("get8_flush", "pingpong", 1.25),
    ("fetch_add_flush", "pingpong", 1.25),
    ("cas_flush", "pingpong", 1.25),
    ("put8_rate", None, None),
    ("put64K_bw", "stream64K", 0.9),
    ("put1024K_bw", "stream1024K", 0.9),
    ("put16384K_bw", "stream16384K", 0.9),
    ("get64K_bw", "back64K", 0.9),
    ("get1024K_bw", "back1024K", 0.9),
    ("get16384K_bw", "back16384K", 0.9),
    ("acc_f64_1024K_bw", "put1024K_bw", 0.7),
    ("excl_lock_put8_unlock", "pingpong", 2.3),
    ("busy_target_put", "pingpong", 6.9),
    ("put8_fence", "pingpong", None),
]
# The lines of the bare connection.
BARE = ["pingpong", "pingpong_polled"] + [way + size for way in ("stream", "back") for size in ("64K", "1024K", "16384K")]
# The least traffic that shows that two ranks use the network between the hosts.
LEAST_BYTES = 100_000_000

# How each MPI starts RANKS ranks of a program on two hosts, with TCP as its only transport.
LAUNCHERS = {
    "mpich": "env FI_PROVIDER=tcp {prefix}/bin/mpiexec -launcher ssh -launcher-exec {ssh} -hosts n0,n1 -ppn {each} -n {ranks}",
    "openmpi": "{prefix}/bin/mpirun --allow-run-as-root --prefix {prefix} --prtemca plm_ssh_agent '{ssh} -x' --bind-to none "
    "--host n0:{each},n1:{each} -n {ranks} --mca pml ob1 --mca btl tcp,sm,self --mca osc ^ucx",
    "impi": "env I_MPI_PIN=0 I_MPI_FABRICS=shm:ofi FI_PROVIDER=tcp {prefix}/bin/mpiexec.hydra "
    "-bootstrap ssh -bootstrap-exec {ssh} -hosts n0,n1 -ppn {each} -n {ranks}",
}
# How Transom's own lines are measured: with a hundredth of the iterations, except for large transfers.
OWN = "mpiexec.hydra -launcher ssh -launcher-exec {ssh} -hosts n0,n1 -ppn {each} -n {ranks}"
OWN_RUNS = [
    (2, "--quick"),
    (2, "--op put,get --sizes 64K,1M,16M"),
    (2, "--op accumulate_f64 --sizes 1M"),
    (4, "--quick --op put --sizes 8 --sync fence"),
]


def run(options, program, peers):
    """Measures, prints, and returns whether every line reaches its target."""
    if HOSTS not in os.environ:
        hosts = HERE / "two-hosts"
        command = [hosts, sys.executable, *sys.argv, "--transom", program]
        return subprocess.run(command).returncode == 0
    with tempfile.TemporaryDirectory() as scratch:
        build(Path(scratch) / "bare", HERE / "bare.c")
        programs = {peer: prefix_of(options.cache, peer) for peer in peers or LAUNCHERS}
        for peer, prefix in programs.items():
            libraries = ["-I", prefix / "include", "-L", prefix / "lib", f"-Wl,-rpath,{prefix}/lib", "-lmpi"]
            build(Path(scratch) / peer, HERE / "onesided.c", *libraries)
        table = Table()
        for repeat in range(options.repeats):
            print(f"round {repeat + 1} of {options.repeats}", file=sys.stderr)
            measure_bare(table, Path(scratch) / "bare")
            measure_own(table, program)
            for peer, prefix in programs.items():
                measure_peer(table, peer, prefix, Path(scratch) / peer)
    for peer in programs:
        for name, _, _ in LINES:
            if table.median(name, peer) is None:
                sys.exit(f"{peer} has no line {name}")
    return show(table)


def prefix_of(cache, peer):
    prefix = Path(cache or "", peer)
    if not cache or peer not in LAUNCHERS or not (prefix / "include" / "mpi.h").exists():
        sys.exit(f"--cache holds no {peer}: run once without --between-hosts")
    return prefix


def build(to, source, *options):
    subprocess.run(["gcc", "-O2", source, *options, "-o", to], check=True)


def share_processors(each):
    """Gives each host as many processors as it has ranks, if there are so many."""
    allowed = sorted(os.sched_getaffinity(0))
    share = max(1, min(each, len(allowed) // 2))
    for host in range(2):
        mine = allowed[share * host :][:share] or allowed
        file = Path(os.environ[HOSTS], f"n{host}.processors")
        file.write_text(",".join(map(str, mine)))


def crossed():
    """Bytes that have come from or gone to n0."""
    for line in open("/proc/net/dev"):
        name, _, figures = line.partition(":")
        if name.strip() == "n0":
            return int(figures.split()[0]) + int(figures.split()[8])
    return 0


class Failed(SystemExit):
    """A job that did not end well: ends the comparison, unless it is caught."""


def started(launcher, ranks, command, **places):
    """What ranks on the two hosts print, and how many bytes the network carried meanwhile."""
    each, before = ranks // 2, crossed()
    share_processors(each)
    words = launcher.format(ssh=SSH, each=each, ranks=ranks, **places)
    command = [*shlex.split(words), PINNED, *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600)
    if done.returncode != 0:
        raise Failed(f"{shlex.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout, crossed() - before


def measure_bare(table, program):
    share_processors(1)
    server = subprocess.Popen([SSH, "n0", PINNED, program])
    text = subprocess.run(
        [SSH, "n1", PINNED, program, "10.99.0.1"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    server.wait()
    add(table, "bare", text)


def measure_own(table, program):
    for ranks, arguments in OWN_RUNS:
        command = [program, "bench", "--window", "allocate", "--json", "-", *arguments.split()]
        text, _ = started("env TRANSOM_DEVICE=tcp " + OWN, ranks, command)
        large = "--sizes" in arguments
        for line in text.splitlines():
            record = json.loads(line)
            name = record["name"].removeprefix("allocate.")
            if large or not name.endswith("_bw"):
                keep(table, "transom", name, record["value"], record["unit"])


def measure_peer(table, peer, prefix, program):
    for ranks in (2, 4):
        try:
            text, came = started(LAUNCHERS[peer], ranks, [program], prefix=prefix)
        except Failed as failure:
            # Open MPI's launcher sometimes fails in this way. Other rounds measure the line.
            print(failure, file=sys.stderr)
            continue
        if ranks == 2 and came < LEAST_BYTES:
            sys.exit(f"{peer} does not use the network: {came} bytes came over it")
        add(table, peer, text)


def add(table, column, text):
    for line in text.splitlines():
        name, value, unit = line.split()
        keep(table, column, name, float(value), unit)


def keep(table, column, name, value, unit):
    if unit == "ns":
        value, unit = value / 1000, "us"
    table.add(column, name, unit, value)


def beside(table, name, other, summary):
    """Ours as a ratio to another line, or to the bare connection."""
    value = summary(name, "transom")
    for column in ("bare", "transom"):
        if (against := summary(other, column)) is not None:
            return value / against
    return None


def show(table):
    peers = [column for column in table.columns if column not in ("bare", "transom")]
    head = ["line".ljust(24) + "unit".ljust(8)]
    head += [column.rjust(10) for column in ("transom", *peers, "beside", "ratio", "bests", "to best", "bests")]
    print("".join(head) + "  target")
    control = open("/proc/sys/net/ipv4/tcp_congestion_control").read().strip()
    print(f"{'congestion control':32}{control:>10}")
    for name in BARE:
        value, best = table.median(name, "bare"), table.best(name, "bare")
        print(f"{name:24}{table.units[name]:8}{value:10.4g}  bare TCP, best {best:.4g}")
    missed = 0
    for name, other, target in LINES:
        unit = table.units[name]
        row = name.ljust(24) + unit.ljust(8)
        for column in ("transom", *peers):
            row += figure(table.median(name, column))
        row += figure(other and (table.median(other, "bare") or table.median(other, "transom")))
        ratio = other and beside(table, name, other, table.median)
        row += figure(ratio) + figure(other and beside(table, name, other, table.best))
        for summary in (table.median, table.best):
            best = better(unit, [value for peer in peers if (value := summary(name, peer))] or [0])
            row += figure(best and summary(name, "transom") / best)
        if target:
            good = reached(unit, ratio, target)
            row += f"  {bound(unit, target)} of {other}: {'pass' if good else 'MISS'}"
            missed += not good
        print(row)
    print("\nA flush of Intel MPI (impi) does not wait for the target; those of the others do.")
    return not missed


def figure(value):
    return f"{value:.4g}".rjust(10) if value else "-".rjust(10)
