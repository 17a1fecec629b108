//! `transom man`: the manual pages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use thiserror::Error;

use super::{Cli, USAGE, environment, screen};

/// Print the manual page, or write those of all commands into a folder
///
/// To read it: transom man | man -l -
#[derive(clap::Args)]
pub(super) struct Args {
    /// Where transom.1, transom-run.1 and the others go; it is made if it is not there
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

#[derive(Debug, Error)]
enum ManError {
    #[error("cannot make the folder {path:?}: {source}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot write {path:?}: {source}")]
    Page { path: PathBuf, source: io::Error },
    #[error("a page cannot be made: {0}")]
    Render(io::Error),
}

pub(super) fn run(args: &Args) -> ExitCode {
    let done = match &args.folder {
        Some(folder) => write_all(folder).map(|()| ExitCode::SUCCESS),
        None => pages().map(|pages| screen::print_bytes(&pages[0].1)),
    };
    done.unwrap_or_else(|error| screen::fail(&error, USAGE))
}

fn write_all(folder: &Path) -> Result<(), ManError> {
    let pages = pages()?;
    fs::create_dir_all(folder).map_err(|source| {
        let path = folder.to_owned();
        ManError::Folder { path, source }
    })?;
    for (name, page) in pages {
        let path = folder.join(name);
        fs::write(&path, page).map_err(|source| ManError::Page { path, source })?;
    }
    Ok(())
}

/// Names and contents of all pages, that of the command first.
fn pages() -> Result<Vec<(String, Vec<u8>)>, ManError> {
    let mut cli = Cli::command().disable_help_subcommand(true);
    cli.build();
    [&cli]
        .into_iter()
        .chain(cli.get_subcommands())
        .map(page)
        .collect()
}

/// Renders a page like clap_mangen's own, but has a section about the environment instead of clap's further text.
fn render(man: &Man, command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    if let Some(section) = environment::manual_section(command.get_name()) {
        page.extend_from_slice(section.as_bytes());
    }
    man.render_version_section(page)
}

fn page(command: &Command) -> Result<(String, Vec<u8>), ManError> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let man = Man::new(command.clone().version(env!("CARGO_PKG_VERSION")))
        .title(name.to_uppercase())
        .source(concat!("transom ", env!("CARGO_PKG_VERSION")))
        .manual("Transom");
    let mut page = Vec::new();
    render(&man, command, &mut page).map_err(ManError::Render)?;
    Ok((man.get_filename(), page))
}
