//! The contract of [`Device`] and [`Endpoint`](crate::Endpoint) as cases, over the devices of any provider.
//!
//! A test binary runs the cases that [`over`] lists. A case panics if the device violates the contract.

mod access;
mod accumulates;
mod atomics;
mod devices;
mod peers;
mod posted;
mod transfers;

pub use peers::{
    Peers, aligned, alone, compare_swap, each_region, each_region_with_atomics, fetch_add, finish,
    fresh_memory, memory, peers, read, update_each, write,
};

use std::sync::Arc;

use crate::agent_atomics::WithAgentAtomics;
use crate::{Device, JobSecret, Registry, Result};

/// A device that writes and reads by `device`. A thread of the target carries out its atomics, over TCP.
///
/// # Errors
/// There is no network interface, or the system refuses.
pub fn with_agent_atomics(device: Arc<dyn Device>, secret: JobSecret) -> Result<Arc<dyn Device>> {
    Ok(Arc::new(WithAgentAtomics::new(device, secret)?))
}

/// The device that a case tests.
#[derive(Clone, Copy)]
pub struct Setup {
    /// The providers, including the one under test.
    pub registry: Registry,
    /// The device, as [`Registry::open`] takes it.
    pub spec: &'static str,
}

impl Setup {
    /// Two devices, or one with a connection to itself.
    #[must_use]
    pub fn peers(&self, to_self: bool) -> Peers {
        peers(self.registry, self.spec, to_self)
    }

    /// Runs a test with a peer, and with the device itself as its peer.
    fn both_ways(&self, test: impl Fn(&Peers)) {
        for to_self in [false, true] {
            eprintln!("to {}", if to_self { "oneself" } else { "a peer" });
            test(&self.peers(to_self));
        }
    }
}

/// A test case: a part of the contract.
#[derive(Clone, Copy)]
pub struct Case {
    /// In the form `TOPIC/WHAT`.
    pub name: &'static str,
    run: fn(&Setup),
}

impl Case {
    /// Runs the case. No other case of this process runs at the same time.
    pub fn run(&self, setup: &Setup) {
        let _alone = alone();
        (self.run)(setup);
    }
}

/// All cases over each of these devices, as tests named `DEVICE/TOPIC/WHAT`.
pub fn over(
    registry: Registry,
    specs: Vec<&'static str>,
) -> impl Iterator<Item = (String, impl FnOnce() + Send + 'static)> {
    specs.into_iter().flat_map(move |spec| {
        CASES.iter().map(move |case| {
            let setup = Setup { registry, spec };
            let name = format!("{spec}/{}", case.name);
            (name, move || case.run(&setup))
        })
    })
}

/// Makes a test function of a case: it returns `Ok` unless the case panics.
pub fn outcome<E>(run: impl FnOnce()) -> impl FnOnce() -> std::result::Result<(), E> {
    move || {
        run();
        Ok(())
    }
}

/// Makes cases from functions, named by their topics.
macro_rules! cases {
    ($($topic:ident { $($what:ident),* $(,)? })*) => {
        &[$($(Case {
            name: concat!(stringify!($topic), "/", stringify!($what)),
            run: $topic::$what,
        }),*),*]
    };
}

/// All cases, in the best order for a new provider to pass them.
pub const CASES: &[Case] = cases! {
    devices {
        allocated_memory_is_zeroed_and_aligned,
        more_memory_than_there_is,
        memory_that_is_not_there,
        addresses_that_are_none,
        a_peer_lives_until_it_has_closed,
    }
    transfers {
        every_length,
        a_read_sees_the_writes_before_it,
        buffers_are_free_once_released,
        batches_of_any_pieces,
        blocks_of_any_strides,
        a_mapping_is_the_memory_itself,
    }
    atomics {
        words_of_eight_bytes,
        narrow_words,
        updates_of_many_words,
        updates_of_words_anywhere,
        all_threads_add_to_one_word,
        several_endpoints_add_to_one_word,
    }
    accumulates {
        two_of_them_in_their_order,
        one_that_waits_for_its_lock,
        ones_that_make_no_sense,
    }
    posted {
        a_store_is_behind_what_was_written,
        stores_and_updates_go_at_once,
        a_store_takes_its_value_with_it,
        each_is_behind_what_was_posted_before,
        any_number_is_posted,
        closing_waits_for_it,
        a_failure_gives_all_buffers_back,
    }
    access {
        places_outside_and_forged_keys,
        places_outside_of_ones_own_memory,
        rights_that_were_not_granted,
        a_key_of_memory_that_is_gone,
        misaligned_atomics,
        batches_that_leave_the_region,
        lists_of_which_the_end_is_outside,
    }
};
