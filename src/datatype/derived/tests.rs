//! Against a naive oracle, which expands every type literally; and what no oracle can expand.

mod oracle;

use std::collections::VecDeque;

use proptest::prelude::*;

use super::super::BasicType;
use super::cursor::Cursor;
use super::piece::{Blocks, Piece, Shape};
use super::signature::Signature;
use super::{Committed, Datatype, Order, Row, Together};
use crate::error::ErrorClass;
use oracle::{Expanded, Recipe, any_recipe};

fn f64s() -> Datatype {
    BasicType::F64.into()
}

/// Every byte of a layout, in order.
fn offsets(piece: Option<&Piece>) -> Vec<i64> {
    let rows = piece.map(Cursor::new).into_iter().flatten();
    rows.flat_map(|row| {
        let Row {
            at,
            len,
            count,
            stride,
        } = row;
        let block = move |number: u64| at + stride * number as i64;
        (0..count).flat_map(move |number| (0..len).map(move |byte| block(number) + byte as i64))
    })
    .collect()
}

fn bytes_of(ty: &Committed, count: u64) -> Vec<i64> {
    offsets(ty.bytes(count).as_deref())
}

proptest! {
    #[test]
    fn layouts_are_those_of_the_oracle(recipe in any_recipe(), count in 0..4_u64) {
        let wanted = recipe.expanded();
        let ty = recipe.built().unwrap();
        prop_assert_eq!(ty.size(), wanted.size());
        prop_assert_eq!((ty.lb(), ty.extent()), (wanted.lb(), wanted.extent()), "{:?}", recipe);
        prop_assert_eq!(ty.true_lb(), wanted.true_lb());
        prop_assert_eq!(ty.true_extent(), wanted.true_extent());
        let committed = ty.commit();
        let all = wanted.repeated(count, wanted.extent());
        prop_assert_eq!(bytes_of(&committed, count), all.bytes(), "{:?}", committed.bytes(count));
        if all.size() > 0 {
            let span = committed.times(count).measure("test").unwrap().span;
            prop_assert_eq!((span.lo, span.hi - span.lo), (all.true_lb(), all.true_extent()));
        }
    }

    #[test]
    fn pairs_of_layouts_are_walked_byte_by_byte(
        a in any_recipe(),
        b in any_recipe(),
        counts in (1..4_u64, 1..4_u64),
    ) {
        let (first, second) = (a.built().unwrap().commit(), b.built().unwrap().commit());
        let (Some(x), Some(y)) = (first.bytes(counts.0), second.bytes(counts.1)) else {
            return Ok(());
        };
        let mut pairs = Vec::new();
        for strip in Together::new([&*x, &*y]) {
            for block in 0..strip.count as i64 {
                let at = [0, 1].map(|side: usize| strip.at[side] + block * strip.stride[side]);
                pairs.extend((0..strip.len as i64).map(|byte| (at[0] + byte, at[1] + byte)));
            }
        }
        let wanted: Vec<_> = offsets(Some(&x)).into_iter().zip(offsets(Some(&y))).collect();
        prop_assert_eq!(pairs, wanted);
    }

    #[test]
    fn data_fits_where_a_sequence_begins_with_its_own(
        a in any_recipe(),
        b in any_recipe(),
        counts in (0..4_u64, 0..4_u64),
    ) {
        let sequence = |recipe: &Recipe, count| -> Vec<BasicType> {
            let expanded = recipe.expanded();
            expanded.repeated(count, expanded.extent()).sequence()
        };
        let (first, second) = (a.built().unwrap().commit(), b.built().unwrap().commit());
        let (data, room) = (sequence(&a, counts.0), sequence(&b, counts.1));
        prop_assert_eq!(first.fits(counts.0, &second, counts.1), room.starts_with(&data));
        // Whatever a sequence begins with fits into it.
        for len in 0..=room.len() {
            let wanted = (room[..len].iter())
                .fold(Signature::EMPTY, |all, &ty| all.then(Signature::of(ty)));
            let found = Signature::of_first(len as u64, second.datatype(), counts.1);
            prop_assert_eq!(found, Some(wanted));
        }
        prop_assert_eq!(
            Signature::of_first(room.len() as u64 + 1, second.datatype(), counts.1),
            None
        );
        let halves = Datatype::structure(&[1, 1], &[0, 0], &[a.built().unwrap(), b.built().unwrap()]);
        let mut both = sequence(&a, 1);
        both.extend(sequence(&b, 1));
        prop_assert_eq!(halves.unwrap().commit().signature(1).len, both.len() as u64);
    }

    #[test]
    fn elements_of_padded_pairs_are_kept_whole(
        displacements in prop::collection::vec(-40..40_i64, 1..6),
        len in 0..3_i64,
    ) {
        for basic in [BasicType::ShortInt, BasicType::DoubleInt, BasicType::F32] {
            let ty = Datatype::hindexed_block(len, &displacements, &basic.into()).unwrap();
            let committed = ty.commit();
            let extent = basic.extent() as i64;
            let wanted: Vec<i64> = displacements
                .iter()
                .flat_map(|at| (0..len * extent).map(move |byte| at + byte))
                .collect();
            prop_assert_eq!(offsets(committed.elements(1).as_deref()), wanted);
        }
    }
}

fn run(ty: &Datatype) -> Option<u64> {
    ty.commit().bytes(1)?.as_run()
}

#[test]
fn dense_layouts_are_one_run() {
    let rows = Datatype::vector(5, 3, 3, &f64s()).unwrap();
    assert_eq!(run(&rows), Some(120));
    let contiguous = Datatype::contiguous(1_000_000_000_000, &rows).unwrap();
    assert_eq!(run(&contiguous), Some(120_000_000_000_000));
    let members = [BasicType::I32, BasicType::I32, BasicType::F64].map(Datatype::from);
    let record = Datatype::structure(&[1, 1, 2], &[0, 4, 8], &members).unwrap();
    assert_eq!(
        run(&Datatype::contiguous(9, &record).unwrap()),
        Some(9 * 24)
    );
    let whole = Datatype::subarray(&[4, 6], &[4, 6], &[0, 0], Order::C, &record).unwrap();
    assert_eq!(run(&whole), Some(24 * 24));
    let listed = Datatype::indexed(&[2, 0, 3, 1], &[7, 99, 9, 12], &f64s()).unwrap();
    assert_eq!(run(&listed), Some(48));
    assert_eq!(listed.true_lb(), 56);
}

#[test]
fn lists_of_equal_strides_are_rows() {
    let places: Vec<i64> = (0..100_000).map(|block| block * 24).collect();
    let ty = Datatype::hindexed_block(2, &places, &f64s())
        .unwrap()
        .commit();
    let blocks = Blocks {
        len: 16,
        count: 100_000,
        stride: 24,
    };
    let piece = ty.bytes(1).unwrap();
    assert!(
        matches!(piece.shape, Shape::Blocks(found) if found == blocks),
        "{piece:?}"
    );
}

#[test]
fn data_below_a_far_place_is_found() {
    let below = Datatype::hindexed(&[1], &[i64::MIN / 2], &f64s()).unwrap();
    let far = Datatype::hindexed(&[1], &[i64::MAX], &below).unwrap();
    // The place of `far` in this leaves 64 bits; the data is inside.
    let ty = Datatype::hindexed(&[1], &[i64::MAX / 2 - 100], &far).unwrap();
    let place = i64::MAX - 101;
    assert_eq!(bytes_of(&ty.commit(), 1), Vec::from_iter(place..place + 8));
}

#[test]
fn huge_layouts_take_no_memory() {
    let column = Datatype::vector(1_000_000_000, 1, 1_000_000_000, &f64s()).unwrap();
    assert_eq!(column.size(), 8_000_000_000);
    let matrix = Datatype::hvector(1_000_000, 1, 8, &column)
        .unwrap()
        .commit();
    let first = Cursor::new(&matrix.bytes(1).unwrap()).next().unwrap();
    assert_eq!(first.count, 1_000_000_000);
    let block = Datatype::subarray(
        &[1 << 20, 1 << 20, 1 << 10],
        &[1 << 10, 1 << 10, 1 << 9],
        &[5, 6, 7],
        Order::Fortran,
        &f64s(),
    );
    assert_eq!(block.unwrap().commit().size(), 8 << 29);
}

/// Each of `LEVELS` levels is made of the one before.
const LEVELS: usize = 100_000;

fn nested(wrap: impl Fn(i64, &Datatype) -> crate::Result<Datatype>) -> Datatype {
    let mut ty = f64s();
    for level in 1..=LEVELS {
        ty = wrap(level as i64, &ty).unwrap();
    }
    ty
}

/// On a stack on which recursion would not come far.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(128 << 10);
    thread.spawn(test).unwrap().join().unwrap();
}

#[test]
fn types_nest_to_any_depth() {
    on_a_small_stack(|| {
        let dup = nested(|_, ty| Ok(Datatype::dup(ty)));
        assert_eq!(run(&dup), Some(8));
        let shifted = nested(|_, ty| Datatype::hindexed(&[1], &[3], ty));
        assert_eq!(bytes_of(&shifted.commit(), 1)[0], 3 * LEVELS as i64);
    });
}

#[test]
fn deep_chains_that_do_not_collapse_are_walked() {
    on_a_small_stack(|| {
        // Another gap at every level, so that no row forms.
        let chain = nested(|level, ty| {
            let at = [0, 9 + level % 7];
            Datatype::structure(&[1, 1], &at, &[BasicType::Byte.into(), ty.clone()])
        });
        let committed = chain.commit();
        let piece = committed.bytes(1).unwrap();
        let bytes: u64 = Cursor::new(&piece).map(|row| row.len * row.count).sum();
        assert_eq!(bytes, LEVELS as u64 + 8);
        drop(chain);
        drop(committed.clone());
    });
}

#[test]
fn shared_operands_are_flattened_once() {
    // Without sharing there would be 2^60 parts.
    let mut ty = Datatype::structure(
        &[1, 1],
        &[0, 5],
        &[BasicType::U8.into(), BasicType::U8.into()],
    )
    .unwrap();
    for level in 0..58 {
        let at = [0, 7 + level % 3];
        ty = Datatype::structure(&[1, 1], &at, &[ty.clone(), ty]).unwrap();
    }
    let committed = ty.commit();
    assert_eq!(committed.size(), 1 << 59);
    let piece = committed.bytes(1).unwrap();
    assert_eq!(Cursor::new(&piece).take(1000).count(), 1000);
}

#[test]
fn mistakes_have_a_class() {
    let class = |made: crate::Result<Datatype>| made.unwrap_err().class();
    use ErrorClass::{Arg, Count};
    assert_eq!(class(Datatype::contiguous(-1, &f64s())), Count);
    assert_eq!(class(Datatype::vector(-1, 1, 1, &f64s())), Count);
    assert_eq!(class(Datatype::vector(1, -1, 1, &f64s())), Arg);
    assert_eq!(class(Datatype::indexed(&[1], &[1, 2], &f64s())), Arg);
    assert_eq!(class(Datatype::hindexed(&[1, -2], &[1, 2], &f64s())), Arg);
    assert_eq!(class(Datatype::structure(&[1], &[0], &[])), Arg);
    assert_eq!(class(Datatype::resized(&f64s(), i64::MIN, -1)), Count);
    assert_eq!(class(Datatype::resized(&f64s(), -2, i64::MIN)), Count);
    assert_eq!(class(Datatype::resized(&f64s(), 1, i64::MAX)), Count);
    assert_eq!(class(Datatype::contiguous(i64::MAX, &f64s())), Count);
    assert_eq!(class(Datatype::vector(2, 1, i64::MAX / 2, &f64s())), Count);
    assert_eq!(class(Datatype::hvector(3, 1, i64::MAX / 2, &f64s())), Count);
    assert_eq!(
        class(Datatype::hindexed(&[1, 1], &[i64::MIN, 1], &f64s())),
        Count
    );
    assert_eq!(
        class(Datatype::indexed_block(1, &[i64::MAX], &f64s())),
        Count
    );
    let part = |sizes: &[i64], subsizes: &[i64], starts: &[i64]| {
        class(Datatype::subarray(
            sizes,
            subsizes,
            starts,
            Order::C,
            &f64s(),
        ))
    };
    assert_eq!(part(&[], &[], &[]), Arg);
    assert_eq!(part(&[3], &[4], &[0]), Arg);
    assert_eq!(part(&[3], &[0], &[0]), Arg);
    assert_eq!(part(&[0], &[0], &[0]), Arg);
    assert_eq!(part(&[3], &[2], &[2]), Arg);
    assert_eq!(part(&[3], &[2], &[-1]), Arg);
    assert_eq!(part(&[3, 3], &[2], &[0]), Arg);
    assert_eq!(part(&[1 << 32, 1 << 32], &[1, 1], &[0, 0]), Count);
    let message = Datatype::vector(2, 1, i64::MAX / 8, &f64s())
        .unwrap_err()
        .to_string();
    assert!(message.contains("2 blocks of 1 × f64"), "{message}");
}

#[test]
fn pairs_match_the_structs_that_they_are() {
    let members = [BasicType::F64.into(), BasicType::I32.into()];
    let pair = Datatype::structure(&[1, 1], &[0, 8], &members).unwrap();
    assert_eq!(pair.extent(), 16);
    let (pair, predefined) = (pair.commit(), Committed::of(BasicType::DoubleInt));
    assert!(pair.fits(5, predefined, 5));
    assert!(!pair.fits(5, predefined, 4));
    assert_eq!(bytes_of(&pair, 3), bytes_of(predefined, 3));
}

#[test]
fn strips_are_as_long_as_both_layouts_allow() {
    let column = Datatype::vector(1024, 1, 1024, &f64s()).unwrap().commit();
    let dense = Committed::of(BasicType::F64);
    let (from, to) = (dense.bytes(1024).unwrap(), column.bytes(1).unwrap());
    let strips: VecDeque<_> = Together::new([&*from, &*to]).collect();
    assert_eq!(strips.len(), 1, "{strips:?}");
    assert_eq!((strips[0].len, strips[0].count), (8, 1024));
    assert_eq!(strips[0].stride, [8, 8192]);
}

#[test]
fn markers_count_instead_of_data() {
    let wide = Datatype::resized(&f64s(), -4, 100).unwrap();
    assert_eq!(
        (wide.lb(), wide.extent(), wide.true_lb(), wide.true_extent()),
        (-4, 100, 0, 8)
    );
    // Data beyond the markers of a member does not move the bounds.
    let members = [wide, f64s()];
    let both = Datatype::structure(&[1, 1], &[0, 200], &members).unwrap();
    assert_eq!(
        (both.lb(), both.extent(), both.true_extent()),
        (-4, 100, 208)
    );
    // Lower and upper bounds count apart: two elements of an extent of -16 have one of 0.
    let back = Datatype::resized(&f64s(), 4, -16).unwrap();
    assert_eq!((back.lb(), back.extent()), (4, -16));
    let two = Datatype::contiguous(2, &back).unwrap();
    assert_eq!((two.lb(), two.extent(), two.true_lb()), (-12, 0, -16));
    let empty = Expanded::default();
    assert_eq!((empty.lb(), empty.extent()), (0, 0));
}
