//! Draws the picture: its charts side by side, and the legend beside them.

use std::fmt::Display;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Chart, Picture, ticks};

/// The width of all charts together.
const CHARTS: u32 = 1_060;
const HEIGHT: u32 = 560;
const HEAD: u32 = 64;
/// The least width of the legend. The symbols before the texts take some of it.
const LEGEND: u32 = 480;
const BEFORE_TEXT: u32 = 44;
/// The width reserved for a character of the legend. Most characters are narrower.
const CHARACTER: u32 = 9;
/// The height of a line of the legend.
const ROW: i32 = 20;
/// The most marks of an axis.
const FLAGS: usize = 9;
/// The longest text, in characters, that fits in the legend or above the charts.
const LABEL: usize = 120;
const CAPTION: usize = 150;

const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const FAINT: RGBColor = RGBColor(0xf2, 0xf2, 0xf2);

/// The gap between the parts of the legend.
const GAP: i32 = 14;

/// Colours that can be told apart with any kind of colour vision (Paul Tol's bright and muted schemes).
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
pub(crate) fn svg(picture: &Picture) -> Drawn<String> {
    let mut text = String::new();
    let entries = legend(picture);
    // If the legend is longer than the charts, the whole picture is higher.
    let end = entries.last().map_or(0, |entry| entry.y + ROW);
    let height = HEIGHT.max(HEAD + u32::try_from(end).unwrap_or(0) + 20);
    // A legend with long texts makes the picture wider.
    let texts = entries.iter().map(|entry| entry.text.chars().count());
    let longest = texts.max().unwrap_or(0).min(LABEL) as u32;
    let width = CHARTS + LEGEND.max(BEFORE_TEXT + longest * CHARACTER);
    let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
    draw(&root, picture, &entries)?;
    root.present().map_err(told)?;
    drop(root);
    Ok(text)
}

fn draw(root: &Area<'_>, picture: &Picture, entries: &[Entry<'_>]) -> Drawn<()> {
    root.fill(&WHITE).map_err(told)?;
    let (head, body) = root.split_vertically(HEAD);
    caption(&head, &picture.title, 18, 22.0)?;
    caption(&head, &picture.below, 44, 16.0)?;
    let (charts, beside) = body.split_horizontally(CHARTS);
    let areas = charts.split_evenly((1, picture.charts.len()));
    for (area, view) in areas.iter().zip(&picture.charts) {
        chart(area, picture, view)?;
    }
    entries.iter().try_for_each(|entry| entry.draw(&beside))
}

fn caption(area: &Area<'_>, text: &str, y: i32, size: f64) -> Drawn<()> {
    let middle = Pos::new(HPos::Center, VPos::Center);
    let style = (FONT, size).into_font().color(&INK).pos(middle);
    let at = (area.dim_in_pixel().0 as i32 / 2, y);
    area.draw_text(&clipped(text, CAPTION), &style, at)
        .map_err(told)
}

/// A value over size, both logarithmic.
fn chart(area: &Area<'_>, picture: &Picture, view: &Chart) -> Drawn<()> {
    let series = || picture.series.iter();
    let points = || {
        let points = series().flat_map(|one| &one.points);
        points.map(|&point| (view.place)(point))
    };
    let across = ticks::sizes(points().map(|(size, _)| size));
    let up = ticks::values(points().map(|(_, value)| value));
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(52)
        .y_label_area_size(84)
        .build_cartesian_2d(across, up)
        .map_err(told)?;
    chart
        .configure_mesh()
        .x_labels(FLAGS)
        .y_labels(FLAGS)
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(FAINT)
        .label_style((FONT, 15).into_font().color(&INK))
        .axis_desc_style((FONT, 17).into_font().color(&INK))
        .x_desc(view.across)
        .y_desc(view.up)
        .x_label_formatter(&|&size| (view.across_text)(size))
        .y_label_formatter(&|&value| (view.up_text)(value))
        .draw()
        .map_err(told)?;
    for series in series() {
        let colour = colour(series.operation);
        let points = series.points.iter().map(|&point| (view.place)(point));
        let points: Vec<_> = points.collect();
        match dashes(series.run) {
            Some((dash, gap)) => chart.draw_series(DashedLineSeries::new(
                points.clone(),
                dash,
                gap,
                colour.stroke_width(2),
            )),
            None => chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2))),
        }
        .map_err(told)?;
        for at in points {
            for dot in marker(at, series.is_white, colour) {
                chart.plotting_area().draw(&dot).map_err(told)?;
            }
        }
    }
    Ok(())
}

/// A line of the legend.
struct Entry<'a> {
    text: &'a str,
    y: i32,
    sample: Sample,
}

/// The symbol before its text.
#[derive(Clone, Copy)]
enum Sample {
    /// The colour of an operation.
    Operation(usize),
    /// The line of a run.
    Run(usize),
    /// Points of a kind.
    Points { is_white: bool },
}

/// Colours first, then points, then lines.
fn legend(picture: &Picture) -> Vec<Entry<'_>> {
    let operations = (0..).map(Sample::Operation).zip(&picture.operations);
    let runs = (0..).map(Sample::Run).zip(&picture.runs);
    let kinds = picture.kinds.into_iter().flatten().zip([false, true]);
    let kinds = kinds.filter(|&(_, is_white)| {
        let mut series = picture.series.iter();
        series.any(|one| one.is_white == is_white)
    });
    let parts: [Vec<(Sample, &str)>; 3] = [
        operations.map(|(sample, text)| (sample, &**text)).collect(),
        kinds
            .map(|(text, is_white)| (Sample::Points { is_white }, text))
            .collect(),
        runs.map(|(sample, text)| (sample, &**text)).collect(),
    ];
    let mut entries = Vec::new();
    let mut y = 30;
    for part in parts {
        for (sample, text) in part {
            entries.push(Entry { text, y, sample });
            y += ROW;
        }
        y += GAP;
    }
    entries
}

impl Entry<'_> {
    fn draw(&self, area: &Area<'_>) -> Drawn<()> {
        const ENDS: (i32, i32) = (4, 36);
        let y = self.y;
        let line = |from: i32, to: i32, style: ShapeStyle| {
            let line = PathElement::new(vec![(from, y), (to, y)], style);
            area.draw(&line).map_err(told)
        };
        match self.sample {
            Sample::Operation(operation) => {
                line(ENDS.0, ENDS.1, colour(operation).stroke_width(5))?;
            }
            Sample::Run(run) => {
                let (dash, gap) = dashes(run).unwrap_or((ENDS.1, 1));
                for from in (ENDS.0..ENDS.1).step_by((dash + gap) as usize) {
                    line(from, (from + dash).min(ENDS.1), INK.stroke_width(2))?;
                }
            }
            Sample::Points { is_white } => {
                for dot in marker((20, y), is_white, INK) {
                    area.draw(&dot).map_err(told)?;
                }
            }
        }
        let beside = Pos::new(HPos::Left, VPos::Center);
        let style = (FONT, 15).into_font().color(&INK).pos(beside);
        let text = clipped(self.text, LABEL);
        area.draw_text(&text, &style, (BEFORE_TEXT as i32, y))
            .map_err(told)
    }
}

/// After the first ten, the same colours again, paler each time.
fn colour(operation: usize) -> RGBColor {
    let RGBColor(red, green, blue) = COLOURS[operation % COLOURS.len()];
    let paler = |part: u8| {
        let rest = f64::from(255 - part) * 0.6_f64.powi((operation / COLOURS.len()) as i32);
        255 - rest as u8
    };
    RGBColor(paler(red), paler(green), paler(blue))
}

/// The dash and the gap of a run's lines. The first run has solid lines.
fn dashes(run: usize) -> Option<(i32, i32)> {
    let number = run.checked_sub(1)?;
    Some(([8, 2, 16][number % 3], 4 + 4 * (number / 3) as i32))
}

/// A point: filled, or white inside.
fn marker<C: Clone>(at: C, is_white: bool, colour: RGBColor) -> Vec<Circle<C, i32>> {
    match is_white {
        true => vec![
            Circle::new(at.clone(), 4, WHITE.filled()),
            Circle::new(at, 4, colour.stroke_width(2)),
        ],
        false => vec![Circle::new(at, 4, colour.filled())],
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
    use super::super::Series;
    use super::*;

    fn series(operation: usize, run: usize, is_white: bool, points: &[(f64, f64)]) -> Series {
        Series {
            operation,
            run,
            is_white,
            points: points.to_vec(),
        }
    }

    fn picture(operations: &[&str], runs: &[&str], series: Vec<Series>) -> String {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        svg(&Picture {
            title: "One-sided operations: device soft, 2 ranks".to_owned(),
            below: "host n<0>, transom 0.1.0, 2026-01-02 03:04 UTC".to_owned(),
            operations: texts(operations),
            runs: texts(runs),
            kinds: Some(["allocate", "create"]),
            charts: vec![
                Chart {
                    across: "size of one operation (bytes)",
                    across_text: ticks::bytes,
                    up: "time of one operation",
                    up_text: ticks::time,
                    place: |point| point,
                },
                Chart {
                    across: "size of one operation (bytes)",
                    across_text: ticks::bytes,
                    up: "bandwidth (GB/s)",
                    up_text: ticks::plain,
                    place: |(size, time)| (size, size / time),
                },
            ],
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
        let svg = picture(
            &["put + flush"],
            &[],
            vec![series(0, 0, false, &points), series(0, 0, true, &points)],
        );
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        let texts = texts(&svg);
        for text in [
            "One-sided operations: device soft, 2 ranks",
            "host n&lt;0&gt;, transom 0.1.0, 2026-01-02 03:04 UTC",
            "size of one operation (bytes)",
            "time of one operation",
            "bandwidth (GB/s)",
            "put + flush",
            "allocate",
            "create",
            "8 KiB",
            "10 ns",
            "10 µs",
        ] {
            assert!(texts.contains(&text), "{text:?} is not in {texts:?}");
        }
        // In each chart and once in the legend: a point, and a white one under those of `create`.
        assert_eq!(svg.matches("<circle ").count(), 3 * (2 * 3 + 1));
    }

    /// The colours of lines between points, and whether they are in pieces.
    fn lines(svg: &str) -> std::collections::BTreeMap<String, usize> {
        let mut lines = std::collections::BTreeMap::new();
        for line in svg.lines().filter(|line| line.starts_with("<polyline ")) {
            let stroke = line.split("stroke=\"").nth(1).unwrap();
            *lines.entry(stroke[..7].to_owned()).or_default() += 1;
        }
        lines
    }

    #[test]
    fn an_operation_has_one_colour_and_a_run_one_kind_of_line() {
        let points = [(8.0, 6.5), (4096.0, 60.0), (1_048_576.0, 18_000.0)];
        let of_run = |run| [0, 1].map(|operation| series(operation, run, false, &points));
        let operations = ["put + flush", "get + flush"];
        let one = picture(&operations, &[], of_run(0).into());
        let both = [of_run(0), of_run(1)].into_iter().flatten().collect();
        let both = picture(&operations, &["before", "after"], both);
        let texts_of_both = texts(&both);
        for text in ["put + flush", "get + flush", "before", "after"] {
            let count = texts_of_both.iter().filter(|&&found| found == text).count();
            assert_eq!(count, 1, "{text} in {texts_of_both:?}");
        }
        let (of_one, of_both) = (lines(&one), lines(&both));
        for operation in [0, 1] {
            let RGBColor(red, green, blue) = colour(operation);
            let name = format!("#{red:02X}{green:02X}{blue:02X}");
            // Two charts, and the legend.
            assert_eq!(of_one[&name], 3, "{of_one:?}");
            assert!(of_both[&name] > 10, "dashes are many lines: {of_both:?}");
        }
        let mut runs: Vec<_> = (0..12).map(dashes).collect();
        runs.sort_unstable();
        runs.dedup();
        assert_eq!(runs.len(), 12, "each has its own");
    }

    #[test]
    fn one_point_is_a_picture() {
        let svg = picture(
            &["put + flush"],
            &[],
            vec![series(0, 0, false, &[(8.0, 6.5)])],
        );
        assert_eq!(svg.matches("<circle ").count(), 3);
        for broken in ["NaN", "inf", "-2147483648", "2147483647"] {
            assert!(!svg.contains(broken), "{broken} in {svg}");
        }
    }

    #[test]
    fn many_series_and_long_labels_find_room() {
        let label = "x".repeat(100);
        let all = |count| (0..count).map(|number| series(number, 0, false, &[(8.0, 6.5)]));
        let svg = picture(&[&*label; 60], &[], all(60).collect());
        let height = 30 + 61 * ROW as u32 + GAP as u32 + HEAD + 20;
        assert!(
            svg.contains(&format!("height=\"{height}\"")),
            "{}",
            &svg[..200]
        );
        // The legend is as wide as its texts.
        let width = CHARTS + BEFORE_TEXT + 100 * CHARACTER;
        assert!(
            svg.contains(&format!("width=\"{width}\"")),
            "{}",
            &svg[..200]
        );
        let svg = picture(&[&"x".repeat(500)], &[], all(1).collect());
        let longest = texts(&svg)
            .into_iter()
            .map(|text| text.chars().count())
            .max();
        assert_eq!(longest, Some(LABEL));
    }
}
