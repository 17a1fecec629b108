//! What the allocator takes for zero is zero, whatever a window was made of before.

use std::sync::mpsc;
use std::thread;

use transom::{Job, Result};

use crate::Case;
use crate::life::Interface;
use crate::setting::{self, AllDescriptors};

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, play| Case {
        name,
        ranks: 1,
        interfaces: &[Interface::Typed, Interface::Raw],
        settings: setting::ALL,
        play,
    };
    vec![
        case("freed_by_one_of_two_threads", freed_by_one_of_two_threads),
        case("freed_without_a_descriptor", freed_without_a_descriptor),
        case("thousands_of_vectors", thousands_of_vectors),
    ]
}

/// A small `vec![0; len]` may be what is left of a larger block.
fn assert_new_memory_is_zero(len: usize) {
    let new: Vec<Vec<u8>> = (0..64).map(|_| vec![0; len]).collect();
    for (index, new) in new.iter().enumerate() {
        let other = new.iter().position(|&byte| byte != 0);
        assert_eq!(
            other, None,
            "place of a byte that is not 0 in vector {index}"
        );
    }
}

fn freed_by_one_of_two_threads(job: &Job, interface: Interface) -> Result<()> {
    made_by_one_thread(job, interface, || ())
}

fn freed_without_a_descriptor(job: &Job, interface: Interface) -> Result<()> {
    made_by_one_thread(job, interface, AllDescriptors::take)
}

/// Windows are made while the process has one thread, and freed when it has two and holds what
/// `before_freeing` returned.
fn made_by_one_thread<F>(
    job: &Job,
    interface: Interface,
    before_freeing: impl Fn() -> F,
) -> Result<()> {
    for round in 0..20 {
        let (end, until_end) = mpsc::channel::<()>();
        let mut second = None;
        let memory = interface.live(job, vec![0xab; 21_000], round, || {
            second = Some(thread::spawn(move || until_end.recv().is_err()));
            before_freeing()
        })?;
        let (rest, last) = memory.split_at(20_999);
        assert!(rest.iter().all(|&byte| byte == 0xab) && last == [round]);
        drop(memory);
        assert_new_memory_is_zero(16_000);
        drop(end);
        assert!(second.is_some_and(|second| second.join().is_ok_and(|ended| ended)));
    }
    Ok(())
}

/// Windows of many sizes; other vectors between them keep what is in them.
fn thousands_of_vectors(job: &Job, interface: Interface) -> Result<()> {
    const NEIGHBOURS: usize = 61;
    let mut neighbours = vec![Vec::new(); NEIGHBOURS];
    for round in 0..12_000_usize {
        let (len, mark) = (1 + round * 7919 % 60_000, round as u8);
        let memory = interface.live(job, vec![!mark; len], mark, || ())?;
        assert!(memory[..len - 1].iter().all(|&byte| byte == !mark));
        assert_eq!((memory.len(), memory[len - 1]), (len, mark));
        drop(memory);
        let zero = vec![0_u8; len / 4 * 3];
        assert!(zero.iter().all(|&byte| byte == 0), "round {round}");
        let neighbour = &mut neighbours[round % NEIGHBOURS];
        let expected = round.wrapping_sub(NEIGHBOURS) as u8;
        assert!(
            neighbour.iter().all(|&byte| byte == expected),
            "round {round}"
        );
        *neighbour = vec![mark; 1 + round * 104_729 % 40_000];
    }
    Ok(())
}
