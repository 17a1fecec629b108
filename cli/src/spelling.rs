//! Accepts `-np N`, the option of MPI launchers, for `-n N`.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

/// The command line with `-n` for each `-np` of the command itself. The words from the program's name on belong to the
/// program.
pub(super) fn with_np(words: impl IntoIterator<Item = OsString>, cli: &Command) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut respelled: Vec<OsString> = words.by_ref().take(2).collect();
    let command = respelled.get(1).and_then(|name| cli.find_subcommand(name));
    let Some(command) = command.filter(|command| with_short(command, 'n').is_some()) else {
        respelled.extend(words);
        return respelled;
    };
    while let Some(word) = words.next() {
        let word = as_n(word);
        let Some(value_follows) = option(command, &word) else {
            respelled.push(word);
            break;
        };
        respelled.push(word);
        if value_follows {
            respelled.extend(words.next());
        }
    }
    respelled.extend(words);
    respelled
}

fn as_n(word: OsString) -> OsString {
    match word.to_str().and_then(|word| word.strip_prefix("-np")) {
        Some("") => "-n".into(),
        Some(value) if value.starts_with(|c: char| c == '=' || c.is_ascii_digit()) => {
            format!("-n{value}").into()
        }
        _ => word,
    }
}

/// For an option: whether the next word is its value.
fn option(command: &Command, word: &OsStr) -> Option<bool> {
    let text = word.to_string_lossy();
    if text == "--" {
        return None;
    }
    if let Some(long) = text.strip_prefix("--") {
        let named = |arg: &&Arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(long) || aliases.contains(&long)
        };
        return Some(command.get_arguments().find(named).is_some_and(has_value));
    }
    let letters = text.strip_prefix('-')?;
    // The first letter that takes a value takes the rest of the word, or if it is empty the next word.
    let mut rest = letters.chars();
    let taker = rest.find(|&letter| with_short(command, letter).is_some_and(has_value));
    (!letters.is_empty()).then(|| taker.is_some() && rest.as_str().is_empty())
}

fn with_short(command: &Command, letter: char) -> Option<&Arg> {
    let mut arguments = command.get_arguments();
    arguments.find(|arg| arg.get_short() == Some(letter))
}

fn has_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::super::Cli;
    use super::*;

    #[track_caller]
    fn respelled(line: &str, expected: &str) {
        let words = line.split(' ').map(OsString::from);
        let found = with_np(words, &Cli::command());
        assert_eq!(found.join(OsStr::new(" ")), expected, "{line}");
    }

    #[test]
    fn np_is_n_before_the_program() {
        for (line, expected) in [
            ("transom run -np 4 prog", "transom run -n 4 prog"),
            ("transom run -np=4 prog", "transom run -n=4 prog"),
            ("transom run -np2 prog -np2", "transom run -n2 prog -np2"),
            (
                "transom run --label --device soft -np 4 prog",
                "transom run --label --device soft -n 4 prog",
            ),
            (
                "transom run --bind-to=core -np 2 prog",
                "transom run --bind-to=core -n 2 prog",
            ),
            ("transom bench --quick -np 2", "transom bench --quick -n 2"),
            ("transom bench -v -np 2", "transom bench -v -n 2"),
        ] {
            respelled(line, expected);
        }
    }

    #[test]
    fn what_is_the_programs_or_a_value_stays() {
        for line in [
            "transom",
            "transom run -n 2 prog -np 4",
            "transom run --ranks 2 prog -np 4",
            "transom run --np 2 prog -np 4",
            "transom run -n2 prog -np 4",
            "transom run -n 2 -- -np 4",
            "transom run -n 2 --label - -np 4",
            "transom run --device -np -n 2 prog",
            "transom bench --json -np",
            "transom mpi prog -np 4",
            "transom mpi -np 4 prog",
            "transom -np 4 run",
            "transom doctor -np",
        ] {
            respelled(line, line);
        }
        respelled(
            "transom run -np 2 mpiexec -np 4",
            "transom run -n 2 mpiexec -np 4",
        );
    }
}
