//! `transom completions`: scripts by which shells complete command lines.

use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory as _, ValueHint};
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
    if args.shell == Shell::Bash {
        script.extend_from_slice(programs(&Cli::command()).as_bytes());
    }
    screen::print_bytes(&script)
}

/// For bash: the script does not know that commands end in a program and its arguments, which complete as they do
/// without the command.
fn programs(cli: &Command) -> String {
    let starts = |command: &&Command| {
        let mut arguments = command.get_positionals();
        arguments.any(|arg| arg.get_value_hint() == ValueHint::CommandWithArguments)
    };
    let cases = cli.get_subcommands().filter(starts).map(|command| {
        let takes = |arg: &&Arg| !arg.is_hide_set() && arg.get_action().takes_values();
        let options = || command.get_opts().filter(takes);
        let longs = options().filter_map(Arg::get_long_and_visible_aliases);
        let shorts = options().filter_map(Arg::get_short);
        let words = longs.flatten().map(|long| format!("--{long}"));
        let words = words.chain(shorts.map(|short| format!("-{short}")));
        let taking = words.chain(["-np".to_owned(), "--np".to_owned()]);
        let taking = taking.collect::<Vec<_>>().join(" ");
        format!("        {}) taking=\" {taking} \" ;;\n", command.get_name())
    });
    BASH_PROGRAMS.replace("CASES\n", &cases.collect::<String>())
}

/// `CASES` stands for the commands that start programs, with their options that take a value.
const BASH_PROGRAMS: &str = r#"
_transom_or_program() {
    local at word taking
    case "${COMP_WORDS[1]}" in
CASES
        *) _transom "$@"; return ;;
    esac
    for ((at = 2; at < COMP_CWORD; at++)); do
        word="${COMP_WORDS[at]}"
        if [[ $word == -- ]]; then
            ((at++))
            break
        elif [[ $word != -* ]]; then
            break
        elif [[ ${COMP_WORDS[at + 1]} == = ]]; then
            ((at += 2))
        elif [[ $taking == *" $word "* ]]; then
            ((at++))
        fi
    done
    if ((at > COMP_CWORD)) || { ((at == COMP_CWORD)) && [[ $2 == -* ]]; }; then
        _transom "$@"
    elif ((at == COMP_CWORD)); then
        COMPREPLY=( $(compgen -A command -A file -- "$2") )
    elif declare -F _command_offset >/dev/null; then
        _command_offset $at
    else
        COMPREPLY=()
    fi
}
complete -F _transom_or_program -o bashdefault -o default transom
"#;

/// The part of a command that a user may type.
fn shown(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set());
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(command.get_version().is_none())
        .args(arguments.cloned())
        .subcommands(command.get_subcommands().map(shown))
}
