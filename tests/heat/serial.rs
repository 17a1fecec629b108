//! An independent computation: one cell at a time, each asking for its neighbours.

/// Grey values, row by row.
pub(crate) struct Plate {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) values: Vec<u16>,
    pub(crate) most: u16,
}

impl Plate {
    pub(crate) fn noise(width: usize, height: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 48) as u16
        };
        Self {
            width,
            height,
            values: (0..width * height).map(|_| next()).collect(),
            most: u16::MAX,
        }
    }

    /// The temperatures after so many steps. Beyond the plate's end, it is as warm as at its end.
    pub(crate) fn after(&self, steps: u64, diffusivity: f64) -> Vec<f64> {
        let most = f64::from(self.most);
        let mut now: Vec<f64> = self.values.iter().map(|&v| f64::from(v) / most).collect();
        for _ in 0..steps {
            let cell = |x: isize, y: isize| {
                let x = x.clamp(0, self.width as isize - 1);
                let y = y.clamp(0, self.height as isize - 1);
                now[y as usize * self.width + x as usize]
            };
            let next = (0..now.len()).map(|i| {
                let (x, y) = ((i % self.width) as isize, (i / self.width) as isize);
                let around = (cell(x, y - 1) + cell(x, y + 1)) + (cell(x - 1, y) + cell(x + 1, y));
                cell(x, y) + diffusivity * (around - 4.0 * cell(x, y))
            });
            now = next.collect();
        }
        now
    }
}

pub(crate) fn pgm(plate: &Plate) -> Vec<u8> {
    let Plate {
        width,
        height,
        most,
        ..
    } = plate;
    let mut bytes = format!("P5\n{width} {height}\n{most}\n").into_bytes();
    for &value in &plate.values {
        match *most < 256 {
            true => bytes.push(value as u8),
            false => bytes.extend(value.to_be_bytes()),
        }
    }
    bytes
}
