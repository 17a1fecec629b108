//! The ranks that Hydra has started on this node. Hydra ends the job if a rank fails, but waits forever if a rank ends
//! with 0 and never joins. Hydra's proxy, the parent of these ranks, reaps that rank. So the waiting ranks can count
//! the proxy's children.

use std::ffi::OsString;
use std::fs;

/// The name of Hydra's proxy, and the variable with the number of its ranks.
const PROXY: &str = "hydra_pmi_proxy";
const RANKS_HERE: &str = "MPI_LOCALNRANKS";

pub(super) struct Siblings {
    /// The file that lists the proxy's children.
    children: String,
    count: usize,
}

impl Siblings {
    /// Call it after the launcher's first answer: by then it has started all ranks. `None` under another launcher, or
    /// if /proc does not list the children.
    pub(super) fn of_this(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let count = variable(RANKS_HERE)?.to_str()?.parse().ok()?;
        // Each of the proxy's children leads a session, in which this process may be a descendant.
        // SAFETY: getsid takes an integer.
        let leader = unsafe { libc::getsid(0) };
        let (_, proxy) = name_and_parent(leader)?;
        let (name, _) = name_and_parent(proxy)?;
        let children = format!("/proc/{proxy}/task/{proxy}/children");
        let known = name == PROXY && fs::exists(&children).ok()?;
        known.then_some(Self { children, count })
    }

    /// Whether one of the ranks has ended.
    pub(super) fn are_fewer(&self) -> bool {
        let children = fs::read_to_string(&self.children);
        children.is_ok_and(|list| list.split_whitespace().count() < self.count)
    }
}

fn name_and_parent(pid: i32) -> Option<(String, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let parent = after.split_whitespace().nth(1)?.parse().ok()?;
    Some((name.to_owned(), parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hydras_children_are_counted() {
        assert!(Siblings::of_this(|_| None).is_none());
        // The parent of this session's leader is not a proxy.
        assert!(Siblings::of_this(|_| Some("1".into())).is_none());
        let (name, parent) = name_and_parent(std::process::id().cast_signed()).unwrap();
        assert!(!name.is_empty());
        assert_eq!(parent, std::os::unix::process::parent_id().cast_signed());
        let own = format!("/proc/{parent}/task/{parent}/children");
        let siblings = |count| Siblings {
            children: own.clone(),
            count,
        };
        assert!(!siblings(1).are_fewer());
        assert!(siblings(usize::MAX).are_fewer());
    }
}
