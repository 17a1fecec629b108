//! Which ranks share a host, where the launcher does not say: they tell each other.

use super::{Client, NodeMap, PmiError};

/// Begins all keys.
const PREFIX: &str = "transom-hosts";
/// How many pieces the map comes in: it may be longer than a value.
const PIECES: &str = "transom-hosts-pieces";
/// Bytes of a piece: every launcher takes values of that length.
const PIECE: usize = 200;

/// Collective, with two barriers. `name`: of this rank's host, which only ranks of the same have.
///
/// # Errors
/// As for [`Client::put`] and [`Client::get`].
pub fn exchange_hosts(client: &Client, name: &str) -> Result<NodeMap, PmiError> {
    client.put(&name_key(client.rank()), name)?;
    client.barrier()?;
    // One compares, so that the launcher is not asked size × size questions.
    let told = match client.rank() {
        0 => publish_map(client),
        _ => Ok(()),
    };
    // Also where that failed: the others are on their way there.
    client.barrier()?;
    told?;
    let text = client.get(PIECES)?;
    let malformed = |reply: String| PmiError::Malformed {
        request: "get the hosts of the ranks",
        reply,
    };
    let Ok(pieces) = text.parse::<usize>() else {
        return Err(malformed(text));
    };
    let pieces = (0..pieces).map(|number| client.get(&piece_key(number)));
    let text: String = pieces.collect::<Result<_, _>>()?;
    NodeMap::parse(&text).ok_or_else(|| malformed(text))
}

fn publish_map(client: &Client) -> Result<(), PmiError> {
    let names = (0..client.size()).map(|rank| client.get(&name_key(rank)));
    let names: Vec<_> = names.collect::<Result<_, _>>()?;
    let text = NodeMap::of(&names).to_string();
    let pieces = text.as_bytes().chunks(PIECE);
    client.put(PIECES, &pieces.len().to_string())?;
    for (number, piece) in pieces.enumerate() {
        client.put(&piece_key(number), &String::from_utf8_lossy(piece))?;
    }
    Ok(())
}

fn name_key(rank: u32) -> String {
    format!("{PREFIX}-name-{rank}")
}

fn piece_key(number: usize) -> String {
    format!("{PREFIX}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi::tests::job;

    fn hosts(size: u32, name: impl Fn(u32) -> String + Sync) -> Vec<Vec<u32>> {
        let (maps, _) = job(size, |client| {
            let map = exchange_hosts(&client, &name(client.rank())).unwrap();
            client.finalize().unwrap();
            (0..size).map(|rank| map.node_of(rank)).collect()
        });
        maps
    }

    #[test]
    fn all_ranks_know_who_shares_a_host() {
        assert_eq!(hosts(1, |_| "a".to_owned()), [[0]]);
        let blocks = hosts(5, |rank| if rank < 3 { "a" } else { "b" }.to_owned());
        assert_eq!(blocks, vec![[0, 0, 0, 1, 1]; 5]);
    }

    #[test]
    fn a_map_that_is_longer_than_a_value_comes_in_pieces() {
        // Of two hosts in turn, with one rank more each time, so that no row goes on.
        let host = |rank: u32| (0..).find(|n| n * (n + 1) / 2 > rank).unwrap_or(0) % 2;
        let all: Vec<u32> = (0..500).map(host).collect();
        assert!(NodeMap::of(&all).to_string().len() > PIECE);
        let expected: Vec<u32> = all.iter().map(|host| 1 - host).collect();
        assert_eq!(
            hosts(500, |rank| host(rank).to_string()),
            vec![expected; 500]
        );
    }
}
