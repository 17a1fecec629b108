//! The names of all variables of the environment that this library, its launcher and its devices read.

use std::ffi::OsString;

const PREFIX: &str = "TRANSOM_";

/// What follows the prefix.
const NAMES: [&str; 30] = [
    "CONNECT_TIMEOUT",
    "CONTROL_BYTES",
    "DEVICE",
    "JOB_SECRET",
    "LAUNCHER_PID",
    "LOG",
    "MPI",
    "MPI_REPORT",
    "MPI_STRICT",
    "NEIGHBOURS",
    "RANK",
    "RDMA_ATOMICS",
    "RDMA_COPY",
    "RDMA_HOP_LIMIT",
    "RDMA_PKEY",
    "RDMA_RETRIES",
    "RDMA_SEND_QUEUE",
    "RDMA_SERVICE_LEVEL",
    "RDMA_SUBNET",
    "RDMA_TIMEOUT",
    "RDMA_TRAFFIC_CLASS",
    "RENDEZVOUS",
    "REPORT",
    "SECOND_THREAD",
    "SIZE",
    "START_TIMEOUT",
    "SURVIVORS_TIMEOUT",
    "TCP_INTERFACE",
    "TRACE",
    "WAIT_WARNING",
];

/// One line for each of these variables whose name may be a misspelling. A program may have variables of its own, so
/// other names are not told.
pub(super) fn misspelt(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let complaint = |name: OsString| {
        let rest = name.to_str()?.strip_prefix(PREFIX)?;
        let near = similar(rest)?;
        Some(format!(
            "{PREFIX}{rest} is not known and changes nothing; did you mean {PREFIX}{near}?"
        ))
    };
    names.filter_map(complaint).collect()
}

fn similar(rest: &str) -> Option<&'static str> {
    if NAMES.contains(&rest) {
        return None;
    }
    let distances = NAMES.map(|known| (strsim::osa_distance(known, &rest.to_uppercase()), known));
    let near = distances
        .into_iter()
        .filter(|(distance, known)| *distance <= (known.len() / 3).clamp(1, 3));
    near.min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_misspelt_variable_leads_to_the_name_that_was_meant() {
        for (name, known) in [
            ("TRANSOM_DEVCE", "TRANSOM_DEVICE"),
            ("TRANSOM_device", "TRANSOM_DEVICE"),
            ("TRANSOM_NEIGHBORS", "TRANSOM_NEIGHBOURS"),
            ("TRANSOM_RANKS", "TRANSOM_RANK"),
            ("TRANSOM_WAIT_WARN", "TRANSOM_WAIT_WARNING"),
        ] {
            let complaints = misspelt([name.into()].into_iter());
            assert!(
                complaints[0].ends_with(&format!("did you mean {known}?")),
                "{complaints:?}"
            );
        }
        let others = ["TRANSOM_TEST_TIME", "TRANSOM_SEED", "DEVICE", "TRANSOM_"];
        let known = NAMES.map(|name| format!("{PREFIX}{name}"));
        let all = others.into_iter().map(str::to_owned).chain(known);
        assert_eq!(misspelt(all.map(Into::into)), Vec::<String>::new());
    }

    /// The names in quotation marks in the code, apart from its tests' own.
    fn collect(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let names = text.split('"').skip(1).step_by(2);
                let rests = names.filter_map(|name| name.strip_prefix(PREFIX));
                let is_name = |rest: &&str| {
                    rest.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                        && !rest.starts_with("TEST")
                };
                found.extend(rests.filter(is_name).map(str::to_owned));
            }
        }
    }

    #[test]
    fn the_list_has_every_variable_of_the_code() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = Vec::new();
        for folder in [
            "cli/src",
            "src/memory",
            "src/peers",
            "launch/src",
            "mpi/src",
            "rdma-sys-shim/src",
        ] {
            collect(&root.join(folder), &mut found);
        }
        assert!(found.len() > 40, "{found:?}");
        for name in found {
            assert!(NAMES.contains(&name.as_str()), "{PREFIX}{name}");
        }
    }
}
