//! A job: its folder, and what the environment of its processes says.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::fabric::Fabric;
use crate::settings::{self, Settings};
use crate::sysfs;

/// The variable by which Transom's tests name the folder that stands for `/sys/class/infiniband`.
const RDMA_CLASS: &str = "TRANSOM_TEST_RDMA_CLASS";
const LD_PRELOAD: &str = "LD_PRELOAD";
const LIBRARY: &str = "libsoft_hca.so";

/// Adapters for processes of this machine, as if on one or more hosts. Its folder is removed with it.
#[derive(Debug)]
pub struct Job {
    root: PathBuf,
    adapters: String,
    library: PathBuf,
}

impl Job {
    /// A job on so many hosts, each with these adapters, separated by semicolons.
    ///
    /// # Errors
    /// There are no such adapters, the shared library is not built, or no folder can be written to.
    pub fn new(hosts: usize, adapters: &str) -> io::Result<Self> {
        let library = library()?;
        let job = Self {
            root: new_folder()?,
            adapters: adapters.to_owned(),
            library,
        };
        for host in 0..hosts {
            let settings = Settings::new(&job.root, host, adapters).map_err(io::Error::other)?;
            sysfs::write(&settings)?;
        }
        Fabric::open(&sysfs::fabric(&job.root))?;
        Ok(job)
    }

    /// The folder of the job.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the environment of a process on a host has to say.
    #[must_use]
    pub fn environment(&self, host: usize) -> Vec<(&'static str, OsString)> {
        let mut preload = self.library.clone().into_os_string();
        if let Some(others) = env::var_os(LD_PRELOAD).filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        vec![
            (settings::ROOT, self.root.clone().into_os_string()),
            (settings::HOST, host.to_string().into()),
            (settings::ADAPTER, self.adapters.clone().into()),
            (RDMA_CLASS, sysfs::class(&self.root, host).into_os_string()),
            (LD_PRELOAD, preload),
        ]
    }

    /// What the job's processes have had their adapters do, in words.
    ///
    /// # Errors
    /// The file of the fabric is gone.
    pub fn counted(&self) -> io::Result<String> {
        Ok(Fabric::open(&sysfs::fabric(&self.root))?
            .counted()
            .to_string())
    }

    /// What the job's processes did wrong, a line for each.
    #[must_use]
    pub fn misuses(&self) -> String {
        fs::read_to_string(sysfs::misuses(&self.root)).unwrap_or_default()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The shared library: beside this program, where cargo puts both.
fn library() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let folders = program.ancestors().skip(1).take(2);
    let places =
        folders.flat_map(|folder| [folder.join(LIBRARY), folder.join("deps").join(LIBRARY)]);
    let found = places.into_iter().find(|place| place.exists());
    found.ok_or_else(|| {
        io::Error::other(format!(
            "no {LIBRARY} beside {} (`cargo build -p soft-hca` builds both)",
            program.display()
        ))
    })
}

/// A new folder for this user alone. It is not in `/dev/shm`, where tests of programs look for what those leave.
fn new_folder() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("soft-hca.{}.{number}", std::process::id());
        let folder = env::temp_dir().join(name);
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let words = format!("{}: {error}", folder.display());
                return Err(io::Error::new(error.kind(), words));
            }
        }
    }
}
