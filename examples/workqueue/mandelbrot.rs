//! The work: one row of the Mandelbrot set. Rows through its middle take far longer than others.

/// The part of the plane that is drawn.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// A point that is still near after so many is taken for one of the set.
    pub(crate) iterations: u32,
}

impl View {
    /// After how many iterations each point of a row is far away.
    pub(crate) fn row(&self, row: u32) -> impl Iterator<Item = u32> {
        let y = -1.25 + 2.5 * (f64::from(row) + 0.5) / f64::from(self.height);
        (0..self.width).map(move |column| {
            let x = -2.2 + 3.0 * (f64::from(column) + 0.5) / f64::from(self.width);
            self.escape(x, y)
        })
    }

    fn escape(&self, x: f64, y: f64) -> u32 {
        let (mut re, mut im) = (0.0, 0.0);
        for number in 0..self.iterations {
            let (re2, im2) = (re * re, im * im);
            if re2 + im2 > 4.0 {
                return number;
            }
            im = 2.0 * re * im + y;
            re = re2 - im2 + x;
        }
        self.iterations
    }
}
