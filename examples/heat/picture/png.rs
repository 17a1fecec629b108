//! PNG pictures: brightness in, the colours of glowing iron out.

use std::fs::File;
use std::io::{BufRead, BufWriter, Seek};
use std::path::Path;

use png::{BitDepth, ColorType, Decoder, DecodingError, Encoder, EncodingError, Transformations};

use super::{Picture, PictureError, cells};

pub(super) const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";

pub(super) fn read(file: impl BufRead + Seek) -> Result<Picture, PictureError> {
    let mut decoder = Decoder::new(file);
    // Palettes and pixels of less than a byte become bytes; 16 bits stay what they are.
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(bad)?;
    let (width, height) = reader.info().size();
    let count = cells(width.into(), height.into())?;
    let size = reader.output_buffer_size();
    let mut bytes = vec![0; size.ok_or(PictureError::Png("it is too large".to_owned()))?];
    let frame = reader.next_frame(&mut bytes).map_err(bad)?;
    let samples: Vec<f64> = match frame.bit_depth {
        BitDepth::Sixteen => {
            let (pairs, _) = bytes.as_chunks::<2>();
            let values = pairs.iter().map(|&pair| u16::from_be_bytes(pair));
            values.map(|value| f64::from(value) / 65_535.0).collect()
        }
        _ => bytes.iter().map(|&byte| f64::from(byte) / 255.0).collect(),
    };
    let pixels = samples.chunks_exact(frame.color_type.samples());
    let cells: Vec<_> = pixels.take(count).map(brightness).collect();
    Ok(Picture {
        width: width as usize,
        height: height as usize,
        cells,
    })
}

/// Of grey, grey and opacity, colours, or colours and opacity. What is behind a picture is black.
fn brightness(pixel: &[f64]) -> f64 {
    let of_colours = |red, green, blue| 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    match *pixel {
        [grey] => grey,
        [grey, opacity] => grey * opacity,
        [red, green, blue] => of_colours(red, green, blue),
        [red, green, blue, opacity] => of_colours(red, green, blue) * opacity,
        _ => unreachable!("a PNG pixel has one to four samples"),
    }
}

fn bad(error: DecodingError) -> PictureError {
    match error {
        DecodingError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            PictureError::Io(error)
        }
        error => PictureError::Png(error.to_string()),
    }
}

/// Writes temperatures as a picture.
pub(crate) fn write(
    path: &Path,
    width: usize,
    height: usize,
    cells: &[f64],
) -> Result<(), EncodingError> {
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = Encoder::new(file, width as u32, height as u32);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    let pixels: Vec<u8> = cells.iter().flat_map(|&cell| glow(cell)).collect();
    writer.write_image_data(&pixels)?;
    writer.finish()
}

/// From black over red and yellow to white.
fn glow(temperature: f64) -> [u8; 3] {
    let heat = 3.0 * temperature.clamp(0.0, 1.0);
    let sample = |from: f64| ((heat - from).clamp(0.0, 1.0) * 255.0).round() as u8;
    [sample(0.0), sample(1.0), sample(2.0)]
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Every kind of PNG, as temperatures.
    #[test]
    fn pictures_of_all_kinds() {
        let grey = [0.0, 0.2, 1.0];
        let kinds: [(ColorType, BitDepth, &[u8], [f64; 3]); 6] = [
            (ColorType::Grayscale, BitDepth::Eight, &[0, 51, 255], grey),
            (
                ColorType::Grayscale,
                BitDepth::Sixteen,
                &[0, 0, 0x33, 0x33, 0xff, 0xff],
                grey,
            ),
            // 00 01 11, and padding.
            (
                ColorType::Grayscale,
                BitDepth::Two,
                &[0b0001_1100],
                [0.0, 85.0 / 255.0, 1.0],
            ),
            (
                ColorType::GrayscaleAlpha,
                BitDepth::Eight,
                &[255, 0, 255, 51, 255, 255],
                grey,
            ),
            (
                ColorType::Rgb,
                BitDepth::Eight,
                &[255, 0, 0, 0, 255, 0, 0, 0, 255],
                [0.2126, 0.7152, 0.0722],
            ),
            (
                ColorType::Rgba,
                BitDepth::Eight,
                &[255, 0, 0, 255, 0, 255, 0, 0, 0, 0, 255, 255],
                [0.2126, 0.0, 0.0722],
            ),
        ];
        for (color, depth, data, expected) in kinds {
            let mut file = Vec::new();
            let mut encoder = Encoder::new(&mut file, 3, 1);
            encoder.set_color(color);
            encoder.set_depth(depth);
            let mut writer = encoder.write_header().unwrap();
            writer.write_image_data(data).unwrap();
            writer.finish().unwrap();
            let cells = read(Cursor::new(file)).unwrap().cells;
            for (cell, expected) in cells.iter().zip(expected) {
                assert!(
                    (cell - expected).abs() < 1e-12,
                    "{color:?} {depth:?}: {cells:?}"
                );
            }
        }
    }

    /// Of each temperature its colour's brightness comes back, within half a step of 255 for each sample.
    #[test]
    fn what_was_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("glow.png");
        // Black, dark red, red, orange, yellow, white, and what is beyond both ends.
        let thirds = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -1.0, 4.0];
        let cells = thirds.map(|third| third / 3.0);
        write(&path, 4, 2, &cells).unwrap();
        let picture = crate::picture::read(&path).unwrap();
        assert_eq!((picture.width, picture.height), (4, 2));
        let (red, green) = (0.2126, 0.7152);
        let (orange, yellow) = (red + green / 2.0, red + green);
        let expected = [0.0, red / 2.0, red, orange, yellow, 1.0, 0.0, 1.0];
        for (cell, expected) in picture.cells.iter().zip(expected) {
            assert!((cell - expected).abs() <= 0.5 / 255.0, "{picture:?}");
        }
        assert_eq!(picture.cells.len(), expected.len());
    }
}
