//! `transom completions`: what shells complete command lines by.

use std::process::ExitCode;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, screen};

/// Print the completions of a shell
///
/// For bash: transom completions bash >~/.local/share/bash-completion/completions/transom
///
/// For zsh, into a folder of its fpath: transom completions zsh >~/.zfunc/_transom
///
/// For fish: transom completions fish >~/.config/fish/completions/transom.fish
#[derive(clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut shown(&Cli::command()),
        "transom",
        &mut script,
    );
    screen::print_bytes(&script)
}

/// What of a command a user may type.
fn shown(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set());
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(command.get_version().is_none())
        .args(arguments.cloned())
        .subcommands(command.get_subcommands().map(shown))
}
