//! How near a device is to the processors of this process: the machine's NUMA nodes, as the kernel shows them.

use std::collections::BTreeMap;
use std::path::Path;

use super::sysfs::{names, text};

/// The kernel's directory of NUMA nodes.
pub const NODES: &str = "/sys/devices/system/node";

/// The distance from a node to itself, as the kernel counts.
const LOCAL: u32 = 10;

/// The distance of each NUMA node from the nearest processor on which this process may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nearness(BTreeMap<u32, u32>);

impl Nearness {
    /// Reads the distances from these processors from the nodes under `nodes` (on this machine: [`NODES`]). A node that
    /// cannot be read counts as near.
    #[must_use]
    pub fn read(nodes: &Path, processors: &[u32]) -> Self {
        let mut all: Vec<u32> = names(nodes)
            .filter_map(|name| name.strip_prefix("node")?.parse().ok())
            .collect();
        all.sort_unstable();
        let mut nearest = BTreeMap::new();
        for &from in &all {
            let path = nodes.join(format!("node{from}"));
            let has_one = names(&path)
                .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
                .any(|cpu: u32| processors.contains(&cpu));
            if !has_one {
                continue;
            }
            // One number for each existing node, in order.
            let distances = text(&path.join("distance")).unwrap_or_default();
            let distances = distances.split_whitespace().map(str::parse::<u32>);
            for (&to, distance) in all.iter().zip(distances) {
                let Ok(distance) = distance else { continue };
                let known = nearest.entry(to).or_insert(distance);
                *known = distance.min(*known);
            }
        }
        Self(nearest)
    }

    /// The distance of a node, or of a device without a node.
    #[must_use]
    pub fn to(&self, node: Option<u32>) -> u32 {
        let known = node.and_then(|node| self.0.get(&node));
        known.copied().unwrap_or(LOCAL)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Two sockets of two nodes each, and a node without processors.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (node, cpus, distance) in [
            (0, &[0, 1][..], "10 12 21 21 28"),
            (1, &[2, 3], "12 10 21 21 28"),
            (2, &[4, 5], "21 21 10 12 17"),
            (3, &[6, 7], "21 21 12 10 17"),
            (8, &[], "28 28 17 17 10"),
        ] {
            let path = folder.path().join(format!("node{node}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join("distance"), format!("{distance}\n")).unwrap();
            fs::write(path.join("cpulist"), "").unwrap();
            fs::write(path.join("cpumap"), "").unwrap();
            for cpu in cpus {
                fs::create_dir(path.join(format!("cpu{cpu}"))).unwrap();
            }
        }
        folder
    }

    #[test]
    fn a_node_is_as_far_as_it_is_from_the_nearest_processor() {
        let machine = machine();
        let from = |processors: &[u32]| {
            let near = Nearness::read(machine.path(), processors);
            [0, 1, 2, 3, 8].map(|node| near.to(Some(node)))
        };
        assert_eq!(from(&[0]), [10, 12, 21, 21, 28]);
        assert_eq!(from(&[7]), [21, 21, 12, 10, 17]);
        assert_eq!(from(&[1, 2]), [10, 10, 21, 21, 28]);
        assert_eq!(from(&[3, 4]), [12, 10, 10, 12, 17]);
    }

    #[test]
    fn what_nobody_knows_is_near() {
        let machine = machine();
        let near = Nearness::read(machine.path(), &[0]);
        assert_eq!((near.to(None), near.to(Some(5))), (10, 10));
        for nothing in [
            Nearness::read(machine.path(), &[]),
            Nearness::read(machine.path(), &[99]),
            Nearness::read(&machine.path().join("absent"), &[0]),
        ] {
            assert_eq!(nothing, Nearness::default());
            assert_eq!(nothing.to(Some(3)), 10);
        }
    }
}
