//! When data is in memory, seen from the processor and through the same and another adapter.

use super::*;

/// Far longer than a test takes.
const LATE: &str = "mlx5,late=60000000";

#[test]
fn a_completion_from_another_adapter_says_nothing_of_memory_and_a_read_behind_does() {
    let two = Two::with(&[LATE, LATE], "", PLAN);
    let (from, lkey, to, rkey) = memory(&two, 1);
    two.one
        .post(request(Operation::Write, piece(&from, lkey), &to, rkey))
        .unwrap();
    assert_eq!(two.one.status(), Status::Success);
    assert_eq!(load(&to, 0), 0, "on its way");
    let back = vec![0_u64];
    let bkey = two.one.register(&back, ALL);
    two.one
        .post(request(Operation::Read, piece(&back, bkey), &to, rkey))
        .unwrap();
    assert_eq!(two.one.status(), Status::Success);
    assert_eq!((load(&back, 0), load(&to, 0)), (5, 5));
}

#[test]
fn a_completion_does_not_pass_data_of_the_same_adapter() {
    let two = Two::on(LATE, PLAN);
    let (from, lkey, to, rkey) = memory(&two, 1);
    two.one
        .post(request(Operation::Write, piece(&from, lkey), &to, rkey))
        .unwrap();
    assert_eq!(two.one.status(), Status::Success);
    assert_eq!(load(&to, 0), 5);
}

#[test]
fn atomics_and_receives_come_behind_data() {
    let two = Two::with(&[LATE, LATE], "", PLAN);
    let (from, lkey, to, rkey) = memory(&two, 2);
    let write = || request(Operation::Write, piece(&from[..1], lkey), &to, rkey);
    two.one.post(write()).unwrap();
    let mut add = request(Operation::FetchAdd(1), piece(&from[1..], lkey), &to, rkey);
    add.address += 8;
    two.one.post(add).unwrap();
    assert_eq!([two.one.status(), two.one.status()], [Status::Success; 2]);
    assert_eq!([load(&to, 0), load(&to, 1)], [5, 1]);
    let zero = vec![0_u64];
    let zkey = two.one.register(&zero, ALL);
    two.one
        .post(request(Operation::Write, piece(&zero, zkey), &to, rkey))
        .unwrap();
    two.two.post_receive(1, &[]).unwrap();
    let mut told = request(Operation::Send, ibv_sge::default(), &[], 0);
    told.pieces.clear();
    two.one.post(told).unwrap();
    assert_eq!(two.two.status(), Status::Success);
    assert_eq!(load(&to, 0), 0);
}

#[test]
fn late_data_arrives_by_itself_and_before_its_memory_is_deregistered() {
    let two = Two::with(&["mlx5,late=1000"; 2], "", PLAN);
    let (from, lkey, to, rkey) = memory(&two, 1);
    two.one
        .post(request(Operation::Write, piece(&from, lkey), &to, rkey))
        .unwrap();
    let end = Instant::now() + LIMIT;
    while load(&to, 0) == 0 {
        assert!(Instant::now() < end, "it never arrives");
        std::thread::yield_now();
    }
    let two = Two::with(&[LATE, LATE], "", PLAN);
    let (from, lkey, to, rkey) = memory(&two, 1);
    two.one
        .post(request(Operation::Write, piece(&from, lkey), &to, rkey))
        .unwrap();
    assert_eq!(two.one.status(), Status::Success);
    region::deregister(&two.two.context, rkey);
    assert_eq!(load(&to, 0), 5);
}

#[test]
fn a_write_may_overtake_a_read_unless_it_is_fenced() {
    let chosen = |fence: u32| {
        let two = Two::on("mlx5,overtake", PLAN);
        let (from, lkey, to, rkey) = memory(&two, 1);
        let back = vec![0_u64; 1];
        let bkey = two.one.register(&back, ALL);
        let mut overtaken = 0;
        for round in 0..32 {
            // SAFETY: nothing is under way.
            unsafe { to.as_ptr().cast_mut().write_volatile(0) };
            let read = request(Operation::Read, piece(&back, bkey), &to, rkey);
            let mut write = request(Operation::Write, piece(&from, lkey), &to, rkey);
            write.flags |= fence;
            for request in [read, write] {
                two.one.pair.post_send(&two.one.context, request).unwrap();
            }
            two.one.context.list(&two.one.pair);
            let found = [two.one.wait(), two.one.wait()];
            let opcodes = found.map(|done| done.opcode);
            assert_eq!(
                opcodes,
                [completion::RDMA_READ, completion::RDMA_WRITE],
                "{round}"
            );
            overtaken += u64::from(load(&back, 0) == 5);
        }
        overtaken
    };
    assert!((1..32).contains(&chosen(0)));
    assert_eq!(chosen(send_flag::FENCE), 0);
}

#[test]
fn a_write_may_be_placed_before_one_that_is_under_way() {
    for (adapter, wanted) in [("mlx5,any-order", 5), ("mlx5", 0)] {
        // The first request has no answer. The seed 0 lets the second one pass.
        let two = Two::with(&[adapter], "unanswered@1", PLAN);
        let (from, lkey, to, rkey) = memory(&two, 2);
        let first = request(Operation::Write, piece(&from[..1], lkey), &to, rkey);
        let mut second = first.clone();
        second.address += 8;
        for request in [first, second] {
            two.one.pair.post_send(&two.one.context, request).unwrap();
        }
        two.one.context.list(&two.one.pair);
        assert_eq!(two.one.status(), Status::RetryExceeded);
        assert_eq!(two.one.status(), Status::Flushed);
        assert_eq!([load(&to, 0), load(&to, 1)], [0, wanted], "{adapter}");
    }
}

#[test]
fn answers_of_atomics_can_be_big_endian() {
    let two = Two::on("mlx5,big-endian", PLAN);
    let (from, lkey, to, rkey) = memory(&two, 1);
    let add = request(Operation::FetchAdd(1), piece(&from, lkey), &to, rkey);
    two.one.post(add.clone()).unwrap();
    two.one.post(add).unwrap();
    assert_eq!([two.one.status(), two.one.status()], [Status::Success; 2]);
    assert_eq!((load(&from, 0), load(&to, 0)), (1_u64.to_be(), 2));
}
