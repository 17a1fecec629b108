//! Limits of control groups on the objects of an RDMA device (`rdma.max`). The kernel refuses what would exceed one by
//! EAGAIN, which no driver explains.

use std::path::Path;

use super::sysfs::text;
use crate::control_groups;

/// What is limited, by the kernel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Open devices: one for each rank.
    Handle,
    /// What is made on an open device: protection domains, regions, completion queues, queue pairs.
    Object,
}

impl ObjectKind {
    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Handle => "hca_handle",
            Self::Object => "hca_object",
        }
    }
}

/// A limit of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectLimit {
    /// The device.
    pub device: String,
    /// What is limited.
    pub kind: ObjectKind,
    /// The file that sets it.
    pub file: String,
    /// The most that all processes of the group may have.
    pub most: u64,
    /// What they have.
    pub used: u64,
}

impl ObjectLimit {
    /// What may still be made.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.most.saturating_sub(self.used)
    }

    /// How to raise it.
    #[must_use]
    pub fn remedy(&self) -> String {
        let Self {
            device, kind, file, ..
        } = self;
        format!(
            "have it raised on the host: `echo \"{device} {}=max\" > {file}`",
            kind.name()
        )
    }
}

/// Of the limits on a device's objects that are visible to this process, the one that leaves the least, as files under
/// `root` say (on this machine: `/`).
#[must_use]
pub fn object_limit(root: &Path, device: &str, kind: ObjectKind) -> Option<ObjectLimit> {
    let number = |file: &str| -> Option<u64> {
        let content = text(&root.join(file.trim_start_matches('/')))?;
        let mut lines = content.lines().map(str::split_whitespace);
        let mut words =
            lines.find_map(|mut words| (words.next() == Some(device)).then_some(words))?;
        words.find_map(|word| {
            word.strip_prefix(kind.name())?
                .strip_prefix('=')?
                .parse()
                .ok()
        })
    };
    let limits = control_groups(root, "rdma")
        .into_iter()
        .filter_map(|group| {
            let file = format!("{}/rdma.max", group.folder);
            Some(ObjectLimit {
                device: device.to_owned(),
                kind,
                most: number(&file)?,
                used: number(&format!("{}/rdma.current", group.folder)).unwrap_or(0),
                file,
            })
        });
    limits.min_by_key(ObjectLimit::left)
}

/// Why the kernel refused an object by EAGAIN, and the remedy.
#[cfg(any(feature = "verbs", test))]
pub(crate) fn explain_again(root: &Path, device: &str, kind: ObjectKind) -> String {
    let name = kind.name();
    match object_limit(root, device, kind) {
        Some(limit) => format!(
            "{} allows {name}={} of {device} to all processes of the control group, which have {}; {}; a rank takes \
             one hca_handle, one hca_object for each window or registered buffer, and two for each peer",
            limit.file,
            limit.most,
            limit.used,
            limit.remedy()
        ),
        None => format!(
            "a control group may limit {name} of {device}, though none that this process sees does: look at rdma.max \
             of its control group and of those above, on the host"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_limit_that_leaves_the_least_is_named_wherever_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let put = |file: &str, content: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let limit = |device, kind| {
            object_limit(root, device, kind)
                .map(|limit| (limit.file.clone(), limit.most, limit.left()))
        };
        put("proc/self/cgroup", "0::/pod/container\n");
        assert_eq!(limit("mlx5_0", ObjectKind::Object), None);
        let (outer, inner) = (
            "/sys/fs/cgroup/pod/rdma",
            "/sys/fs/cgroup/pod/container/rdma",
        );
        put(
            &format!("{}.max", &outer[1..]),
            "mlx5_1 hca_handle=1 hca_object=1\nmlx5_0 hca_handle=4 hca_object=100\n",
        );
        put(
            &format!("{}.max", &inner[1..]),
            "mlx5_1 hca_handle=max hca_object=max\nmlx5_0 hca_handle=max hca_object=60\n",
        );
        let named = |file: &str, most, left| Some((format!("{file}.max"), most, left));
        assert_eq!(limit("mlx5_0", ObjectKind::Object), named(inner, 60, 60));
        assert_eq!(limit("mlx5_0", ObjectKind::Handle), named(outer, 4, 4));
        assert_eq!(limit("mlx5", ObjectKind::Handle), None, "no part of a name");
        put(
            &format!("{}.current", &outer[1..]),
            "mlx5_0 hca_handle=4 hca_object=100\n",
        );
        assert_eq!(limit("mlx5_0", ObjectKind::Object), named(outer, 100, 0));

        let text = explain_again(root, "mlx5_0", ObjectKind::Object);
        let beginning = "/sys/fs/cgroup/pod/rdma.max allows hca_object=100 of mlx5_0 to all processes of the control \
                         group, which have 100;";
        assert!(text.starts_with(beginning), "{text}");
        let remedy = "which have 100; have it raised on the host: `echo \"mlx5_0 hca_object=max\" > \
                      /sys/fs/cgroup/pod/rdma.max`; a rank takes";
        assert!(text.contains(remedy), "{text}");
        let text = explain_again(root, "mlx5_2", ObjectKind::Handle);
        assert!(text.contains("none that this process sees does"), "{text}");

        put("proc/self/cgroup", "7:rdma:/a\n4:memory:/b\n");
        put(
            "sys/fs/cgroup/rdma/a/rdma.max",
            "mlx5_0 hca_handle=2 hca_object=max\n",
        );
        let named = Some(("/sys/fs/cgroup/rdma/a/rdma.max".to_owned(), 2, 2));
        assert_eq!(limit("mlx5_0", ObjectKind::Handle), named);
        assert_eq!(limit("mlx5_0", ObjectKind::Object), None);
    }
}
