//! Which cases a plain run takes: a sample that has no gap, or all of them.

use libtest_mimic::Arguments;
use transom_testing::sample::{Name, gaps, sample};
use transom_testing::suite::{Scope, scope};

/// These cases over these devices, device by device.
fn over(devices: &[&'static str], cases: &[&str]) -> Vec<Name> {
    let names = devices.iter().flat_map(|device| {
        let name = move |case: &&str| Name::new(device, &format!("{device}/{case}"));
        cases.iter().map(name)
    });
    names.collect()
}

/// The numbers of those that are taken.
fn taken(names: &[Name]) -> Vec<usize> {
    let is_in = sample(names);
    assert_eq!(is_in.len(), names.len());
    gaps(names, &is_in).expect("no gap");
    (0..names.len()).filter(|&place| is_in[place]).collect()
}

#[test]
fn nothing_is_left_out_of_one_device() {
    assert_eq!(taken(&[]), [0; 0]);
    assert_eq!(taken(&over(&["a"], &["f/x", "f/y", "g/x"])), [0, 1, 2]);
}

#[test]
fn cases_of_a_family_take_turns_on_the_devices() {
    let names = over(&["a", "b"], &["f/w", "f/x", "f/y", "f/z"]);
    // a: w, y; b: x, z.
    assert_eq!(taken(&names), [0, 2, 5, 7]);
}

#[test]
fn each_family_begins_at_the_first_device_and_meets_all() {
    let names = over(&["a", "b", "c"], &["f/x", "g/x", "g/y"]);
    // a: f/x, g/x; b: g/y, and f/x for its family; c: the first of each family.
    assert_eq!(taken(&names), [0, 1, 3, 5, 6, 7]);
}

#[test]
fn families_are_of_up_to_two_words() {
    let one_each = over(&["a", "b"], &["f/killed/x", "f/left/x"]);
    assert_eq!(taken(&one_each), [0, 1, 2, 3]);
    let of_one_family = over(&["a", "b"], &["f/killed/x/1", "f/killed/x/2"]);
    assert_eq!(taken(&of_one_family), [0, 3]);
    let without_words = over(&["a", "b"], &["x", "y"]);
    assert_eq!(taken(&without_words), [0, 1, 2, 3]);
}

#[test]
fn a_case_that_one_device_has_is_taken_there() {
    let mut names = over(&["a", "b"], &["f/x", "f/y"]);
    names.extend(over(&["b"], &["f/mapped", "f/mapped_too"]));
    // a: x; b: y, and the two that are there alone.
    assert_eq!(taken(&names), [0, 3, 4, 5]);
}

#[test]
fn gaps_are_found() {
    let names = over(&["a", "b"], &["f/x", "f/y"]);
    assert!(gaps(&names, &[true, false, false, true]).is_ok());
    // No case of the family over b.
    assert!(gaps(&names, &[true, true, false, false]).is_err());
    // Nowhere y.
    assert!(gaps(&names, &[true, false, true, false]).is_err());
}

#[test]
#[should_panic(expected = "does not begin with a/")]
fn names_begin_with_their_device() {
    Name::new("a", "ab/f/x");
}

#[test]
fn what_a_run_takes() {
    let plain = Arguments::default();
    let named = Arguments {
        filter: Some("x".to_owned()),
        ..Arguments::default()
    };
    let skipping = Arguments {
        skip: vec!["x".to_owned()],
        ..Arguments::default()
    };
    assert_eq!(scope(&plain, false), Ok(Scope::Sample));
    assert_eq!(scope(&plain, true), Ok(Scope::All));
    for args in [named, skipping] {
        assert_eq!(scope(&args, false), Ok(Scope::All));
        assert_eq!(scope(&args, true), Ok(Scope::All));
        let rest = Arguments {
            ignored: true,
            ..args
        };
        assert_eq!(scope(&rest, false), Ok(Scope::Sample));
        assert!(scope(&rest, true).is_err());
    }
}

#[test]
fn what_is_left_out_where_nothing_is_left_out_is_refused() {
    let rest = Arguments {
        ignored: true,
        ..Arguments::default()
    };
    assert_eq!(scope(&rest, false), Ok(Scope::Sample));
    assert!(scope(&rest, true).unwrap_err().contains("--ignored"));
    let listed = Arguments { list: true, ..rest };
    assert_eq!(scope(&listed, true), Ok(Scope::All));
}
