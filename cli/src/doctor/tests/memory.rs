//! Limits of memory and tasks, and the kernel features that the soft device uses.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn a_small_limit_of_locked_memory_is_a_failure_and_a_larger_one_a_warning() {
    let fake = Fake::good();
    fake.limits("65536", "65536", "1024 524288");
    let line = fake.examine("rxe0").sole(Level::Failure, "locked memory");
    assert!(
        line.contains("limited to 64 KiB per process; a rank needs 6 MiB"),
        "{line}"
    );
    for remedy in [
        "limits.conf",
        "LimitMEMLOCK=infinity",
        "--ulimit memlock=-1",
    ] {
        assert!(line.contains(remedy), "{line}");
    }
    fake.limits("4194304", "4194304", "1024 524288");
    fake.examine("verbs").sole(Level::Failure, "locked memory");
    fake.examine("").sole(Level::Warning, "locked memory");
    fake.limits("8388608", "8388608", "1024 524288");
    let line = fake.examine("").sole(Level::Warning, "locked memory");
    assert!(line.contains("limited to 8 MiB"), "{line}");
    assert!(line.contains("cannot allocate memory"), "{line}");
    assert!(
        line.contains("the queues of 46 peers (44.1 KiB each"),
        "{line}"
    );
    fake.limits("67108864", "67108864", "1024 524288");
    let report = fake.examine("");
    assert_eq!(exit_code(&report.0), 0);
    let found = &report.only("locked memory").found;
    assert!(found.contains("the queues of 1345 peers"), "{found}");
}

#[test]
fn the_remedy_is_the_shells_where_the_hard_limit_allows_it() {
    let fake = Fake::good();
    fake.limits("65536", "unlimited", "1024 524288");
    let line = fake.examine("verbs").sole(Level::Failure, "locked memory");
    assert!(
        line.ends_with("-> `ulimit -l unlimited`, which the hard limit allows"),
        "{line}"
    );
    fake.limits("65536", "134217728", "1024 524288");
    let line = fake.examine("verbs").sole(Level::Failure, "locked memory");
    assert!(
        line.ends_with("-> `ulimit -l 131072`, which the hard limit allows"),
        "{line}"
    );
}

#[test]
fn the_capability_lifts_the_limit_in_the_first_user_namespace_only() {
    let fake = Fake::good();
    fake.limits("65536", "65536", "1024 524288");
    fake.status("0000000000004000", "0");
    let report = fake.examine("");
    assert_eq!(exit_code(&report.0), 0, "{}", text(&report.0));
    assert!(report.only("locked memory").found.contains("CAP_IPC_LOCK"));
    fake.put("/proc/self/uid_map", "         0       1000          1");
    fake.examine("verbs").sole(Level::Failure, "locked memory");
    fake.put("/proc/self/uid_map", "         0          0 4294967295");
    fake.status("000001ffffffbfff", "0");
    fake.examine("verbs").sole(Level::Failure, "locked memory");
}

#[test]
fn locked_memory_does_not_matter_to_soft() {
    let fake = Fake::good();
    fake.limits("65536", "65536", "1024 524288");
    assert_eq!(exit_code(&fake.examine("soft").0), 0);
    let bare = Fake::without_rdma();
    bare.limits("65536", "65536", "1024 524288");
    assert_eq!(bare.examine("").only("locked memory").level, Level::Ok);
}

#[test]
fn forbidden_attaching_is_a_warning_with_the_remedy_for_its_cause() {
    let mut fake = Fake::good();
    fake.put("/proc/sys/kernel/yama/ptrace_scope", "1");
    let found = fake.examine("").only("cross-memory attach").found.clone();
    assert!(found.ends_with("(Yama's ptrace_scope is 1)"), "{found}");

    fake.probes.attach = Err(refused("process_vm_readv", libc::EPERM));
    for (scope, remedy) in [
        ("2", "-> `sysctl kernel.yama.ptrace_scope=1`"),
        ("3", "/etc/sysctl.d and restart"),
        ("1", "the kernel has to allow process_vm_readv"),
    ] {
        fake.put("/proc/sys/kernel/yama/ptrace_scope", scope);
        let line = fake.examine("").sole(Level::Warning, "cross-memory attach");
        assert!(
            line.contains("process_vm_readv failed: Operation not permitted"),
            "{line}"
        );
        assert!(line.contains(remedy), "{line}");
    }
    fake.status("0", "2");
    let line = fake
        .examine("soft")
        .sole(Level::Warning, "cross-memory attach");
    assert!(line.contains("`--cap-add SYS_PTRACE`"), "{line}");
    assert_eq!(
        exit_code(&fake.examine("rxe0").0),
        0,
        "RDMA does not attach"
    );
}

#[test]
fn whose_memory_is_mapped_depends_on_the_container() {
    const CHECK: &str = "memory of other ranks";
    let mut fake = Fake::good();
    let found = |fake: &Fake| {
        let report = fake.examine("");
        assert_eq!(exit_code(&report.0), 0);
        report.only(CHECK).found.clone()
    };
    let namespace = |fake: &Fake, number: u32| {
        let folder = fake.root.path().join("proc/self/ns");
        fs::create_dir_all(&folder).unwrap();
        let _ = fs::remove_file(folder.join("pid"));
        symlink(format!("pid:[{number}]"), folder.join("pid")).unwrap();
    };
    let everywhere = found(&fake);
    assert!(
        everywhere.ends_with("if both are of one user"),
        "{everywhere}"
    );
    namespace(&fake, 4_026_531_836);
    assert_eq!(found(&fake), everywhere);
    namespace(&fake, 4_026_532_201);
    assert!(found(&fake).contains("those in others on this host are reached by an RDMA device"));

    fake.probes.mapping = Err(refused(
        "mapping /proc/7/fd/3 in another process",
        libc::EACCES,
    ));
    for (device, level, result) in [
        ("rxe0", Level::Warning, "by the RDMA device: mapping"),
        ("", Level::Failure, "soft cannot join ranks: mapping"),
        ("soft", Level::Failure, "soft cannot join ranks: mapping"),
    ] {
        let line = fake.examine(device).sole(level, CHECK);
        assert!(line.contains(result), "{line}");
        assert!(line.contains("failed: Permission denied"), "{line}");
    }
}

#[test]
fn a_control_group_that_is_too_small_is_a_warning_wherever_its_limit_stands() {
    const CHECK: &str = "memory of the control group";
    let fake = Fake::good();
    fake.put("/proc/self/cgroup", "0::/pod/container");
    fake.put("/sys/fs/cgroup/pod/container/memory.max", "max");
    assert_eq!(fake.examine("").only(CHECK).found, "not limited");
    fake.put("/sys/fs/cgroup/pod/memory.max", "1073741824");
    assert_eq!(fake.examine("").only(CHECK).found, "limited to 1 GiB");
    fake.put("/sys/fs/cgroup/pod/container/memory.max", "67108864");
    let line = fake.examine("").sole(Level::Warning, CHECK);
    assert!(
        line.contains("limited to 64 MiB, all windows included"),
        "{line}"
    );
    assert!(line.contains("wants 128 MiB"), "{line}");

    let old = Fake::good();
    old.put(
        "/proc/self/cgroup",
        "8:pids:/a\n4:memory:/a\n1:cpu,cpuacct:/\n0::/",
    );
    let file = "/sys/fs/cgroup/memory/a/memory.limit_in_bytes";
    old.put(file, "9223372036854771712");
    assert_eq!(old.examine("").only(CHECK).found, "not limited");
    old.put(file, "33554432");
    old.examine("").sole(Level::Warning, CHECK);
}

#[test]
fn too_few_tasks_are_a_warning() {
    const CHECK: &str = "tasks of the control group";
    let fake = Fake::good();
    fake.put("/sys/fs/cgroup/pids.max", "100");
    fake.put("/sys/fs/cgroup/pids.current", "84");
    assert!(fake.examine("").only(CHECK).found.ends_with("16 left"));
    fake.put("/sys/fs/cgroup/pids.current", "85");
    let line = fake.examine("").sole(Level::Warning, CHECK);
    assert!(
        line.contains("15 left; a rank on each processor wants 16"),
        "{line}"
    );
}

#[test]
fn limits_on_rdma_objects_are_shown_where_there_are_any() {
    const CHECK: &str = "RDMA objects of the control group";
    let fake = Fake::good();
    fake.put("/proc/self/cgroup", "0::/pod");
    let said = |fake: &Fake| fake.examine("rxe0").0.iter().any(|one| one.check == CHECK);
    let set = |limits: &str, used: &str| {
        fake.put("/sys/fs/cgroup/pod/rdma.max", &format!("rxe0 {limits}"));
        fake.put("/sys/fs/cgroup/pod/rdma.current", &format!("rxe0 {used}"));
    };
    assert!(!said(&fake));
    set("hca_handle=max hca_object=max", "hca_handle=1 hca_object=5");
    assert!(!said(&fake));
    set("hca_handle=max hca_object=25", "hca_handle=1 hca_object=5");
    let limited = "rxe0 is limited to hca_object=25 (/sys/fs/cgroup/pod/rdma.max), 20 left";
    let report = fake.examine("rxe0");
    assert_eq!(report.only(CHECK).found, limited);
    assert_eq!(exit_code(&report.0), 0);
    assert!(!fake.examine("soft").0.iter().any(|one| one.check == CHECK));
    set("hca_handle=max hca_object=25", "hca_handle=1 hca_object=6");
    let line = fake.examine("rxe0").sole(Level::Warning, CHECK);
    assert!(
        line.contains("need 20 to start -> have it raised on the host: `echo"),
        "{line}"
    );
    set("hca_handle=max hca_object=25", "hca_handle=1 hca_object=16");
    fake.examine("rxe0").sole(Level::Failure, CHECK);
    fake.examine("").sole(Level::Warning, CHECK);
    set("hca_handle=1 hca_object=max", "hca_handle=1 hca_object=5");
    let line = fake.examine("rxe0").sole(Level::Failure, CHECK);
    assert!(
        line.contains("hca_handle=1 (/sys/fs/cgroup/pod/rdma.max), 0 left; a rank needs 1"),
        "{line}"
    );
}
