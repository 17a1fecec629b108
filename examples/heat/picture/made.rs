//! The picture that is made if the user gives none: a hot ring, a warm bar and a hot spot.

use super::Picture;

pub(crate) fn made(width: usize, height: usize) -> Picture {
    let cell = |x: usize, y: usize| {
        // From 0 to 1 across the shorter side.
        let scale = 1.0 / width.min(height) as f64;
        let (x, y) = ((x as f64 + 0.5) * scale, (y as f64 + 0.5) * scale);
        let distance = |to_x: f64, to_y: f64| (x - to_x).hypot(y - to_y);
        if (0.22..0.30).contains(&distance(0.40, 0.42)) || distance(0.78, 0.74) < 0.10 {
            1.0
        } else if (0.86..0.92).contains(&y) && x < 0.55 {
            0.6
        } else {
            0.0
        }
    };
    Picture {
        width,
        height,
        cells: (0..height)
            .flat_map(|y| (0..width).map(move |x| cell(x, y)))
            .collect(),
    }
}
