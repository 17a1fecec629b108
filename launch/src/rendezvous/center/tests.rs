//! Threads act as ranks, and do what a rank should not do.

use std::thread;

use transom_testing::ports::free_port;

use super::*;
use crate::Allgather as _;
use crate::rendezvous::spoke::Spoke;
use crate::rendezvous::{Address, Rendezvous, Secret};

/// No test here waits that long.
const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

fn members(size: u32) -> Vec<Member> {
    let address = Address::parse(&format!("127.0.0.1:{}", free_port())).unwrap();
    let member = |rank| Member {
        rank,
        size,
        address: address.clone(),
        secret: Secret::new("secret"),
        limited_by: "LIMIT",
    };
    (0..size).map(member).collect()
}

fn stays(_: u32) -> bool {
    false
}

fn meet(member: &Member) -> Result<Center, RendezvousError> {
    Center::meet(member, member.address.listen()?, LIMIT, &stays)
}

/// A rank that has come and waits for other ranks.
fn come(member: &Member) -> Spoke {
    Spoke::find(member, LIMIT, &stays).unwrap()
}

fn next(spoke: &mut Spoke) -> Message {
    spoke.hear(SHORT, "a message").unwrap()
}

fn fault(error: RendezvousError) -> Fault {
    match error {
        RendezvousError::Fault(fault) => fault,
        other => panic!("{other}"),
    }
}

/// Rank 0's result while the other ranks run this function.
fn center<T>(
    members: &[Member],
    others: impl FnOnce() -> T,
) -> (Result<Center, RendezvousError>, T) {
    thread::scope(|scope| {
        let center = scope.spawn(|| meet(&members[0]));
        let others = others();
        (center.join().unwrap(), others)
    })
}

#[test]
fn ranks_that_meet_hear_each_other() {
    let members = members(5);
    thread::scope(|scope| {
        for member in &members {
            scope.spawn(move || {
                let met = Rendezvous::meet(member, LIMIT).unwrap();
                assert_eq!((met.rank(), met.size()), (member.rank, 5));
                for len in [1, 200_000, 3] {
                    let block = |rank: u32| vec![rank as u8 + 1; len];
                    let all = met.allgather(&block(member.rank)).unwrap();
                    assert_eq!(all, (0..5).map(block).collect::<Vec<_>>());
                }
            });
        }
    });
}

#[test]
fn a_rank_that_leaves_before_all_have_come_is_named() {
    let members = members(4);
    let (ended, told) = center(&members, || {
        let mut stays = come(&members[2]);
        drop(come(&members[1]));
        next(&mut stays)
    });
    assert_eq!(fault(ended.err().unwrap()), Fault::left(1));
    assert_eq!(told, Message::Fault(Fault::left(1)));
}

#[test]
fn a_rank_that_speaks_before_it_is_asked_is_named() {
    let members = members(3);
    let (ended, told) = center(&members, || {
        let mut spoke = come(&members[2]);
        spoke.say(&Message::Block(vec![1]));
        next(&mut spoke)
    });
    assert_eq!(fault(ended.err().unwrap()), Fault::garbled(2));
    assert_eq!(told, Message::Fault(Fault::garbled(2)));
}

#[test]
fn ranks_that_pass_other_lengths_are_named() {
    let members = members(3);
    let expected = Fault::new("rank 2 passed 4 bytes, rank 0 8");
    let pass = |mut spoke: Spoke, len| spoke.allgather(&vec![0; len]).unwrap_err();
    thread::scope(|scope| {
        for (member, len) in [(&members[1], 8), (&members[2], 4)] {
            let expected = &expected;
            scope.spawn(move || {
                let error = pass(Spoke::meet(member, LIMIT, &stays).unwrap(), len);
                assert_eq!(fault(error), *expected);
            });
        }
        let mut center = meet(&members[0]).unwrap();
        let error = center.allgather(&[0; 8]).unwrap_err();
        assert_eq!(fault(error), expected);
    });
}

#[test]
fn those_who_say_nothing_more_are_named() {
    let members = members(4);
    let (met, mut lines) = center(&members, || {
        let mut lines: Vec<_> = members[1..].iter().map(come).collect();
        for line in &mut lines {
            assert_eq!(next(line), Message::Begin);
        }
        // The message arrives before rank 0 begins to wait.
        lines[1].say(&Message::Block(vec![7]));
        lines
    });
    let mut center = met.unwrap();
    center.limit = Some(Duration::from_secs(1));
    let told = thread::scope(|scope| {
        let told = scope.spawn(|| next(&mut lines[0]));
        let error = center.allgather(&[7]).unwrap_err();
        // The other ranks need not end by themselves.
        (fault(error), told.join().unwrap())
    });
    let expected =
        Fault::new("ranks 1, 3 came to the rendezvous, and then said nothing for 1 s (LIMIT)");
    assert_eq!(told, (expected.clone(), Message::Fault(expected)));
}

/// As an attacker does who can write to the connection but has no key.
#[test]
fn what_is_changed_on_the_way_is_named() {
    let members = members(2);
    let (met, mut line) = center(&members, || {
        let mut line = come(&members[1]);
        assert_eq!(next(&mut line), Message::Begin);
        line
    });
    line.say_raw(&[2, 1, 0, 0, 0, 7]);
    line.say_raw(&[0; 32]);
    let mut center = met.unwrap();
    let told = thread::spawn(move || next(&mut line));
    let error = center.allgather(&[7]).unwrap_err();
    assert_eq!(fault(error), Fault::garbled(1));
    let told = told.join().unwrap();
    assert_eq!(told, Message::Fault(Fault::garbled(1)));
}
