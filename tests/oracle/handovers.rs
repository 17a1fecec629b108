//! Data that goes from one thread to another by put with notification, in the middle of an epoch.
//!
//! A handover is a few puts, the last of which raises a counter; its reader waits for the counter,
//! loads, and may answer by a notification of its own: then the same bytes are put to again. All of
//! them stand in one order, in which they are added to the scripts, so that nobody waits in a circle.

use std::collections::HashMap;
use std::ops::Range;

use transom::raw::Assert;
use transom::{BasicType, LockKind};
use transom_testing::random::Random;

use crate::access::{Access, Kind};
use crate::layouts::Sequence;
use crate::program::{Await, Call, Epoch, Role, Sync, WindowSpec};
use crate::scripts::Writer;
use crate::values::buffer;

/// Two threads, and the memory that one puts to and the other reads.
struct Channel {
    sender: (u32, usize),
    reader: (u32, usize),
    bytes: Range<usize>,
    counter: u32,
    /// The counter at the sender by which the reader says that it has loaded.
    answers: Option<u32>,
    /// Without answers each handover has memory of its own: so much was used.
    used: usize,
    /// The last answer.
    after: Option<u32>,
}

/// Where in a script the next part of a handover may be.
type Cursors = HashMap<(u32, usize), usize>;

pub(crate) fn write(
    random: &mut Random,
    spec: &WindowSpec,
    writer: &mut Writer,
    epoch: &mut Epoch,
) {
    let mut channels = channels(random, spec, writer, epoch);
    let mut cursors = Cursors::new();
    if channels.is_empty() {
        return;
    }
    for _ in 0..random.from(1, 2 * channels.len()) {
        let chosen = random.below(channels.len());
        let unit = spec.parts[channels[chosen].reader.0 as usize].unit as usize;
        handover(
            random,
            writer,
            epoch,
            &mut channels[chosen],
            unit,
            &mut cursors,
        );
    }
}

fn channels(
    random: &mut Random,
    spec: &WindowSpec,
    writer: &Writer,
    epoch: &Epoch,
) -> Vec<Channel> {
    let mut found = Vec::new();
    // The even ones: others raise the odd ones.
    let mut next = vec![0; spec.parts.len()];
    let mut take = |rank: u32| {
        let counter = next[rank as usize];
        let is_there = counter < spec.parts[rank as usize].counters;
        is_there.then(|| {
            next[rank as usize] += 2;
            counter
        })
    };
    for (target, areas) in (0..).zip(&epoch.areas) {
        for area in areas {
            let Role::Mailbox { sender, reader } = area.role else {
                continue;
            };
            let Some(counter) = take(target) else {
                continue;
            };
            let may_answer = match &epoch.sync {
                Sync::Exposure { origins, .. } => origins[sender.0 as usize].contains(&target),
                Sync::Locks => writer.locker(target, sender.0) == reader,
                _ => true,
            };
            let answers = may_answer && random.one_in(2);
            found.push(Channel {
                sender,
                reader: (target, reader),
                bytes: area.bytes.clone(),
                counter,
                answers: answers.then(|| take(sender.0)).flatten(),
                used: 0,
                after: None,
            });
        }
    }
    found
}

fn handover(
    random: &mut Random,
    writer: &mut Writer,
    epoch: &mut Epoch,
    channel: &mut Channel,
    unit: usize,
    cursors: &mut Cursors,
) {
    let (target, all) = (channel.reader.0, channel.bytes.clone());
    let start = (all.start + channel.used).next_multiple_of(unit);
    if start >= all.end {
        return;
    }
    let end = match channel.answers {
        Some(_) => all.end,
        None => random.from(start + 1, all.end),
    };
    let mut puts = Vec::new();
    let mut at = start;
    while at < end && puts.len() < 4 {
        let len = match random.one_in(3) {
            true => end - at,
            false => random.from(1, end - at),
        };
        let next = (at + len).next_multiple_of(unit).min(end);
        puts.push(put(random, writer, target, at..next));
        at = next;
    }
    let last = at;
    // The last of them notifies, or one that puts nothing.
    let notifies = |put: &Access| !put.derived;
    if !puts.last().is_some_and(notifies) || random.one_in(3) {
        puts.push(writer.new_access(Kind::Put, target, start, BasicType::Byte, 0));
    }
    let notification = puts.last_mut().expect("at least one");
    notification.notifies = Some(channel.counter);
    let told = notification.id;
    for put in &mut puts {
        put.after = channel.after;
    }
    let sends = puts
        .into_iter()
        .map(|put| Call::Access(put.into()))
        .collect();
    add(random, epoch, cursors, channel.sender, Some(target), sends);

    let mut load = writer.new_access(Kind::Load, target, start, BasicType::Byte, last - start);
    load.after = Some(told);
    let reads = vec![awaits(channel.counter, told), Call::Access(load.into())];
    add(random, epoch, cursors, channel.reader, None, reads);
    channel.used = last - all.start;

    if let Some(counter) = channel.answers {
        let sender = channel.sender.0;
        let mut answer = writer.new_access(Kind::Put, sender, 0, BasicType::Byte, 0);
        answer.notifies = Some(counter);
        answer.after = Some(told);
        let id = answer.id;
        let answers = vec![Call::Access(answer.into())];
        add(
            random,
            epoch,
            cursors,
            channel.reader,
            Some(sender),
            answers,
        );
        let waits = vec![awaits(counter, id)];
        add(random, epoch, cursors, channel.sender, None, waits);
        channel.used = 0;
        channel.after = Some(id);
    }
}

fn awaits(counter: u32, last: u32) -> Call {
    Call::Await(Await {
        counter,
        last,
        at_least: 0,
    })
}

/// A put to these bytes, or to some of them.
fn put(random: &mut Random, writer: &mut Writer, target: u32, bytes: Range<usize>) -> Access {
    let mut put = writer.new_access(Kind::Put, target, bytes.start, BasicType::Byte, bytes.len());
    let elements = Sequence {
        unit: vec![BasicType::Byte],
        times: random.from(1, bytes.len()),
        splits: true,
    };
    if random.one_in(3)
        && bytes.len() < 500
        && let Some(far) = elements.layout(random, bytes.len(), false)
        && let Some(near) = elements.layout(random, usize::MAX, true)
        // Placed as the displacement unit has it.
        && far.data.start == 0
    {
        (put.far, put.near, put.derived) = (far, near, true);
    }
    put.operands = buffer(random, &put.near, false);
    put
}

/// Puts calls into a script, behind what handovers before have put there; `target`: within an epoch
/// of that rank.
fn add(
    random: &mut Random,
    epoch: &mut Epoch,
    cursors: &mut Cursors,
    (rank, thread): (u32, usize),
    target: Option<u32>,
    mut calls: Vec<Call>,
) {
    if let (Some(target), Sync::Locks) = (target, &epoch.sync) {
        calls.insert(0, Call::Lock(LockKind::Shared, target, Assert::NONE));
        calls.push(Call::Unlock(target));
    }
    if random.one_in(4) {
        calls.insert(0, Call::Pause(random.below(300) as u64));
    }
    let cursor = cursors.entry((rank, thread)).or_default();
    let script = &mut epoch.scripts[rank as usize][thread];
    // Who holds a lock must not wait for somebody who may want it.
    let mut held = 0;
    let mut places = vec![];
    for at in 0..=script.len() {
        if held == 0 && at >= *cursor {
            places.push(at);
        }
        match script.get(at) {
            Some(Call::Lock(..)) => held += 1,
            Some(Call::Unlock(_)) => held -= 1,
            _ => {}
        }
    }
    let place = random.pick(&places);
    *cursor = place + calls.len();
    script.splice(place..place, calls).for_each(drop);
}
