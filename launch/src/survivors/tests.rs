use std::collections::BTreeSet;
use std::thread;

use super::*;
use crate::Allgather;

/// A long time for a rank that is under way, and a short one for a test.
const PATIENCE: Duration = Duration::from_millis(700);

/// Far longer than a meeting takes.
const LONG: Duration = Duration::from_secs(60);

/// The ranks of a job on this host, each with its socket.
fn sockets(size: u32) -> Vec<SurvivorSocket> {
    let open = |rank| SurvivorSocket::open(rank, true).unwrap();
    let sockets: Vec<_> = (0..size).map(open).collect();
    let addresses: Vec<_> = sockets.iter().map(SurvivorSocket::address).collect();
    let addresses: Vec<&[u8]> = addresses.iter().map(Vec::as_slice).collect();
    for socket in &sockets {
        socket.introduce(&addresses, JobSecret::default());
    }
    sockets
}

/// What each of these ranks gets, where those of `dead` are known to be dead.
fn agreed(
    sockets: &[SurvivorSocket],
    callers: &[u32],
    dead: &[u32],
    round: u32,
    members: &[u32],
) -> Vec<Result<Vec<u32>, SurvivorsError>> {
    let fate = |rank, _| match dead.contains(&rank) {
        true => Fate::Ended,
        false => Fate::Lives,
    };
    thread::scope(|scope| {
        let call = |&rank: &u32| {
            let socket = &sockets[rank as usize];
            scope.spawn(move || socket.agree(round, members, PATIENCE, fate))
        };
        let ranks: Vec<_> = callers.iter().map(call).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// What each of these ranks gathers, once the group has met.
fn met(
    sockets: &[SurvivorSocket],
    comers: &[u32],
    round: u32,
    group: &[u32],
    limit: Duration,
    is_gone: impl Fn(u32) -> bool + Sync,
) -> Vec<Result<Vec<Vec<u8>>, RendezvousError>> {
    thread::scope(|scope| {
        let come = |&rank: &u32| {
            let (socket, is_gone) = (&sockets[rank as usize], &is_gone);
            let fate = |rank, _| match is_gone(rank) {
                true => Fate::Ended,
                false => Fate::Lives,
            };
            scope.spawn(move || {
                let met = socket.meet(round, group, limit, fate)?;
                Ok(met.allgather(&rank.to_le_bytes()).unwrap())
            })
        };
        let ranks: Vec<_> = comers.iter().map(come).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn those_who_live_agree_and_meet() {
    let sockets = sockets(6);
    let all: Vec<u32> = (0..6).collect();
    for (round, members, dead) in [
        (0, &all[..], &[0, 4][..]),
        (1, &[1, 2, 3, 5], &[3]),
        (2, &[1, 2, 5], &[1, 5]),
    ] {
        let live: Vec<u32> = members
            .iter()
            .copied()
            .filter(|rank| !dead.contains(rank))
            .collect();
        for group in agreed(&sockets, &live, dead, round, members) {
            assert_eq!(group.unwrap(), live);
        }
        let blocks: Vec<_> = live
            .iter()
            .map(|rank| rank.to_le_bytes().to_vec())
            .collect();
        for gathered in met(&sockets, &live, round, &live, LONG, |_| false) {
            assert_eq!(gathered.unwrap(), blocks);
        }
    }
}

#[test]
fn who_comes_late_is_left_out_and_hears_of_it() {
    let sockets = sockets(4);
    let members = [0, 1, 2, 3];
    for group in agreed(&sockets, &[0, 1, 3], &[], 0, &members) {
        assert_eq!(group.unwrap(), [0, 1, 3]);
    }
    let late = agreed(&sockets, &[2], &[], 0, &members).remove(0);
    let Err(SurvivorsError::Excluded { group }) = late else {
        panic!("{late:?}");
    };
    assert_eq!(group, [0, 1, 3]);
}

#[test]
fn half_of_them_do_not_go_on() {
    let sockets = sockets(4);
    for error in agreed(&sockets, &[1, 2], &[], 0, &[0, 1, 2, 3]) {
        let Err(SurvivorsError::Missing { missing, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(missing, [0, 3]);
    }
}

#[test]
fn half_of_them_go_on_if_the_others_are_dead() {
    let sockets = sockets(4);
    for group in agreed(&sockets, &[1, 2], &[0, 3], 0, &[0, 1, 2, 3]) {
        assert_eq!(group.unwrap(), [1, 2]);
    }
}

/// Either rank, the one that listens or another, dies before it has come.
#[test]
fn those_who_have_not_met_agree_again() {
    for dead in [0, 2] {
        let sockets = sockets(4);
        let members = [0, 1, 2, 3];
        for group in agreed(&sockets, &members, &[], 0, &members) {
            assert_eq!(group.unwrap(), members);
        }
        let live: Vec<u32> = members.into_iter().filter(|rank| *rank != dead).collect();
        let begun = Instant::now();
        for failed in met(&sockets, &live, 0, &members, LONG, |rank| rank == dead) {
            failed.unwrap_err();
        }
        assert!(begun.elapsed() < LONG / 2, "the death is noticed at once");
        for group in agreed(&sockets, &live, &[dead], 1, &members) {
            assert_eq!(group.unwrap(), live);
        }
        assert!(
            met(&sockets, &live, 1, &live, LONG, |_| false)
                .iter()
                .all(Result::is_ok)
        );
    }
}

/// One that listens, and one that does not come.
#[test]
fn errors_of_those_who_have_not_met_name_the_variable_of_their_limit() {
    for comers in [[0, 1], [1, 2]] {
        let sockets = sockets(3);
        let members = [0, 1, 2];
        for group in agreed(&sockets, &members, &[], 0, &members) {
            assert_eq!(group.unwrap(), members);
        }
        let second = Duration::from_secs(1);
        for failed in met(&sockets, &comers, 0, &members, second, |_| false) {
            let error = failed.unwrap_err().to_string();
            assert!(error.contains("TRANSOM_SURVIVORS_TIMEOUT"), "{error}");
            assert!(!error.contains("TRANSOM_START_TIMEOUT"), "{error}");
        }
    }
}

#[test]
fn strangers_and_ranks_of_other_jobs_are_not_heard() {
    let sockets = sockets(3);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = sockets[0].0.socket.local_addr().unwrap().port();
    let forged = Datagram {
        round: 0,
        from: 1,
        said: Said::MeetAt(1),
    };
    let members = [0, 1, 2];
    thread::scope(|scope| {
        let agreed = scope.spawn(|| agreed(&sockets, &[0, 1, 2], &[], 0, &members));
        for _ in 0..100 {
            for bytes in [
                vec![7; 100],
                Vec::new(),
                wire::encode(&forged, 3, &Secret::new("another job")),
            ] {
                stranger.send_to(&bytes, ("127.0.0.1", port)).unwrap();
            }
        }
        for group in agreed.join().unwrap() {
            assert_eq!(group.unwrap(), members);
        }
    });
    let own = sockets[0].0.state();
    let from: BTreeSet<u32> = own.reached.keys().copied().collect();
    assert!(from.is_subset(&[1, 2].into()), "{from:?}");
    assert!(own.rounds[&0].meeting.is_none());
}

#[test]
fn a_rank_alone_goes_on() {
    let sockets = sockets(3);
    let group = agreed(&sockets, &[1], &[0, 2], 0, &[0, 1, 2]).remove(0);
    assert_eq!(group.unwrap(), [1]);
    let gathered = met(&sockets, &[1], 0, &[1], LONG, |_| false).remove(0);
    assert_eq!(gathered.unwrap(), [1_u32.to_le_bytes()]);
}
