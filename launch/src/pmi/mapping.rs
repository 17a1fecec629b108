//! The value of `PMI_process_mapping`: `(vector,(0,2,4),(2,1,3))`. Each block has the number of its first node,
//! how many nodes it has, and how many ranks run on each of them.

/// Whether all ranks run on one node. `false` if the value has another form.
pub(super) fn is_one_node(mapping: &str) -> bool {
    let blocks = mapping.trim().strip_prefix("(vector,(");
    let blocks = blocks.and_then(|blocks| blocks.strip_suffix("))"));
    let mut nodes = blocks.into_iter().flat_map(|blocks| blocks.split("),("));
    let first = nodes.next().and_then(only_node);
    first.is_some() && nodes.all(|block| only_node(block) == first)
}

/// The number of the node, if the block has only one.
fn only_node(block: &str) -> Option<u32> {
    let numbers = block.split(',').map(|number| number.trim().parse().ok());
    match numbers.collect::<Option<Vec<u32>>>()?[..] {
        [node, 1, (1..)] => Some(node),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_is_told_from_several() {
        for one in [
            "(vector,(0,1,4))",
            " (vector,(0,1,4)) ",
            "(vector,(3, 1, 2),(3,1,1))",
        ] {
            assert!(is_one_node(one), "{one:?}");
        }
        // Slurm 22.05 sends these, among others, for ranks on two nodes, depending on `--distribution`.
        for several in [
            "(vector,(0,2,4))",
            "(vector,(0,1,3),(1,1,2))",
            "(vector,(0,2,1),(0,2,1),(0,1,1))",
        ] {
            assert!(!is_one_node(several), "{several:?}");
        }
    }

    #[test]
    fn what_is_no_mapping_does_not_say_so() {
        for text in [
            "",
            "(vector)",
            "(vector,)",
            "(vector,())",
            "(vector,(0,1))",
            "(vector,(0,1,2,3))",
            "(vector,(0,0,1))",
            "(vector,(0,1,0))",
            "(vector,(-1,1,1))",
            "(vector,(4294967296,1,1))",
            "(matrix,(0,1,1))",
            "(vector,(0,1,1)",
        ] {
            assert!(!is_one_node(text), "{text:?}");
        }
    }
}
