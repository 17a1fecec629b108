//! PGM pictures: a header of numbers in text, then the grey values as text (P2) or bytes (P5).

use super::{Picture, PictureError, cells};

pub(super) fn parse(bytes: &[u8]) -> Result<Picture, PictureError> {
    let mut text = Text { bytes, at: 2 };
    let mut header = || {
        text.number()?
            .ok_or(PictureError::Pgm("its header ends early"))
    };
    let (width, height, most) = (header()?, header()?, header()?);
    if !(1..=65_535).contains(&most) {
        return Err(PictureError::Pgm("its greatest value is not 1 to 65535"));
    }
    let count = cells(width, height)?;
    let values = match bytes[1] {
        b'2' => text.numbers(count)?,
        _ => {
            // One byte of white space ends the header.
            let data = bytes.get(text.at + 1..).unwrap_or_default();
            binary(data, count, most)?
        }
    };
    if values.iter().any(|&value| value > most) {
        return Err(PictureError::Pgm("a value is beyond the greatest one"));
    }
    Ok(Picture {
        width: width as usize,
        height: height as usize,
        cells: values
            .iter()
            .map(|&value| value as f64 / most as f64)
            .collect(),
    })
}

const SHORT: PictureError = PictureError::Pgm("it has fewer values than its header says");

fn binary(data: &[u8], count: usize, most: u64) -> Result<Vec<u64>, PictureError> {
    if most < 256 {
        let data = data.get(..count).ok_or(SHORT)?;
        return Ok(data.iter().map(|&value| value.into()).collect());
    }
    let data = data.get(..2 * count).ok_or(SHORT)?;
    let (pairs, _) = data.as_chunks::<2>();
    Ok(pairs
        .iter()
        .map(|&pair| u16::from_be_bytes(pair).into())
        .collect())
}

/// Numbers in text, between white space and comments.
struct Text<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Text<'_> {
    /// The next number; none at the end.
    fn number(&mut self) -> Result<Option<u64>, PictureError> {
        loop {
            match self.bytes.get(self.at) {
                None => return Ok(None),
                Some(b'#') => {
                    let rest = &self.bytes[self.at..];
                    let line = rest.iter().position(|&byte| byte == b'\n');
                    self.at += line.unwrap_or(rest.len());
                }
                Some(byte) if byte.is_ascii_whitespace() => self.at += 1,
                Some(_) => break,
            }
        }
        let rest = &self.bytes[self.at..];
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = str::from_utf8(&rest[..len]).unwrap_or_default();
        let number = digits.parse();
        self.at += len;
        match number {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(PictureError::Pgm("where a number should be, there is none")),
        }
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<u64>, PictureError> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            numbers.push(self.number()?.ok_or(SHORT)?);
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells_of(bytes: &[u8]) -> Vec<f64> {
        parse(bytes).unwrap().cells
    }

    #[test]
    fn text_bytes_and_wide_bytes_are_the_same() {
        let values = [0.0, 1.0 / 3.0, 1.0, 2.0 / 3.0];
        assert_eq!(cells_of(b"P2 # grey\n2 2\n# three\n3\n0 1\n3 2"), values);
        assert_eq!(cells_of(b"P5 2 2 3\n\x00\x01\x03\x02"), values);
        let wide = b"P5\n2 2 30000\n\x00\x00\x27\x10\x75\x30\x4e\x20";
        assert_eq!(cells_of(wide), values);
        let picture = parse(b"P2\n1 3\n9\n9 0 9\n").unwrap();
        assert_eq!((picture.width, picture.height), (1, 3));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (bytes, said) in [
            (b"P2".as_slice(), "header ends early"),
            (b"P2 2", "header ends early"),
            (b"P2 x 2 3", "should be"),
            (b"P2 2 2 0 1 1 1 1", "greatest value"),
            (b"P2 2 2 65536 1 1 1 1", "greatest value"),
            (b"P2 2 2 3 1 1 1", "fewer values"),
            (b"P2 2 2 3 1 1 1 4", "beyond"),
            (b"P2 2 2 3 1 1 1 -1", "should be"),
            (b"P5 2 2 3\n\x01\x01\x01", "fewer values"),
            (b"P5 2 2 3", "fewer values"),
            (b"P5 2 2 300\n\x01\x01\x01\x01\x01", "fewer values"),
            (b"P5 0 2 3\n", "too many"),
            (b"P5 99999999 99999999 3\n", "too many"),
            (b"P2 99999999999999999999 1 3 1", "should be"),
        ] {
            let error = parse(bytes).unwrap_err().to_string();
            assert!(error.contains(said), "{bytes:?}: {error}");
        }
    }
}
