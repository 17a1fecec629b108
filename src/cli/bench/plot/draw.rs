//! The picture itself: two charts side by side, and the legend beside them.

use std::fmt::Display;

use plotters::coord::combinators::LogCoord;
use plotters::coord::combinators::{BindKeyPoints as _, IntoLogRange as _, WithKeyPoints};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::series::{Picture, Series};
use super::ticks::{self, Ticks};

/// Of both charts.
const CHARTS: u32 = 1_060;
const HEIGHT: u32 = 560;
const HEAD: u32 = 64;
/// The legend's width at least, of which the lines before the texts take some.
const LEGEND: u32 = 480;
const BEFORE_TEXT: u32 = 44;
/// Of a character of the legend, most of which have less.
const CHARACTER: u32 = 9;
/// Of a line of the legend.
const ROW: i32 = 20;
/// Characters of a text that find room: one of the legend, one above the charts.
const LABEL: usize = 120;
const CAPTION: usize = 150;

const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const FAINT: RGBColor = RGBColor(0xf2, 0xf2, 0xf2);

/// Told apart with any kind of colour vision (Paul Tol's bright and muted schemes).
const COLOURS: [RGBColor; 10] = [
    RGBColor(0x44, 0x77, 0xaa),
    RGBColor(0xee, 0x66, 0x77),
    RGBColor(0x22, 0x88, 0x33),
    RGBColor(0xaa, 0x33, 0x77),
    RGBColor(0xcc, 0xbb, 0x44),
    RGBColor(0x66, 0xcc, 0xee),
    RGBColor(0x33, 0x22, 0x88),
    RGBColor(0x99, 0x99, 0x33),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x77, 0x77, 0x77),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<T> = Result<T, String>;

/// The picture as a document.
pub(super) fn svg(picture: &Picture) -> Drawn<String> {
    let mut text = String::new();
    // A legend that is longer than the charts makes all of it higher.
    let rows = u32::try_from(picture.series.len()).unwrap_or(u32::MAX);
    let height = HEIGHT.max(rows.saturating_mul(ROW as u32).saturating_add(HEAD + 40));
    // One with long texts makes it wider.
    let texts = picture.series.iter().map(|one| one.label.chars().count());
    let longest = texts.max().unwrap_or(0).min(LABEL) as u32;
    let width = CHARTS + LEGEND.max(BEFORE_TEXT + longest * CHARACTER);
    let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
    draw(&root, picture)?;
    root.present().map_err(told)?;
    drop(root);
    Ok(text)
}

fn draw(root: &Area<'_>, picture: &Picture) -> Drawn<()> {
    root.fill(&WHITE).map_err(told)?;
    let (head, body) = root.split_vertically(HEAD);
    caption(&head, &picture.title, 18, 22.0)?;
    caption(&head, &picture.below, 44, 16.0)?;
    let (charts, legend) = body.split_horizontally(CHARTS);
    let (left, right) = charts.split_horizontally(CHARTS / 2);
    let latency = |&(size, nanoseconds): &(f64, f64)| (size, nanoseconds);
    let bandwidth = |&(size, nanoseconds): &(f64, f64)| (size, size / nanoseconds);
    chart(
        &left,
        picture,
        "time of one operation",
        latency,
        ticks::time,
    )?;
    chart(&right, picture, "bandwidth (GB/s)", bandwidth, ticks::plain)?;
    for (series, row) in picture.series.iter().zip(0..) {
        entry(&legend, series, 30 + row * ROW)?;
    }
    Ok(())
}

fn caption(area: &Area<'_>, text: &str, y: i32, size: f64) -> Drawn<()> {
    let middle = Pos::new(HPos::Center, VPos::Center);
    let style = (FONT, size).into_font().color(&INK).pos(middle);
    let at = (area.dim_in_pixel().0 as i32 / 2, y);
    area.draw_text(&clipped(text, CAPTION), &style, at)
        .map_err(told)
}

/// A value over size, both logarithmic.
fn chart(
    area: &Area<'_>,
    picture: &Picture,
    what: &str,
    value: impl Fn(&(f64, f64)) -> (f64, f64),
    text: impl Fn(f64) -> String,
) -> Drawn<()> {
    let points = || {
        picture
            .series
            .iter()
            .flat_map(|one| &one.points)
            .map(&value)
    };
    let across = axis(ticks::sizes(points().map(|(size, _)| size)));
    let up = axis(ticks::decades(points().map(|(_, value)| value)));
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(52)
        .y_label_area_size(84)
        .build_cartesian_2d(across, up)
        .map_err(told)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(FAINT)
        .label_style((FONT, 15).into_font().color(&INK))
        .axis_desc_style((FONT, 17).into_font().color(&INK))
        .x_desc("size of one operation (bytes)")
        .y_desc(what)
        .x_label_formatter(&|&size| ticks::bytes(size))
        .y_label_formatter(&|&value| text(value))
        .draw()
        .map_err(told)?;
    for series in &picture.series {
        let style = style(series);
        let points: Vec<_> = series.points.iter().map(&value).collect();
        let dots = points.iter().map(|&at| Circle::new(at, 3, dot(series)));
        chart.draw_series(dots).map_err(told)?;
        match series.created {
            true => chart.draw_series(DashedLineSeries::new(points, 6, 4, style)),
            false => chart.draw_series(LineSeries::new(points, style)),
        }
        .map_err(told)?;
    }
    Ok(())
}

fn axis(ticks: Ticks) -> WithKeyPoints<LogCoord<f64>> {
    let Ticks { range, bold, light } = ticks;
    let axis: LogCoord<f64> = range.log_scale().into();
    axis.with_key_points(bold).with_light_points(light)
}

/// A line of the legend.
fn entry(area: &Area<'_>, series: &Series, y: i32) -> Drawn<()> {
    let style = style(series);
    let pieces = match series.created {
        true => vec![(4, 12), (16, 24), (28, 36)],
        false => vec![(4, 36)],
    };
    for (from, to) in pieces {
        let line = PathElement::new(vec![(from, y), (to, y)], style);
        area.draw(&line).map_err(told)?;
    }
    area.draw(&Circle::new((20, y), 3, dot(series)))
        .map_err(told)?;
    let beside = Pos::new(HPos::Left, VPos::Center);
    let text = (FONT, 15).into_font().color(&INK).pos(beside);
    let label = clipped(&series.label, LABEL);
    area.draw_text(&label, &text, (BEFORE_TEXT as i32, y))
        .map_err(told)
}

fn style(series: &Series) -> ShapeStyle {
    COLOURS[series.colour % COLOURS.len()].stroke_width(2)
}

/// Hollow where the colours have been used up once.
fn dot(series: &Series) -> ShapeStyle {
    match series.colour / COLOURS.len() % 2 {
        0 => style(series).filled(),
        _ => style(series),
    }
}

fn clipped(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some(_) => text.chars().take(longest - 1).chain(['…']).collect(),
    }
}

fn told(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(label: &str, colour: usize, created: bool, points: &[(f64, f64)]) -> Series {
        Series {
            label: label.to_owned(),
            created,
            colour,
            points: points.to_vec(),
        }
    }

    fn picture(series: Vec<Series>) -> String {
        svg(&Picture {
            title: "One-sided operations: device soft, 2 ranks".to_owned(),
            below: "host n<0>, transom 0.1.0, 2026-01-02 03:04 UTC".to_owned(),
            series,
        })
        .unwrap()
    }

    /// The lines that are texts.
    fn texts(svg: &str) -> Vec<&str> {
        let lines: Vec<_> = svg.lines().collect();
        let pairs = lines.windows(2);
        let texts = pairs.filter(|pair| pair[0].starts_with("<text "));
        texts.map(|pair| pair[1]).collect()
    }

    #[test]
    fn a_picture_says_what_when_and_in_which_units() {
        let points = [(8.0, 6.5), (4096.0, 60.0), (1_048_576.0, 18_000.0)];
        let svg = picture(vec![
            series("put + flush, allocate", 0, false, &points),
            series("put + flush, create", 0, true, &points),
        ]);
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        let texts = texts(&svg);
        for text in [
            "One-sided operations: device soft, 2 ranks",
            "host n&lt;0&gt;, transom 0.1.0, 2026-01-02 03:04 UTC",
            "size of one operation (bytes)",
            "time of one operation",
            "bandwidth (GB/s)",
            "put + flush, allocate",
            "put + flush, create",
            "4 KiB",
            "10 ns",
            "10 µs",
        ] {
            assert!(texts.contains(&text), "{text:?} is not in {texts:?}");
        }
        // A point of either series in either chart, and one beside each label.
        assert_eq!(svg.matches("<circle ").count(), 2 * 2 * 3 + 2);
    }

    #[test]
    fn one_point_is_a_picture() {
        let svg = picture(vec![series(
            "put + flush, allocate",
            0,
            false,
            &[(8.0, 6.5)],
        )]);
        assert_eq!(svg.matches("<circle ").count(), 3);
        for broken in ["NaN", "inf", "-2147483648", "2147483647"] {
            assert!(!svg.contains(broken), "{broken} in {svg}");
        }
    }

    #[test]
    fn many_series_and_long_labels_find_room() {
        let one = |number| series(&"x".repeat(100), number, false, &[(8.0, 6.5)]);
        let svg = picture((0..60).map(one).collect());
        let height = format!("height=\"{}\"", 60 * ROW as u32 + HEAD + 40);
        assert!(svg.contains(&height), "{}", &svg[..200]);
        // The legend is as wide as its texts.
        assert_eq!(texts(&svg).pop().unwrap().len(), 100);
        let width = CHARTS + BEFORE_TEXT + 100 * CHARACTER;
        assert!(
            svg.contains(&format!("width=\"{width}\"")),
            "{}",
            &svg[..200]
        );
        let svg = picture(vec![series(&"x".repeat(500), 0, false, &[(8.0, 6.5)])]);
        assert_eq!(texts(&svg).pop().unwrap().chars().count(), LABEL);
    }
}
