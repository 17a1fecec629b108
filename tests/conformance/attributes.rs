//! What windows say of themselves, and what users attach to them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use transom::raw::{Assert, ErrorHandler, Flavor, Keyval, MemoryModel, Window};
use transom::{ErrorClass, Info, Job, LockKind};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, Memory};
use crate::ops::put;
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["attributes":
    predefined_ones @ [1, 2],
    names @ [1],
    values_under_keys @ [2],
    callbacks_run_once_for_each_value @ [2],
    a_callback_that_fails_keeps_everything @ [2],
    a_window_that_cannot_be_freed_yet @ [2],
    error_handlers @ [2],
    a_callback_that_opens_an_epoch @ [2],
];

fn predefined_ones(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Heap, 64, 4)?;
    check_eq!(
        (window.flavor(), window.size(), window.disp_unit()),
        (Flavor::Create, 64, 4)
    );
    check_eq!(window.group().size(), job.world().size());
    window.close()?;
    let window = Window::allocate(job.world(), 64, 8, &Info::new())?;
    check_eq!(
        (window.flavor(), window.size(), window.disp_unit()),
        (Flavor::Allocate, 64, 8)
    );
    check_eq!(window.model(), MemoryModel::Unified);
    check!(!window.base().is_null());
    window.free()?;
    Ok(())
}

fn names(job: &Job) -> Outcome {
    let window = Window::allocate(job.world(), 64, 8, &Info::new())?;
    check_eq!(window.name(), "");
    window.set_name("halo");
    window.set_name("halo of the næxt step");
    check_eq!(window.name(), "halo of the næxt step");
    check!(format!("{window:?}").contains("næxt"));
    window.free()?;
    Ok(())
}

fn values_under_keys(job: &Job) -> Outcome {
    let (numbers, words) = (Keyval::<u64>::new(), Keyval::<Arc<str>>::new());
    let one = Window::allocate(job.world(), 64, 8, &Info::new())?;
    let other = Window::allocate(job.world(), 64, 8, &Info::new())?;
    check_eq!(one.attribute(&numbers), None);
    one.set_attribute(&numbers, 7)?;
    one.set_attribute(&words, "seven".into())?;
    other.set_attribute(&numbers.clone(), 8)?;
    check_eq!(one.attribute(&numbers.clone()), Some(7));
    check_eq!(one.attribute(&words).as_deref(), Some("seven"));
    check_eq!(
        (other.attribute(&numbers), other.attribute(&words)),
        (Some(8), None)
    );
    one.set_attribute(&numbers, 9)?;
    check_eq!(one.attribute(&numbers), Some(9));
    one.delete_attribute(&numbers)?;
    one.delete_attribute(&numbers)?;
    check_eq!(one.attribute(&numbers), None);
    check_eq!(one.attribute(&words).as_deref(), Some("seven"));
    one.free()?;
    other.free()?;
    Ok(())
}

fn callbacks_run_once_for_each_value(job: &Job) -> Outcome {
    let gone = Arc::new(Mutex::new(Vec::new()));
    let log = gone.clone();
    let key = Keyval::with_delete(move |window: &Window, value: &u32| {
        // It may ask the window.
        log.lock().unwrap().push((window.name(), *value));
        Ok(())
    });
    let other = key.clone();
    let window = Window::allocate(job.world(), 64, 8, &Info::new())?;
    window.set_name("w");
    window.set_attribute(&key, 1)?;
    window.set_attribute(&other, 2)?;
    window.delete_attribute(&key)?;
    window.set_attribute(&key, 3)?;
    // The key outlives its handles.
    drop((key, other));
    check_eq!(gone.lock().unwrap().len(), 2);
    let dynamic = Window::create_dynamic(job.world(), &Info::new())?;
    dynamic.free()?;
    window.free()?;
    let values: Vec<_> = gone
        .lock()
        .unwrap()
        .iter()
        .map(|(_, value)| *value)
        .collect();
    check_eq!(values, [1, 2, 3]);
    check!(gone.lock().unwrap().iter().all(|(name, _)| name == "w"));
    Ok(())
}

fn a_callback_that_fails_keeps_everything(job: &Job) -> Outcome {
    let refusals = Arc::new(AtomicU32::new(3));
    let left = refusals.clone();
    let key = Keyval::with_delete(move |_: &Window, _: &u32| {
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        }) {
            Ok(_) => Err("not yet".into()),
            Err(_) => Ok(()),
        }
    });
    let window = Window::allocate(job.world(), 64, 8, &Info::new())?;
    window.set_attribute(&key, 5)?;
    let words = ["callback", "not yet"];
    refused(window.set_attribute(&key, 6), ErrorClass::Other, &words)?;
    refused(window.delete_attribute(&key), ErrorClass::Other, &words)?;
    check_eq!(window.attribute(&key), Some(5));
    let Err((window, error)) = window.try_free() else {
        check!(false, "freed over a refusal");
        return Ok(());
    };
    refused::<()>(Err(error), ErrorClass::Other, &["free", "not yet"])?;
    check_eq!(window.attribute(&key), Some(5));
    window.fence(Assert::NONE)?;
    put(&window, &[1; 8], 1 - window.rank(), 0)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.free()?;
    Ok(())
}

fn a_window_that_cannot_be_freed_yet(job: &Job) -> Outcome {
    let window = Window::allocate(job.world(), 64, 8, &Info::new())?;
    window.lock(LockKind::Shared, 0, Assert::NONE)?;
    let Err((window, error)) = window.try_free() else {
        check!(false, "freed under a lock");
        return Ok(());
    };
    refused::<()>(Err(error), ErrorClass::RmaSync, &["free", "epoch"])?;
    put(&window, &[7; 8], 0, 0)?;
    window.unlock(0)?;
    let freed = window.try_free();
    check!(freed.is_ok(), "{:?}", freed.err());
    Ok(())
}

fn error_handlers(job: &Job) -> Outcome {
    let window = Window::allocate(job.world(), 64, 8, &Info::new())?;
    check!(matches!(window.error_handler(), ErrorHandler::Return));
    refused(
        window.handled(|window| window.unlock(0)),
        ErrorClass::RmaSync,
        &["unlock"],
    )?;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    window.set_error_handler(ErrorHandler::Function(Arc::new(move |window, error| {
        log.lock().unwrap().push((window.ranks(), error.class()));
    })));
    refused(
        window.handled(|window| window.unlock(0)),
        ErrorClass::RmaSync,
        &["unlock"],
    )?;
    refused(
        window.handled(|window| window.flush(9)),
        ErrorClass::Rank,
        &["rank 9"],
    )?;
    check_eq!(window.handled(|window| window.size_of(0))?, 64);
    check_eq!(
        *heard.lock().unwrap(),
        [(2, ErrorClass::RmaSync), (2, ErrorClass::Rank)]
    );
    window.handled(|window| window.fence(Assert::NO_SUCCEED))?;
    window.free()?;
    Ok(())
}

/// It runs within `free`, which has to look again.
fn a_callback_that_opens_an_epoch(job: &Job) -> Outcome {
    let window = Window::allocate(job.world(), 64, 8, &Info::new())?;
    let key = Keyval::with_delete(|window: &Window, _: &u32| {
        window.lock(LockKind::Exclusive, window.rank(), Assert::NONE)?;
        Ok(())
    });
    window.set_attribute(&key, 1_u32)?;
    let Err((window, error)) = window.try_free() else {
        return Err(Failure::new("freed with a lock held"));
    };
    check_eq!(error.class(), ErrorClass::RmaSync, "{error}");
    window.unlock(window.rank())?;
    window.free()?;
    Ok(())
}
