//! The program: its file, and the MPI to which it is linked.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr;

use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _, Sym as _};
use object::{Endianness, elf};

use super::host::MpiFamily;
use super::{MpiError, is_program};

/// An executable file.
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// A script has no libraries. Its interpreter is assumed to be loaded as this command is.
    is_script: bool,
    /// The file that the loader is asked about.
    loaded: PathBuf,
    loader: PathBuf,
}

impl Program {
    /// Finds the program as a shell does.
    pub(super) fn find(name: &OsStr) -> Result<Self, MpiError> {
        let path = match name.as_bytes().contains(&b'/') {
            true => Some(PathBuf::from(name)).filter(|path| is_program(path)),
            false => {
                let list = env::var_os("PATH").unwrap_or_default();
                // An empty entry is the current folder.
                let mut paths =
                    env::split_paths(&list).map(|place| Path::new(".").join(place).join(name));
                paths.find(|path| is_program(path))
            }
        };
        let Some(path) = path else {
            return Err(MpiError::NoProgram(name.display().to_string()));
        };
        let unreadable = |source| MpiError::Unreadable {
            program: path.clone(),
            source,
        };
        let mode = path.metadata().map_err(unreadable)?.mode();
        if mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
            return Err(MpiError::SetUid(path));
        }
        if has_capabilities(&path) && !is_root() {
            return Err(MpiError::Capabilities(path));
        }
        let mut bytes = std::fs::read(&path).map_err(unreadable)?;
        let is_script = bytes.starts_with(b"#!");
        let mut loaded = path.clone();
        if is_script {
            loaded = env::current_exe().map_err(unreadable)?;
            bytes = std::fs::read(&loaded).map_err(unreadable)?;
        }
        let loader = loader(&loaded, &bytes)?;
        Ok(Self {
            path,
            is_script,
            loaded,
            loader,
        })
    }

    /// The MPI among the program's libraries.
    pub(super) fn host(&self) -> Result<Option<MpiFamily>, MpiError> {
        if self.is_script {
            return Ok(None);
        }
        let output = self.listed(None)?;
        if !output.status.success() {
            return Err(self.not_loadable(&output));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let names = text.lines().filter_map(|line| {
            let name = line.split_whitespace().next()?;
            Path::new(name).file_name()?.to_str()
        });
        let mut hosts = names.filter_map(MpiFamily::of_library);
        let Some(first) = hosts.next() else {
            return Ok(None);
        };
        match hosts.find(|&host| host != first) {
            None => Ok(Some(first)),
            Some(second) => Err(MpiError::TwoHosts {
                program: self.path.clone(),
                first,
                second,
            }),
        }
    }

    /// Whether an MPI is part of the file itself (`libmpich.a`), as its table of symbols says if it has one.
    pub(super) fn contains_mpi(&self) -> Result<bool, MpiError> {
        let bytes = std::fs::read(&self.path).map_err(|source| MpiError::Unreadable {
            program: self.path.clone(),
            source,
        })?;
        Ok(!self.is_script && defines(&bytes, b"PMPI_Init").unwrap_or(false))
    }

    /// The usual cause is a library that is not installed, such as its MPI.
    fn not_loadable(&self, output: &Output) -> MpiError {
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().last().unwrap_or_default();
        let why = line.rsplit("shared libraries: ").next();
        MpiError::NotLoadable {
            program: self.path.clone(),
            why: why.unwrap_or_default().to_owned(),
        }
    }

    /// A library of this host that the loader finds.
    pub(super) fn loadable(&self, host: MpiFamily) -> Result<&'static str, MpiError> {
        let names = host.libraries();
        for name in names {
            if complaint(&self.listed(Some(OsStr::new(name)))?).is_none() {
                return Ok(name);
            }
        }
        Err(MpiError::NoHostLibrary { host, names })
    }

    /// The loader continues without a library that it does not find. Then Transom would replace nothing.
    pub(super) fn check_preload(&self, library: &OsStr) -> Result<(), MpiError> {
        if library.as_bytes().iter().any(|byte| b" :".contains(byte)) {
            return Err(MpiError::Separator(library.into()));
        }
        match complaint(&self.listed(Some(library))?) {
            None => Ok(()),
            Some(why) => Err(MpiError::Refused {
                library: library.into(),
                why,
            }),
        }
    }

    /// The libraries that the loader says it would load.
    fn listed(&self, preload: Option<&OsStr>) -> Result<Output, MpiError> {
        let mut command = Command::new(&self.loader);
        command.arg("--list").arg(&self.loaded);
        match preload {
            Some(preload) => command.env("LD_PRELOAD", preload),
            None => command.env_remove("LD_PRELOAD"),
        };
        command.output().map_err(|source| MpiError::Exec {
            program: self.loader.clone(),
            source,
        })
    }
}

fn defines(bytes: &[u8], wanted: &[u8]) -> object::Result<bool> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let symbols = header
        .sections(endian, bytes)?
        .symbols(endian, bytes, elf::SHT_SYMTAB)?;
    Ok(symbols.iter().any(|symbol| {
        !symbol.is_undefined(endian) && symbol.name(endian, symbols.strings()) == Ok(wanted)
    }))
}

/// Whether the file has capabilities for those who run it (capabilities(7)).
fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability".as_ptr();
    // SAFETY: both are C strings, and the call does not return the value but only its length.
    unsafe { libc::getxattr(path.as_ptr(), name, ptr::null_mut(), 0) > 0 }
}

/// Root has the capabilities anyway, so its programs need no special treatment.
fn is_root() -> bool {
    // SAFETY: the call has no arguments, and cannot fail.
    unsafe { libc::getuid() == 0 }
}

/// The loader's complaint about a library to preload.
fn complaint(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("preload"))?;
    // The loader itself would ignore the library and continue.
    let line = line.trim_start_matches("ERROR: ");
    Some(line.trim_end_matches(": ignored.").to_owned())
}

/// The interpreter that a program for this architecture names.
fn loader(path: &Path, bytes: &[u8]) -> Result<PathBuf, MpiError> {
    let not_elf = || MpiError::NotElf(path.to_owned());
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(|_| not_elf())?;
    let endian = header.endian().map_err(|_| not_elf())?;
    let machine = match env::consts::ARCH {
        "x86_64" => elf::EM_X86_64,
        "aarch64" => elf::EM_AARCH64,
        _ => header.e_machine(endian),
    };
    if header.e_machine(endian) != machine {
        return Err(not_elf());
    }
    let segments = header
        .program_headers(endian, bytes)
        .map_err(|_| not_elf())?;
    let interpreter = segments
        .iter()
        .find(|segment| segment.p_type(endian) == PT_INTERP);
    let Some(interpreter) = interpreter else {
        return Err(MpiError::Static(path.to_owned()));
    };
    let name = interpreter.data(endian, bytes).map_err(|()| not_elf())?;
    let end = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    Ok(OsString::from_vec(name[..end].to_vec()).into())
}
