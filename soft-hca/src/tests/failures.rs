//! Failures by request, and misuse that is told.

use super::*;
use crate::failure::Call;
use crate::misuse;

fn empty() -> Request {
    Request {
        pieces: Vec::new(),
        ..request(Operation::Write, ibv_sge::default(), &[], 0)
    }
}

#[test]
fn a_peer_that_does_not_answer_ends_a_request_after_all_retries() {
    let plan = Plan { retries: 2, ..PLAN };
    let two = Two::with(&["mlx5"], "unanswered@2", plan);
    two.one.post(empty()).unwrap();
    assert_eq!(two.one.status(), Status::Success);
    let begun = Instant::now();
    two.one.post(empty()).unwrap();
    assert_eq!(two.one.status(), Status::RetryExceeded);
    // Three times 4.096 µs · 2^10.
    assert!(
        begun.elapsed() >= Duration::from_micros(12_582),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_request_that_is_lost_arrives_and_is_counted_at_the_port() {
    let two = Two::with(&["mlx5"], "lost@2,lost@3", PLAN);
    let file = sysfs::class(two._folder.path(), 0).join("mlx5_0/ports/1/hw_counters");
    let file = file.join(sysfs::UNACKNOWLEDGED);
    sysfs::write(two.one.context.settings()).unwrap();
    for count in [0, 1, 2, 2] {
        two.one.post(empty()).unwrap();
        assert_eq!(two.one.status(), Status::Success);
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            format!("{count}\n")
        );
    }
}

#[test]
fn a_peer_that_is_not_ready_to_receive_is_asked_again() {
    let two = Two::plain();
    let from = vec![1_u64];
    let lkey = two.one.register(&from, ALL);
    let send = || request(Operation::Send, piece(&from, lkey), &[], 0);
    two.one.post(send()).unwrap();
    assert_eq!(two.one.status(), Status::RnrRetryExceeded);
    let patient = Plan {
        receive_retries: 7,
        ..PLAN
    };
    let two = Two::on("mlx5", patient);
    let (from, to) = (vec![1_u64], vec![0_u64]);
    let lkey = two.one.register(&from, ALL);
    let rkey = two.two.register(&to, ALL);
    two.one
        .post(request(Operation::Send, piece(&from, lkey), &[], 0))
        .unwrap();
    std::thread::sleep(Duration::from_millis(5));
    two.two.post_receive(1, &[piece(&to, rkey)]).unwrap();
    assert_eq!(
        (two.one.status(), two.two.status()),
        (Status::Success, Status::Success)
    );
    let two = Two::with(&["mlx5"], "not-ready@1", PLAN);
    two.one.post(empty()).unwrap();
    assert_eq!(two.one.status(), Status::RnrRetryExceeded);
}

#[test]
fn a_port_that_goes_down_is_reported_and_answers_nothing() {
    let two = Two::with(&["mlx5"], "port-down@1", PLAN);
    two.one.post(empty()).unwrap();
    assert_eq!(two.one.status(), Status::RetryExceeded);
    assert_eq!(
        [two.one.event(), two.two.event()],
        [Event::PortErr; 2],
        "both use the port"
    );
}

#[test]
fn a_device_that_is_gone_is_reported_and_completes_nothing() {
    let two = Two::with(&["mlx5"], "gone@1", PLAN);
    two.one.post(empty()).unwrap();
    assert_eq!(two.one.event(), Event::DeviceFatal);
    two.one.post(empty()).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(two.one.context.is_gone());
    let (found, _) = two.one.queue.poll(&mut [ibv_wc::default(); 2], u64::MAX);
    assert!(found <= 1, "the second one never completes");
}

#[test]
fn a_request_can_be_refused_or_never_complete() {
    let two = Two::with(&["mlx5"], "refused@1", PLAN);
    two.one.post(empty()).unwrap();
    assert_eq!(two.one.status(), Status::RemoteAccess);
    let two = Two::with(&["mlx5"], "hangs@1", PLAN);
    let (from, lkey, to, rkey) = memory(&two, 1);
    two.one
        .post(request(Operation::Write, piece(&from, lkey), &to, rkey))
        .unwrap();
    two.one.post(empty()).unwrap();
    let end = Instant::now() + LIMIT;
    while load(&to, 0) != 5 {
        assert!(Instant::now() < end, "it is carried out");
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(two.one.queue.poll(&mut [ibv_wc::default()], u64::MAX).0, 0);
}

#[test]
fn calls_fail_as_asked() {
    let two = Two::unconnected(
        &["mlx5"],
        "reg_mr=ENOMEM:1,rtr=ETIMEDOUT:2,post_send=EAGAIN:1",
        PLAN,
    );
    let memory = [0_u64];
    let address = memory.as_ptr().expose_provenance() as u64;
    let register = || region::register(&two.one.context, two.one.domain, address, 8, ALL);
    assert_eq!(register(), Err(Errno::NO_MEMORY));
    assert!(register().is_ok());
    two.one.prepare(ALL);
    for _ in 0..2 {
        assert_eq!(
            two.one.receive_from(&two.two, PLAN),
            Err(Errno(libc::ETIMEDOUT))
        );
    }
    two.one.receive_from(&two.two, PLAN).unwrap();
    two.one.send_to_peer(PLAN).unwrap();
    assert_eq!(two.one.post(empty()), Err(Errno(libc::EAGAIN)));
    assert!(two.one.post(empty()).is_ok());
    assert!(
        two.one
            .context
            .settings()
            .failures
            .of_call(Call::CreateCq)
            .is_ok()
    );
}

#[test]
fn memory_that_is_deregistered_under_way_is_told() {
    let two = Two::with(&["mlx5"], "hangs@1", PLAN);
    let (from, lkey, to, rkey) = memory(&two, 1);
    two.one
        .post(request(Operation::Write, piece(&from, lkey), &to, rkey))
        .unwrap();
    region::deregister(&two.one.context, lkey);
    assert_eq!(two.one.misuses(), 1);
    region::deregister(&two.two.context, rkey);
    assert_eq!(two.two.misuses(), 0);
}

#[test]
fn a_completion_queue_that_overflows_is_told_and_reported() {
    let plan = Plan {
        completions: 1,
        ..PLAN
    };
    let two = Two::on("mlx5", plan);
    two.one.post(empty()).unwrap();
    two.one.post(empty()).unwrap();
    assert_eq!(two.one.event(), Event::CqErr);
    two.one.wait_for_state(State::Error);
    assert_eq!(two.one.misuses(), 1);
}

#[test]
fn more_reads_than_the_peer_serves_are_told() {
    let two = Two::on(
        "mlx5",
        Plan {
            reads_in: 2,
            ..PLAN
        },
    );
    let (own, other) = (vec![0_u64], vec![0_u64]);
    let lkey = two.one.register(&own, ALL);
    let rkey = two.two.register(&other, ALL);
    for _ in 0..2 {
        two.one
            .post(request(Operation::Read, piece(&own, lkey), &other, rkey))
            .unwrap();
        assert_eq!(two.one.status(), Status::Success);
    }
    assert_eq!(two.one.misuses(), 1);
}

#[test]
fn a_send_queue_full_of_unsignalled_requests_is_told() {
    let two = Two::plain();
    for _ in 0..4 {
        two.one
            .post(Request {
                flags: 0,
                ..empty()
            })
            .unwrap();
    }
    assert_eq!(two.one.post(empty()), Err(Errno::NO_MEMORY));
    assert_eq!(two.one.misuses(), 1);
}

#[test]
fn what_is_told_counts() {
    let two = Two::plain();
    misuse::tell(&two.one.context, format_args!("a test"));
    assert_eq!(
        two.one.context.counters().to_string(),
        "1 queue pairs, 1 misuses"
    );
}
