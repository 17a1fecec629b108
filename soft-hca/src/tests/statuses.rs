//! Requests that end well, and each way to end badly.

use super::*;

#[test]
fn data_and_atomics_arrive() {
    let two = Two::plain();
    let (from, to) = (vec![3_u64, 4], vec![0_u64; 2]);
    let lkey = two.one.register(&from, ALL);
    let rkey = two.two.register(&to, ALL);
    two.one
        .post(request(Operation::Write, piece(&from, lkey), &to, rkey))
        .unwrap();
    let done = two.one.wait();
    let wanted = (Status::Success as i32, completion::RDMA_WRITE, 16);
    assert_eq!((done.status, done.opcode, done.byte_len), wanted);
    assert_eq!([load(&to, 0), load(&to, 1)], [3, 4]);
    let old = vec![0_u64];
    let okey = two.one.register(&old, ALL);
    let answer = piece(&old, okey);
    let swap = |expect| Operation::CompareSwap { expect, new: 9 };
    for (operation, found, left) in [
        (Operation::FetchAdd(2), 3, 5),
        (swap(4), 5, 5),
        (swap(5), 5, 9),
        (Operation::Read, 9, 9),
    ] {
        two.one.post(request(operation, answer, &to, rkey)).unwrap();
        assert_eq!(two.one.status(), Status::Success, "{operation:?}");
        assert_eq!(
            (load(&old, 0), load(&to, 0)),
            (found, left),
            "{operation:?}"
        );
    }
}

/// A request of side one, which must end like this, and what side two is told.
fn ends(two: &Two, request: Request, status: Status, event: Option<Event>) {
    two.one.post(request).unwrap();
    assert_eq!(two.one.status(), status);
    two.one.wait_for_state(State::Error);
    if let Some(event) = event {
        assert_eq!(two.two.event(), event);
        two.two.wait_for_state(State::Error);
    }
}

#[test]
fn keys_bounds_and_rights_are_checked_at_the_target() {
    let access = Some(Event::QpAccessErr);
    type Change = fn(&mut Request);
    let changes: [(u32, Change); 4] = [
        (ALL, |request| request.key += 1),
        (ALL, |request| request.address += 8),
        (ALL, |request| request.address = u64::MAX - 7),
        (access::LOCAL_WRITE | access::REMOTE_READ, |_| {}),
    ];
    for (rights, change) in changes {
        let two = Two::plain();
        let (from, to) = (vec![1_u64], vec![2_u64]);
        let lkey = two.one.register(&from, ALL);
        let rkey = two.two.register(&to, rights);
        let mut wrong = request(Operation::Write, piece(&from, lkey), &to, rkey);
        change(&mut wrong);
        ends(&two, wrong, Status::RemoteAccess, access);
        assert_eq!(load(&to, 0), 2, "nothing is written");
    }
}

#[test]
fn a_region_of_another_domain_or_one_that_is_gone_is_refused() {
    for is_gone in [false, true] {
        let two = Two::plain();
        let (from, to) = (vec![1_u64], vec![2_u64]);
        let lkey = two.one.register(&from, ALL);
        // The sides have domains of their own.
        let rkey = if is_gone {
            two.two.register(&to, ALL)
        } else {
            two.one.register(&to, ALL)
        };
        if is_gone {
            region::deregister(&two.two.context, rkey);
        }
        let wrong = request(Operation::Write, piece(&from, lkey), &to, rkey);
        ends(&two, wrong, Status::RemoteAccess, Some(Event::QpAccessErr));
    }
}

#[test]
fn what_a_queue_pair_does_not_allow_and_misaligned_atomics_are_invalid() {
    let (from, to) = (vec![1_u64], vec![2_u64, 0]);
    let plan = Plan {
        rights: access::REMOTE_READ,
        ..PLAN
    };
    for (plan, operation, beyond) in [
        (plan, Operation::Write, 0),
        (plan, Operation::FetchAdd(1), 0),
        (PLAN, Operation::FetchAdd(1), 4),
    ] {
        let two = Two::on("mlx5", plan);
        let lkey = two.one.register(&from, ALL);
        let rkey = two.two.register(&to, ALL);
        let mut wrong = request(operation, piece(&from, lkey), &to, rkey);
        wrong.address += beyond;
        ends(
            &two,
            wrong,
            Status::RemoteInvalidRequest,
            Some(Event::QpReqErr),
        );
    }
}

#[test]
fn own_memory_is_checked_too() {
    let (from, to) = (vec![1_u64], vec![2_u64]);
    type Change = fn(&mut ibv_sge);
    let changes: [(u32, Operation, Change); 3] = [
        (ALL, Operation::Write, |piece| piece.lkey += 1),
        (ALL, Operation::Write, |piece| piece.length += 1),
        (access::REMOTE_READ, Operation::Read, |_| {}),
    ];
    for (rights, operation, change) in changes {
        let two = Two::plain();
        let lkey = two.one.register(&from, rights);
        let rkey = two.two.register(&to, ALL);
        let mut own = piece(&from, lkey);
        change(&mut own);
        ends(
            &two,
            request(operation, own, &to, rkey),
            Status::LocalProtection,
            None,
        );
        assert_eq!(
            two.two.pair.entry(&two.two.context).state(),
            State::ReadyToSend
        );
    }
}

#[test]
fn a_message_that_is_too_long_ends_at_the_sender() {
    let two = Two::on("mlx5,max-message=8", PLAN);
    let (from, to) = (vec![1_u64; 2], vec![0_u64; 2]);
    let lkey = two.one.register(&from, ALL);
    let rkey = two.two.register(&to, ALL);
    ends(
        &two,
        request(Operation::Write, piece(&from, lkey), &to, rkey),
        Status::LocalLength,
        None,
    );
}

#[test]
fn without_data_no_key_is_checked() {
    let two = Two::plain();
    let mut empty = request(Operation::Write, ibv_sge::default(), &[], 0);
    empty.pieces.clear();
    two.one.post(empty).unwrap();
    assert_eq!(two.one.status(), Status::Success);
}

#[test]
fn a_failure_flushes_the_requests_behind_it_signalled_or_not() {
    let two = Two::plain();
    let (from, to) = (vec![1_u64], vec![2_u64]);
    let lkey = two.one.register(&from, ALL);
    let rkey = two.two.register(&to, ALL);
    let good = request(Operation::Write, piece(&from, lkey), &to, rkey);
    two.one.post_receive(7, &[]).unwrap();
    let requests = [
        Request {
            key: rkey + 1,
            ..good.clone()
        },
        Request {
            id: 2,
            flags: 0,
            ..good
        },
    ];
    // Both are posted before the doorbell.
    for request in requests {
        two.one.pair.post_send(&two.one.context, request).unwrap();
    }
    two.one.context.list(&two.one.pair);
    let mut found: Vec<_> = (0..3).map(|_| two.one.wait()).collect();
    found.sort_by_key(|done| done.wr_id);
    let ends: Vec<_> = found
        .iter()
        .map(|done| (done.wr_id, Status::of(done.status as u32)))
        .collect();
    assert_eq!(
        ends,
        [
            (1, Status::RemoteAccess),
            (2, Status::Flushed),
            (7, Status::Flushed)
        ]
    );
    assert_eq!(load(&to, 0), 2);
}

#[test]
fn states_follow_each_other_as_in_the_table_and_need_their_attributes() {
    let two = Two::unconnected(&["mlx5"], "", PLAN);
    let side = &two.one;
    let empty = ibv_qp_attr::default();
    for state in [State::Init, State::ReadyToReceive, State::ReadyToSend] {
        assert_eq!(
            side.modify(state, empty, 0),
            Err(Errno::INVALID),
            "{state:?}"
        );
    }
    side.prepare(ALL);
    assert_eq!(
        side.receive_from(
            &two.two,
            Plan {
                reads_in: 17,
                ..PLAN
            }
        ),
        Err(Errno::INVALID)
    );
    assert_eq!(side.send_to_peer(PLAN), Err(Errno::INVALID));
    side.receive_from(&two.two, PLAN).unwrap();
    let nothing = request(Operation::Write, ibv_sge::default(), &[], 0);
    assert_eq!(side.post(nothing), Err(Errno::INVALID), "not ready to send");
    assert_eq!(side.misuses(), 1);
    assert_eq!(
        side.send_to_peer(Plan {
            reads_out: 17,
            ..PLAN
        }),
        Err(Errno::INVALID)
    );
    side.send_to_peer(PLAN).unwrap();
    side.modify(State::Error, empty, 0).unwrap();
    side.modify(State::Reset, empty, 0).unwrap();
    assert_eq!(side.post_receive(1, &[]), Err(Errno::INVALID), "in Reset");
    side.prepare(ALL);
}

#[test]
fn there_is_no_way_from_an_address_of_one_family_to_one_of_the_other() {
    for (from, to, found) in [
        ("ipv6", "ipv6", Ok(())),
        // At index 0, from which it goes.
        ("both", "ipv6", Ok(())),
        ("both", "ipv4", Err(Errno::INVALID)),
        ("ipv4", "ipv6", Err(Errno::INVALID)),
    ] {
        let [from, to] = [from, to].map(|gids| format!("mlx5,roce,gids={gids}"));
        let two = Two::unconnected(&[&from, &to], "", PLAN);
        two.one.prepare(ALL);
        assert_eq!(two.one.receive_from(&two.two, PLAN), found, "{from} {to}");
    }
}

#[test]
fn a_queue_pair_that_was_reset_knows_nothing_of_what_was_posted_before() {
    let two = Two::plain();
    let memory = vec![1_u64];
    let key = two.two.register(&memory, ALL);
    for id in [1, 2] {
        two.two.post_receive(id, &[piece(&memory, key)]).unwrap();
    }
    let empty = |operation| Request {
        pieces: Vec::new(),
        ..request(operation, ibv_sge::default(), &[], 0)
    };
    let fill = || {
        for _ in 0..PLAN.cap.max_send_wr {
            two.one.post(empty(Operation::Write)).unwrap();
        }
    };
    fill();
    let end = Instant::now() + LIMIT;
    while two.one.context.counters().completions.get() < PLAN.cap.max_send_wr.into() {
        assert!(Instant::now() < end, "no completions");
        std::thread::yield_now();
    }
    for side in [&two.one, &two.two] {
        side.modify(State::Reset, ibv_qp_attr::default(), 0)
            .unwrap();
    }
    region::deregister(&two.two.context, key);
    assert_eq!(two.two.misuses(), 0, "no receive request uses it");
    two.connect(PLAN);
    two.one.post(empty(Operation::Send)).unwrap();
    assert_eq!(two.one.status(), Status::RnrRetryExceeded);
    for side in [&two.one, &two.two] {
        side.modify(State::Reset, ibv_qp_attr::default(), 0)
            .unwrap();
    }
    two.connect(PLAN);
    two.two.post_receive(3, &[]).unwrap();
    fill();
    for _ in 0..PLAN.cap.max_send_wr {
        assert_eq!(two.one.status(), Status::Success);
    }
    two.one.post(empty(Operation::Send)).unwrap();
    let done = two.two.wait();
    assert_eq!((done.wr_id, done.status), (3, Status::Success as i32));
    assert_eq!(two.one.status(), Status::Success);
    for side in [&two.one, &two.two] {
        assert_eq!(side.queue.poll(&mut [ibv_wc::default()], u64::MAX).0, 0);
    }
}

#[test]
fn limits_are_checked_when_a_request_is_posted() {
    let two = Two::on(
        "mlx5,atomics=none",
        Plan {
            rights: access::REMOTE_WRITE,
            ..PLAN
        },
    );
    let from = vec![1_u64; 9];
    let whole = piece(&from, 0);
    let write = request(Operation::Write, whole, &[], 0);
    let long = Request {
        flags: send_flag::INLINE,
        ..write.clone()
    };
    assert_eq!(two.one.post(long), Err(Errno::INVALID), "72 bytes inline");
    let many = Request {
        pieces: vec![whole; 3],
        ..write.clone()
    };
    assert_eq!(two.one.post(many), Err(Errno::INVALID), "three pieces");
    let atomic = request(Operation::FetchAdd(1), piece(&from[..1], 0), &[], 0);
    assert_eq!(two.one.post(atomic), Err(Errno::INVALID), "no atomics");
    let whole = [whole; 3];
    assert_eq!(
        two.one.post_receive(1, &whole),
        Err(Errno::INVALID),
        "three pieces"
    );
}

#[test]
fn inline_data_is_copied_when_it_is_posted_and_needs_no_key() {
    let two = Two::plain();
    let (mut from, to) = (vec![5_u64], vec![0_u64]);
    let rkey = two.two.register(&to, ALL);
    let mut write = request(Operation::Write, piece(&from, 0), &to, rkey);
    write.flags |= send_flag::INLINE;
    // An empty piece, at address 0.
    write.pieces.push(ibv_sge::default());
    two.one.pair.post_send(&two.one.context, write).unwrap();
    from[0] = 6;
    two.one.context.list(&two.one.pair);
    assert_eq!(two.one.status(), Status::Success);
    assert_eq!((load(&to, 0), load(&from, 0)), (5, 6));
}

#[test]
fn a_place_in_the_send_queue_is_free_when_a_completion_behind_it_was_polled() {
    let two = Two::plain();
    let empty = || Request {
        pieces: Vec::new(),
        flags: 0,
        ..request(Operation::Write, ibv_sge::default(), &[], 0)
    };
    for _ in 0..3 {
        two.one.post(empty()).unwrap();
    }
    let signalled = Request {
        flags: send_flag::SIGNALED,
        ..empty()
    };
    two.one.post(signalled).unwrap();
    assert_eq!(two.one.post(empty()), Err(Errno::NO_MEMORY));
    assert_eq!(two.one.status(), Status::Success);
    for _ in 0..4 {
        two.one.post(empty()).unwrap();
    }
    assert_eq!(two.one.post(empty()), Err(Errno::NO_MEMORY));
}

#[test]
fn sends_fill_receive_requests_in_order() {
    let two = Two::plain();
    let (from, to) = (vec![1_u64, 2, 3], vec![0_u64; 4]);
    let lkey = two.one.register(&from, ALL);
    let rkey = two.two.register(&to, ALL);
    let room = [piece(&to[..1], rkey), piece(&to[1..], rkey)];
    two.two.post_receive(11, &room).unwrap();
    two.two.post_receive(12, &[]).unwrap();
    assert_eq!(
        two.two.post_receive(13, &[]),
        Err(Errno::NO_MEMORY),
        "two at most"
    );
    let send = request(Operation::Send, piece(&from, lkey), &[], 0);
    two.one.post(send).unwrap();
    let mut told = request(Operation::Write, piece(&from, lkey), &to, rkey);
    told.immediate = Some(77);
    told.address += 8;
    two.one.post(told).unwrap();
    let done = two.two.wait();
    assert_eq!(
        (done.wr_id, done.opcode, done.byte_len),
        (11, completion::RECV, 24)
    );
    let done = two.two.wait();
    let wanted = (12, completion::RECV_RDMA_WITH_IMM, completion::WITH_IMM);
    assert_eq!((done.wr_id, done.opcode, done.wc_flags), wanted);
    assert_eq!((done.imm_data, done.src_qp), (77, two.one.pair.number));
    assert_eq!(
        [load(&to, 0), load(&to, 1), load(&to, 2), load(&to, 3)],
        [1, 1, 2, 3]
    );
}

#[test]
fn a_receive_request_that_is_too_short_or_may_not_be_written_fails_on_both_sides() {
    for (rights, sender, receiver) in [
        (ALL, Status::RemoteInvalidRequest, Status::LocalLength),
        (
            access::REMOTE_READ,
            Status::RemoteOperation,
            Status::LocalProtection,
        ),
    ] {
        let two = Two::plain();
        let (from, to) = (vec![1_u64, 2], vec![0_u64; 2]);
        let lkey = two.one.register(&from, ALL);
        let rkey = two.two.register(&to, rights);
        let room = if rights == ALL { &to[..1] } else { &to };
        two.two.post_receive(1, &[piece(room, rkey)]).unwrap();
        ends(
            &two,
            request(Operation::Send, piece(&from, lkey), &[], 0),
            sender,
            None,
        );
        assert_eq!(two.two.status(), receiver);
        two.two.wait_for_state(State::Error);
    }
}

#[test]
fn nobody_answers_a_wrong_address_packet_number_or_queue_pair() {
    type Change = fn(&mut ibv_qp_attr);
    let changes: [Change; 3] = [
        |route| route.ah_attr.dlid += 1,
        |route| route.sq_psn += 1,
        |route| route.dest_qp_num += 100,
    ];
    for change in changes {
        let two = Two::plain();
        change(&mut crate::completion::lock(&two.one.pair.route).attributes);
        let mut empty = request(Operation::Write, ibv_sge::default(), &[], 0);
        empty.pieces.clear();
        ends(&two, empty, Status::RetryExceeded, None);
    }
}
