use crate::memory::{Rows, copy_rows};

const SIZE: usize = 64 << 10;

/// Both sides in memory of their own, of which only the blocks may change.
fn check(len: usize, count: usize, to_stride: isize, from_stride: isize) {
    let source: Vec<u8> = (0..SIZE).map(|byte| (byte * 7 % 251) as u8).collect();
    let mut destination = vec![0xee_u8; SIZE];
    let mut wanted = destination.clone();
    let middle = SIZE as isize / 2;
    for block in 0..count as isize {
        let to = (middle + block * to_stride) as usize;
        let from = (middle + block * from_stride) as usize;
        wanted[to..to + len].copy_from_slice(&source[from..from + len]);
    }
    let rows = Rows {
        len,
        count,
        to_stride,
        from_stride,
    };
    // SAFETY: the slices above would have panicked if a block were outside.
    unsafe {
        let to = destination.as_mut_ptr().offset(middle);
        copy_rows(to, source.as_ptr().offset(middle), rows);
    }
    assert!(
        destination == wanted,
        "{len} × {count}, {to_stride} and {from_stride}"
    );
}

#[test]
fn blocks_of_every_length_at_every_distance() {
    for len in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 100] {
        for count in [0, 1, 5, 100] {
            for to_stride in [-200, 101, 128] {
                for from_stride in [-128, 0, len, 300] {
                    check(len as usize, count, to_stride, from_stride);
                }
            }
        }
    }
}
