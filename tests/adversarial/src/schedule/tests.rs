use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const KINDS: [Kind; 4] = [Kind::Write, Kind::Read, Kind::Atomic, Kind::Store];
const DELAY: Duration = Duration::from_micros(200);

/// The promises of [`rdma_sys_shim::Endpoint`], stated again independently.
fn promised(earlier: Kind, later: Kind, order: Order) -> bool {
    let after_everything = matches!(later, Kind::Atomic | Kind::Store);
    let seen = matches!(earlier, Kind::Write | Kind::Store) && later == Kind::Read;
    let by_rc = (earlier, later) == (Kind::Atomic, Kind::Read);
    after_everything || seen || (by_rc && order == Order::Rc)
}

fn shape(kind: Kind, len: usize) -> Shape {
    let unit = match kind {
        Kind::Write | Kind::Read => Some(1),
        Kind::Atomic => Some(8),
        Kind::Store => None,
    };
    let whole = unit.unwrap_or(len).max(1);
    Shape {
        kind,
        len: len / whole * whole,
        unit,
    }
}

/// Posts the shapes, with some steps in between, and continues until nothing is left.
fn run(schedule: &mut Schedule, shapes: &[(Shape, u8)]) -> Vec<Step> {
    let mut now = Instant::now();
    let mut steps = Vec::new();
    let mut step = |schedule: &mut Schedule| match schedule.next(now) {
        Next::Do(step) => {
            steps.push(step);
            true
        }
        Next::At(moment) => {
            assert!(moment > now, "a wait for what is possible now");
            now = moment;
            true
        }
        Next::Idle => false,
    };
    let start = Instant::now();
    for &(shape, between) in shapes {
        assert!(schedule.post(start, shape));
        for _ in 0..between {
            step(schedule);
        }
    }
    while step(schedule) {}
    assert!(now < start + shapes.len() as u32 * DELAY * 20 * 6 + Duration::from_secs(1));
    steps
}

fn first_and_last(steps: &[Step], wanted: u64) -> (usize, usize) {
    let mut of_it = steps.iter().enumerate().filter_map(|(at, step)| {
        matches!(step, Step::Part { ticket, .. } if *ticket == wanted).then_some(at)
    });
    let first = of_it.next().unwrap();
    (first, of_it.next_back().unwrap_or(first))
}

proptest! {
    #[test]
    fn every_operation_is_carried_out_once_and_in_a_promised_order(
        seed: u64,
        loose: bool,
        posted in prop::collection::vec((0..4_usize, 0..100_usize, 0..6_u8), 0..60),
    ) {
        let order = if loose { Order::Loose } else { Order::Rc };
        let shapes: Vec<_> = posted
            .iter()
            .map(|&(kind, len, between)| (shape(KINDS[kind], len), between))
            .collect();
        let steps = run(&mut Schedule::new(seed, 3, DELAY, order), &shapes);
        let mut reported = 0;
        for (at, step) in steps.iter().enumerate() {
            if let Step::Report { ticket } = step {
                reported += 1;
                prop_assert_eq!(*ticket, reported, "reports are in order");
                prop_assert!(first_and_last(&steps, *ticket).1 < at);
            }
        }
        prop_assert_eq!(reported, shapes.len() as u64);
        for (ticket, &(shape, _)) in (1..).zip(&shapes) {
            let mut parts: Vec<_> = steps
                .iter()
                .filter_map(|step| match step {
                    Step::Part { ticket: of, bytes, last } if *of == ticket => {
                        Some((bytes.clone(), *last))
                    }
                    _ => None,
                })
                .collect();
            let lasts: Vec<_> = parts.iter().map(|(_, last)| *last).collect();
            prop_assert!(lasts.iter().rev().skip(1).all(|last| !last) && lasts.ends_with(&[true]));
            parts.sort_by_key(|(bytes, _)| bytes.start);
            let mut end = 0;
            for (bytes, _) in parts {
                prop_assert_eq!(bytes.start, end);
                prop_assert!(bytes.start % shape.unit.unwrap_or(1) == 0);
                end = bytes.end;
            }
            prop_assert_eq!(end, shape.len);
            let first = first_and_last(&steps, ticket).0;
            for (before, &(earlier, _)) in (1..ticket).zip(&shapes) {
                if promised(earlier.kind, shape.kind, order) {
                    let effect = first_and_last(&steps, before).1;
                    prop_assert!(effect < first, "{:?} overtook {:?}", shape, earlier);
                }
            }
        }
    }

    #[test]
    fn what_comes_after_a_failure_is_never_seen_again(
        seed: u64,
        kinds in prop::collection::vec(0..4_usize, 1..30),
        nth in 0..60_usize,
    ) {
        let mut schedule = Schedule::new(seed, 0, DELAY, Order::Rc);
        let mut now = Instant::now();
        for &kind in &kinds {
            prop_assert!(schedule.post(now, shape(KINDS[kind], 64)));
        }
        let (mut failed, mut reported, mut parts) = (None, 0, 0);
        loop {
            match schedule.next(now) {
                Next::Do(Step::Part { ticket, .. }) => {
                    prop_assert!(failed.is_none_or(|failed| ticket < failed));
                    if parts == nth {
                        schedule.fail(ticket);
                        failed = Some(ticket);
                        prop_assert!(!schedule.post(now, shape(Kind::Write, 1)));
                    }
                    parts += 1;
                }
                Next::Do(Step::Report { ticket }) => {
                    reported += 1;
                    prop_assert_eq!(ticket, reported);
                }
                Next::At(moment) => now = moment,
                Next::Idle => break,
            }
        }
        prop_assert_eq!(reported, failed.unwrap_or(kinds.len() as u64));
    }
}

/// All orders in which three operations may take effect.
fn allowed(kinds: [Kind; 3], order: Order) -> BTreeSet<[usize; 3]> {
    [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ]
    .into_iter()
    .filter(|sequence| {
        let place = |one| sequence.iter().position(|&other| other == one);
        [(0, 1), (0, 2), (1, 2)]
            .into_iter()
            .all(|(earlier, later)| {
                !promised(kinds[earlier], kinds[later], order) || place(earlier) < place(later)
            })
    })
    .collect()
}

#[test]
fn every_order_that_is_allowed_happens_and_no_other() {
    for order in [Order::Rc, Order::Loose] {
        for number in 0..64_usize {
            let kinds = [number % 4, number / 4 % 4, number / 16].map(|kind| KINDS[kind]);
            let shapes = kinds.map(|kind| (shape(kind, 8), 0));
            let seen: BTreeSet<[usize; 3]> = (0..200)
                .map(|seed| {
                    let steps = run(&mut Schedule::new(seed, 0, DELAY, order), &shapes);
                    let mut sequence = [0, 1, 2];
                    sequence.sort_by_key(|&one| first_and_last(&steps, one as u64 + 1).1);
                    sequence
                })
                .collect();
            assert_eq!(seen, allowed(kinds, order), "{kinds:?}, {order:?}");
        }
    }
}

#[test]
fn pieces_of_a_write_come_in_any_order() {
    let two = |seed| {
        let shapes = [(shape(Kind::Write, 2), 0)];
        let steps = run(&mut Schedule::new(seed, 0, DELAY, Order::Rc), &shapes);
        steps
            .into_iter()
            .filter_map(|step| match step {
                Step::Part { bytes, .. } => Some((bytes.start, bytes.end)),
                Step::Report { .. } => None,
            })
            .collect::<Vec<_>>()
    };
    let seen: BTreeSet<_> = (0..100).map(two).collect();
    let wanted = [vec![(0, 2)], vec![(0, 1), (1, 2)], vec![(1, 2), (0, 1)]];
    assert_eq!(seen, wanted.into());
}

#[test]
fn the_plan_follows_from_the_seed_and_what_is_posted() {
    let plan = |seed, stream, between: u8| {
        let shapes = [(shape(Kind::Write, 100), between); 40];
        let steps = run(&mut Schedule::new(seed, stream, DELAY, Order::Rc), &shapes);
        let mut parts: Vec<_> = steps
            .into_iter()
            .filter_map(|step| match step {
                Step::Part { ticket, bytes, .. } => Some((ticket, bytes)),
                Step::Report { .. } => None,
            })
            .collect();
        // Which operation continues first is not part of the plan.
        parts.sort_by_key(|(ticket, _)| *ticket);
        parts
    };
    assert_eq!(plan(1, 0, 0), plan(1, 0, 5));
    assert_ne!(plan(1, 0, 0), plan(2, 0, 0));
    assert_ne!(plan(1, 0, 0), plan(1, 1, 0));
}
