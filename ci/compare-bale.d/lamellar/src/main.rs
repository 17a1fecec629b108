//! The kernels of bale on lamellar's arrays: `bale-lamellar KERNEL ELEMENTS`, as in kernels.c, with the batches of
//! operations that lamellar's own examples use. There is no topological sort.

use std::env;
use std::time::Instant;

use lamellar::active_messaging::prelude::*;
use lamellar::array::prelude::*;

const ENTRIES_PER_ROW: usize = 16;

fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn new(seed: usize) -> Self {
        Self(mix(seed as u64) << 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(1);
        ((u128::from(number) * bound as u128) >> 64) as usize
    }
}

fn array(world: &LamellarWorld, len: usize) -> AtomicArray<usize> {
    let array = AtomicArray::new(world, len, Distribution::Block).block();
    array.dist_iter_mut().for_each(|x| x.store(0)).block();
    array.barrier();
    array
}

fn own(array: &AtomicArray<usize>) -> Vec<usize> {
    array.local_data().iter().map(|x| x.load()).collect()
}

/// The values of each rank, in the order of ranks.
fn gathered(world: &LamellarWorld, mine: usize) -> Vec<usize> {
    let all = array(world, world.num_pes());
    all.store(world.my_pe(), mine).block();
    all.barrier();
    all.batch_load((0..world.num_pes()).collect::<Vec<_>>())
        .block()
}

struct Clock<'a>(&'a LamellarWorld, Instant);

impl<'a> Clock<'a> {
    fn start(world: &'a LamellarWorld) -> Self {
        world.barrier();
        Self(world, Instant::now())
    }

    fn stop(self, kernel: &str, operations: usize) {
        self.0.wait_all();
        self.0.barrier();
        let seconds = self.1.elapsed().as_secs_f64();
        if self.0.my_pe() == 0 {
            let rate = operations as f64 / seconds / 1e6;
            println!("{kernel} {} {seconds:.6} {rate:.3}", self.0.num_pes());
        }
    }
}

fn histogram(world: &LamellarWorld, elements: usize) {
    let (rank, size) = (world.my_pe(), world.num_pes());
    let all = elements * size;
    let table = array(world, all);
    let places_of = |rank| {
        let mut random = Random::new(rank);
        (0..elements).map(move |_| random.below(all))
    };
    let places: Vec<usize> = places_of(rank).collect();

    let clock = Clock::start(world);
    table.batch_add(&places, 1).block();
    clock.stop("histogram", all);

    let mut counts = own(&table);
    for place in (0..size).flat_map(places_of) {
        if place / elements == rank {
            counts[place % elements] = counts[place % elements].wrapping_sub(1);
        }
    }
    assert!(counts.iter().all(|&count| count == 0), "a count");
}

fn gather(world: &LamellarWorld, elements: usize) {
    let (rank, size) = (world.my_pe(), world.num_pes());
    let table = array(world, elements * size);
    for (i, element) in table.local_data().iter().enumerate() {
        element.store(mix((rank * elements + i) as u64) as usize);
    }
    table.barrier();
    let table = table.into_read_only().block();
    let mut random = Random::new(rank);
    let places: Vec<usize> = (0..elements)
        .map(|_| random.below(elements * size))
        .collect();

    let clock = Clock::start(world);
    let found = table.batch_load(&places).block();
    clock.stop("gather", elements * size);

    let right = |(&place, &found): (&usize, &usize)| mix(place as u64) as usize == found;
    assert!(places.iter().zip(&found).all(right), "an element");
}

fn permutation(world: &LamellarWorld, elements: usize) {
    let (rank, size) = (world.my_pe(), world.num_pes());
    let board = array(world, 2 * elements * size);
    let result = array(world, elements * size);
    let mut random = Random::new(rank);

    let clock = Clock::start(world);
    // 0 marks an empty place.
    let mut darts: Vec<usize> = (rank * elements + 1..=(rank + 1) * elements).collect();
    while !darts.is_empty() {
        let places: Vec<usize> = darts
            .iter()
            .map(|_| random.below(2 * elements * size))
            .collect();
        let thrown = board.batch_compare_exchange(&places, 0, &darts).block();
        let missed = darts
            .iter()
            .zip(thrown)
            .filter(|(_, thrown)| thrown.is_err());
        darts = missed.map(|(&dart, _)| dart).collect();
    }
    world.barrier();
    let mut mine = own(&board);
    mine.retain(|&dart| dart != 0);
    let first: usize = gathered(world, mine.len())[..rank].iter().sum();
    let places: Vec<usize> = (first..first + mine.len()).collect();
    result.batch_store(&places, &mine).block();
    clock.stop("permutation", elements * size);

    let all = gathered(
        world,
        own(&result)
            .iter()
            .fold(0, |sum, &dart| sum.wrapping_add(mix(dart as u64) as usize)),
    );
    let wanted = (1..=elements * size).fold(0, |sum: usize, dart| {
        sum.wrapping_add(mix(dart as u64) as usize)
    });
    assert!(
        all.iter()
            .fold(0, |sum: usize, &part| sum.wrapping_add(part))
            == wanted,
        "an element twice"
    );
}

fn transpose(world: &LamellarWorld, elements: usize) {
    let (rank, size) = (world.my_pe(), world.num_pes());
    let rows = elements / ENTRIES_PER_ROW;
    let mut random = Random::new(rank);
    let (mut of_row, mut columns) = (Vec::new(), Vec::new());
    for row in rank * rows..(rank + 1) * rows {
        let begin = columns.len();
        for _ in 0..ENTRIES_PER_ROW {
            let column = random.below(rows * size);
            if !columns[begin..].contains(&column) {
                columns.push(column);
                of_row.push(row);
            }
        }
    }
    let entries: usize = gathered(world, columns.len()).iter().sum();

    let clock = Clock::start(world);
    let next = array(world, rows * size);
    next.batch_add(&columns, 1).block();
    next.barrier();
    // The rows of the result are consecutive, on whichever rank they are.
    let counts = own(&next);
    let mut begin: usize = gathered(world, counts.iter().sum())[..rank].iter().sum();
    let mut begins = vec![begin];
    for (count, next) in counts.iter().zip(next.local_data().iter()) {
        next.store(begin);
        begin += count;
        begins.push(begin);
    }
    let result = array(world, entries);
    let places = next.batch_fetch_add(&columns, 1).block();
    result.batch_store(&places, &of_row).block();
    clock.stop("transpose", entries);

    let term =
        |row: usize, column: usize| mix(mix(row as u64).wrapping_add(column as u64)) as usize;
    let sum = |terms: &mut dyn Iterator<Item = usize>| -> usize {
        let mine = terms.fold(0, usize::wrapping_add);
        gathered(world, mine)
            .into_iter()
            .fold(0, usize::wrapping_add)
    };
    let wanted = sum(&mut of_row
        .iter()
        .zip(&columns)
        .map(|(&row, &column)| term(row, column)));
    let mine: Vec<usize> = (begins[0]..begin).collect();
    let found = if mine.is_empty() {
        Vec::new()
    } else {
        result.batch_load(&mine).block()
    };
    let column_of =
        |k: usize| rank * rows + begins.partition_point(|&begin| begin <= begins[0] + k) - 1;
    let transposed = sum(&mut found
        .iter()
        .enumerate()
        .map(|(k, &row)| term(row, column_of(k))));
    assert!(transposed == wanted, "an entry");
}

fn main() {
    let mut arguments = env::args().skip(1);
    let kernel = arguments.next().unwrap_or_default();
    let elements = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let world = LamellarWorldBuilder::new().build();
    match kernel.as_str() {
        _ if elements < ENTRIES_PER_ROW => panic!("usage: bale-lamellar KERNEL ELEMENTS"),
        "histogram" => histogram(&world, elements),
        "gather" => gather(&world, elements),
        "permutation" => permutation(&world, elements),
        "transpose" => transpose(&world, elements),
        _ => panic!("no kernel {kernel:?}"),
    }
}
