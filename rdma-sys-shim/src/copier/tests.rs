use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;

use super::*;

/// One whose second thread runs, also where there is one processor only.
fn started() -> Copier {
    let copier = Copier::new(Arc::new(|start| start()));
    {
        let mut turn = copier.take_turn().unwrap();
        assert!(copier.has_started(&mut turn.thread));
    }
    copier
}

#[test]
fn two_threads_are_at_the_pieces() {
    let copier = started();
    let met = Barrier::new(2);
    for _ in 0..100 {
        // Either waits until the other has a piece, too.
        let row = Row::new(2, |_| {
            met.wait();
            Ok::<_, ()>(())
        });
        copier.carry_out_shared(&row, Duration::MAX);
    }
}

#[test]
fn each_thread_begins_at_an_end_of_its_own() {
    let copier = started();
    let me = thread::current().id();
    let (mine, others) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let both_began = Barrier::new(2);
    let row = Row::new(100, |part| {
        let is_mine = thread::current().id() == me;
        let list = if is_mine { &mine } else { &others };
        let mut list = list.lock().unwrap();
        list.extend(part);
        if list.len() == 1 {
            both_began.wait();
        }
        Ok::<_, ()>(())
    });
    copier.carry_out_shared(&row, Duration::MAX);
    let (mine, others) = (mine.into_inner().unwrap(), others.into_inner().unwrap());
    assert_eq!(mine, (0..mine.len()).collect::<Vec<_>>());
    assert_eq!(others, (mine.len()..100).rev().collect::<Vec<_>>());
}

#[test]
fn each_piece_is_carried_out_once_whoever_asks_at_the_same_time() {
    let copier = started();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for count in (0..200).chain([1, 2, 3, 1000]) {
                    let pieces: Vec<_> = (0..count).map(|_| AtomicU32::new(0)).collect();
                    let shared = copier.share_out(Pieces::Writes, count, |part| {
                        for piece in &pieces[part] {
                            piece.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok::<_, ()>(())
                    });
                    assert_eq!(shared, Ok(()));
                    let times = pieces.iter().map(|piece| piece.load(Ordering::Relaxed));
                    assert!(times.into_iter().all(|times| times == 1), "{count}");
                }
            });
        }
    });
}

#[test]
fn what_is_shared_out_is_done_by_two_threads_where_that_is_sooner() {
    let _leave = SecondThread::allow(Arc::new(|start| start()));
    let threads = Mutex::new(HashSet::new());
    // Pieces that take no processor: two threads take half as long, whatever else runs.
    let rounds = (0..100).take_while(|_| {
        let done = share_out(Pieces::Writes, 16, 1, |part| {
            threads.lock().unwrap().insert(thread::current().id());
            thread::sleep(part.len() as u32 * Duration::from_micros(200));
            Ok::<_, ()>(())
        });
        assert_eq!(done, Ok(()));
        threads.lock().unwrap().len() < 2
    });
    assert!(rounds.count() < 100, "only one thread");
}

#[test]
fn where_pieces_are_slow_the_second_thread_leaves_them_to_the_first() {
    let copier = started();
    let me = thread::current().id();
    let (all, others) = (AtomicU32::new(0), AtomicU32::new(0));
    let row = Row::new(20, |_| {
        all.fetch_add(1, Ordering::Relaxed);
        if thread::current().id() != me {
            others.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(1));
        Ok::<_, ()>(())
    });
    copier.carry_out_shared(&row, Duration::from_micros(10));
    assert_eq!(all.into_inner(), 20);
    // Where it sleeps longer it may take a second one before the first of the other is over.
    let others = others.into_inner();
    assert!(others < 5, "{others}");
}

#[test]
fn a_failure_is_told_and_no_part_is_begun_after_it() {
    let fails_at_3 = |part: Range<usize>| match part.contains(&3) {
        true => Err("torn"),
        false => Ok(()),
    };
    let copier = started();
    for _ in 0..50 {
        let shared = copier.share_out(Pieces::Reads, 1000, fails_at_3);
        assert_eq!(shared, Err("torn"));
    }
    let begun = AtomicUsize::new(0);
    for _ in 0..100 {
        let row = Row::new(100_000, |part| {
            begun.fetch_add(1, Ordering::Relaxed);
            fails_at_3(part)
        });
        copier.carry_out_shared(&row, Duration::MAX);
        assert!(row.has_failed());
    }
    // The other thread may be late to notice, but not each time by all of them.
    let begun = begun.into_inner();
    assert!(begun < 5_000_000, "{begun}");
}

#[test]
fn a_panic_of_the_second_thread_is_the_first_ones() {
    let copier = started();
    let (me, met) = (thread::current().id(), Barrier::new(2));
    for _ in 0..3 {
        let row = Row::new(2, |_| {
            met.wait();
            assert_eq!(thread::current().id(), me, "as it should");
            Ok::<_, ()>(())
        });
        let shared = panic::catch_unwind(AssertUnwindSafe(|| {
            copier.carry_out_shared(&row, Duration::MAX)
        }));
        let payload = shared.unwrap_err();
        assert!(
            payload
                .downcast::<String>()
                .unwrap()
                .contains("as it should")
        );
    }
}

#[test]
fn leave_lasts_as_long_as_somebody_gives_it() {
    let current = Current::nobodys();
    assert!(current.get().is_none());
    let first = current.get_or_make(Arc::new(|start| start()));
    let second = current.get_or_make(Arc::new(|start| start()));
    assert!(
        Arc::ptr_eq(&first, &second),
        "one thread, whoever gives leave"
    );
    drop(first);
    assert!(current.get().is_some_and(|one| Arc::ptr_eq(&one, &second)));
    drop(second);
    assert!(current.get().is_none());
}

#[test]
fn the_second_thread_starts_as_it_is_told_and_when_it_is_needed() {
    let starts = Arc::new(AtomicU32::new(0));
    let counted = starts.clone();
    let copier = Copier::new(Arc::new(move |start: &mut dyn FnMut()| {
        start();
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    assert_eq!(starts.load(Ordering::Relaxed), 0);
    for _ in 0..2 {
        assert!(copier.has_started(&mut copier.take_turn().unwrap().thread));
        assert_eq!(starts.load(Ordering::Relaxed), 1);
    }
    let refuses = Copier::new(Arc::new(|_| ()));
    assert!(!refuses.has_started(&mut refuses.take_turn().unwrap().thread));
    assert_eq!(
        refuses.share_out(Pieces::Reads, 9, |_| Ok::<_, ()>(())),
        Ok(())
    );
}
