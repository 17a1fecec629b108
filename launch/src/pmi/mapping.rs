//! Which ranks share a node: the value of `PMI_process_mapping`, `(vector,(0,2,4),(2,1,3))`.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

/// The node of every rank, as the launcher's list of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMap {
    blocks: Vec<Block>,
    /// Ranks in all blocks together; the list repeats after that many.
    period: u64,
}

/// `nodes` nodes in a row, the first being `first`, with `per_node` consecutive ranks each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first: u32,
    nodes: u32,
    per_node: u32,
}

impl Block {
    fn ranks(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.per_node)
    }
}

impl NodeMap {
    /// `names`: of the node of each rank, of one rank at least. Nodes are numbered as they come.
    pub(crate) fn of<N: Eq + Hash>(names: &[N]) -> Self {
        let mut numbers = HashMap::new();
        let mut blocks: Vec<Block> = Vec::new();
        for name in names {
            let next = numbers.len() as u32;
            let first = *numbers.entry(name).or_insert(next);
            match blocks.last_mut().filter(|last| last.first == first) {
                Some(last) => last.per_node += 1,
                None => blocks.push(Block {
                    first,
                    nodes: 1,
                    per_node: 1,
                }),
            }
        }
        let mut rows: Vec<Block> = Vec::new();
        for block in blocks {
            let goes_on = |row: &&mut Block| {
                row.first + row.nodes == block.first && row.per_node == block.per_node
            };
            match rows.last_mut().filter(goes_on) {
                Some(row) => row.nodes += 1,
                None => rows.push(block),
            }
        }
        Self {
            blocks: rows,
            period: names.len() as u64,
        }
    }

    /// `None` if `text` is not a vector mapping.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let list = text.trim().strip_prefix("(vector,")?.strip_suffix(')')?;
        let list = list.trim().strip_prefix('(')?.strip_suffix(')')?;
        let blocks = list
            .split("),(")
            .map(Block::parse)
            .collect::<Option<Vec<_>>>()?;
        let period = blocks
            .iter()
            .try_fold(0_u64, |sum, block| sum.checked_add(block.ranks()))?;
        Some(Self { blocks, period })
    }

    /// The node on which `rank` runs. Nodes are numbered from 0 in the launcher's order.
    #[must_use]
    pub fn node_of(&self, rank: u32) -> u32 {
        let mut position = u64::from(rank) % self.period;
        for block in &self.blocks {
            if position < block.ranks() {
                let node = position / u64::from(block.per_node);
                return block.first + u32::try_from(node).expect("less than the block's nodes");
            }
            position -= block.ranks();
        }
        unreachable!("the position is less than the ranks of all blocks")
    }

    /// The ranks of a job of `size` that run on the node of `rank`, itself included, ascending.
    pub fn neighbours(&self, rank: u32, size: u32) -> impl Iterator<Item = u32> {
        let node = self.node_of(rank);
        (0..size).filter(move |&other| self.node_of(other) == node)
    }
}

impl fmt::Display for NodeMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(vector")?;
        for Block {
            first,
            nodes,
            per_node,
        } in &self.blocks
        {
            write!(f, ",({first},{nodes},{per_node})")?;
        }
        write!(f, ")")
    }
}

impl Block {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(',').map(|number| number.trim().parse().ok());
        let block = Self {
            first: numbers.next()??,
            nodes: numbers.next()??,
            per_node: numbers.next()??,
        };
        let legal = block.nodes > 0
            && block.per_node > 0
            && block.first.checked_add(block.nodes).is_some()
            && numbers.next().is_none();
        legal.then_some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(text: &str, size: u32) -> Vec<u32> {
        let map = NodeMap::parse(text).unwrap();
        (0..size).map(|rank| map.node_of(rank)).collect()
    }

    #[test]
    fn blocks_are_laid_out_in_order_and_repeat() {
        assert_eq!(nodes("(vector,(0,1,4))", 4), [0, 0, 0, 0]);
        assert_eq!(nodes("(vector,(0,2,2),(2,1,3))", 7), [0, 0, 1, 1, 2, 2, 2]);
        assert_eq!(nodes("(vector,(0,3,1))", 7), [0, 1, 2, 0, 1, 2, 0]);
        let map = NodeMap::parse("(vector,(0,3,1))").unwrap();
        assert_eq!(map.neighbours(4, 8).collect::<Vec<_>>(), [1, 4, 7]);
    }

    /// What Slurm 22.05 sends for 5 and 6 ranks on two nodes, by its options `--distribution`.
    #[test]
    fn slurms_distributions_are_read() {
        let block = "(vector,(0,1,3),(1,1,2))";
        assert_eq!(nodes(block, 5), [0, 0, 0, 1, 1]);
        let cyclic = "(vector,(0,2,1),(0,2,1),(0,1,1))";
        assert_eq!(nodes(cyclic, 5), [0, 1, 0, 1, 0]);
        let plane = "(vector,(0,2,2),(0,2,1))";
        assert_eq!(nodes(plane, 6), [0, 0, 1, 1, 0, 1]);
    }

    #[test]
    fn nodes_are_numbered_as_their_names_come() {
        let written = |names: &[&str]| NodeMap::of(names).to_string();
        let mixed = written(&["b", "b", "a", "b", "c"]);
        assert_eq!(mixed, "(vector,(0,1,2),(1,1,1),(0,1,1),(2,1,1))");
        assert_eq!(written(&["a", "a", "b", "b"]), "(vector,(0,2,2))");
        let round_robin = written(&["a", "b", "c", "a", "b", "c"]);
        assert_eq!(round_robin, "(vector,(0,3,1),(0,3,1))");
    }

    #[test]
    fn anything_else_is_refused() {
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
            "(vector,(4294967295,1,1))",
            "(matrix,(0,1,1))",
            "(vector,(0,1,1)",
        ] {
            assert_eq!(NodeMap::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_map_of_names_is_read_as_it_was_written(names in proptest::collection::vec(0..4_u32, 1..40)) {
            let map = NodeMap::parse(&NodeMap::of(&names).to_string()).unwrap();
            for (rank, name) in (0..).zip(&names) {
                let before = names.iter().position(|other| other == name).unwrap();
                prop_assert_eq!(map.node_of(rank), map.node_of(before as u32));
                let here = names.iter().filter(|&other| other == name).count();
                prop_assert_eq!(map.neighbours(rank, names.len() as u32).count(), here);
            }
        }

        #[test]
        fn any_text_is_survived(text in r"\(vector,(\([0-9]{0,11},[0-9]{0,11},[0-9]{0,11}\),?){0,4}\)", rank in any::<u32>()) {
            if let Some(map) = NodeMap::parse(&text) {
                let _ = map.node_of(rank);
            }
        }
    }
}
