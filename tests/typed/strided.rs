//! Strided elements and blocks of matrices.

use transom::{Block2d, ErrorClass, Job, LockKind, Op, Result, Strided, Window};

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    scenarios![
        halos_of_a_ring_of_grids: 3,
        rows_become_columns_and_sums: 2,
        regions_in_a_passive_epoch: 2,
        requests_of_regions: 2,
        regions_that_are_refused: 2,
        elements_of_any_size_are_moved: 2,
    ]
}

/// Each rank has a grid; its first and last columns are copies of its neighbours'.
fn halos_of_a_ring_of_grids(job: &Job) -> Result<()> {
    const ROWS: usize = 9;
    const WIDTH: usize = 7;
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
    let mut window = Window::<f32>::allocate(world, ROWS * WIDTH)?;
    let value =
        |rank: u32, row: usize, column: usize| (rank as usize * 1000 + row * 10 + column) as f32;
    for row in 0..ROWS {
        for column in 1..WIDTH - 1 {
            window.local_mut()?[row * WIDTH + column] = value(me, row, column);
        }
    }
    let mine = window.local()?.to_vec();
    let column = |column: usize| Block2d {
        width: WIDTH,
        row: 0,
        column,
        rows: ROWS,
        columns: 1,
    };
    window.fence(|epoch| {
        epoch
            .target(left)?
            .put_strided(column(WIDTH - 1), &mine, column(1))?;
        epoch
            .target(right)?
            .put_strided(column(0), &mine, column(WIDTH - 2))
    })?;
    for row in 0..ROWS {
        let found = &window.local()?[row * WIDTH..][..WIDTH];
        assert_eq!(found[0], value(left, row, WIDTH - 2));
        assert_eq!(found[WIDTH - 1], value(right, row, 1));
        assert_eq!(found[1..WIDTH - 1], mine[row * WIDTH + 1..][..WIDTH - 2]);
    }
    window.free()
}

fn rows_become_columns_and_sums(job: &Job) -> Result<()> {
    const SIDE: usize = 20;
    let world = job.world();
    let other = (world.rank() + 1) % world.size();
    let mut window = Window::<i64>::allocate(world, SIDE * SIDE)?;
    let matrix: Vec<i64> = (0..(SIDE * SIDE) as i64).collect();
    let column = |first: usize| Strided {
        first,
        blocks: SIDE,
        block_len: 1,
        stride: SIDE,
    };
    for _ in 0..3 {
        window.fence(|epoch| {
            let target = epoch.target(other)?;
            for row in 0..SIDE {
                let from = row * SIDE..(row + 1) * SIDE;
                target.accumulate_strided(Op::Sum, column(row), &matrix, from)?;
            }
            Ok(())
        })?;
    }
    for (at, &sum) in window.local()?.iter().enumerate() {
        assert_eq!(sum, 3 * matrix[at % SIDE * SIDE + at / SIDE]);
    }
    // Two rows at a time, backwards into place.
    let mut pairs = vec![0; 2 * SIDE];
    window.fence(|epoch| {
        let pair = Block2d {
            width: SIDE,
            row: 0,
            column: 4,
            rows: SIDE,
            columns: 2,
        };
        epoch
            .target(other)?
            .get_strided(pair, &mut pairs, 0..2 * SIDE)
    })?;
    for (row, pair) in pairs.chunks(2).enumerate() {
        assert_eq!(pair, [4, 5].map(|column| 3 * matrix[column * SIDE + row]));
    }
    window.free()
}

fn regions_in_a_passive_epoch(job: &Job) -> Result<()> {
    let world = job.world();
    let other = (world.rank() + 1) % world.size();
    let mut window = Window::<u16>::allocate(world, 300)?;
    window.passive(|epoch| {
        let lock = epoch.lock(other, LockKind::Exclusive)?;
        let every_third = Strided {
            first: 1,
            blocks: 100,
            block_len: 1,
            stride: 3,
        };
        let values: Vec<u16> = (0..100).map(|number| number + 7).collect();
        lock.put_strided_blocking(every_third, &values, 0..100)?;
        let mut back = vec![9; 150];
        let spread = Strided {
            first: 50,
            blocks: 50,
            block_len: 2,
            stride: 2,
        };
        lock.get_strided_blocking(every_third, &mut back, spread)?;
        assert_eq!(back[..50], [9; 50]);
        assert_eq!(back[50..], values);
        lock.unlock()
    })?;
    for (at, &found) in window.local()?.iter().enumerate() {
        let wanted = if at % 3 == 1 { at as u16 / 3 + 7 } else { 0 };
        assert_eq!(found, wanted);
    }
    window.free()
}

fn requests_of_regions(job: &Job) -> Result<()> {
    const SIDE: usize = 30;
    let world = job.world();
    let other = 1 - world.rank();
    let mut window = Window::<u32>::allocate(world, SIDE * SIDE)?;
    let column = |first: usize| Strided {
        first,
        blocks: SIDE,
        block_len: 1,
        stride: SIDE,
    };
    let corner = Block2d {
        width: SIDE,
        row: 20,
        column: 25,
        rows: 4,
        columns: 5,
    };
    let mut values: Vec<u32> = (1..=SIDE as u32).collect();
    let mut matrix = vec![0; SIDE * SIDE];
    window.passive(|epoch| {
        let lock = epoch.lock(other, LockKind::Shared)?;
        // Borrowed to the end of the epoch, and given back with the request.
        let back = lock.rput_strided(column(3), &mut values, 0..SIDE)?.wait()?;
        back.fill(9);
        lock.flush()?;
        let mut request = lock.rget_strided(column(3), &mut matrix, column(7))?;
        let found = loop {
            match request.test()? {
                Ok(found) => break found,
                Err(again) => request = again,
            }
        };
        for row in 0..SIDE {
            assert_eq!(found[row * SIDE + 7], row as u32 + 1);
            assert_eq!(found[row * SIDE + 6], 0);
        }
        // Owned: the same buffer goes there and back.
        let owned: Vec<u32> = (100..120).collect();
        let mut owned = lock.rput_strided_owned(corner, owned, 0..20)?.wait()?;
        lock.flush()?;
        owned.fill(0);
        let owned = lock.rget_strided_owned(corner, owned, 0..20)?.wait()?;
        assert!(owned.iter().copied().eq(100..120));
        drop(lock.rget_strided_owned(corner, owned, 0..20)?);
        let short = lock.rget_strided_owned(corner, vec![0; 19], 0..19);
        assert_eq!(short.unwrap_err().class(), ErrorClass::Count);
        let beyond = lock.rput_strided_owned(column(0), vec![0; 5], 0..SIDE);
        assert_eq!(beyond.unwrap_err().class(), ErrorClass::Arg);
        lock.unlock()
    })?;
    assert!(values.iter().all(|&value| value == 9));
    for row in 0..SIDE {
        assert_eq!(window.local()?[row * SIDE + 3], row as u32 + 1);
    }
    window.free()
}

fn regions_that_are_refused(job: &Job) -> Result<()> {
    let world = job.world();
    let other = (world.rank() + 1) % world.size();
    let mut window = Window::<u32>::allocate(world, 100)?;
    let src = vec![5_u32; 50];
    let strided = |first, blocks, block_len, stride| Strided {
        first,
        blocks,
        block_len,
        stride,
    };
    let outside = Block2d {
        width: 10,
        row: 0,
        column: 9,
        rows: 5,
        columns: 2,
    };
    window.fence(|epoch| {
        let target = epoch.target(other)?;
        let class = |to: Strided, from: Strided| {
            let error = target.put_strided(to, &src, from).unwrap_err();
            let message = error.to_string();
            assert!(message.contains("put_strided"), "{message}");
            error.class()
        };
        let dense = |len: usize| Strided::from(0..len);
        assert_eq!(class(strided(0, 10, 1, 10), dense(9)), ErrorClass::Count);
        assert_eq!(
            class(strided(0, 11, 1, 10), dense(11)),
            ErrorClass::RmaRange
        );
        assert_eq!(
            class(strided(10, 10, 1, 10), dense(10)),
            ErrorClass::RmaRange
        );
        assert_eq!(class(strided(0, 5, 2, 1), dense(10)), ErrorClass::Arg);
        assert_eq!(class(dense(51), dense(51)), ErrorClass::Arg);
        assert_eq!(class(dense(10), strided(5, 10, 1, 5)), ErrorClass::Arg);
        assert_eq!(class(outside.into(), dense(10)), ErrorClass::Arg);
        let huge = strided(1, usize::MAX / 2, 1, usize::MAX / 2);
        assert_eq!(class(huge, dense(10)), ErrorClass::Arg);
        assert_eq!(class(dense(10), huge), ErrorClass::Arg);
        assert_eq!(
            class(strided(usize::MAX, 1, 1, 1), dense(1)),
            ErrorClass::Arg
        );
        let says = |result: Result<()>, sentence: &str| {
            let error = result.unwrap_err();
            assert_eq!(error.kind().to_string(), sentence);
        };
        let matrix = Block2d {
            width: 6,
            row: 3,
            column: 4,
            rows: 2,
            columns: 4,
        };
        let sentence =
            "rows 3..5 and columns 4..8 of a matrix: none with 6 columns has all of these";
        says(target.put_strided(matrix, &src, 0..8), sentence);
        says(target.put_strided(0..8, &src, matrix), sentence);
        says(
            target.put_strided(0..8, &src, 0..7),
            "7 elements at the origin, and 8 at the target",
        );
        says(
            target.put_strided(0..10, &src, strided(12, 5, 2, 10)),
            "blocks: 5, of 2 elements each, 10 apart, from element 12 on: not all are inside a \
             slice of 50 elements",
        );
        says(
            target.put_strided(huge, &src, 0..10),
            "blocks: 9223372036854775807, of 1 elements each, 9223372036854775807 apart, from \
             element 1 on: no memory has all of them",
        );
        // Nothing, anywhere inside, and the last that fits.
        target.put_strided(strided(100, 0, 5, 9), &src, 7..7)?;
        target.put_strided(strided(9, 10, 1, 10), &src, strided(1, 10, 1, 5))
    })?;
    for (at, &found) in window.local()?.iter().enumerate() {
        assert_eq!(found, if at % 10 == 9 { 5 } else { 0 });
    }
    window.free()
}

fn elements_of_any_size_are_moved(job: &Job) -> Result<()> {
    let world = job.world();
    let other = (world.rank() + 1) % world.size();
    let mut window = Window::<[u8; 3]>::allocate(world, 60)?;
    let src: Vec<[u8; 3]> = (0..20).map(|number| [number, 100 + number, 200]).collect();
    let spread = Strided {
        first: 2,
        blocks: 5,
        block_len: 4,
        stride: 11,
    };
    window.fence(|epoch| epoch.target(other)?.put_strided(spread, &src, 0..20))?;
    let local = window.local()?;
    for (block, part) in src.chunks(4).enumerate() {
        assert_eq!(local[2 + 11 * block..][..4], *part);
    }
    assert_eq!(local.iter().filter(|element| element[2] == 200).count(), 20);
    window.free()
}
