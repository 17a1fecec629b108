//! Which requests share a bell, and what becomes of those that wait for it.

use super::*;

fn inline(value: &mut [u8; 8]) -> Request {
    let local = Local {
        base: value.as_mut_ptr(),
        len: 8,
        lkey: 0,
        inline: true,
    };
    local.base.expose_provenance();
    Request::whole(Operation::Write, RemoteAddress::default(), local)
}

#[test]
fn in_a_stream_eight_short_requests_share_a_bell() {
    let mut bench = Bench::after(23);
    assert_eq!(bench.bells(), [1, 1, 1, 1, 8, 8]);
    bench.queue.ask_about(23).unwrap();
    assert_eq!(bench.bells()[6..], [3]);
    assert_eq!(
        bench.signalled(),
        [1, 17, 23],
        "the last one reports, and nothing is added"
    );
    bench.report(23, None);
    bench.write(8).unwrap();
    assert_eq!(bench.bells()[7..], [1], "the stream has ended");
}

#[test]
fn nothing_waits_for_a_device_that_is_known_to_be_idle() {
    let mut bench = Bench::after(4);
    bench.report(4, None);
    for _ in 0..4 {
        bench.write(8).unwrap();
    }
    assert_eq!(bench.bells(), [1; 8]);
    bench.write(8).unwrap();
    assert_eq!(bench.bells(), [1; 8]);
}

#[test]
fn what_is_long_or_waited_for_takes_along_what_waits() {
    let last = [
        write(64 << 10),
        Request {
            operation: Operation::Store,
            ..write(8)
        },
        Request {
            fence: true,
            ..write(8)
        },
        Request {
            signal: true,
            ..write(8)
        },
        fetch_add(),
    ];
    for request in last {
        let mut bench = Bench::after(10);
        bench.post(request).unwrap();
        assert_eq!(bench.bells()[4..], [7]);
        let tickets: Vec<u64> = bench.seen.borrow().posted.iter().map(|p| p.0).collect();
        assert_eq!(tickets, (1..=11).collect::<Vec<u64>>());
    }
}

#[test]
fn what_waits_carries_its_data() {
    let mut bench = Bench::new(256);
    let mut value = [0_u8; 8];
    for byte in 0..11 {
        value.fill(byte);
        bench.post(inline(&mut value)).unwrap();
    }
    let mut values: Vec<[u8; 8]> = (11..30).map(|byte| [byte; 8]).collect();
    let chain: Vec<Request> = values.iter_mut().map(inline).collect();
    // SAFETY: no device uses the memory.
    unsafe { bench.queue.post(&chain) }.unwrap();
    assert_eq!(bench.bells()[4..], [16, 10], "seven waited");
    assert_eq!(bench.seen.borrow().carried, (0..30).collect::<Vec<u8>>());
}

#[test]
fn what_waits_goes_down_with_its_connection() {
    let mut bench = Bench::after(10);
    bench.seen.borrow_mut().flushes = true;
    bench.report(2, Some((status::IBV_WC_REM_ACCESS_ERR, 0)));
    assert!(bench.queue.is_idle());
    let bells = [1, 1, 1, 1];
    assert_eq!(bench.bells(), bells, "the device is not told of the rest");
    let failure = bench.queue.failure().unwrap();
    assert_eq!((failure.ticket, failure.flushed), (2, 8));
    bench.queue.ask().unwrap();
    assert_eq!(bench.bells(), bells);
}

#[test]
fn a_bell_that_is_refused_takes_down_what_waited() {
    let mut bench = Bench::after(10);
    bench.seen.borrow_mut().refuses = true;
    bench.queue.ask().unwrap_err();
    assert!(bench.queue.is_idle() && bench.seen.borrow().destroyed);
    let failure = bench.queue.failure().unwrap();
    assert_eq!((failure.ticket, failure.flushed), (1, 9));
}

#[test]
fn a_refusal_does_not_hide_what_was_reported_before() {
    let mut bench = Bench::after(10);
    bench.will_report(2, Some((status::IBV_WC_REM_ACCESS_ERR, 0)));
    bench.seen.borrow_mut().refuses = true;
    bench.queue.ask().unwrap_err();
    let failure = bench.queue.failure().unwrap();
    assert_eq!(failure.status, status::IBV_WC_REM_ACCESS_ERR);
    assert_eq!((failure.ticket, failure.flushed), (2, 8));
}
