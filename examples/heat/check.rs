//! The same on one rank, to compare with.

use crate::error::Error;
use crate::field::Field;
use crate::picture::Picture;
use crate::plate::Plate;

/// Computes all steps from the picture on, and compares `cells` bit by bit.
pub(crate) fn against_serial(
    picture: &Picture,
    diffusivity: f64,
    steps: u64,
    cells: &[f64],
) -> Result<(), Error> {
    let width = picture.width;
    let mut field = Field::new(width, picture.height);
    for (row, cells) in field.rows_mut().zip(picture.cells.chunks_exact(width)) {
        row.copy_from_slice(cells);
    }
    let mut plate = Plate::whole(field, diffusivity);
    for _ in 0..steps {
        plate.step();
    }
    let serial = plate.field().rows().flatten();
    let differs = cells
        .iter()
        .zip(serial)
        .enumerate()
        .find(|(_, (ours, serial))| ours.to_bits() != serial.to_bits());
    match differs {
        None => Ok(()),
        Some((place, (&ours, &serial))) => Err(Error::Differs {
            x: place % width,
            y: place / width,
            steps,
            ours,
            serial,
        }),
    }
}
