//! The control groups of this process, by which administrators and containers limit it.

use std::fs;
use std::path::Path;

/// A folder in which a control group has its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// Its path on this machine.
    pub folder: String,
    /// Whether it is of version 2, in which one folder has the limits of all controllers.
    pub is_unified: bool,
}

/// This process's control group for a controller, and those above it, as files under `root` say (on this machine: `/`).
/// The folders need not be visible.
#[must_use]
pub fn control_groups(root: &Path, controller: &str) -> Vec<ControlGroup> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next().unwrap_or("");
        let path = parts.next().unwrap_or("").trim_end_matches('/');
        let is_unified = controllers.is_empty();
        let base = match is_unified {
            true => "/sys/fs/cgroup".to_owned(),
            false if controllers.split(',').any(|name| name == controller) => {
                format!("/sys/fs/cgroup/{controller}")
            }
            false => continue,
        };
        // `/a/b`, `/a` and the empty path.
        let folders =
            std::iter::successors(Some(path), |path| path.rfind('/').map(|at| &path[..at]));
        found.extend(folders.map(|path| ControlGroup {
            folder: format!("{base}{path}"),
            is_unified,
        }));
    }
    found
}
