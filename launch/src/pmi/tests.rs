//! The client against the server, over socket pairs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use super::{Action, Client, PmiError, Server};
use crate::bootstrap::{Allgather as _, Bootstrap as _};

/// Runs `rank` on one thread for each rank, with a server between them. Returns the results of the ranks, and the
/// actions that the server left to the launcher.
fn job<T: Send>(size: u32, rank: impl Fn(Client) -> T + Sync) -> (Vec<T>, Vec<Action>) {
    let (mut ours, theirs): (Vec<_>, Vec<_>) =
        (0..size).map(|_| UnixStream::pair().unwrap()).unzip();
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..)
            .zip(theirs)
            .map(|(number, socket)| {
                let rank = &rank;
                scope.spawn(move || rank(Client::connect(socket, number, size, None).unwrap()))
            })
            .collect();
        let events = serve(size, &mut ours);
        (
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect(),
            events,
        )
    })
}

fn serve(size: u32, sockets: &mut [UnixStream]) -> Vec<Action> {
    let mut server = Server::new(size, "space-of-this-test");
    let mut events = Vec::new();
    let mut open = vec![true; sockets.len()];
    while open.contains(&true) {
        let mut polls: Vec<_> = (sockets.iter().zip(&open))
            .map(|(socket, open)| libc::pollfd {
                fd: if *open {
                    std::os::fd::AsRawFd::as_raw_fd(socket)
                } else {
                    -1
                },
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        // SAFETY: the pointer and the length are those of a live vector.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, -1) };
        for (number, poll) in polls.iter().enumerate() {
            if poll.revents == 0 {
                continue;
            }
            // Small pieces, so that lines arrive cut.
            let mut bytes = [0; 7];
            let rank = u32::try_from(number).unwrap();
            let actions = match sockets[number].read(&mut bytes) {
                Ok(0) | Err(_) => {
                    open[number] = false;
                    server.leave(rank).into_iter().collect()
                }
                Ok(n) => server.receive(rank, &bytes[..n]),
            };
            for action in actions {
                match &action {
                    Action::Reply { rank, line } => {
                        sockets[*rank as usize].write_all(line.as_bytes()).unwrap();
                    }
                    Action::Release { line } => {
                        for socket in &mut *sockets {
                            socket.write_all(line.as_bytes()).unwrap();
                        }
                    }
                    Action::Stuck { waiting, line, .. } => {
                        for rank in waiting {
                            sockets[*rank as usize].write_all(line.as_bytes()).unwrap();
                        }
                        events.push(action);
                    }
                    Action::Abort { .. } => events.push(action),
                }
            }
        }
    }
    events
}

#[test]
fn blocks_of_all_ranks_are_gathered() {
    let (_, events) = job(5, |client| {
        for len in [1, 30, 40_000] {
            let block = |rank: u32| vec![rank as u8 + b'x'; len];
            let all = client.allgather(&block(client.rank())).unwrap();
            assert_eq!(all, (0..5).map(block).collect::<Vec<_>>());
        }
        assert!(client.is_one_host().unwrap());
        client.finalize().unwrap();
    });
    assert_eq!(events, []);
}

#[test]
fn before_the_barrier_nothing_is_visible() {
    job(1, |client| {
        client.put("key", "value").unwrap();
        let error = client.get("key").unwrap_err();
        assert!(
            matches!(&error, PmiError::NoKey { key, .. } if key == "key"),
            "{error}"
        );
        client.barrier().unwrap();
        assert_eq!(client.get("key").unwrap(), "value");
        client.put("key", "later").unwrap();
        client.barrier().unwrap();
        assert_eq!(client.get("key").unwrap(), "later");
        client.finalize().unwrap();
    });
}

/// Slurm reads a request once, into a buffer of 1024 bytes.
#[test]
fn what_is_put_fits_the_launchers_buffers() {
    for (value_max, longest) in [(1024, 1023), (257, 256)] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let maxes = format!("maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max={value_max}");
        for reply in [
            "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "my_kvsname rc=0 kvsname=3.0",
            &maxes,
        ] {
            ours.write_all(format!("cmd={reply}\n").as_bytes()).unwrap();
        }
        let timeout = Some(Duration::from_secs(60));
        let client = Client::connect(theirs, 0, 1, timeout).unwrap();
        let block = vec![b' '; 2000];
        thread::scope(|scope| {
            let gathered = scope.spawn(|| {
                let client = client;
                client.allgather(&block).unwrap()
            });
            let mut values = std::collections::HashMap::new();
            for line in BufReader::new(ours.try_clone().unwrap()).lines() {
                let line = line.unwrap();
                let word = |key: &str| {
                    let token = line.split(' ').find_map(|token| token.strip_prefix(key));
                    token.unwrap_or_default().to_owned()
                };
                let reply = match &*word("cmd=") {
                    "put" => {
                        assert!(line.len() < 1024 && word("key=").len() < 64, "{line}");
                        assert!(word("value=").len() <= longest, "{line}");
                        values.insert(word("key="), word("value="));
                        "put_result rc=0".to_owned()
                    }
                    "get" => format!("get_result rc=0 value={}", values[&word("key=")]),
                    "barrier_in" => "barrier_out rc=0".to_owned(),
                    _ => continue,
                };
                ours.write_all(format!("cmd={reply}\n").as_bytes()).unwrap();
            }
            assert!(gathered.join().unwrap().iter().eq([&block]));
        });
    }
}

#[test]
fn a_launcher_without_room_for_a_value_is_refused() {
    for maxes in [
        "keylen_max=64 vallen_max=1",
        "keylen_max=16 vallen_max=1024",
        "keylen_max=64",
    ] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        for reply in [
            "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "my_kvsname rc=0 kvsname=3.0",
            &format!("maxes rc=0 {maxes}"),
        ] {
            ours.write_all(format!("cmd={reply}\n").as_bytes()).unwrap();
        }
        let error = Client::connect(theirs, 0, 1, None).err().unwrap();
        assert!(error.to_string().contains(maxes), "{error}");
    }
}

#[test]
fn abort_reaches_the_launcher_while_another_thread_waits() {
    let (_, events) = job(2, |client| {
        if client.rank() == 0 {
            let error = thread::scope(|scope| {
                let waiting = scope.spawn(|| client.barrier());
                client
                    .abort(7, "the second half\nis missing: 50 %")
                    .unwrap();
                waiting.join().unwrap()
            });
            assert!(matches!(error, Err(PmiError::Refused { .. })), "{error:?}");
        }
    });
    let abort = Action::Abort {
        rank: 0,
        code: 7,
        message: Some("the second half\nis missing: 50 %".to_owned()),
    };
    assert!(events.contains(&abort), "{events:?}");
}

#[test]
fn a_long_abort_message_is_cut_not_lost() {
    let (_, events) = job(1, |client| client.abort(1, &"é".repeat(5000)).unwrap());
    let [
        Action::Abort {
            message: Some(text),
            ..
        },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert!(text.len() > 200 && text.chars().all(|c| c == 'é'), "{text}");
}

#[test]
fn a_rank_that_leaves_is_named_to_those_in_the_barrier() {
    let (errors, events) = job(3, |client| match client.rank() {
        1 => None,
        _ => Some(client.barrier().unwrap_err().to_string()),
    });
    for error in errors.into_iter().flatten() {
        assert!(error.contains("rank_1_has_left"), "{error}");
    }
    assert!(
        matches!(events[0], Action::Stuck { missing: 1, .. }),
        "{events:?}"
    );
}

#[test]
fn a_launcher_that_hangs_up_is_an_error() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let rank = thread::spawn(|| Client::connect(theirs, 0, 2, None).err().unwrap());
    ours.read_exact(&mut [0; 4]).unwrap();
    drop(ours);
    assert!(matches!(
        rank.join().unwrap(),
        PmiError::Closed { request: "init" }
    ));
}

/// Under Slurm nothing ends a barrier that a rank will never enter.
#[test]
fn a_reply_that_does_not_come_is_an_error_in_time() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    for reply in [
        "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        "my_kvsname rc=0 kvsname=3.0",
        "maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
        "barrier_out rc=0",
    ] {
        ours.write_all(format!("cmd={reply}\n").as_bytes()).unwrap();
    }
    let timeout = Duration::from_millis(50);
    let client = Client::connect(theirs, 0, 2, Some(timeout)).unwrap();
    client.barrier().unwrap();

    // Half a reply does not count as a reply.
    ours.write_all(b"cmd=barrier_").unwrap();
    let begun = Instant::now();
    let error = client.barrier().unwrap_err();
    let waited = begun.elapsed();
    assert!(
        matches!(
            error,
            PmiError::NoReply {
                request: "barrier",
                ..
            }
        ),
        "{error}"
    );
    assert!(waited >= timeout, "{waited:?}");
    assert!(error.to_string().contains("for 50ms"), "{error}");
}

#[test]
fn strange_replies_are_shown() {
    for (reply, shown) in [
        (
            "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n",
            "pmi_version=2",
        ),
        (
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1 msg=no_way\n",
            "no_way",
        ),
        ("cmd=barrier_out rc=0\n", "barrier_out"),
        ("hello\n", "hello"),
        ("\n", "\"\""),
    ] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(reply.as_bytes()).unwrap();
        let error = Client::connect(theirs, 0, 1, None)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(shown), "{error}");
    }
}

#[test]
fn malformed_requests_are_answered_not_obeyed() {
    let mut server = Server::new(2, "space");
    let mut say = |line: &str| match &server.receive(1, line.as_bytes())[..] {
        [Action::Reply { rank: 1, line }] => line.clone(),
        other => panic!("{other:?}"),
    };
    assert!(say("cmd=put key=a value=b\n").contains("put_result rc=-1"));
    assert!(say("cmd=init pmi_version=2 pmi_subversion=0\n").contains("rc=-1"));
    assert!(say("cmd=init pmi_version=1 pmi_subversion=1\n").contains("rc=0"));
    assert!(say("cmd=put key=a\n").contains("rc=-1"));
    assert!(say("cmd=put kvsname=other key=a value=b\n").contains("rc=-1"));
    assert!(
        say(&format!(
            "cmd=put kvsname=space key={} value=b\n",
            "k".repeat(65)
        ))
        .contains("rc=-1")
    );
    assert!(say(&format!("cmd=put key=k value={}\n", "v".repeat(40_000))).contains("rc=-1"));
    assert!(say("cmd=get\n").contains("get_result rc=-1"));
    assert!(say("cmd=spawn nprocs=4\n").contains("spawn_result rc=-1"));
    assert!(say("\n").contains("malformed"));
    assert!(say("cmd=finalize\n").contains("finalize_ack rc=0"));
}
